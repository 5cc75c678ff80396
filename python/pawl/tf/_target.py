# SPDX-License-Identifier: Apache-2.0
"""A state that a checkpoint is saved from or restored into, made of what the graph of objects has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy
import tensorflow

from .._checkpoint import Checkpoint as Opened
from .._error import Damaged, Unsupported
from .._state import Box, State, Tensor
from . import _opaque, _tpu
from ._graph import Leaf, Names, join, key_of
from ._graph import parts_of as parts_in
from ._optimizers import hyperparameters, set_hyperparameters
from ._tf_keras import GRAPH, entries_for, variables_of_tf_keras, without_underscore
from ._values import aligned, assign, hold, hold_all, is_on_read, replicas_of, variable_of

#: Types of less than a byte, one element to a byte, as what they are saved.
_BYTES = {"int2": numpy.int8, "int4": numpy.int8, "uint2": numpy.uint8, "uint4": numpy.uint8}
#: The entry that says of which these are.
_NARROW = "tensorflow/narrow"
#: What a bundle of TensorFlow has that no object is.
_OF_BUNDLES = (GRAPH, "save_counter")


def _as_bytes(array: Any) -> Any:
    wide = _BYTES.get(array.dtype.name)
    return array if wide is None else array.view(wide)


def _offsets(leaf: Leaf) -> list[int]:
    """Where the parts of a variable in parts begin: they are cut along the first dimension."""
    found, at = [], 0
    for part in parts_in(leaf.found):
        found.append(at)
        at += part.shape[0]
    return found


class Place(NamedTuple):
    """Which of the processes that save together this one is."""

    rank: int = 0
    size: int = 1


#: Before the name of a variable: all replicas' values of it, one after the other.
_REPLICAS = "replicas/"


def _alone(leaf: Leaf) -> list[Any]:
    """The replicas of a variable of which each has its own value; none of another.

    Such are Keras's averages of BatchNormalization, seeds, and what is read as one value of all (ON_READ).
    """
    one = variable_of(leaf.found) if leaf.kind == "variable" else None
    if not isinstance(one, tensorflow.distribute.DistributedValues) or "slot_of" in leaf.what or one.trainable:
        return []
    alone = one.aggregation == tensorflow.VariableAggregation.NONE or is_on_read(one)
    return list(replicas_of(one)) if alone else []


def _rows(arrays: list[Any], place: Place) -> Tensor:
    """What the replicas of this process have, as rows of what all have."""
    first, shape = place.rank * len(arrays), arrays[0].shape
    boxes = [Box((first + i, *(0,) * len(shape)), _as_bytes(array)[None]) for i, array in enumerate(arrays)]
    return Tensor(boxes, shape=(place.size * len(arrays), *shape), role="other")


def _tensor(leaf: Leaf, arrays: list[Any], what: Mapping[str, str], place: Place) -> Tensor:
    arrays = [_as_bytes(array) for array in arrays]
    found: Any
    shape: tuple[int, ...] | None
    if leaf.kind == "sharded":
        rest = (0,) * (len(arrays[0].shape) - 1)
        boxes = [Box((at, *rest), array) for at, array in zip(_offsets(leaf), arrays, strict=True)]
        found, shape = boxes, tuple(leaf.found.shape)
    elif place.size > 1 and arrays[0].ndim > 0 and _alone(leaf) and not is_on_read(leaf.found):
        mine = arrays[0] if place.rank == 0 else arrays[0][:0]  # each has its own; the first one's stands for all
        found, shape = [Box((0,) * mine.ndim, mine)], arrays[0].shape
    else:
        found, shape = arrays[0], None
    return Tensor(
        found,
        role=what.get("role"),
        slot_of=what.get("slot_of"),
        slot=what.get("slot"),
        shape=shape,
        replicated=place.size > 1 and not isinstance(found, list),
    )


def parts_of(leaf: Leaf) -> list[Any]:
    """The variables of which it is made."""
    return parts_in(leaf.found) if leaf.kind == "sharded" else [leaf.found]


def _set_settings(state: State, names: Names) -> None:
    for node in names.optimizers:
        for name, value in hyperparameters(node).items():
            if name == join(node.way, "class"):
                state.set(name, value, role="hyperparameter")
            else:
                state.set_json(name, value, role="hyperparameter")


def _narrow(leaves: list[Leaf]) -> dict[str, str]:
    found = {}
    for leaf in leaves:
        if leaf.kind == "variable" and variable_of(leaf.found).dtype.name in _BYTES:
            found[leaf.name] = variable_of(leaf.found).dtype.name
    return found


def saved_state(names: Names, place: Place = Place()) -> State:  # noqa: B008 (it is a tuple)
    """The present values of everything, held: no update of a variable changes them.

    Args:
        names: of what is saved.
        place: of this process.

    Raises:
        Unsupported: something that TensorFlow cannot make bytes of, by its name.
    """
    for node in names.embeddings:
        _tpu.retrieve(node.way, node.found)
    leaves = [leaf for leaf in names.all_leaves() if leaf.name]
    tensors = [leaf for leaf in leaves if leaf.kind != "opaque"]
    alone = {leaf.name: _alone(leaf) for leaf in tensors}
    wanted = [(leaf.name, part) for leaf in tensors for part in parts_of(leaf)]
    held = iter(hold_all([*wanted, *((name, one) for name, of in alone.items() for one in of)]))
    arrays = {leaf.name: [next(held) for _ in parts_of(leaf)] for leaf in tensors}
    state = State()
    state.update({leaf.name: _tensor(leaf, arrays[leaf.name], leaf.what, place) for leaf in tensors})
    state.update({_REPLICAS + name: _rows([next(held) for _ in of], place) for name, of in alone.items() if of})
    for leaf in leaves:
        if leaf.kind == "opaque":
            state.set(leaf.name, _opaque.to_bytes(leaf.name, leaf.found), role=leaf.what["role"], per_rank=True)
    _set_settings(state, names)
    narrow = _narrow(leaves)
    if narrow:
        state.set_json(_NARROW, narrow, role="other")
    return state


def is_bundle(checkpoint: Opened) -> bool:
    """Does it have the names of a bundle of TensorFlow: one, or a run that one was converted into?"""
    return checkpoint.format.startswith("TensorFlow") or _OF_BUNDLES[0] in checkpoint


def _entries_of_tf_keras(names: Names, checkpoint: Opened) -> dict[str, str]:
    """The entries of variables whose way in the graph of objects is another in Keras 2."""
    missing = {leaf.name: leaf.way for leaf in names.leaves if leaf.kind == "variable" and leaf.way not in checkpoint}
    found = {name: without_underscore(way) for name, way in missing.items() if without_underscore(way) in checkpoint}
    old = variables_of_tf_keras(checkpoint) if len(found) < len(missing) else {}
    return {**entries_for(missing, old), **found}


class Target:
    """Memory to restore into, which becomes the values of the variables when all of it is there.

    Args:
        names: of what is restored.
        checkpoint: that is restored, or another step of its run.
        keep: what is not restored is to stay as it is.
        place: of this process.

    Attributes:
        state: to restore into.
    """

    def __init__(
        self,
        names: Names,
        checkpoint: Opened,
        keep: bool = False,
        place: Place = Place(),  # noqa: B008 (it is a tuple)
    ) -> None:
        self.state = State()
        self._names = names
        self._bundle = is_bundle(checkpoint)
        self._memory: list[tuple[Leaf, list[Any]]] = []
        self._opaque: list[tuple[str, Leaf]] = []
        self._replicas: list[tuple[Any, Any]] = []
        self._old = _entries_of_tf_keras(names, checkpoint) if self._bundle else {}
        for node in names.embeddings if keep else ():
            _tpu.retrieve(node.way, node.found)
        leaves = [leaf for leaf in names.all_leaves() if self._name_of(leaf)]
        ways = {name: self._old.get(name, names.ways.get(key, "")) for key, name in names.named.items()}
        entries = {}
        for leaf in leaves:
            if leaf.kind == "opaque":
                self._opaque.append((self._name_of(leaf), leaf))
                continue
            arrays = [_memory_for(part, keep, self._name_of(leaf), checkpoint) for part in parts_of(leaf)]
            what = dict(leaf.what)
            if self._bundle and "slot_of" in what:
                what["slot_of"] = ways[what["slot_of"]]
            self._memory.append((leaf, arrays))
            entries[self._name_of(leaf)] = _tensor(
                leaf, arrays, what, Place() if place.size == 1 else place._replace(rank=0)
            )
        self.state.update(entries)
        if self._bundle:
            self._add_of_bundle(checkpoint)
            return
        self._add_replicas(checkpoint, {leaf.name: _alone(leaf) for leaf in leaves}, place)
        for name, leaf in self._opaque:
            self.state.set(name, b"", role=leaf.what["role"], per_rank=True)
        _set_settings(self.state, names)
        narrow = _narrow(leaves)
        if narrow:
            self.state.set_json(_NARROW, narrow, role="other")

    def _name_of(self, leaf: Leaf) -> str:
        return self._old.get(leaf.name, leaf.way) if self._bundle else leaf.name

    def _add_replicas(self, checkpoint: Opened, alone: Mapping[str, list[Any]], place: Place) -> None:
        """What each replica had; where there are more or fewer now, it is read and left."""
        for entry in checkpoint.entries(_REPLICAS):
            of = alone.get(entry.name.removeprefix(_REPLICAS), [])
            if of and entry.shape == (place.size * len(of), *of[0].shape):
                rows = [aligned(tuple(one.shape), one.dtype) for one in of]
                self.state[entry.name] = _rows(rows, place)
                self._replicas += zip(of, rows, strict=True)
            else:
                self.state[entry.name] = Tensor(checkpoint[entry.name].read(), role="other")

    def _add_of_bundle(self, checkpoint: Opened) -> None:
        for name, leaf in self._opaque:
            for entry in checkpoint.entries(name):
                if entry.name == name or entry.name.startswith((f"{name}/table-", f"{name}/py_state")):
                    self._place_for(checkpoint, entry.name)
                elif entry.name == f"{name}/ITERATOR_STATE":
                    error = Unsupported(f"{entry.name} is the state of an iterator, which TensorFlow alone can read")
                    error.entry = entry.name
                    error.next = "restore it by tf.train.Checkpoint, or leave the iterator out and skip() what was read"
                    raise error
            del leaf
        for name in _OF_BUNDLES:
            if name in checkpoint and name not in self.state:
                self._place_for(checkpoint, name)

    def _place_for(self, checkpoint: Opened, name: str) -> None:
        """A place for an entry, of whatever kind it is."""
        entry = checkpoint.entry(name)
        if entry.kind == "tensor":
            self.state[name] = Tensor(checkpoint[name].read(), role=entry.role.replace("_", " "))
        elif entry.kind == "json":
            self.state.set_json(name, checkpoint[name], role=entry.role)
        else:
            self.state.set(name, checkpoint[name], role=entry.role)

    # ---- when it is restored ----

    def finish(self) -> None:
        """Gives all objects what was restored."""
        if not self._bundle:
            self._refuse_narrow()
        waiting = [(name, leaf, self._tensors_of(name, leaf)) for name, leaf in self._opaque]
        for name, leaf, tensors in waiting:
            if _tpu.is_layouts(leaf.found):
                _tpu.require_layouts(name, leaf.found, tensors)
        _opaque.put_all([(name, leaf.found, tensors) for name, leaf, tensors in waiting if tensors])
        for leaf, arrays in self._memory:
            for part, array in zip(parts_of(leaf), arrays, strict=True):
                assign(part, array)
        self._memory.clear()
        for one, array in self._replicas:
            assign(one, array)
        self._replicas.clear()
        for node in self._names.embeddings:
            _tpu.load(node.way, node.found)
        for node in self._names.optimizers if not self._bundle else ():
            prefix = join(node.way, "")
            found = {
                name: self.state[name] for name in self.state if name.startswith(prefix) and _is_value(self.state, name)
            }
            if set_hyperparameters(node, found):
                self._compile_anew(node.found)

    def _compile_anew(self, optimizer: Any) -> None:
        """Numbers that an optimizer is set to are compiled into the steps of ``fit``."""
        for unit in self._names.units:
            if getattr(unit.found, "optimizer", None) is optimizer and unit.found.train_function is not None:
                unit.found.make_train_function(force=True)

    def _refuse_narrow(self) -> None:
        """Bytes of int8 are no int4."""
        now = _narrow([leaf for leaf, _ in self._memory])
        saved = self.state.get(_NARROW, {})
        for name, dtype in now.items():
            if saved.get(name, dtype) != dtype:
                error = Damaged(f"{name}: elements of {saved[name]} for a variable of {dtype}")
                error.entry = name
                raise error

    def _tensors_of(self, name: str, leaf: Leaf) -> dict[str, Any]:
        if not self._bundle:
            data = self.state.get(name)
            return _opaque.tensors_from(name, data) if data else {}
        below = {entry: self.state[entry] for entry in self.state if entry.startswith(f"{name}/") or entry == name}
        return _opaque.tensors_of_bundle(name, leaf.found, below)


def _is_value(state: State, name: str) -> bool:
    return not hasattr(state[name], "dtype") and not isinstance(state[name], list)


def _memory_for(variable: Any, keep: bool, name: str, checkpoint: Opened) -> Any:
    one = variable_of(variable)
    known = one.shape.is_fully_defined()
    now: Any = None if known and not keep else hold(one)
    shape = tuple(one.shape) if known else now.shape
    if not known and name in checkpoint:  # it may have any shape that fits, such as that which was saved
        saved = checkpoint.entry(name).shape
        shape = saved if one.shape.is_compatible_with(saved) else shape
    memory = aligned(shape, one.dtype)
    if keep and now.shape == shape:
        memory[...] = now
    return memory


# ---- optimizers that have no slots yet -----------------------------------------------------------


def build_optimizers(names: Names, checkpoint: Opened) -> bool:
    """Makes the slots of optimizers that have none yet, where the checkpoint has some; were there any?

    An optimizer is built for all variables of the models in which those are that have slots.
    """
    any_built = False
    bundle = is_bundle(checkpoint)
    by_name = {(names.ways.get(key_of(leaf.found), "") if bundle else leaf.name): leaf.found for leaf in names.leaves}
    for node in names.optimizers:
        if node.found.built:
            continue
        wanted = []
        for entry in checkpoint.entries(join(node.way, "") + "/" if node.way else ""):
            if entry.role == "slot" and entry.slot_of in by_name:
                wanted.append(by_name[entry.slot_of])
        if wanted:
            _build(node.found, _trained_with(names, wanted))
            any_built = True
    return any_built


def _trained_with(names: Names, wanted: list[Any]) -> list[Any]:
    keys = {key_of(variable) for variable in wanted}
    found: dict[int, Any] = {}
    for unit in names.units:
        trainable = {key_of(variable): variable for variable in unit.found.trainable_variables}
        if keys & trainable.keys():
            found.update(trainable)
    found.update((key_of(variable), variable) for variable in wanted if key_of(variable) not in found)
    return list(found.values())


def _build(optimizer: Any, variables: list[Any]) -> None:
    strategy = getattr(variable_of(variables[0]), "distribute_strategy", None)
    if strategy is not None:
        with strategy.scope():
            optimizer.build(variables)
    else:
        optimizer.build(variables)
