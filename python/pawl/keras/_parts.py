# SPDX-License-Identifier: Apache-2.0
"""What of a Keras training job is saved: its variables by their names, and what an optimizer is set to."""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy

from .._error import UsageError
from .._handle import counted
from ._names import Renumbered, escape, snake_case, variable_names

logger = logging.getLogger("pawl")

#: Lists of an optimizer that have no slots of their own.
_NO_SLOTS = frozenset({"_variables", "_trainable_variables"})
#: Of a configuration: no hyperparameters, or saved in another way.
_NOT_SAVED = frozenset({"name", "learning_rate"})


class Entry(NamedTuple):
    """A variable that is saved.

    Attributes:
        name: of the entry.
        variable: Keras's.
        what: role, or slot_of and slot, as of ``pawl.Tensor``.
    """

    name: str
    variable: Any
    what: dict[str, Any]


def model_entries(model: Any) -> list[Entry]:
    """All variables of a model; states of random seeds have the role "rng".

    Raises:
        UsageError: the model is not built; two variables that nothing tells apart.
    """
    require_built(model)
    entries = []
    for name, variable in variable_names(model):
        role = "rng" if name.rsplit("/", 1)[-1] == "seed_generator_state" else "model"
        entries.append(Entry(name, variable, {"role": role}))
    return entries


def require_types(monitor: object, restore: object, signals: object) -> None:
    """Names an argument of ``Checkpoint`` that is of a wrong type."""
    for name, value, wanted, right in (
        ("monitor", monitor, "the name of a metric", monitor is None or isinstance(monitor, str)),
        ("restore", restore, "True, False or a mapping of policies", isinstance(restore, (bool, Mapping))),
        ("signals", signals, "numbers of signals", isinstance(signals, Iterable) and not isinstance(signals, str)),
    ):
        if not right:
            raise TypeError(f"{name} is {wanted}, not {type(value).__name__}: {value!r}")


def require_built(model: Any) -> None:
    """Refuses a model that has no variables yet, by its name and that of the layer.

    Raises:
        UsageError: it, or a layer in it, is not built.
    """
    unbuilt = [layer for layer in model._flatten_layers(include_self=False) if not layer.built]
    if not unbuilt and model.built:
        return
    of = f", its {type(unbuilt[0]).__name__} {unbuilt[0].name!r} for one" if unbuilt else ""
    error = UsageError(
        f"the model {model.name!r} is not built: its variables are not made yet{of}; "
        "what is restored into it now would be lost when they are"
    )
    error.next = "call the model with a batch of data, or model.build(input_shape), before fit"
    raise error


class Optimizer:
    """An optimizer's variables and hyperparameters, with names.

    Args:
        optimizer: of Keras, built; a LossScaleOptimizer is that which it wraps, and its own variables are below
            ``optimizer/loss_scale``.
        names: of the model's variables, by ``id()``.
        prefix: of its entries.

    Attributes:
        class_name: the entry that has the class of the optimizer.
    """

    def __init__(self, optimizer: Any, names: Mapping[int, str], prefix: str = "optimizer") -> None:
        self.prefix, self.class_name = prefix, f"{prefix}/class"
        self._outer = optimizer if hasattr(optimizer, "inner_optimizer") else None
        self.optimizer = optimizer.inner_optimizer if self._outer is not None else optimizer
        self._names = names

    def entries(self) -> list[Entry]:
        """Slots with the variables they belong to; the number of steps; the rest with the role "other".

        Raises:
            UsageError: two variables that nothing tells apart.
        """
        entries = list(self._of(self.optimizer, self.prefix))
        if self._outer is not None:
            entries += self._of(self._outer, f"{self.prefix}/loss_scale")
        found: dict[str, Entry] = {}
        for entry in entries:
            if entry.name in found:
                error = UsageError(f"two variables of the optimizer are called {entry.name}")
                error.entry = entry.name
                error.next = "keep each in an attribute of its own, or in a list with one for each trainable variable"
                raise error
            found[entry.name] = entry
        return entries

    def _of(self, optimizer: Any, prefix: str) -> Iterator[Entry]:
        left = {id(variable): variable for variable in optimizer._variables}
        trainable = list(optimizer._trainable_variables)
        for attribute, value in vars(optimizer).items():  # what a LossScaleOptimizer builds is not always in the list
            if attribute not in _NO_SLOTS:
                left.update({id(one): one for one in _variables_in(value)})
        left.pop(id(optimizer._learning_rate), None)  # a hyperparameter
        for attribute, value in vars(optimizer).items():
            name = attribute.lstrip("_")
            if id(value) in left:
                role = "step" if attribute == "_iterations" else "other"
                yield Entry(f"{prefix}/{name}", left.pop(id(value)), {"role": role})
            elif attribute not in _NO_SLOTS and isinstance(value, (list, tuple)) and len(value) == len(trainable):
                for one, variable in zip(value, trainable, strict=True):
                    if id(one) in left and id(variable) in self._names:
                        yield self._slot(prefix, left.pop(id(one)), variable, name)
        yield from self._others(prefix, left, trainable)

    def _slot(self, prefix: str, slot: Any, variable: Any, name: str) -> Entry:
        of = self._names[id(variable)]
        below = of.split("/", 1)[1]
        return Entry(f"{prefix}/{below}/{escape(name)}", slot, {"slot_of": of, "slot": name})

    def _others(self, prefix: str, left: dict[int, Any], trainable: list[Any]) -> Iterator[Entry]:
        """What is in no list: by the path, which begins with that of a variable where there is one."""
        paths = {str(getattr(v, "path", v.name)).replace("/", "_") + "_": v for v in trainable}
        renumbered = Renumbered({"variable", "seed_generator"})
        for one in left.values():
            last = str(one.path).rsplit("/", 1)[-1]
            of = max((path for path in paths if last.startswith(path)), key=len, default=None)
            if of is not None and id(paths[of]) in self._names:
                yield self._slot(prefix, one, paths[of], last[len(of) :])
            else:
                yield Entry(f"{prefix}/{renumbered([last])}", one, {"role": "other"})

    # ---- hyperparameters ----

    def values(self) -> dict[str, Any]:
        """Class, learning rate and every scalar of ``get_config()``, by the names of the entries."""
        found = {
            self.class_name: type(self.optimizer).__name__,
            f"{self.prefix}/learning_rate": self._rate(),
        }
        for key, value in self._scalars():
            found[f"{self.prefix}/{escape(key)}"] = value
        return found

    def _scalars(self) -> Iterator[tuple[str, Any]]:
        try:
            config = self.optimizer.get_config()
        except NotImplementedError:
            return
        for key, value in config.items():
            if key not in _NOT_SAVED and (value is None or isinstance(value, (bool, int, float, str))):
                yield key, value if not isinstance(value, float) or math.isfinite(value) else repr(value)

    def _rate(self) -> Any:
        rate = self.optimizer._learning_rate
        if hasattr(rate, "assign"):
            return short(rate)
        found = {"schedule": getattr(type(rate), "__name__", "function")}
        if hasattr(rate, "get_config"):
            config = rate.get_config()
            found.update({k: v for k, v in config.items() if isinstance(v, (bool, int, float, str)) and k != "name"})
        return found

    def set_values(self, found: Mapping[str, Any]) -> bool:
        """Takes over hyperparameters of a checkpoint; has anything changed that is compiled into a step?"""
        rate = self.optimizer._learning_rate
        wanted = found.get(f"{self.prefix}/learning_rate")
        if hasattr(rate, "assign") and isinstance(wanted, (int, float)):
            if wanted != short(rate):
                rate.assign(wanted)
        elif wanted is not None and wanted != self._rate():
            logger.warning(
                "%s/learning_rate: a schedule is the program's: it goes on with %s, not with %s of the checkpoint",
                self.prefix,
                self._rate(),
                wanted,
            )
        changed = False
        for key, value in list(self._scalars()):
            new = found.get(f"{self.prefix}/{escape(key)}", value)
            if new != value and hasattr(self.optimizer, key) and (new is None or isinstance(new, (bool, int, float))):
                setattr(self.optimizer, key, new)
                changed = True
        return changed


def other_optimizers(model: Any) -> list[tuple[str, Any]]:
    """Optimizers in attributes of a model beside that of ``compile``, as of a GAN, with the prefix of their entries."""
    own, found = getattr(model, "optimizer", None), []
    for name, value in vars(model).items():
        listed: Iterable[tuple[Any, Any]] = [(None, value)]
        if isinstance(value, Mapping):
            listed = value.items()
        elif isinstance(value, (list, tuple)):
            listed = enumerate(value)
        for key, one in listed:
            if isinstance(one, keras.optimizers.Optimizer) and one is not own and not name.startswith("_"):
                below = "" if key is None else f"/{escape(str(key))}"
                found.append((f"optimizers/{escape(name)}{below}", one))
    return found


def _variables_in(value: Any) -> list[Any]:
    """Keras's variables that an attribute of an optimizer is, or has in a list."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return [one for one in listed if isinstance(one, keras.Variable)]


def short(rate: Any) -> float:
    """The value of a variable as the shortest number that gives the same bits: 0.001, not 0.0010000000474974513."""
    value = rate.value
    if hasattr(value, "read_value"):  # a variable of TensorFlow, which on logical cores of TPUs is no array
        value = value.read_value()
    array = numpy.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return float(str(array[()]))


def require_optimizer_of(model: Any, names: Mapping[int, str]) -> None:
    """Refuses an optimizer that was built for other variables than the model has, by their names (J05).

    Raises:
        UsageError: what it does not know.
    """
    known = {id(variable) for variable in model.optimizer._trainable_variables}
    unknown = [names.get(id(v), v.path) for v in model.trainable_variables if id(v) not in known]
    if not unknown:
        return
    shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
    error = UsageError(
        f"the optimizer was built for {counted(len(known), 'variable')}, and the model has "
        f"{len(model.trainable_variables)}: it does not know {shown}"
    )
    error.entry = unknown[0]
    error.next = "make a new optimizer when the model has its last layer: compile it again"
    raise error


def metric_entries(model: Any) -> list[Entry]:
    """What the metrics have counted in this epoch; several of one name are numbered."""
    variables = list({id(v): v for v in model.metrics_variables}.values())
    classes = {snake_case(type(metric).__name__) for metric in _flat(model.metrics)}
    renumbered = Renumbered(classes | {"variable"})
    seen: dict[str, int] = {}
    entries = []
    for variable in variables:
        first, _, rest = renumbered(str(variable.path).split("/")).partition("/")
        name = f"{first}/{rest}" if rest else first
        number = seen.get(name, 0)
        seen[name] = number + 1
        if number:
            name = f"{first}%23{number}/{rest}" if rest else f"{first}%23{number}"
        entries.append(Entry(f"metrics/{name}", variable, {"role": "other"}))
    return entries


def _flat(metrics: Any) -> Iterator[Any]:
    for metric in metrics:
        yield metric
        yield from _flat(getattr(metric, "metrics", None) or [])


# ---- random state that belongs to no model -------------------------------------------------------


def generator_entries(create: frozenset[str] = frozenset()) -> list[Entry]:
    """Keras's global seed generator and TensorFlow's global generator, where they are in use.

    Args:
        create: names of those to make where they are not.
    """
    from keras.src.backend.common import global_state
    from keras.src.random import seed_generator

    entries = []
    name = "rng/keras"
    found = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if found is None and name in create:
        found = seed_generator.global_seed_generator()
    if found is not None:
        entries.append(Entry(name, found.state, {"role": "rng"}))
    name = "rng/tensorflow"
    if "tensorflow" in sys.modules:
        from tensorflow.python.ops import stateful_random_ops

        generator = stateful_random_ops.global_generator
        if generator is None and name in create:
            generator = stateful_random_ops.get_global_generator()
        if generator is not None:
            entries.append(Entry(name, generator.state, {"role": "rng"}))
    return entries


#: Kinds of callbacks of Keras whose numbers decide how training goes on.
_CALLBACKS = re.compile(r"EarlyStopping|ReduceLROnPlateau")
_NUMBERS = ("wait", "best", "cooldown_counter", "best_epoch", "stopped_epoch")


def callback_values(callbacks: list[Any]) -> dict[str, Any]:
    """What EarlyStopping and ReduceLROnPlateau have counted, by class and number."""
    found: dict[str, Any] = {}
    for key, callback in _counting(callbacks):
        numbers = {name: _number(getattr(callback, name)) for name in _NUMBERS if hasattr(callback, name)}
        found[key] = numbers
    return found


def _number(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    number = float(value)
    return number if math.isfinite(number) else repr(number)


def _counting(callbacks: list[Any]) -> Iterator[tuple[str, Any]]:
    count: dict[str, int] = {}
    for callback in callbacks:
        kind = type(callback).__name__
        if any(_CALLBACKS.fullmatch(one.__name__) for one in type(callback).__mro__):
            number = count.get(kind, 0)
            count[kind] = number + 1
            yield f"{kind}_{number}" if number else kind, callback


def set_callback_values(callbacks: list[Any], found: Mapping[str, Any]) -> None:
    """Gives callbacks back what `callback_values` had of them."""
    for key, callback in _counting(callbacks):
        for name, value in (found.get(key) or {}).items():
            if name in _NUMBERS and hasattr(callback, name):
                setattr(callback, name, float(value) if isinstance(value, str) else value)


#: Before the names of the weights that EarlyStopping puts back at the end.
BEST_WEIGHTS = "callbacks/"


def best_weights(callbacks: list[Any], names: Mapping[int, str], model: Any) -> dict[str, list[str]]:
    """Names of the entries of the best weights, by the key of a callback that puts them back."""
    found = {}
    for key, callback in _counting(callbacks):
        if getattr(callback, "restore_best_weights", False):
            found[key] = [f"{BEST_WEIGHTS}{escape(key)}/{names[id(weight)]}" for weight in model.weights]
    return found


def callback_of(callbacks: list[Any], key: str) -> Any:
    """The callback of a key of `best_weights`."""
    return dict(_counting(callbacks))[key]
