# SPDX-License-Identifier: Apache-2.0
"""What the graph of objects has to save, by names that stand for the object and not for what the process has made.

Objects are found as TensorFlow finds them, by the attributes of trackable objects. A variable of a Keras
model is named as ``pawl.keras`` names it, by its layer (``model/dense/kernel``), other variables by the
attributes that lead to them (``module/blocks/0/w``), slots by their variable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow
from tensorflow.python.trackable import base

from .._error import UsageError
from . import _tpu
from ._values import variable_of

#: Attributes of Keras's optimizers that have everything: a way through them is the last choice.
LAST = ("_variables", "_trainable_variables")


def escape(component: str) -> str:
    """A component of an entry's name, which has no "/", and is neither "." nor ".."."""
    escaped = "".join(f"%{ord(c):02X}" if c in "/%" or ord(c) < 0x20 or ord(c) == 0x7F else c for c in component)
    if escaped in (".", ".."):
        return escaped.replace(".", "%2E")
    return escaped or "%"


def join(*parts: str) -> str:
    """Parts of a name; some may be empty."""
    return "/".join(filter(None, parts))


#: Layers that are adapted instead of built, and have no variables until then.
_ADAPTED = "keras.src.layers.preprocessing."


class Leaf(NamedTuple):
    """Something that is saved.

    Attributes:
        name: of its entry; "": only bundles of TensorFlow have it so.
        way: the shortest way to it in the graph of objects, which is its name in a bundle of TensorFlow; "":
            TensorFlow does not save it.
        found: a variable; one in parts; or an object that only TensorFlow can make bytes of.
        what: role, or slot_of and slot, as of ``pawl.Tensor``.
        kind: "variable", "sharded", "opaque".
    """

    name: str
    way: str
    found: Any
    what: Mapping[str, str]
    kind: str = "variable"


class Node(NamedTuple):
    """An object, and the shortest way to it."""

    way: str
    found: Any


def keras_class(name: str) -> Any:
    """A class of Keras, such as "layers.Layer", or () where Keras is not in use: for isinstance()."""
    found: Any = sys.modules.get("keras")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else ()


def is_variable(found: Any) -> bool:
    """Of TensorFlow or Keras?"""
    return isinstance(variable_of(found), tensorflow.Variable) and not _tpu.is_in_parts(found)


def is_sharded(found: Any) -> bool:
    """Is it a variable in parts, on several parameter servers, or on the hosts or cores of TPUs?"""
    return type(found).__name__ == "ShardedVariable" or _tpu.is_in_parts(found)


def parts_of(found: Any) -> list[Any]:
    """The variables of which one in parts is made, along its first dimension."""
    return list(found.variables if hasattr(found, "variables") else found.values)


def is_optimizer(found: Any) -> bool:
    """Of Keras?"""
    return isinstance(found, keras_class("optimizers.Optimizer"))


def is_layer(found: Any) -> bool:
    """A layer or model of Keras?"""
    return isinstance(found, keras_class("layers.Layer"))


def is_of_keras_alone(found: Any) -> bool:
    """A metric or a seed generator of Keras, which are not trackable?"""
    return isinstance(found, (keras_class("metrics.Metric"), keras_class("random.SeedGenerator")))


def is_opaque(found: Any) -> bool:
    """Is it something that TensorFlow saves, and no variable: a table, an iterator, a PythonState?"""
    made = getattr(type(found), "_serialize_to_tensors", None)
    return made is not None and made is not base.Trackable._serialize_to_tensors


def key_of(variable: Any) -> int:
    """The same of a variable of Keras and of that of TensorFlow which it stands for."""
    return id(variable_of(variable))


def children_of(found: Any, root: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """The trackable objects in the attributes of another."""
    if root is not None:
        yield from root.items()
        return
    if is_variable(found) or is_sharded(found) or is_of_keras_alone(found):
        return
    yield from tensorflow.train.TrackableView(found).children(found).items()


def _of_keras_alone_in(module: Any) -> Iterator[tuple[str, Any]]:
    """Metrics and seed generators in attributes of a module, which TensorFlow does not track, with the way to each."""
    if not isinstance(module, tensorflow.Module) or is_layer(module):
        return
    for name, value in vars(module).items():
        listed = enumerate(value) if isinstance(value, (list, tuple)) else [(None, value)]
        for i, one in listed:
            if is_of_keras_alone(one):
                yield escape(name) if i is None else f"{escape(name)}/{i}", one


def nodes_of(root: Mapping[str, Any], deep: bool = True) -> list[Node]:
    """All objects, each by the shortest way to it, as ``pawl.open`` names those of TensorFlow's checkpoints.

    Args:
        root: the objects that are given, by name.
        deep: look inside of Keras's layers and optimizers, too.
    """
    nodes: list[Node] = []
    seen: set[int] = set()
    queue: list[tuple[str, Any, Any]] = [("", None, root)]
    later: list[tuple[str, str, Any]] = []

    def visit(way: str, child: Any) -> None:
        key = key_of(child)
        if key not in seen:
            seen.add(key)
            nodes.append(Node(way, child))
            if deep or not (is_layer(child) or is_optimizer(child)):
                queue.append((way, child, None))

    while queue or later:
        if not queue:
            way, name, child = later.pop(0)
            visit(join(way, escape(name)), child)
            continue
        way, found, given = queue.pop(0)
        for name, child in children_of(found, given):
            if name in LAST:
                later.append((way, name, child))
            else:
                visit(join(way, escape(name) if name else ""), child)
        for below, child in _of_keras_alone_in(found):
            visit(join(way, below), child)
    return nodes


def fingerprint_of(root: Mapping[str, Any]) -> list[int]:
    """Changes where a variable or another object comes, goes, or is made anew."""
    found: list[int] = []
    for node in nodes_of(root, deep=False):
        found.append(id(node.found))
        if is_layer(node.found) or is_optimizer(node.found) or isinstance(node.found, keras_class("metrics.Metric")):
            found.extend(map(id, node.found.variables))
        if is_optimizer(node.found):
            found.extend(map(id, _own_variables(node.found)))
    return found


def require_built(way: str, model: Any) -> None:
    """Refuses a Keras model or layer that has no variables yet, by its name and that of a layer in it.

    Raises:
        UsageError: it is not built.
    """
    layers = (model, *model._flatten_layers(include_self=False))
    unbuilt = [layer for layer in layers if not layer.built and not type(layer).__module__.startswith(_ADAPTED)]
    if not unbuilt:
        return
    first = unbuilt[-1]
    of = "" if first is model else f", its {type(first).__name__} {first.name!r} for one"
    error = UsageError(
        f"{way or 'the root'}: the {type(model).__name__} {model.name!r} is not built: its variables are not made "
        f"yet{of}; what is restored into it now would be lost when they are"
    )
    error.entry = way
    error.next = "call it with a batch of data, or build(input_shape), first"
    raise error


class Names:
    """The names of all that is saved.

    Args:
        root: the objects that are given, by name.

    Attributes:
        leaves: variables and opaque objects, without those of optimizers.
        optimizers: Keras's, with the way to each.
        embeddings: of TPUs, with the way to each.
        units: Keras's models and layers that are in no other, with the way to each.
        named: of variables, by `key_of`: the name of the entry.
        ways: of all objects, by `key_of`: the shortest way.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        nodes = nodes_of(root)
        self.leaves: list[Leaf] = []
        self.ways = {key_of(node.found): node.way for node in nodes}
        self.named: dict[int, str] = {}
        self.optimizers = _outermost([node for node in nodes if is_optimizer(node.found)])
        self.embeddings = [node for node in nodes if _tpu.is_embedding(node.found)]
        self.units: list[Node] = []
        self._all: list[Leaf] | None = None
        own = {key_of(variable) for node in self.optimizers for variable in _own_variables(node.found)}
        random = [node.way for node in nodes if isinstance(node.found, tensorflow.random.Generator)]
        covered: set[int] = set()
        for node in nodes:
            if is_layer(node.found) and id(node.found) not in covered:
                covered.update(map(id, node.found._flatten_layers()))
                require_built(node.way, node.found)
                if any(key_of(variable) not in self.named for variable in node.found.variables):
                    self.units.append(node)  # a Sequential has a model inside that has the same
                    self._layer(node)
        for node in self.embeddings:
            _tpu.require_built(node.way, node.found)
        for node in nodes:
            if key_of(node.found) not in own and not any(f"/{name}/" in f"/{node.way}/" for name in LAST):
                self._other(node, random)
        for optimizer in self.optimizers:  # variables that nothing else leads to
            for variable in getattr(optimizer.found, "_trainable_variables", ()):
                self._add(Leaf(self.ways[key_of(variable)], self.ways[key_of(variable)], variable, {"role": "model"}))

    def all_leaves(self) -> list[Leaf]:
        """With those of optimizers."""
        from ._optimizers import optimizer_leaves

        if self._all is None:
            self._all = [*self.leaves, *(leaf for node in self.optimizers for leaf in optimizer_leaves(node, self))]
        return self._all

    def _add(self, leaf: Leaf) -> None:
        if key_of(leaf.found) not in self.named:
            self.named[key_of(leaf.found)] = leaf.name
            self.leaves.append(leaf)

    def _layer(self, node: Node) -> None:
        from ..keras._names import variable_names

        for name, variable in variable_names(node.found, prefix=node.way or "."):
            entry = name.removeprefix("./") if not node.way else name
            role = "rng" if entry.rsplit("/", 1)[-1] == "seed_generator_state" else "model"
            self._add(Leaf(entry, self.ways.get(key_of(variable), ""), variable, {"role": role}))

    def _other(self, node: Node, random: list[str]) -> None:
        found, way = node.found, node.way
        if is_variable(found):
            role = "rng" if any(way.startswith(f"{one}/") for one in random) else "model"
            if "/" not in way and found.dtype.is_integer and found.shape.rank == 0:
                role = "step"
            self._add(
                Leaf(way, way, found, {"role": role}, "opaque" if found.dtype == tensorflow.string else "variable")
            )
        elif is_sharded(found):
            self._add(Leaf(way, way, found, {"role": "model"}, "sharded"))
            self.named.update((key_of(part), way) for part in parts_of(found))
        elif is_opaque(found):
            role = "data_position" if isinstance(found, tensorflow.data.Iterator) else "other"
            self._add(Leaf(way, way, found, {"role": role}, "opaque"))
        elif isinstance(found, keras_class("random.SeedGenerator")):
            name = join(way, "seed_generator_state")
            self._add(Leaf(name, self.ways.get(key_of(found.state), ""), found.state, {"role": "rng"}))
        elif isinstance(found, keras_class("metrics.Metric")):
            for variable in found.variables:
                name = join(way, *map(escape, variable.path.split("/")[1:]))
                self._add(Leaf(name, self.ways.get(key_of(variable), ""), variable, {"role": "other"}))
        elif isinstance(found, tensorflow.compat.v1.train.Optimizer):
            error = UsageError(f"{way} is a {type(found).__name__} of tf.compat.v1, whose slots cannot be found")
            error.entry, error.next = way, "use the optimizer of that name in tf.keras.optimizers"
            raise error


def _own_variables(optimizer: Any) -> list[Any]:
    """Without the model's."""
    from ._optimizers import variables_in

    inner = getattr(optimizer, "inner_optimizer", None)
    return [*variables_in(optimizer), *(variables_in(inner) if inner is not None else ())]


def _outermost(nodes: list[Node]) -> list[Node]:
    inside = {id(getattr(node.found, "inner_optimizer", None)) for node in nodes}
    return [node for node in nodes if id(node.found) not in inside]
