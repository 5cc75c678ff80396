# SPDX-License-Identifier: Apache-2.0
"""Checks that a training loop may make while it runs: of batches, gradients, the position in the data."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from . import _abi
from ._abi import Dtype, Status
from ._batch import BatchEntry, as_arrays, describe, entries_of, of_tensorflow, words_of
from ._error import Mismatch, UsageError, check, decode, error_handle
from ._handle import Handle, counted, require_mapping, text_bytes, whole_number
from ._library import lib
from ._memory import memory_of
from ._state import State, require_state

T = TypeVar("T")


class BatchCheck(Handle):
    """Compares each batch with the first: the same entries, types and shapes.

    ::

        batches = pawl.BatchCheck()
        for batch in loader:
            batches.next({"images": images, "labels": labels})
        state.set_json("batch", batches.signature, role="batch_signature")  # and a restore compares it

    Threads: calls of several threads come one after another.
    """

    _what = "batch check"

    def __init__(self) -> None:
        super().__init__()
        pointer = ctypes.c_void_p()
        check(lib.pawl_batch_check_new(ctypes.byref(pointer), error_handle()))
        self._pointer = pointer
        self._free = lib.pawl_batch_check_free

    def __del__(self) -> None:
        pointer = self._take() if hasattr(self, "_pid") else None
        if pointer is not None:
            self._free(pointer)

    def next(self, batch: Any) -> None:
        """Looks at the next batch: name to array, of any library; tuples and what is nested are named by position.

        Only types and shapes are looked at, so arrays may be on devices.

        Raises:
            Mismatch: names the entry, the number of the batch and both sides, and says what to do.
            UsageError: names an entry that is no array, and says what it is: text, ragged, sparse.
        """
        self._next(entries_of(batch))

    def _next(self, entries: Mapping[str, BatchEntry]) -> None:
        listed, kept = as_arrays(entries)
        with self._held() as pointer:
            size = ctypes.sizeof(_abi.Array)
            check(lib.pawl_batch_check_next(pointer, listed, len(entries), size, error_handle()))
        del kept

    def over(self, batches: Iterable[T]) -> Iterator[T]:
        """Goes through batches of any iterator, and looks at each before it is used: raises as `next` does."""
        for batch in batches:
            self.next(batch)
            yield batch

    @property
    def signature(self) -> Any:
        """The first batch's entries, types and shapes, for a state; None before the first batch."""
        with self._held() as pointer:
            text = decode(lib.pawl_batch_check_signature(pointer))
        return None if text is None else json.loads(text)


# ---- gradients -----------------------------------------------------------------------------------


def _mismatch(attempt: str, entry: str, expected: str, found: str, advice: str) -> Mismatch:
    error = Mismatch(attempt)
    error.status = Status.EMISMATCH
    error.entry, error.expected, error.found, error.next = entry, expected, found, advice
    return error


def _named(variables: Iterable[Any], gradients: Iterable[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lists, as optimizers take them, by the names that variables have themselves; one that comes again is numbered."""
    of: dict[str, Any] = {}
    for i, variable in enumerate(variables):
        name = str(getattr(variable, "path", None) or getattr(variable, "name", None) or f"variable {i}")
        name = name.removesuffix(":0")
        again = sum(other == name or other.startswith(f"{name} (") for other in of)
        of[f"{name} ({again + 1})" if again else name] = variable
    names, listed = list(of), list(gradients)
    if len(listed) > len(names):
        raise _mismatch(
            f"{counted(len(listed), 'gradient')} for {counted(len(names), 'variable')}: "
            f"gradient {len(names)} has no variable",
            f"gradient {len(names)}",
            f"{counted(len(names), 'gradient')} for {counted(len(names), 'variable')}",
            counted(len(listed), "gradient"),
            "give the optimizer the variables that the gradients were taken of",
        )
    return of, dict(zip(names, listed, strict=False))


def _is_slices(gradient: Any) -> bool:
    return any(one.__name__ == "IndexedSlices" for one in type(gradient).__mro__)


def _shape_words(shape: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _check_slices(name: str, variable: BatchEntry, gradient: Any) -> BatchEntry:
    """Rows of a gradient (``tf.IndexedSlices``) as if they were all; checks that they are rows of the variable."""
    values = describe(name, gradient.values)
    if values.dtype != variable.dtype and None not in (values.dtype, variable.dtype):
        raise _mismatch(
            f"the gradient of `{name}` has dtype {words_of(values).split()[0]}, the variable "
            f"{words_of(variable).split()[0]}",
            name,
            f"{words_of(variable).split()[0]}, as the variable",
            words_of(values).split()[0],
            "convert the gradient before it is applied",
        )
    dense = gradient.dense_shape
    dense = None if dense is None else tuple(int(one) for one in dense)
    if values.shape[1:] != variable.shape[1:] or (dense is not None and dense != variable.shape):
        found = f"rows of shape {_shape_words(values.shape[1:])}"
        found += "" if dense is None else f" of a gradient of shape {_shape_words(dense)}"
        raise _mismatch(
            f"the gradient of `{name}` has {found}, the variable has shape {_shape_words(variable.shape)}",
            name,
            f"rows of shape {_shape_words(variable.shape[1:])}",
            found,
            "was the model rebuilt without the optimizer, or is it the gradient of another variable?",
        )
    rows = variable.shape[0] if variable.shape else 0
    outside = [int(one) for one in gradient.indices if not 0 <= int(one) < (rows or 0)]
    if outside:
        raise _mismatch(
            f"the gradient of `{name}` is for row {outside[0]}, the variable has {rows} rows",
            name,
            f"rows 0 to {(rows or 0) - 1}",
            f"row {outside[0]}" + (f", and {len(outside) - 1} more outside" if len(outside) > 1 else ""),
            "look at the ids that the batch has: one of them is beyond the vocabulary",
        )
    return values


def _with_data(name: str, gradient: Any) -> tuple[BatchEntry, int]:
    """A gradient, and where its elements are; some address where it has none."""
    entry = describe(name, gradient)
    if entry.dtype is None:  # which the library refuses by name
        return entry, 0
    memory = memory_of(name, gradient.numpy() if of_tensorflow(gradient) else gradient)
    if memory.strides is not None and memory.address:
        raise UsageError(f"{name}: its elements are not dense and row-major; make it contiguous first")
    return BatchEntry(memory.dtype, memory.shape, memory=memory), memory.address


def check_gradients(variables: Mapping[str, Any] | Iterable[Any], gradients: Mapping[str, Any] | Iterable[Any]) -> None:
    """Do gradients fit variables: as many, of the same names, types and shapes, none missing, all finite?

    Args:
        variables: name to array; or, as optimizers take them, a list of variables, which have names.
        gradients: name to array, dense and row-major, in host memory; or a list in the order of `variables`. None:
            there is none. A ``tf.IndexedSlices`` has some rows of the variable.

    Raises:
        Mismatch: names the variable and both sides.
    """
    if hasattr(variables, "items") or hasattr(gradients, "items"):
        require_mapping("variables", "names to arrays", variables)
        require_mapping("gradients", "names to arrays", gradients)
        _check_named(variables, gradients)  # type: ignore[arg-type]
    else:
        _check_named(*_named(variables, gradients))


def _check_named(variables: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
    of = {name: describe(name, variable) for name, variable in variables.items()}
    found: dict[str, BatchEntry] = {}
    addresses: dict[str, int] = {}
    for name, gradient in gradients.items():
        if gradient is None:  # all but its data is as it should be
            found[name], addresses[name] = of.get(name, BatchEntry(Dtype.F32, ())), 0
        elif _is_slices(gradient):
            if name in of:
                of[name] = _check_slices(name, of[name], gradient)
            found[name], addresses[name] = _with_data(name, gradient.values)
        else:
            found[name], addresses[name] = _with_data(name, gradient)
    listed, kept = as_arrays(of)
    listed_too, kept_too = as_arrays(found)
    for out, (name, gradient) in zip(listed_too, gradients.items(), strict=False):
        if gradient is not None:
            out.data = addresses[name] or ctypes.addressof(listed_too)  # of no elements: not missing
    size = ctypes.sizeof(_abi.Array)
    try:
        check(lib.pawl_check_gradients(listed, len(of), listed_too, len(found), size, error_handle()))
    except Mismatch as why:
        if why.found == "a null pointer":  # which None has become
            why.found = "None"
            why.attempt = why.attempt.replace("it is a null pointer", "it is None")
            why.args = (why.attempt,)
        raise
    del kept, kept_too


# ---- the position in the data --------------------------------------------------------------------


def check_data_position(state: State, name: str, position: int) -> None:
    """After a restore: is the data loader where the checkpoint says?

    Args:
        state: restored.
        name: of its int entry that has the position.
        position: of the loader now.

    Raises:
        Mismatch: names both.
    """
    require_state(state)
    position = whole_number("position", position)
    with state._held() as pointer:
        check(lib.pawl_check_data_position(pointer, text_bytes("the name", name), position, error_handle()))
