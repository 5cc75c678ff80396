# SPDX-License-Identifier: Apache-2.0
"""The parts of a training job, each with its entries: a model, an optimizer, a scheduler, a data loader, ..."""

from __future__ import annotations

import itertools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from .._entry import Entry
from .._error import UsageError
from .._state import State
from ._names import Tree, escape, tree_of
from ._objects import damaged, flatten, rebuild
from ._tensors import DTYPES, IN_PARTS, TORCH_DTYPES, bytes_of, empty, is_sharded


class Json(NamedTuple):
    """A value that is saved as JSON, whatever its type."""

    value: Any


#: A value of the state: what it is, its role, and has each rank its own?
Value = tuple[Any, str, bool]


class Live(NamedTuple):
    """A tensor of the running job.

    Attributes:
        name: of its entry.
        tensor: as it is now.
        copied: it may change outside of an optimizer's step, and is copied when it is saved. On other
            ranks it may be another one; rank 0's counts.
        what: role, slot_of and slot, for ``pawl.Tensor``.
    """

    name: str
    tensor: torch.Tensor
    copied: bool
    what: dict[str, Any]


class Part:
    """A part of the job. What it does not have it inherits: nothing."""

    def prepare(self) -> None:
        """Looks at the part once for each save or restore, before the other methods are called."""

    def tensors(self) -> Iterator[Live]:
        """Its tensors. They are listed again when `fingerprint` has changed."""
        return iter(())

    def fingerprint(self) -> list[Any]:
        """As long as it is equal, `tensors` would give the same."""
        return []

    def values(self) -> dict[str, Value]:
        """Its values, by the names of their entries."""
        return {}

    def placeholders(self) -> dict[str, Value]:
        """Its values before they are restored."""
        return self.values()

    def supply(self, entry: Entry) -> torch.Tensor | None:
        """Memory for an entry of the checkpoint that the job has no tensor for yet; None: not its own."""
        return None

    def restored(self, state: State) -> None:
        """Takes over what was restored: values of `state`, and those tensors that it supplied which `state` has.

        It may have been asked for tensors of a step that turned out to be damaged, too.
        """


class ModelPart(Part):
    """A model: its parameters and persistent buffers.

    Args:
        model: plain or wrapped.
        prefix: of the names of its entries.
        by_reference: ``id()`` of the tensors that only optimizers change.
        role: of its entries.
    """

    def __init__(
        self, model: torch.nn.Module, prefix: str, by_reference: Callable[[], set[int]], role: str = "model"
    ) -> None:
        self.model = model
        self.prefix = prefix
        self._by_reference = by_reference
        self._role = role
        self._objects: dict[str, ObjectPart] = {}
        self._tree: Tree | None = None
        self._ids: list[int] = []

    @property
    def tree(self) -> Tree:
        """Its tensors' names, walked again if modules or tensors have been replaced."""
        if self._tree is None or self._ids != _ids(self._tree.containers):
            _refuse_own_state(self.model, self.prefix)
            self._tree = tree_of(self.model, self.prefix)
            self._ids = _ids(self._tree.containers)
            self._objects = {name: _extra_state(module, name) for name, module in self._tree.extra.items()}
        return self._tree

    def prepare(self) -> None:
        self._known = self.tree
        for part in self._objects.values():
            part.prepare()

    def tensors(self) -> Iterator[Live]:
        by_reference = self._by_reference()
        for leaf in self._known.leaves:
            tensor = leaf.tensor
            yield Live(leaf.name, tensor, id(tensor) not in by_reference, {"role": self._role})
        for part in self._objects.values():
            yield from part.tensors()

    def fingerprint(self) -> list[Any]:
        return [self._ids, *(part.fingerprint() for part in self._objects.values())]

    def values(self) -> dict[str, Value]:
        return {name: value for part in self._objects.values() for name, value in part.values().items()}

    def supply(self, entry: Entry) -> torch.Tensor | None:
        for part in self._objects.values():
            tensor = part.supply(entry)
            if tensor is not None:
                return tensor
        return None

    def restored(self, state: State) -> None:
        for part in self._objects.values():
            part.restored(state)


def _refuse_own_state(model: torch.nn.Module, prefix: str) -> None:
    """Modules whose ``state_dict()`` has more than parameters, buffers and extra state, as quantized ones have."""
    for name, module in model.named_modules():
        if type(module)._save_to_state_dict is torch.nn.Module._save_to_state_dict:
            continue
        found: dict[str, Any] = {}
        module._save_to_state_dict(found, "", True)
        more = found.keys() - module._parameters.keys() - module._buffers.keys() - {"_extra_state"}
        if more:
            where = "/".join((prefix, *filter(None, name.split("."))))
            error = UsageError(
                f"{where} is a {type(module).__module__}.{type(module).__qualname__}, which keeps {sorted(more)[0]!r} "
                "in its state_dict() alone"
            )
            error.entry = where
            error.next = "let it say that by get_extra_state() and set_extra_state(), or keep it in a buffer"
            raise error


def _extra_state(module: torch.nn.Module, name: str) -> ObjectPart:
    return ObjectPart(name, module.get_extra_state, module.set_extra_state)


def _all_values(dictionaries: Iterable[Mapping[Any, Any]]) -> Iterator[Any]:
    return itertools.chain.from_iterable(map(operator.methodcaller("values"), dictionaries))


def _ids(containers: list[dict[str, Any]]) -> list[int]:
    return list(map(id, _all_values(containers)))


class OptimizerPart(Part):
    """An optimizer: each slot by the name of its parameter, hyperparameters by the number of their group.

    Args:
        optimizer: of ``torch.optim``, or something with its ``param_groups`` and ``state``.
        prefix: of the names of its entries.
        names: entries' names of the models' parameters, by ``id()``.
        scheduled: a scheduler changes its learning rates.
    """

    def __init__(self, optimizer: Any, prefix: str, names: Callable[[], dict[int, str]], scheduled: bool) -> None:
        inner = getattr(optimizer, "optimizer", None)  # Accelerate and others wrap the user's
        self.optimizer: Any = inner if isinstance(inner, torch.optim.Optimizer) else optimizer
        if not (hasattr(self.optimizer, "param_groups") and hasattr(self.optimizer, "state")):
            raise UsageError(f"{prefix} is a {type(optimizer).__qualname__}, which has no param_groups and no state")
        if type(self.optimizer).__name__ == "ZeroRedundancyOptimizer":
            raise UsageError(
                f"{prefix} is a ZeroRedundancyOptimizer, whose slots are on one rank each; use fully_shard (FSDP2)"
            )
        self.prefix = prefix
        self._names = names
        self._scheduled = scheduled
        self._ids: list[int] = []
        self._known: dict[int, str] | None = None
        self._slot_ids: list[int] = []
        self._slot_names: list[str] = []
        self._parameters: dict[int, tuple[torch.Tensor, str]] = {}  # by id(), with the name of the entry
        self._by_name: dict[str, torch.Tensor] = {}
        self._supplied: dict[str, tuple[int, str, torch.Tensor]] = {}  # by entry: parameter, slot
        self._objects = ObjectPart(f"{prefix}/values", self._non_tensors, self._set_non_tensors, copied=False)

    def parameters(self) -> list[torch.Tensor]:
        """All that it changes."""
        return list(itertools.chain.from_iterable(group["params"] for group in self.optimizer.param_groups))

    def prepare(self) -> None:
        names = self._names()
        ids = list(map(id, self.parameters()))
        if ids != self._ids or names is not self._known:
            self._ids, self._known = ids, names
            self._name_parameters(names)
        values = list(_all_values(self.optimizer.state.values()))
        slot_ids = list(map(id, values))
        if slot_ids != self._slot_ids:
            self._slot_ids = slot_ids
            all_names = itertools.chain.from_iterable(self.optimizer.state.values())
            self._slot_names = list(map(str, dict.fromkeys(all_names)))
        self._plain = all(issubclass(kind, torch.Tensor) for kind in set(map(type, values)))
        self._supplied = {}
        self._objects.prepare()

    def _name_parameters(self, names: dict[int, str]) -> None:
        self._parameters = {}
        for i, group in enumerate(self.optimizer.param_groups):
            for j, parameter in enumerate(group["params"]):
                name = names.get(id(parameter))
                if name is None:
                    raise UsageError(
                        f"{self.prefix}: parameter {j} of group {i}, {list(parameter.shape)}, belongs to no model; "
                        "give the model that has it, or make the optimizer from its parameters again"
                    )
                self._parameters[id(parameter)] = parameter, name
        self._by_name = {name: parameter for parameter, name in self._parameters.values()}

    def _slots(self) -> Iterator[tuple[torch.Tensor, str, str, Any]]:
        """Parameter, its entry's name, slot, value."""
        for parameter, slots in self.optimizer.state.items():
            known = self._parameters.get(id(parameter))
            if known is None:
                raise UsageError(
                    f"{self.prefix} has state for something that is none of its parameters: "
                    f"{type(parameter).__qualname__}; remove it from optimizer.state"
                )
            for slot, value in slots.items():
                yield parameter, known[1], str(slot), value

    def slot_name(self, parameter_name: str, slot: str) -> str:
        """The entry's name of a parameter's slot."""
        return f"{self.prefix}/{parameter_name.partition('/')[2]}/{escape(slot)}"

    def tensors(self) -> Iterator[Live]:
        for _, name, slot, value in self._slots():
            if isinstance(value, torch.Tensor):
                yield Live(self.slot_name(name, slot), value, False, {"slot_of": name, "slot": slot})
        yield from self._objects.tensors()

    def fingerprint(self) -> list[Any]:
        state = self.optimizer.state
        if self._plain:
            ids = self._slot_ids
        else:
            ids = [id(v) for v in _all_values(state.values()) if isinstance(v, torch.Tensor)]
        return [ids, self._ids, list(map(id, state)), self._objects.fingerprint()]

    def values(self) -> dict[str, Value]:
        values: dict[str, Value] = {
            f"{self.prefix}/class": (type(self.optimizer).__qualname__, "hyperparameter", False)
        }
        for i, group in enumerate(self.optimizer.param_groups):
            for key, value in group.items():
                if key not in _NOT_SAVED:
                    role = "other" if self._scheduled and key in _SCHEDULED else "hyperparameter"
                    values[self._group_name(i, key)] = Json(_hyperparameter(value)), role, False
        order = {"slots": self._slot_names, "groups": self._first_names()}
        values[f"{self.prefix}/slots"] = Json(order), "other", False
        values.update(self._objects.values())
        return values

    def _non_tensors(self) -> dict[str, dict[str, Any]]:
        """Slots that are no tensors: numbers, lists of tensors; by the parameter's name."""
        found: dict[str, dict[str, Any]] = {}
        for _, name, slot, value in () if self._plain else self._slots():
            if not isinstance(value, torch.Tensor):
                found.setdefault(name, {})[slot] = value
        return found

    def _set_non_tensors(self, found: dict[str, dict[str, Any]]) -> None:
        for name, slots in found.items():
            parameter = self._by_name.get(name)
            if parameter is not None:
                self.optimizer.state[parameter].update(slots)

    def supply(self, entry: Entry) -> torch.Tensor | None:
        if entry.slot_of is None or entry.slot is None:
            return self._objects.supply(entry)
        parameter = self._by_name.get(entry.slot_of)
        if parameter is None or not entry.name.startswith(self.prefix + "/"):
            return None
        tensor: torch.Tensor | None
        if is_sharded(parameter) and entry.shape == tuple(parameter.shape):
            dtype = TORCH_DTYPES.get(entry.dtype or "")
            tensor = torch.empty_like(parameter, dtype=dtype) if dtype is not None else None
        else:
            on_host = entry.slot == "step" and not self._step_on_device(parameter)
            tensor = empty(entry, "cpu" if on_host else parameter.device)
            if tensor is not None and parameter.dtype in IN_PARTS and entry.shape == (*parameter.shape, 2):
                tensor = torch.view_as_complex(tensor)
        if tensor is not None:
            tensor = tensor.detach()
            self._supplied[entry.name] = id(parameter), entry.slot, tensor
        return tensor

    def _step_on_device(self, parameter: torch.Tensor) -> bool:
        """Torch keeps the count of steps in host memory, unless it is to be read by the device."""
        for group in self.optimizer.param_groups:
            if any(one is parameter for one in group["params"]):
                return bool(group.get("capturable") or group.get("fused"))
        return False

    def restored(self, state: State) -> None:
        for name, (key, slot, tensor) in self._supplied.items():
            if name in state:  # what was supplied for a step that is damaged is not
                self.optimizer.state[self._parameters[key][0]][slot] = tensor
        self._objects.restored(state)
        slots, first_names = self._order_then(state.get(f"{self.prefix}/slots") or {})
        self._put_in_order(slots)
        numbers = self._numbers_then(first_names)
        for group, number in zip(self.optimizer.param_groups, numbers, strict=True):
            if number is None:
                continue
            for key, old in group.items():
                name = self._group_name(number, key)
                if key not in _NOT_SAVED and name in state:
                    new = _like(old, state[name])
                    if isinstance(old, torch.Tensor):
                        old.fill_(new)
                    else:
                        group[key] = new

    def _put_in_order(self, names: list[str]) -> None:
        """Slots in the order in which the optimizer made them, parameters in that of their groups."""
        order = {name: i for i, name in enumerate(names)}
        made = self.optimizer.state
        for parameter, _ in self._parameters.values():
            if parameter in made:
                slots = made.pop(parameter)
                made[parameter] = dict(sorted(slots.items(), key=lambda item: order.get(str(item[0]), len(order))))

    def _order_then(self, saved: Any) -> tuple[list[str], list[str]]:
        """Names of slots, and of each group's first parameter, as a checkpoint has them."""
        if isinstance(saved, list):  # as it was saved before groups had a part in it
            saved = {"slots": saved}
        if not isinstance(saved, dict):
            raise damaged(f"{self.prefix}/slots", "it has no lists of names")
        slots, first_names = saved.get("slots", []), saved.get("groups", [])
        for names in (slots, first_names):
            if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
                raise damaged(f"{self.prefix}/slots", "it has no lists of names")
        return slots, first_names

    def _first_names(self) -> list[str]:
        """What tells groups apart when they come in another order: the name of the first parameter."""
        groups = [group["params"] for group in self.optimizer.param_groups]
        return [self._parameters[id(parameters[0])][1] if parameters else "" for parameters in groups]

    def _numbers_then(self, first_names: list[str]) -> list[int | None]:
        """The number of each group when it was saved; None: the group of that number is another one now."""
        numbers = {name: i for i, name in enumerate(first_names) if name}
        now = self._first_names()
        elsewhere = {numbers[name] for name in now if name in numbers}
        return [numbers.get(name, None if i in elsewhere else i) for i, name in enumerate(now)]

    def _group_name(self, i: int, key: str) -> str:
        return f"{self.prefix}/param_groups/{i}/{escape(key)}"


#: Keys of a parameter group that say how a step is computed, not what: each process has its own.
_NOT_SAVED = frozenset({"params", "foreach", "fused", "capturable", "differentiable", "param_names"})


#: Keys that schedulers change while training goes on: another value is no difference.
_SCHEDULED = frozenset({"lr", "momentum", "betas", "weight_decay"})


def _hyperparameter(value: Any) -> Any:
    """As JSON: numbers, texts and None as they are, tuples as lists."""
    if hasattr(value, "dtype") and math.prod(value.shape) == 1:
        value = value.item()  # a learning rate may be a tensor, or of NumPy
    if isinstance(value, (tuple, list)):
        return [_hyperparameter(one) for one in value]
    skeleton, tensors = flatten(value, "")
    if tensors:
        raise UsageError(f"a hyperparameter is a number, a text or the like, not {type(value).__qualname__}")
    return skeleton


def _like(old: Any, new: Any) -> Any:
    """A hyperparameter of the checkpoint as the optimizer has it: tuples as tuples."""
    if isinstance(old, tuple) and isinstance(new, list):
        return type(old)(rebuild(one, {}) for one in new)
    return [rebuild(one, {}) for one in new] if isinstance(new, list) else rebuild(new, {})


class ObjectPart(Part):
    """An object whose state is nested data: a value that says how it is nested, and its tensors.

    Args:
        name: of the value's entry, and before the names of the tensors.
        get: gives its state.
        put: takes its state over.
        copied: its tensors may change at any time.
    """

    def __init__(self, name: str, get: Callable[[], Any], put: Callable[[Any], object], copied: bool = True) -> None:
        self.name = name
        self._get = get
        self._put = put
        self._copied = copied
        self._supplied: dict[str, torch.Tensor] = {}

    def prepare(self) -> None:
        skeleton, tensors = flatten(self._get(), self.name)
        self._skeleton, packed = pack_skeleton(skeleton, self.name)
        self._tensors = {**tensors, **packed}
        self._supplied = {}

    def tensors(self) -> Iterator[Live]:
        for name, tensor in self._tensors.items():
            yield Live(name, tensor, self._copied, {"role": "other"})

    def fingerprint(self) -> list[Any]:
        if not self._copied:
            return [id(tensor) for tensor in self._tensors.values()]
        return [(name, tensor.shape, tensor.dtype) for name, tensor in self._tensors.items()]

    def values(self) -> dict[str, Value]:
        return {self.name: (Json(self._skeleton), "other", False)}

    def supply(self, entry: Entry) -> torch.Tensor | None:
        if not entry.name.startswith(self.name + "/"):
            return None
        tensor = empty(entry)
        if tensor is not None:
            self._supplied[entry.name] = tensor
        return tensor

    def restored(self, state: State) -> None:
        if self.name in state:
            supplied = {name: tensor for name, tensor in self._supplied.items() if name in state}
            tensors = {**self._tensors, **supplied}
            self._put(rebuild(unpack_skeleton(state[self.name], tensors, self.name), tensors, self.name))


class RankPart(Part):
    """An object of which each rank has its own state: random state, the position in the data.

    Args:
        name: of the entry.
        role: of the entry.
        get: gives its state.
        put: takes its state over.
        comparable: whether a state is the same as another is told by ``==``: it has no tensors.
    """

    def __init__(
        self,
        name: str,
        role: str,
        get: Callable[[], Any],
        put: Callable[[Any], object],
        comparable: bool = False,
    ) -> None:
        self.name = name
        self._role = role
        self._get = get
        self._put = put
        self._comparable = comparable
        self._last: tuple[Any, bytes] | None = None

    def values(self) -> dict[str, Value]:
        state = self._get()
        if self._last is not None and self._last[0] == state:
            return {self.name: (self._last[1], self._role, True)}
        packed = dumps(state, self.name)
        if self._comparable:
            self._last = state, packed
        return {self.name: (packed, self._role, True)}

    def placeholders(self) -> dict[str, Value]:
        return {self.name: (b"", self._role, True)}  # asking a data loader would start it

    def restored(self, state: State) -> None:
        data = state.get(self.name)
        if data:  # nothing: it is to stay as it is
            self._put(loads(data, self.name))


class StepPart(Part):
    """How far training is."""

    name = "training/step"

    def __init__(self, get: Callable[[], int], put: Callable[[int], None]) -> None:
        self._get = get
        self._put = put

    def values(self) -> dict[str, Value]:
        return {self.name: (self._get(), "step", False)}

    def restored(self, state: State) -> None:
        if self.name in state:
            self._put(state[self.name])


class TensorPart(Part):
    """A tensor that the user names; it may change at any time."""

    def __init__(self, name: str, tensor: torch.Tensor, by_reference: Callable[[], set[int]]) -> None:
        self._name = name
        self._tensor = tensor
        self._by_reference = by_reference

    def fingerprint(self) -> list[Any]:
        return [id(self._tensor)]

    def tensors(self) -> Iterator[Live]:
        copied = id(self._tensor) not in self._by_reference()
        yield Live(self._name, self._tensor, copied, {"role": "other"})


#: A value of the state may have so many bytes; a larger one becomes a tensor of bytes.
_MAX_VALUE_BYTES = 1 << 20
_PACKED = {"$": "packed"}


def pack_skeleton(skeleton: Any, name: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """What is too large for a value as a tensor, and a value that says so."""
    text = json.dumps(skeleton, separators=(",", ":")).encode()
    if len(text) <= _MAX_VALUE_BYTES:
        return skeleton, {}
    return _PACKED, {f"{name}/%skeleton": torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def unpack_skeleton(skeleton: Any, tensors: Mapping[str, torch.Tensor], name: str) -> Any:
    """The opposite of `pack_skeleton`."""
    if skeleton != _PACKED:
        return skeleton
    packed = tensors.get(f"{name}/%skeleton")
    if packed is None or packed.dtype != torch.uint8:
        raise damaged(name, "the tensor that says how it is nested is missing")
    try:
        return json.loads(bytes_of(packed))
    except (ValueError, RecursionError) as why:
        raise damaged(name, f"what says how it is nested is no JSON ({why})") from None


def put_position(loader: Any, position: Any) -> None:
    """Lets a data loader go on at a position.

    ``iter(loader)`` draws a random number. It is drawn here, before random state is restored: the
    iterator that ``state_dict`` makes is the one that the next ``iter(loader)`` gives.
    """
    loader.load_state_dict(position)
    loader.state_dict()


def dumps(value: Any, name: str) -> bytes:
    """Nested data with its tensors inside, as bytes."""
    skeleton, tensors = flatten(value, name)
    listed = {path: flatten(_tensor_parts(tensor), path)[0] for path, tensor in tensors.items()}
    return json.dumps({"value": skeleton, "tensors": listed}, separators=(",", ":")).encode()


def _tensor_parts(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return DTYPES[tensor.dtype].name, tuple(tensor.shape), bytes_of(tensor)


def loads(data: bytes, name: str) -> Any:
    """What `dumps` made bytes of. Nothing of it is trusted.

    Raises:
        Damaged: it is something else.
    """
    try:
        parsed = json.loads(data)
        tensors = {path: _tensor_of(*rebuild(listed, {}, name)) for path, listed in parsed["tensors"].items()}
        skeleton = parsed["value"]
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as why:
        raise damaged(name, f"it is not what was saved there ({why!r})") from None
    return rebuild(skeleton, tensors, name)


def _tensor_of(dtype: str, shape: tuple[int, ...], raw: bytes) -> torch.Tensor:
    of = TORCH_DTYPES[dtype]
    flat = torch.frombuffer(bytearray(raw), dtype=of) if raw else torch.empty(0, dtype=of)
    return flat.reshape(shape)


def extra_parts(extra: Mapping[str, Any], by_reference: Callable[[], set[int]]) -> list[Part]:
    """What the user saves beside model and optimizer."""
    parts: list[Part] = []
    for key, value in extra.items():
        name = f"extra/{escape(key)}"
        if isinstance(value, torch.nn.Module):
            parts.append(ModelPart(value, name, by_reference, "other"))
        elif isinstance(value, torch.Tensor):
            parts.append(TensorPart(name, value, by_reference))
        elif hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            parts.append(ObjectPart(name, value.state_dict, value.load_state_dict))
        elif isinstance(value, dict):
            parts.append(ObjectPart(name, value.copy, _Replace(value)))
        else:
            raise UsageError(
                f"extra[{key!r}] is a {type(value).__qualname__}; what is saved is a module, a tensor, a dict, or has "
                "state_dict() and load_state_dict()"
            )
    return parts


class _Replace:
    """Puts a restored dictionary into the user's own."""

    def __init__(self, kept: dict[Any, Any]) -> None:
        self._kept = kept

    def __call__(self, found: dict[Any, Any]) -> None:
        self._kept.clear()
        self._kept.update(found)
