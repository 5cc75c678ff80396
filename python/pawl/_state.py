# SPDX-License-Identifier: Apache-2.0
"""What is saved and restored: named tensors, whose memory stays their owner's, and values."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ._abi import Box as CBox
from ._abi import Dtype, Kind, Role
from ._abi import Tensor as CTensor
from ._error import UsageError, check, error_handle
from ._handle import Handle, counted, fill_options, switch, text_bytes, whole_numbers
from ._library import lib
from ._memory import PARTS, Memory, memory_of

Value = bool | int | float | str | bytes | list[Any] | dict[str, Any]

_I64 = range(-(2**63), 2**63)


class Box(NamedTuple):
    """A part of a tensor that this process holds.

    Attributes:
        offset: where it begins, a number per dimension, in elements of the whole tensor.
        array: its elements; its shape is the box's extent.
    """

    offset: tuple[int, ...]
    array: Any


class Tensor:
    """An array and what it is, where it is more than a variable of the model.

    Args:
        array: an array of any library, in host memory (`pawl.State.update`); or a list of
            `Box`, with `shape`.
        role: what it is for: "model", "slot", "rng", "other", ...
        slot_of: a slot of an optimizer: name of its variable, a tensor of the same state.
        slot: a slot: its name, such as "adam/m".
        shape: of the whole tensor, where `array` is a list of boxes.
        replicated: other ranks hold the same bytes; each byte is written by one of them.
        replica: this rank holds copy `replica` ...
        replica_count: ... of so many [one per rank].
        copied: a save copies it before it returns, into the run's ``budget_bytes``, so that it may
            change at once, without a fence.
    """

    __slots__ = ("array", "copied", "replica", "replica_count", "replicated", "role", "shape", "slot", "slot_of")

    def __init__(
        self,
        array: Any,
        *,
        role: str | None = None,
        slot_of: str | None = None,
        slot: str | None = None,
        shape: tuple[int, ...] | None = None,
        replicated: bool = False,
        replica: int = 0,
        replica_count: int = 0,
        copied: bool = False,
    ) -> None:
        self.array = array
        self.role = role or ("slot" if slot_of is not None else "model")
        self.slot_of = slot_of
        self.slot = slot
        self.shape = shape
        self.replicated = replicated
        self.replica = replica
        self.replica_count = replica_count
        self.copied = copied

    @property
    def says_more(self) -> bool:
        """Than where its memory is."""
        return self.copied or self.role != "model" or self.replicated or self.replica_count != 0


def require_state(state: object) -> None:
    """What is saved and restored is a State."""
    if not isinstance(state, State):
        raise TypeError(f"a pawl.State is saved and restored, not {type(state).__name__}: pawl.State({{name: array}})")


def role_of(name: str) -> Role:
    """The role of that name: "model", "slot", "hyperparameter", "data_position", ..."""
    if not isinstance(name, str):
        raise TypeError(f"the role is a str, not {type(name).__name__}: {name!r}")
    return _role_named(name)


@functools.lru_cache(maxsize=256)
def _role_named(name: str) -> Role:
    try:
        return Role[name.replace(" ", "_").upper()]
    except KeyError:
        known = ", ".join(role.name.lower() for role in Role)
        raise UsageError(f"there is no role {name!r}; there are {known}") from None


_COMPLEX_OF = {parts: name for name, parts in PARTS.items()}


def _type(memory: Memory) -> str:
    return _COMPLEX_OF[memory.dtype] if memory.parts else memory.dtype.name


class _Described:
    """Tensors as an array of ``pawl_tensor``, with all that it points to."""

    def __init__(self, count: int) -> None:
        self.tensors = (CTensor * count)()
        self.kept: list[object] = []
        self.owners: dict[str, tuple[object, list[Memory]]] = {}

    def _pointer(self, name: str, values: Iterable[int]) -> Any:
        """To an array of these numbers. `name` is for messages."""
        numbers = whole_numbers(name, values)
        self.kept.append(numbers)
        return ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))

    def _boxes(self, name: str, out: CTensor, tensor: Tensor) -> list[Memory]:
        if tensor.shape is None:
            raise UsageError(f"{name}: boxes need the shape of the whole tensor")
        memories = [memory_of(name, box.array) for box in tensor.array]
        if not memories:
            raise UsageError(f"{name}: a tensor of which this process holds nothing has one empty box")
        boxes = (CBox * len(memories))()
        for c_box, box, memory in zip(boxes, tensor.array, memories, strict=True):
            if (memory.dtype, memory.parts) != (memories[0].dtype, memories[0].parts):
                raise UsageError(f"{name}: its boxes have elements of {_type(memories[0])} and {_type(memory)}")
            ndim = len(memory.shape) - memory.parts
            if len(box.offset) != len(tensor.shape) or ndim != len(tensor.shape):
                raise UsageError(
                    f"{name}: a box has {len(box.offset)} offsets and {ndim} dimensions in a "
                    f"tensor of {len(tensor.shape)}"
                )
            c_box.offset = self._pointer(f"{name}: offset", (*box.offset, 0) if memory.parts else box.offset)
            c_box.extent = self._pointer(f"{name}: extent", memory.shape)
            c_box.strides = self._pointer(f"{name}: strides", memory.strides) if memory.strides else None
            c_box.data = memory.address
        self.kept.append(boxes)
        out.nboxes = len(memories)
        out.boxes = boxes
        out.box_size = ctypes.sizeof(CBox)
        return memories

    def describe(self, i: int, name: str, tensor: Tensor) -> None:
        out = self.tensors[i]
        out.struct_size = ctypes.sizeof(CTensor)
        out.name = text_bytes("the name", name)
        if isinstance(tensor.array, (list, tuple)) and not isinstance(tensor.array, Memory):
            memories = self._boxes(name, out, tensor)
            shape = tensor.shape or ()
            shape = (*shape, 2) if memories[0].parts else shape
        else:
            memory = memory_of(name, tensor.array)
            memories, shape = [memory], memory.shape
            out.data = memory.address
            out.strides = self._pointer(f"{name}: strides", memory.strides) if memory.strides else None
        if memories[0].provider is not None:
            out.memory = memories[0].provider.address
        out.dtype = memories[0].dtype
        out.ndim = len(shape)
        out.shape = self._pointer(f"{name}: shape", shape)
        out.role = role_of(tensor.role)
        out.slot_of = None if tensor.slot_of is None else text_bytes("the name", tensor.slot_of)
        out.slot = None if tensor.slot is None else text_bytes("the slot's name", tensor.slot)
        out.replicated = switch("replicated", tensor.replicated)
        out.copied = tensor.copied
        if tensor.replica or tensor.replica_count:
            fill_options(out, {"replica": tensor.replica, "replica_count": tensor.replica_count})
        self.owners[name] = (tensor.array, memories)


#: What a state keeps of a tensor that was supplied while it was restored: its owner, its memory,
#: and what libpawl's description of it points to.
Supplied = tuple[object, list[Memory], object]


def describe(name: str, tensor: Tensor, out: CTensor) -> Supplied:
    """Writes a description of `tensor` to `out`, which says its name and what it has to be."""
    described = _Described(1)
    described.describe(0, name, tensor)
    found = described.tensors[0]
    if (found.dtype, found.ndim) != (out.dtype, out.ndim):
        raise UsageError(
            f"{name}: the memory supplied for it is of {Dtype(found.dtype).name} with {found.ndim} dimensions; in the "
            f"checkpoint it is of {Dtype(out.dtype).name} with {out.ndim}"
        )
    ctypes.memmove(ctypes.byref(out), ctypes.byref(found), ctypes.sizeof(CTensor))
    owner, memories = described.owners[name]
    return owner, memories, described


class State(Handle):
    """Named entries: tensors, whose memory stays their owner's, and values, which are copied.

    A mapping from names, UTF-8 paths with "/", to entries::

        state = pawl.State()
        state["model/kernel"] = kernel                  # any array in host memory; not copied
        state["optimizer/kernel/m"] = pawl.Tensor(m, slot_of="model/kernel", slot="adam/m")
        state["training/step"] = 12
        state["training/config"] = {"width": 64}        # as JSON

    What is assigned decides what the entry is: ``bool``, ``int`` (64 bits), ``float``, ``str``,
    ``bytes``, ``dict`` and ``list`` (as JSON: keys come back as text, tuples as lists) are values;
    everything else must be an array, or a `Tensor` that says more of one. Assigning to a tensor of
    the state gives it new memory, which must have the dtype and shape of the old; what else was said of it
    stays. A scalar of NumPy is the number that it is. Reading a tensor
    gives back the array that was assigned, reading a value the value, as it is after a restore. A
    value keeps its role.

    The arrays are referenced as long as they are in the state, and must not change between
    `Run.save` and `Run.fence`. Where two entries share memory, a restore leaves in it what one of
    them had. Names are listed in the order in which they were added.

    Threads: calls of several threads come one after another.
    """

    _what = "state"

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        pointer = ctypes.c_void_p()
        check(lib.pawl_state_new(ctypes.byref(pointer), error_handle()))
        self._pointer = pointer
        self._free = lib.pawl_state_free
        self._kinds: dict[str, Kind] = {}
        self._values: dict[str, tuple[str, bool]] = {}  # role, per rank
        self._tensors: dict[str, tuple[object, list[Memory]]] = {}
        self._about: dict[str, Tensor] = {}  # of those of which more is known than their memory
        self._restored = False
        if entries is not None:
            self.update(entries)

    def __del__(self) -> None:
        pointer = self._take() if hasattr(self, "_pid") else None
        if pointer is not None:
            self._free(pointer)

    # ---- as a mapping ----

    def __setitem__(self, name: str, entry: Any) -> None:
        self.update({name: entry})

    def __getitem__(self, name: str) -> Any:
        with self._held() as pointer:
            kind = self._kinds[name]
            if kind == Kind.TENSOR:
                return self._tensors[name][0]
            return _get(pointer, name.encode(), kind)

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of that name, or `default`."""
        with self._held():
            return self[name] if name in self else default  # noqa: SIM401 (this is get)

    def __delitem__(self, name: str) -> None:
        """Removes an entry. Raises Busy where a save still reads it."""
        with self._held() as pointer:
            self._refuse_restored()
            check(lib.pawl_state_remove(pointer, text_bytes("the name", name), error_handle()))
            del self._kinds[name]
            self._tensors.pop(name, None)
            self._about.pop(name, None)
            self._values.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kinds))

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        tensors = len(self._tensors)
        values = len(self._kinds) - tensors
        return f"<pawl.State of {counted(tensors, 'tensor')}, {counted(values, 'value')}>"

    # ---- entries ----

    def update(self, tensors: Mapping[str, Any]) -> None:
        """Adds many entries in one call, or gives those that are there new memory or values.

        Args:
            tensors: name to array, `Tensor` or value.

        Raises:
            UsageError: names the entry and what is wrong with it. Of the tensors either all that are
                new are added or none, and of those that are there all are updated or none.
            Busy: a save still reads one that would be updated; call `Run.fence` first.
        """
        if not isinstance(tensors, Mapping):
            raise TypeError(f"a state has names: give a mapping of names to entries, not {type(tensors).__name__}")
        added: list[tuple[str, Tensor]] = []
        updated: list[tuple[str, Tensor]] = []
        values: list[tuple[str, Value]] = []
        with self._held() as pointer:
            self._refuse_restored()
            for name, given in tensors.items():
                entry = _scalar_value(given)
                if isinstance(entry, (bool, int, float, str, bytes, dict, list)):
                    values.append((name, entry))
                    continue
                if isinstance(entry, tuple) and not isinstance(entry, Memory):
                    raise UsageError(
                        f"{name} is a tuple, which is neither an array nor a value: give a list, to keep it as JSON, "
                        "or pawl.Tensor(boxes, shape=...)"
                    )
                tensor = entry if isinstance(entry, Tensor) else self._as_before(name, entry)
                (updated if name in self._tensors else added).append((name, tensor))
            self._hand_over(pointer, lib.pawl_state_update_tensors, updated)
            self._hand_over(pointer, lib.pawl_state_add_tensors, added)
            for name, value in values:
                self.set(name, value)

    def _hand_over(self, pointer: ctypes.c_void_p, call: Any, tensors: list[tuple[str, Tensor]]) -> None:
        if not tensors:
            return
        described = _Described(len(tensors))
        for i, (name, tensor) in enumerate(tensors):
            described.describe(i, name, tensor)
        check(call(pointer, described.tensors, len(tensors), error_handle()))
        self._tensors.update(described.owners)
        for name, tensor in tensors:
            if tensor.says_more:
                self._about[name] = tensor
            else:
                self._about.pop(name, None)
        self._kinds.update((name, Kind.TENSOR) for name, _ in tensors)

    def _as_before(self, name: str, array: Any) -> Tensor:
        """An array by itself: what was said of the tensor whose memory it takes the place of still holds."""
        before = self._about.get(name)
        if before is None or isinstance(before.array, (list, tuple)):
            return Tensor(array)
        again = copy.copy(before)
        again.array = array
        return again

    def set(self, name: str, value: Value, *, role: str | None = None, per_rank: bool | None = None) -> None:
        """Sets a value: adds the entry, or replaces the value of one of the same kind.

        Args:
            name: of the entry.
            value: bool, int (64 bits), float, str, bytes, or a dict or list of what JSON can say.
            role: what it is for: "hyperparameter", "step", "rng", "data_position", ... [that of the entry;
                of a new one "other"]
            per_rank: `value` is bytes of which each rank has its own [as the entry; of a new one False].

        Raises:
            UsageError: JSON has no NaN, no infinity, and no other types; a name that is not valid.
            LimitExceeded: above 1 MiB (per rank above 256 MiB), or nested too deep.
        """
        raw = text_bytes("the name", name)
        with self._held() as pointer:
            self._refuse_restored()
            old_role, old_per_rank = self._values.get(name, ("other", False))
            role = old_role if role is None else role
            per_rank = old_per_rank if per_rank is None else per_rank
            self._kinds[name] = _set(pointer, raw, int(role_of(role)), value, per_rank, self._kinds.get(name))
            self._values[name] = role, per_rank

    def set_json(self, name: str, value: object, *, role: str | None = None) -> None:
        """Sets a value as JSON, whatever it is: a number, a text, None, a list, a dict.

        For a value whose type may change, such as a number that was None before: entries of two kinds
        do not match each other, two JSON values do.

        Raises:
            UsageError, LimitExceeded: as `set`.
        """
        raw = text_bytes("the name", name)
        with self._held() as pointer:
            self._refuse_restored()
            role = self._values.get(name, ("other", False))[0] if role is None else role
            text = _json_text(name, value)
            check(lib.pawl_state_set_json(pointer, raw, role_of(role), text, error_handle()))
            self._kinds[name] = Kind.JSON
            self._values[name] = role, False

    @contextlib.contextmanager
    def being_restored(self) -> Iterator[None]:
        """Nobody changes which entries there are, and their memory stays where it is."""
        kept = dict(self._tensors)
        try:
            self._restored = True
            yield
        finally:
            self._restored = False
            kept.clear()

    def _refuse_restored(self) -> None:
        if self._restored:
            raise UsageError("the state is being restored: change it when that call has returned")

    def take_supplied(self, given: Mapping[str, Supplied]) -> None:
        """Notes tensors that a restore has added."""
        for name, (owner, memories, _described) in given.items():
            self._tensors[name] = owner, memories
            self._kinds[name] = Kind.TENSOR

    def read_only(self) -> list[str]:
        """Names of the tensors whose memory may not be written to, so that none can be restored."""
        with self._held():
            return [name for name, (_, memories) in self._tensors.items() if not all(m.writable for m in memories)]

    def _largest(self, least_bytes: int, most: int) -> list[str]:
        """Names of at most so many arrays of at least so many bytes each, the largest first."""
        sizes = {name: sum(memory.bytes for memory in memories) for name, (_, memories) in self._tensors.items()}
        large = [name for name, size in sizes.items() if size >= least_bytes]
        return sorted(large, key=lambda name: -sizes[name])[:most]

    def _give_back(self, names: Iterable[str]) -> None:
        """References these arrays no more. Of a state that nobody saves again, restores or reads."""
        for name in names:
            del self._tensors[name]
            self._about.pop(name, None)


def _scalar_value(entry: Any) -> Any:
    """A scalar of NumPy as the number that it is: its own memory is made anew for each look at it."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(entry, numpy.generic):
        return entry
    value = entry.item()
    if isinstance(value, numpy.generic) and entry.dtype.kind == "V":  # of ml_dtypes
        value = float(entry)
    return value


def _refuse_keys_that_became_one(pairs: list[tuple[str, object]]) -> None:
    """JSON has keys of text alone: 1 and "1" are one."""
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise ValueError(f"two keys of a dict are both {key!r} there")
        keys.add(key)


def _json_text(name: str, value: object) -> bytes:
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if "{" in text:
            json.loads(text, object_pairs_hook=_refuse_keys_that_became_one)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as why:
        raise UsageError(f"{name}: cannot be written as JSON: {why}") from None


def _set(pointer: ctypes.c_void_p, name: bytes, role: int, value: Value, per_rank: bool, before: Kind | None) -> Kind:
    err = error_handle()
    if per_rank:
        if not isinstance(value, (bytes, bytearray)):
            raise UsageError(f"{name.decode()}: what each rank has its own of is bytes, not {type(value).__name__}")
        check(lib.pawl_state_set_rank_bytes(pointer, name, role, bytes(value), len(value), err))
        return Kind.BYTES
    if isinstance(value, bool):
        check(lib.pawl_state_set_bool(pointer, name, role, value, err))
        return Kind.BOOL
    if isinstance(value, int) and before != Kind.FLOAT64:
        if value not in _I64:
            raise UsageError(f"{name.decode()}: {value} does not fit into 64 bits; save it as str")
        check(lib.pawl_state_set_int64(pointer, name, role, value, err))
        return Kind.INT64
    if isinstance(value, (int, float)):
        if isinstance(value, int) and not (-(2**1023) < value < 2**1023 and float(value) == value):
            raise UsageError(f"{name.decode()}: {value} is not exact as a float, which this entry is")
        check(lib.pawl_state_set_float64(pointer, name, role, value, err))
        return Kind.FLOAT64
    if isinstance(value, str):
        check(lib.pawl_state_set_string(pointer, name, role, text_bytes(name.decode() + ":", value), err))
        return Kind.STRING
    if isinstance(value, bytes):
        check(lib.pawl_state_set_bytes(pointer, name, role, value, len(value), err))
        return Kind.BYTES
    check(lib.pawl_state_set_json(pointer, name, role, _json_text(name.decode(), value), err))
    return Kind.JSON


def _get(pointer: ctypes.c_void_p, name: bytes, kind: Kind) -> Value:
    err = error_handle()
    if kind == Kind.BOOL:
        flag = ctypes.c_int()
        check(lib.pawl_state_get_bool(pointer, name, ctypes.byref(flag), err))
        return flag.value != 0
    if kind == Kind.INT64:
        number = ctypes.c_int64()
        check(lib.pawl_state_get_int64(pointer, name, ctypes.byref(number), err))
        return number.value
    if kind == Kind.FLOAT64:
        real = ctypes.c_double()
        check(lib.pawl_state_get_float64(pointer, name, ctypes.byref(real), err))
        return real.value
    if kind == Kind.BYTES:
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(lib.pawl_state_get_bytes(pointer, name, ctypes.byref(address), ctypes.byref(size), err))
        return ctypes.string_at(address, size.value) if size.value > 0 else b""
    text = ctypes.c_char_p()
    check(lib.pawl_state_get_string(pointer, name, ctypes.byref(text), err))
    decoded = (text.value or b"").decode()
    if kind == Kind.STRING:
        return decoded
    parsed: Value = json.loads(decoded)
    return parsed
