# SPDX-License-Identifier: Apache-2.0
"""Nested data as JSON and tensors, and back, without pickle: nothing that is read can run code.

JSON has null, true, false, strings, lists, and objects whose keys are strings; so have the data, and
they are written as they are, as are integers of 64 bits and finite floats. All else is an object with
the key "$", which names what it is. A tensor is such an object, too: it names the entry that has its
elements. `flatten` refuses what it does not know, and names the place.
"""

from __future__ import annotations

import argparse
import base64
import collections
import math
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .._error import Damaged, UsageError
from ._names import escape
from ._tensors import IN_PARTS, is_dense, kind_without_elements

#: Containers inside of each other, at most.
MAX_DEPTH = 100
#: Values in all, at most: a container that is in several others counts in each.
MAX_VALUES = 10_000_000
#: Bits of an integer, at most.
_MAX_INT_BITS = 16384
#: Bytes of a tensor's name, at most; a longer one gets a number.
_MAX_NAME_BYTES = 900

_I64 = range(-(2**63), 2**63)
#: What a defaultdict may be made with, by name.
_FACTORIES: dict[str, Any] = {made.__name__: made for made in (int, float, list, dict, set, str, bool)}
_TAG = "$"
_NUMPY_DTYPE = re.compile(r"[<|][biufc][0-9]{1,2}")


def _place(path: str, what: str) -> UsageError:
    error = UsageError(f"{path.replace('/', '.')} {what}")
    error.entry = path
    return error


class _Occurrence(NamedTuple):
    """A tensor, where it was found, and the object of JSON that will say where its elements are."""

    found: torch.Tensor  # the object itself
    tensor: torch.Tensor  # detached
    path: str
    node: dict[str, Any]


class _Writer:
    def __init__(self, root: str) -> None:
        self.root = root
        self.count = 0
        self.occurrences: list[_Occurrence] = []
        self.tensors: dict[str, torch.Tensor] = {}

    # ---- values ----

    def encode(self, value: Any, path: str, depth: int = 0) -> Any:
        self.count += 1
        if self.count > MAX_VALUES:
            raise _place(path, f"is one of more than {MAX_VALUES} values; make tensors or arrays of them")
        if depth > MAX_DEPTH:
            raise _place(path, f"is nested deeper than {MAX_DEPTH} containers; does a container hold itself?")
        if value is None or isinstance(value, bool):
            return value
        kind = type(value)
        if kind is int and value.bit_length() > _MAX_INT_BITS:
            raise _place(path, f"is an integer of {value.bit_length()} bits; at most {_MAX_INT_BITS} can be saved")
        simple = _SIMPLE.get(kind)
        if simple is not None:
            return simple(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        container = _CONTAINERS.get(kind)
        if container is not None:
            return container(self, value, path, depth)
        return self._other(value, path, depth)

    def _other(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, pathlib.PurePosixPath):
            return {_TAG: "path" if isinstance(value, pathlib.Path) else "purepath", "text": _str(str(value))}
        if isinstance(value, torch.dtype):
            return {_TAG: "dtype", "name": str(value).removeprefix("torch.")}
        numpy = sys.modules.get("numpy")
        if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
            return self._numpy(numpy, value, path)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            raise _place(path, f"is a named tuple {_type_name(value)}; save value._asdict() and make it again")
        if hasattr(value, "__dataclass_fields__"):
            raise _place(path, f"is a dataclass {_type_name(value)}; save dataclasses.asdict(value) and make it again")
        hint = "; save its state_dict()" if hasattr(value, "state_dict") else ""
        raise _place(path, f"is a {_type_name(value)}, which cannot be saved without pickle{hint}")

    def _numpy(self, numpy: Any, value: Any, path: str) -> Any:
        scalar = isinstance(value, numpy.generic)
        order = value.dtype.newbyteorder("<")
        if not _NUMPY_DTYPE.fullmatch(order.str):
            raise _place(path, f"is a NumPy array of {value.dtype}, which is no type of numbers")
        raw = numpy.ascontiguousarray(value, dtype=order)
        node = {_TAG: "numpy", "dtype": order.str, "shape": list(value.shape), "scalar": scalar}
        if raw.nbytes <= 64:
            node["data"] = base64.b64encode(raw.tobytes()).decode()
            return node
        flat = torch.frombuffer(bytearray(raw.tobytes()), dtype=torch.uint8)
        node["elements"] = self._tensor(flat, path)
        return node

    # ---- containers ----

    def sequence(self, value: Any, path: str, depth: int) -> list[Any]:
        if set(map(type, value)) == {int} and min(value) in _I64 and max(value) in _I64:
            self.count += len(value)  # such as random state: as encode() would make it, at once
            return list(value)
        return [self.encode(one, f"{path}/{i}", depth + 1) for i, one in enumerate(value)]

    def mapping(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        plain = all(type(key) is str and not key.startswith(_TAG) and _is_text(key) for key in value)
        if plain:
            return {key: self.encode(one, f"{path}/{escape(key)}", depth + 1) for key, one in value.items()}
        return {_TAG: "dict", "pairs": self.pairs(value, path, depth)}

    def pairs(self, value: dict[Any, Any], path: str, depth: int) -> list[Any]:
        named = all(type(key) is str and _is_text(key) for key in value)
        pairs = []
        for i, (key, one) in enumerate(value.items()):
            place = f"{path}/{escape(key) if named else i}"
            pairs.append([self.encode(key, f"{place}/%key", depth + 1), self.encode(one, place, depth + 1)])
        return pairs

    def ordered(self, value: Any, path: str, depth: int) -> dict[str, Any]:
        node = {_TAG: "OrderedDict", "pairs": self.pairs(value, path, depth)}
        metadata = getattr(value, "_metadata", None)  # versions of modules, which state_dict() notes there
        if metadata is not None:
            node["metadata"] = self.encode(metadata, f"{path}/%metadata", depth + 1)
        return node

    def factory(self, value: Any, path: str) -> str | None:
        made = value.default_factory
        name = next((name for name, known in _FACTORIES.items() if known is made), None)
        if made is not None and name is None:
            raise _place(path, f"is a defaultdict that calls {made!r}; only built-in types can be saved")
        return name

    # ---- tensors ----

    def _tensor(self, tensor: torch.Tensor, path: str) -> Any:
        found = tensor
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not hasattr(tensor, "_local_tensor"):
            lazy = torch.nn.parameter.is_lazy(tensor)
            hint = "run one batch through the model first" if lazy else "save the tensors that it is made of"
            raise _place(path, f"is a {_type_name(tensor)}, a kind of tensor that cannot be saved as such; {hint}")
        kind = kind_without_elements(tensor)
        if kind is not None:
            raise _place(path, f"is a tensor of the kind {kind}; save its parts (indices and values, or int_repr())")
        if tensor.device.type == "meta":
            raise _place(path, 'is a tensor on the device "meta", which has no elements')
        node: dict[str, Any] = {_TAG: "tensor"}
        if isinstance(tensor, torch.nn.Parameter):
            node["parameter"] = True
        if tensor.requires_grad:
            node["grad"] = True
        if tensor.dtype in IN_PARTS:  # which checkpoints have as its parts
            node["parts"] = True
        tensor = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        name = f"{path}/value" if path == self.root else path  # the root is the name of the JSON value
        if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
            name = f"{self.root}/%{len(self.occurrences)}"
        self.occurrences.append(_Occurrence(found, tensor, name, node))
        return node

    def place_tensors(self) -> None:
        """Decides which tensors are entries, and which are views of another's elements."""
        by_object: dict[int, list[_Occurrence]] = {}
        for found in self.occurrences:
            by_object.setdefault(id(found.found), []).append(found)
        for number, several in enumerate(by_object.values()):
            for found in several if len(several) > 1 else ():
                found.node["object"] = number  # it is one object, in several places
        by_storage: dict[Any, list[_Occurrence]] = {}
        for found in self.occurrences:
            alone = hasattr(found.tensor, "_local_tensor") or found.tensor.numel() == 0
            key = id(found.tensor) if alone else (found.tensor.device, found.tensor.untyped_storage().data_ptr())
            by_storage.setdefault(key, []).append(found)
        for group in by_storage.values():
            for cluster in _overlapping(group):
                self._place(cluster)

    def _place(self, cluster: list[_Occurrence]) -> None:
        first = cluster[0]
        same = all(_layout(one.tensor) == _layout(first.tensor) for one in cluster)
        if same:
            self._add(first.path, first.tensor if is_dense(first.tensor) else first.tensor.contiguous())
            for one in cluster:
                one.node["at"] = first.path
            return
        other = next((one for one in cluster if one.tensor.dtype != first.tensor.dtype), None)
        if other is not None:
            raise _place(
                other.path,
                f"is of {other.tensor.dtype} and shares its memory with {first.path.replace('/', '.')}, of "
                f"{first.tensor.dtype}; save clone() of one",
            )
        begin = min(one.tensor.storage_offset() for one in cluster)
        end = max(_end(one.tensor) for one in cluster)
        self._add(first.path, torch.as_strided(first.tensor, (end - begin,), (1,), begin))
        for one in cluster:
            one.node["at"] = first.path
            one.node["view"] = {
                "offset": one.tensor.storage_offset() - begin,
                "size": list(one.tensor.shape),
                "stride": list(one.tensor.stride()),
            }

    def _add(self, path: str, tensor: torch.Tensor) -> None:
        self.tensors[path] = torch.view_as_real(tensor) if tensor.dtype in IN_PARTS else tensor


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _end(tensor: torch.Tensor) -> int:
    """One past the last element of the storage that the tensor has."""
    reach: int = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    end: int = tensor.storage_offset() + reach + 1
    return end


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


def _overlapping(group: list[_Occurrence]) -> list[list[_Occurrence]]:
    """The tensors of one storage, in clusters that have bytes in common."""
    if len(group) == 1:
        return [group]
    clusters: list[tuple[int, list[_Occurrence]]] = []  # end in bytes, tensors
    for found in sorted(group, key=lambda one: one.tensor.storage_offset() * one.tensor.itemsize):
        begin, end = found.tensor.storage_offset() * found.tensor.itemsize, _end(found.tensor) * found.tensor.itemsize
        if clusters and begin < clusters[-1][0]:
            clusters[-1] = max(clusters[-1][0], end), [*clusters[-1][1], found]
        else:
            clusters.append((end, [found]))
    return [cluster for _, cluster in clusters]


def _int(value: int) -> Any:
    return value if value in _I64 else {_TAG: "int", "text": hex(value)}


def _float(value: float) -> Any:
    return value if math.isfinite(value) else {_TAG: "float", "text": repr(value)}


def _str(value: str) -> Any:
    if _is_text(value):
        return value
    return {_TAG: "str", "data": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}


def _bytes(kind: str) -> Callable[[Any], Any]:
    return lambda value: {_TAG: kind, "data": base64.b64encode(value).decode()}


_SIMPLE: dict[type, Callable[[Any], Any]] = {
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes("bytes"),
    bytearray: _bytes("bytearray"),
    complex: lambda value: {_TAG: "complex", "parts": [_float(value.real), _float(value.imag)]},
    torch.Size: lambda value: {_TAG: "size", "items": list(value)},
    torch.device: lambda value: {_TAG: "device", "text": str(value)},
}

_CONTAINERS: dict[type, Callable[[_Writer, Any, str, int], Any]] = {
    list: _Writer.sequence,
    dict: _Writer.mapping,
    tuple: lambda w, v, p, d: {_TAG: "tuple", "items": w.sequence(v, p, d)},
    set: lambda w, v, p, d: {_TAG: "set", "items": w.sequence(v, p, d)},
    frozenset: lambda w, v, p, d: {_TAG: "frozenset", "items": w.sequence(v, p, d)},
    collections.deque: lambda w, v, p, d: {_TAG: "deque", "items": w.sequence(v, p, d), "maxlen": v.maxlen},
    collections.OrderedDict: _Writer.ordered,
    collections.Counter: lambda w, v, p, d: {_TAG: "Counter", "pairs": w.pairs(v, p, d)},
    collections.defaultdict: lambda w, v, p, d: {
        _TAG: "defaultdict",
        "factory": w.factory(v, p),
        "pairs": w.pairs(v, p, d),
    },
    argparse.Namespace: lambda w, v, p, d: {_TAG: "Namespace", "items": w.mapping(vars(v), p, d)},
}


def flatten(value: Any, path: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """Takes nested data apart.

    Args:
        value: None, numbers, texts, bytes, lists, tuples, sets, dictionaries and their relatives of
            ``collections``, tensors, NumPy arrays, paths, dtypes, devices, in each other.
        path: before the names of its tensors, which are their places: ``path/key/0``.

    Returns:
        What JSON can write, and the tensors by name: detached, not copied, but for those that were
        expanded, conjugated or negated. Tensors that share memory are one entry.

    Raises:
        UsageError: names the place of what cannot be saved.
    """
    writer = _Writer(path)
    skeleton = writer.encode(value, path)
    writer.place_tensors()
    return skeleton, writer.tensors


# ---- back ----------------------------------------------------------------------------------------


def damaged(path: str, what: str) -> Damaged:
    """The failure for what is not as it was saved."""
    error = Damaged(f"{path}: {what}; the checkpoint was not written by pawl.torch, or is damaged")
    error.entry = path
    return error


class _Reader:
    def __init__(self, tensors: dict[str, torch.Tensor], path: str) -> None:
        self._tensors = tensors
        self._objects: dict[int, torch.Tensor] = {}  # those that are in several places
        self._path = path

    def decode(self, node: Any, depth: int = 0) -> Any:
        if depth > 3 * MAX_DEPTH:
            raise damaged(self._path, f"it is nested deeper than {MAX_DEPTH} containers")
        if isinstance(node, list):
            return [self.decode(one, depth + 1) for one in node]
        if not isinstance(node, dict):
            return node
        if _TAG not in node:
            return {key: self.decode(one, depth + 1) for key, one in node.items()}
        kind = node[_TAG]
        make = _KINDS.get(kind) if isinstance(kind, str) else None
        if make is None:
            raise damaged(self._path, f"it has something of the kind {kind!r}, which is unknown")
        try:
            return make(self, node, depth + 1)
        except Damaged:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as why:
            raise damaged(self._path, f"a value of the kind {kind!r} is not as it should be ({why!r})") from None

    def items(self, node: dict[str, Any], depth: int) -> list[Any]:
        return [self.decode(one, depth) for one in _list(node["items"])]

    def pairs(self, node: dict[str, Any], depth: int) -> list[tuple[Any, Any]]:
        return [(self.decode(key, depth), self.decode(one, depth)) for key, one in _list(node["pairs"])]

    def tensor(self, node: dict[str, Any], _depth: int) -> torch.Tensor:
        number = node.get("object")
        if isinstance(number, int) and number in self._objects:
            return self._objects[number]
        tensor = self._made(node)
        if isinstance(number, int):
            self._objects[number] = tensor
        return tensor

    def _made(self, node: dict[str, Any]) -> torch.Tensor:
        name = node["at"]
        if name not in self._tensors:
            raise damaged(self._path, f"it says that {name!r} is a tensor, and there is none of that name")
        tensor = self._tensors[name]
        if node.get("parts"):
            tensor = torch.view_as_complex(tensor)
        view = node.get("view")
        if view is not None:
            size, stride = [int(n) for n in view["size"]], [int(n) for n in view["stride"]]
            tensor = _view(tensor, size, stride, int(view["offset"]))
        if node.get("parameter"):
            return torch.nn.Parameter(tensor, requires_grad=bool(node.get("grad")))
        return tensor.detach().requires_grad_(bool(node.get("grad")))

    def numpy(self, node: dict[str, Any], depth: int) -> Any:
        import numpy

        if not _NUMPY_DTYPE.fullmatch(node["dtype"]):
            raise ValueError(f"no type of numbers: {node['dtype']!r}")
        dtype = numpy.dtype(node["dtype"])
        if "elements" in node:
            raw = bytes(self.tensor(node["elements"], depth).numpy())
        else:
            raw = base64.b64decode(node["data"], validate=True)
        array = numpy.frombuffer(bytearray(raw), dtype=dtype).reshape([int(n) for n in node["shape"]])
        array = array.astype(dtype.newbyteorder("="), copy=False)
        return array[()] if node["scalar"] else array


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _view(base: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    """A view that is within its base."""
    reach = sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else -1
    if min([offset, *size, *stride]) < 0 or base.ndim != 1 or offset + reach >= base.numel():
        raise ValueError("a view reaches out of its tensor")
    return torch.as_strided(base, size, stride, base.storage_offset() + offset)


#: By name; what a file says is looked up nowhere else.
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


def _dtype(name: str) -> torch.dtype:
    return _DTYPES[name]


def _default(reader: _Reader, node: dict[str, Any], depth: int) -> Any:
    factory = _FACTORIES[node["factory"]] if node["factory"] is not None else None
    return collections.defaultdict(factory, reader.pairs(node, depth))


def _ordered(reader: _Reader, node: dict[str, Any], depth: int) -> Any:
    made: Any = collections.OrderedDict(reader.pairs(node, depth))
    if "metadata" in node:
        made._metadata = reader.decode(node["metadata"], depth)
    return made


def _namespace(reader: _Reader, node: dict[str, Any], depth: int) -> Any:
    made = argparse.Namespace()
    vars(made).update(reader.decode(node["items"], depth))
    return made


def _data(node: dict[str, Any]) -> bytes:
    return base64.b64decode(node["data"], validate=True)


def _special_float(text: str) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise ValueError(f"no such float: {text!r}")
    return float(text)


def _big_int(text: str) -> int:
    if not re.fullmatch(r"-?0x[0-9a-f]+", text) or len(text) > _MAX_INT_BITS // 4 + 3:
        raise ValueError("no such integer")
    return int(text, 16)


_KINDS: dict[str, Callable[[_Reader, dict[str, Any], int], Any]] = {
    "int": lambda r, n, d: _big_int(n["text"]),
    "float": lambda r, n, d: _special_float(n["text"]),
    "str": lambda r, n, d: _data(n).decode("utf-8", "surrogatepass"),
    "bytes": lambda r, n, d: _data(n),
    "bytearray": lambda r, n, d: bytearray(_data(n)),
    "complex": lambda r, n, d: complex(*(r.decode(one, d) for one in n["parts"])),
    "size": lambda r, n, d: torch.Size(_list(n["items"])),
    "device": lambda r, n, d: torch.device(str(n["text"])),
    "dtype": lambda r, n, d: _dtype(n["name"]),
    "path": lambda r, n, d: pathlib.Path(r.decode(n["text"], d)),
    "purepath": lambda r, n, d: pathlib.PurePosixPath(r.decode(n["text"], d)),
    "numpy": _Reader.numpy,
    "tensor": _Reader.tensor,
    "tuple": lambda r, n, d: tuple(r.items(n, d)),
    "set": lambda r, n, d: set(r.items(n, d)),
    "frozenset": lambda r, n, d: frozenset(r.items(n, d)),
    "deque": lambda r, n, d: collections.deque(r.items(n, d), maxlen=n["maxlen"]),
    "dict": lambda r, n, d: dict(r.pairs(n, d)),
    "OrderedDict": _ordered,
    "Counter": lambda r, n, d: collections.Counter(dict(r.pairs(n, d))),
    "defaultdict": _default,
    "Namespace": _namespace,
}


def rebuild(skeleton: Any, tensors: dict[str, torch.Tensor], path: str = "value") -> Any:
    """Puts together what `flatten` took apart. Nothing of it is trusted.

    Args:
        skeleton: what was JSON.
        tensors: by name; they are used, not copied.
        path: for messages: where the skeleton comes from.

    Raises:
        Damaged: it is not what `flatten` makes; says where.
    """
    return _Reader(tensors, path).decode(skeleton)
