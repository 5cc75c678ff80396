# SPDX-License-Identifier: Apache-2.0
"""Names of a Keras model's variables, which stand for the variable and not for what else the process has made.

Keras numbers layers through the whole process: ``dense_7`` is what the eighth ``Dense`` is called, whichever model it
is in. Here such names are numbered anew within each layer of one model, in the order of its variables, and the model's
own name is left out: ``sequential_3/dense_7/kernel`` is ``dense/kernel`` in a model that has no other ``Dense``.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._error import UsageError

#: Attributes in which Keras keeps lists of what is below other attributes, too.
_LISTS = re.compile(
    r"_(self_.*|layers|tracker|metrics|operations\w*|trainable_variables|non_trainable_variables|seed_generators|"
    r"inbound_nodes|outbound_nodes|functional|loss_tracker|compile_\w+|losses\w*|modules|parameters|buffers|inputs|"
    r"outputs|nodes\w*|optimizer)"
)
_MAX_DEPTH = 32
#: Names of models, and of what: to find them takes longer than to hold the values.
_found: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], list[tuple[str, Any]]]] = weakref.WeakKeyDictionary()


def escape(component: str) -> str:
    """A component of an entry's name, which has no "/", and is neither "." nor ".."."""
    escaped = "".join(f"%{ord(c):02X}" if c in "/%" or ord(c) < 0x20 or ord(c) == 0x7F else c for c in component)
    if escaped in (".", ".."):
        return escaped.replace(".", "%2E")
    return escaped or "%"


def snake_case(name: str) -> str:
    """What Keras makes the name of a layer from: ``LSTMCell`` becomes ``lstm_cell``."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class Renumbered:
    """Paths whose automatic names are numbered anew below each parent, in the order in which they come.

    Args:
        classes: names that Keras gives by itself, without their numbers, such as "dense".
    """

    def __init__(self, classes: Iterable[str]) -> None:
        self._classes = frozenset(classes)
        self._names: dict[tuple[str, str], str] = {}  # parent as it is named here, component: its name
        self._counts: dict[tuple[str, str], int] = {}

    @property
    def numbered(self) -> frozenset[str]:
        """Paths that have siblings of the same class, the first among them."""
        found = {"/".join(filter(None, key)) for key, count in self._counts.items() if count > 1}
        return frozenset(
            "/".join(filter(None, [parent, named]))
            for (parent, component), named in self._names.items()
            if "/".join(filter(None, [parent, self._base(component)])) in found
        )

    def _base(self, component: str) -> str:
        base = re.sub(r"_\d+$", "", component)
        if base not in self._classes and component in self._classes:  # a class whose name ends with a number
            base = component
        return base

    def __call__(self, components: Iterable[str]) -> str:
        """The path of these components, escaped and numbered."""
        path = ""
        for component in components:
            named = self._names.get((path, component))
            if named is None:
                named = self._names[path, component] = self._new(path, component)
            path = f"{path}/{named}" if path else named
        return path

    def _new(self, parent: str, component: str) -> str:
        base = self._base(component)
        if base not in self._classes:
            return escape(component)
        number = self._counts.get((parent, base), 0)
        self._counts[parent, base] = number + 1
        return escape(f"{base}_{number}" if number else base)


def _layers(model: Any) -> list[Any]:
    flatten = getattr(model, "_flatten_layers", None)
    return list(flatten()) if flatten is not None else [model]


def _unique(variables: Iterable[Any]) -> list[Any]:
    return list({id(variable): variable for variable in variables}.values())


def variable_names(model: Any, prefix: str = "model") -> list[tuple[str, Any]]:
    """Name and variable of all that a model has, random seeds among them, in the order of ``model.variables``.

    Args:
        model: a built Keras model or layer.
        prefix: the first component of every name.

    Raises:
        UsageError: two variables have one path, and no attributes that tell them apart.
    """
    layers = _layers(model)
    made = (prefix, *map(id, model.variables), *_what_is_in(layers))
    if _found.get(model, ((), []))[0] != made:
        _found[model] = made, _variable_names(model, layers, prefix)
    return list(_found[model][1])


def _what_is_in(layers: list[Any]) -> Iterator[int]:
    """Changes where an attribute of a layer becomes another object, or what is in its lists."""
    for layer in layers:
        for value in vars(layer).values():
            if isinstance(value, (list, tuple)):
                yield from map(id, value)
            elif not isinstance(value, (bool, int, float, str, type(None))):
                yield id(value)


def _variable_names(model: Any, layers: list[Any], prefix: str) -> list[tuple[str, Any]]:
    classes = {snake_case(type(layer).__name__) for layer in layers}
    if "bidirectional" in classes:
        classes |= {f"{way}_{name}" for way in ("forward", "backward") for name in classes}
    renumbered = Renumbered(classes | {"seed_generator", "variable"})
    variables = _unique(model.variables)
    own = getattr(model, "name", None)

    def named(path: str) -> str:
        components = path.split("/")
        if len(components) > 1 and components[0] == own:
            components = components[1:]
        return renumbered(components)

    names = [named(str(getattr(variable, "path", variable.name))) for variable in variables]
    _tell_apart(model, variables, names, prefix, renumbered.numbered)
    for layer, way, variable in _untracked(model, variables):
        below = "" if layer is model else named(str(layer.path))
        variables.append(variable)
        names.append("/".join(filter(None, [below, *map(escape, way)])))
    _require_each_once(variables, names, prefix)
    return [(f"{prefix}/{name}", variable) for name, variable in zip(names, variables, strict=True)]


def _tell_apart(model: Any, variables: list[Any], names: list[str], prefix: str, numbered: frozenset[str]) -> None:
    """Names of which there are several become the way to the variable, by attributes.

    So do those of layers that Keras numbers, where each of them is in an attribute of its own: their numbers
    are the order in which they are made, and a program that makes them in another order means the same.
    """
    count: dict[str, int] = {}
    for name in names:
        count[name] = count.get(name, 0) + 1
    alike: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        for one in _beginnings(name):
            if one in numbered:
                alike.setdefault(re.sub(r"_\d+$", "", one), []).append(i)
                break
    if len(count) == len(names) and not alike:
        return
    ways = attribute_paths(model)
    inside = _ways_below(model) if len(count) < len(names) else {}
    for i, variable in enumerate(variables):
        if count[names[i]] > 1 and id(variable) in ways:
            names[i] = ways[id(variable)]
        elif count[names[i]] > 1 and id(variable) in inside:
            names[i] = f"{names[i].rpartition('/')[0]}/{inside[id(variable)]}"
    for group in alike.values():
        other = [ways.get(id(variables[i]), "") for i in group]
        taken = set(names) - {names[i] for i in group}
        if not all(other) or len(set(other)) < len(other) or taken & set(other):
            continue
        for i, way in zip(group, other, strict=True):
            seed = names[i].rsplit("/", 1)[-1] == "seed_generator_state"
            names[i] = f"{way.rpartition('/')[0]}/seed_generator_state" if seed else way


def _beginnings(name: str) -> Iterator[str]:
    """Of a path: all but the last component, the shortest first."""
    at = name.find("/")
    while at >= 0:
        yield name[:at]
        at = name.find("/", at + 1)


def _ways_below(model: Any) -> dict[int, str]:
    """The attribute of its layer that each variable is in: of layers that are in no attribute of the model."""
    found: dict[int, str] = {}
    for layer in _layers(model):
        for name, value in _attributes(layer) if layer is not model else ():
            for inside, one in _children(value):
                if not _is_below(one):
                    found.setdefault(id(one), "/".join(map(escape, [name.lstrip("_") or name, *inside])))
    return found


def _untracked(model: Any, variables: list[Any]) -> Iterator[tuple[Any, list[str], Any]]:
    """Variables in attributes of layers that Keras leaves out: states of a stateful RNN, those of TensorFlow itself."""
    known = {id(variable) for variable in variables}
    known |= {id(getattr(variable, "_value", None)) for variable in variables}
    for layer in _layers(model):
        for name, value in _attributes(layer):
            for inside, found in _children(value) if not name.startswith("_") else ():
                if not _is_below(found) and id(found) not in known:
                    known |= {id(found), id(getattr(found, "_value", None))}
                    yield layer, [name, *inside], found


def _require_each_once(variables: list[Any], names: list[str], prefix: str) -> None:
    seen: dict[str, Any] = {}
    for name, variable in zip(names, variables, strict=True):
        if name in seen:
            raise _two_of_one_name(f"{prefix}/{name}", seen[name], variable)
        seen[name] = variable


def _two_of_one_name(name: str, one: Any, other: Any) -> UsageError:
    def described(variable: Any) -> str:
        return f"{getattr(variable, 'path', variable.name)} {tuple(variable.shape)}"

    error = UsageError(f"two variables of the model are called {name}: {described(one)} and {described(other)}")
    error.entry = name
    error.next = "give their layers names of their own (name=...), or keep each in an attribute of its own"
    return error


def _is_variable(value: Any) -> bool:
    of_keras = hasattr(value, "path") and hasattr(value, "assign") and hasattr(value, "shape")
    return of_keras or _is_of_tensorflow(value)


def _is_of_tensorflow(value: Any) -> bool:
    """A variable of TensorFlow itself?"""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, getattr(tensorflow, "Variable", ()))


def _is_below(value: Any) -> bool:
    """May there be variables in its attributes?"""
    return hasattr(value, "_flatten_layers") or type(value).__name__ == "SeedGenerator"


def _children(value: Any, depth: int = 0) -> Iterator[tuple[list[str], Any]]:
    """The variables and layers in a container, or the value itself, with the way to each."""
    if _is_variable(value) or _is_below(value):
        yield [], value
    elif depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            for way, found in _children(one, depth + 1):
                yield [str(i), *way], found
    elif depth < _MAX_DEPTH and isinstance(value, Mapping):
        for key, one in value.items():
            for way, found in _children(one, depth + 1):
                yield [str(key), *way], found


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    """Public ones first; of PyTorch's modules those that it keeps in dictionaries, too."""
    found = dict(vars(owner))
    for kept in ("_modules", "_parameters", "_buffers"):
        inside = found.get(kept)
        if isinstance(inside, Mapping):
            found.update(inside)
    named = [(name, value) for name, value in found.items() if not _LISTS.fullmatch(name)]
    return sorted(named, key=lambda item: item[0].startswith("_"))


def attribute_paths(model: Any) -> dict[int, str]:
    """The shortest way by attributes to each variable, by its ``id()``; not to those that only Keras's lists have."""
    ways: dict[int, str] = {}
    seen = {id(model)}
    queue: list[tuple[list[str], Any]] = [([], model)]
    while queue:
        way, owner = queue.pop(0)
        for name, value in _attributes(owner):
            for inside, found in _children(value):
                path = [*way, name.lstrip("_") or name, *inside]
                if _is_variable(found):
                    ways.setdefault(id(found), "/".join(map(escape, path)))
                elif id(found) not in seen and len(path) <= _MAX_DEPTH:
                    seen.add(id(found))
                    queue.append((path, found))
    return ways
