# SPDX-License-Identifier: Apache-2.0
"""Keras's optimizers: slots by their variables, and what they are set to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

from ._graph import LAST, Leaf, Names, Node, escape, is_variable, join, key_of
from ._values import hold, variable_of

#: Of a configuration: no hyperparameters, or saved in another way.
_NOT_SAVED = frozenset({"name", "learning_rate", "inner_optimizer"})


def inner_of(optimizer: Any) -> Any:
    """The optimizer that a LossScaleOptimizer wraps; others themselves."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def optimizer_leaves(node: Node, names: Names) -> list[Leaf]:
    """Slots with the variables they belong to, the number of steps, and the rest with the role "other"."""
    inner = inner_of(node.found)
    one_model = len({named.split("/", 1)[0] for named in _trained(names)}) <= 1
    leaves = list(_of(inner, node.way, names, one_model))
    if inner is not node.found:
        leaves += _of(node.found, join(node.way, "loss_scale"), names, one_model)
    return leaves


def variables_in(optimizer: Any) -> list[Any]:
    """All variables of an optimizer but the model's: Keras's own list lacks some of a LossScaleOptimizer."""
    found = {key_of(variable): variable for variable in optimizer._variables}
    for attribute, value in vars(optimizer).items():
        if attribute not in LAST:
            listed = list(value) if isinstance(value, (list, tuple)) else [value]
            found.update({key_of(one): one for one in listed if is_variable(one)})
    for variable in getattr(optimizer, "_trainable_variables", ()):
        found.pop(key_of(variable), None)
    return list(found.values())


def _of(optimizer: Any, prefix: str, names: Names, one_model: bool) -> Iterator[Leaf]:
    left = {key_of(variable): variable for variable in variables_in(optimizer)}
    trainable = list(getattr(optimizer, "_trainable_variables", ()))
    for attribute, value in vars(optimizer).items():
        name = attribute.lstrip("_") or attribute
        if key_of(value) in left:
            role = {"_iterations": "step", "_learning_rate": "hyperparameter"}.get(attribute, "other")
            own = "" if attribute == "_learning_rate" else join(prefix, escape(name))  # it is saved as a number
            yield _leaf(own, left.pop(key_of(value)), {"role": role}, names)
        elif attribute not in LAST and isinstance(value, (list, tuple)) and len(value) == len(trainable):
            for one, variable in zip(value, trainable, strict=True):
                if one is not None and key_of(one) in left:
                    yield _slot(prefix, left.pop(key_of(one)), variable, name, names, one_model)
    yield from _others(prefix, left, trainable, names, one_model)


def _leaf(name: str, variable: Any, what: Mapping[str, str], names: Names) -> Leaf:
    return Leaf(name, names.ways.get(key_of(variable), ""), variable, what)


def _slot(prefix: str, slot: Any, variable: Any, name: str, names: Names, one_model: bool) -> Leaf:
    of = names.named[key_of(variable)]
    # Of one model its own name says nothing: optimizer/dense/kernel/momentums, as pawl.keras names it.
    below = of.split("/", 1)[1] if one_model and "/" in of else of
    return _leaf(join(prefix, below, escape(name)), slot, {"slot_of": of, "slot": name}, names)


def _trained(names: Names) -> Iterator[str]:
    """The names of the variables that optimizers change."""
    for node in names.optimizers:
        for variable in inner_of(node.found)._trainable_variables:
            yield names.named[key_of(variable)]


def _others(prefix: str, left: dict[int, Any], trainable: list[Any], names: Names, one_model: bool) -> Iterator[Leaf]:
    """What is in no list: by the path, which begins with that of a variable where there is one."""
    paths = {str(getattr(v, "path", v.name)).replace("/", "_") + "_": v for v in trainable}
    for one in left.values():
        last = str(one.path).rsplit("/", 1)[-1]
        of = max((path for path in paths if last.startswith(path)), key=len, default=None)
        if of is not None:
            yield _slot(prefix, one, paths[of], last[len(of) :], names, one_model)
        else:
            yield _leaf(join(prefix, escape(last)), one, {"role": "other"}, names)


# ---- hyperparameters -----------------------------------------------------------------------------


def short(variable: Any) -> float:
    """Its value as the shortest number of the same bits: 0.001, not 0.0010000000474974513."""
    value = hold(variable)[()]
    return float(numpy.format_float_positional(value, unique=True)) if value.dtype.kind == "f" else float(value)


def hyperparameters(node: Node) -> dict[str, Any]:
    """Class, learning rate and every scalar of ``get_config()``, by the names of their entries."""
    optimizer = inner_of(node.found)
    found: dict[str, Any] = {join(node.way, "class"): type(optimizer).__name__}
    found[join(node.way, "learning_rate")] = _rate(optimizer)
    for key, value in _scalars(optimizer):
        found[join(node.way, escape(key))] = value
    return found


def _scalars(optimizer: Any) -> Iterator[tuple[str, Any]]:
    try:
        config = optimizer.get_config()
    except NotImplementedError:
        return
    for key, value in config.items():
        if key not in _NOT_SAVED and (value is None or isinstance(value, (bool, int, float, str))):
            yield key, value if not isinstance(value, float) or math.isfinite(value) else repr(value)


def _rate(optimizer: Any) -> Any:
    rate = optimizer._learning_rate
    if hasattr(rate, "assign"):
        return short(rate)
    found = {"schedule": getattr(type(rate), "__name__", "function")}
    if hasattr(rate, "get_config"):
        config = rate.get_config()
        found.update({k: v for k, v in config.items() if isinstance(v, (bool, int, float, str)) and k != "name"})
    return found


def set_hyperparameters(node: Node, found: Mapping[str, Any]) -> bool:
    """Takes over those of a checkpoint, by the names of their entries; has any changed that is no variable?"""
    optimizer = inner_of(node.found)
    rate, wanted = optimizer._learning_rate, found.get(join(node.way, "learning_rate"))
    if hasattr(rate, "assign") and isinstance(wanted, (int, float)) and wanted != short(rate):
        variable_of(rate).assign(wanted)
    changed = False
    for key, value in list(_scalars(optimizer)):
        new = found.get(join(node.way, escape(key)), value)
        if new != value and hasattr(optimizer, key) and (new is None or isinstance(new, (bool, int, float))):
            setattr(optimizer, key, new)
            changed = True
    return changed
