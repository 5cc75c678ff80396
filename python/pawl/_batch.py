# SPDX-License-Identifier: Apache-2.0
"""What a batch of any library is made of: the name, type and shape of each entry, or what it is instead of an array.

Nothing is copied from a device, and no framework is imported: arrays say themselves what they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _abi
from ._abi import Dtype
from ._error import UsageError
from ._handle import text_bytes
from ._memory import PARTS, Memory, memory_of

#: Names of types of elements in NumPy, ml_dtypes, TensorFlow, JAX and PyTorch.
_DTYPE_OF = {
    "bool": Dtype.BOOL,
    "uint8": Dtype.U8,
    "int8": Dtype.I8,
    "int16": Dtype.I16,
    "uint16": Dtype.U16,
    "float16": Dtype.F16,
    "bfloat16": Dtype.BF16,
    "int32": Dtype.I32,
    "uint32": Dtype.U32,
    "float32": Dtype.F32,
    "complex64": Dtype.C64,
    "float64": Dtype.F64,
    "int64": Dtype.I64,
    "uint64": Dtype.U64,
    "float8_e4m3fn": Dtype.F8_E4M3,
    "float8_e4m3fnuz": Dtype.F8_E4M3FNUZ,
    "float8_e5m2": Dtype.F8_E5M2,
    "float8_e5m2fnuz": Dtype.F8_E5M2FNUZ,
    "float8_e8m0fnu": Dtype.F8_E8M0,
}


class BatchEntry(NamedTuple):
    """One entry of a batch.

    Attributes:
        dtype: type of its elements; None where it is no array.
        shape: elements per dimension; None stands for one that is unknown.
        instead: what it is, where it is no array of one type and one shape: "text", "ragged", "sparse", ...
        memory: of its elements, where it had to be found out.
    """

    dtype: Dtype | None
    shape: tuple[int | None, ...]
    instead: str | None = None
    memory: Memory | None = None


def _no_array(what: str) -> BatchEntry:
    return BatchEntry(None, (), what)


# ---- entries by name -----------------------------------------------------------------------------


def _is_leaf(value: Any) -> bool:
    if isinstance(value, Mapping):
        return False
    if isinstance(value, tuple):
        return False
    if isinstance(value, list):  # of texts or numbers, or lists of them: meant as one entry
        return all(isinstance(one, (str, bytes, int, float, bool, list)) for one in value)
    return True


def flatten(batch: Any, name: str = "") -> dict[str, Any]:
    """Entries by name: keys and positions, joined by ``/``; a batch that is one array is called ``batch``."""
    if isinstance(batch, Mapping):
        parts: Iterable[tuple[str, Any]] = ((str(key), value) for key, value in batch.items())
    elif _is_leaf(batch):
        return {name or "batch": batch}
    elif hasattr(batch, "_fields"):
        parts = zip(batch._fields, batch, strict=True)
    else:
        parts = ((str(i), value) for i, value in enumerate(batch))
    found: dict[str, Any] = {}
    for key, value in parts:
        found.update(flatten(value, f"{name}/{key}" if name else key))
    return found


# ---- one entry -----------------------------------------------------------------------------------


def _of_list(values: Sequence[Any]) -> BatchEntry:
    if values and all(isinstance(one, (str, bytes)) for one in values):
        return _no_array("text")
    lengths = {len(one) for one in values if isinstance(one, (list, tuple))}
    return _no_array("ragged" if len(lengths) > 1 else "a list, no array")


def _kind_of(value: Any) -> str | None:
    """Ragged and sparse ones, of any library; also the specs of TensorFlow."""
    names = {one.__name__ for one in type(value).__mro__}
    if names & {"RaggedTensor", "RaggedTensorSpec"} or getattr(value, "is_nested", False) is True:
        return "ragged"
    layout = str(getattr(value, "layout", "torch.strided"))
    if names & {"SparseTensor", "SparseTensorSpec", "IndexedSlices", "IndexedSlicesSpec", "spmatrix", "sparray"}:
        return "sparse"
    return "sparse" if layout.startswith("torch.sparse") else None


def _name_of_dtype(dtype: Any) -> str:
    name = getattr(dtype, "name", None)
    return name if isinstance(name, str) else str(dtype).removeprefix("torch.")


def _of_objects(value: Any) -> BatchEntry:
    kinds = {type(one) for one in getattr(value, "flat", ())}
    if kinds and kinds <= {str, bytes}:
        return _no_array("text")
    return _no_array("ragged" if any(hasattr(kind, "__len__") for kind in kinds) else "of Python objects")


def of_tensorflow(value: Any) -> bool:
    """An array of TensorFlow, which DLPack is not asked for."""
    return type(value).__module__.startswith("tensorflow.")


def _of_typed(value: Any, dtype: Any, shape: Any) -> BatchEntry | None:
    """By the name of its type; None: the array has to say it in its own way."""
    word = _name_of_dtype(dtype)
    if word == "string" or word.startswith(("str", "bytes")):
        return _no_array("text")
    if word == "object":
        return _of_objects(value)
    known = PARTS.get(word) or _DTYPE_OF.get(word)
    if known is None:
        return _no_array(f"of type {word}") if of_tensorflow(value) else None
    if getattr(shape, "rank", 0) is None:  # of a TensorShape
        return _no_array("of an unknown number of dimensions")
    parts = (2,) if word in PARTS else ()  # as memory_of has it
    return BatchEntry(known, (*(None if one is None else int(one) for one in shape), *parts))


def describe(name: str, value: Any) -> BatchEntry:
    """What `value` is: an array of any library, a spec of TensorFlow, text, a list."""
    if isinstance(value, (str, bytes)):
        return _no_array("text")
    if isinstance(value, (list, tuple)):
        return _of_list(value)
    if isinstance(value, (bool, int, float)) or value is None:
        return _no_array(f"{value!r}, no array")
    kind = _kind_of(value)
    if kind is not None:
        return _no_array(kind)
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None and not isinstance(value, Memory):
        typed = _of_typed(value, dtype, shape)
        if typed is not None:
            return typed
    try:
        memory = memory_of(name, value)
    except UsageError:
        if dtype is None:
            raise
        return _no_array(f"of type {_name_of_dtype(dtype)}")
    return BatchEntry(memory.dtype, memory.shape, memory=memory)


def entries_of(batch: Any) -> dict[str, BatchEntry]:
    """What each entry of a batch is, by name."""
    return {name: describe(name, value) for name, value in flatten(batch).items()}


def as_arrays(entries: Mapping[str, BatchEntry]) -> tuple[Any, list[object]]:
    """Entries as ``pawl_array``, and what they point to."""
    listed = (_abi.Array * max(len(entries), 1))()
    kept: list[object] = [entries]
    for out, (name, entry) in zip(listed, entries.items(), strict=False):
        out.name = text_bytes("the name", name)
        if entry.dtype is None:
            out.instead = text_bytes("the entry", entry.instead or "no array")
            continue
        shape = (ctypes.c_int64 * max(len(entry.shape), 1))(*(-1 if one is None else one for one in entry.shape))
        kept.append(shape)
        out.dtype = entry.dtype
        out.ndim = len(entry.shape)
        out.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    return listed, kept


def words_of(entry: BatchEntry) -> str:
    """``F32 [64, ?]``."""
    if entry.dtype is None:
        return entry.instead or "no array"
    return f"{entry.dtype.name} [{', '.join('?' if one is None else str(one) for one in entry.shape)}]"
