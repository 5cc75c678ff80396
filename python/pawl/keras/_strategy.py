# SPDX-License-Identifier: Apache-2.0
"""Strategies of TensorFlow: what was made in the scope of which."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from keras import backend

from .._error import Unsupported, UsageError
from .._state import Box, Tensor
from ._parts import Entry


def scope_of(model: Any) -> contextlib.AbstractContextManager[Any]:
    """The scope in which the model was made; without a strategy one that does nothing."""
    if backend.backend() != "tensorflow" or getattr(model, "_distribute_strategy", None) is None:
        return contextlib.nullcontext()
    scope: contextlib.AbstractContextManager[Any] = model.distribute_strategy.scope()
    return scope


def _of_strategy(variable: Any) -> bool:
    import tensorflow

    return isinstance(variable.value, tensorflow.distribute.DistributedValues)


def require_one_strategy(model: Any) -> None:
    """Model and optimizer are made in the scope of one strategy, or both outside of any (J04).

    Raises:
        UsageError: one was made in it, the other was not. Keras trains with that, and counts each step
            once per replica.
    """
    if backend.backend() != "tensorflow":
        return
    optimizer = model.optimizer
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    variables = list(model.trainable_variables)
    inside = [variable for variable in variables if _of_strategy(variable)]
    outside = [variable for variable in variables if not _of_strategy(variable)]
    if inside and outside:
        shown = ", ".join(variable.path for variable in outside[:3])
        error = UsageError(f"{len(outside)} of the model's variables were made outside of strategy.scope(): {shown}")
    elif bool(inside) != _of_strategy(inner._iterations):
        made = "inside of strategy.scope(), and the optimizer outside"
        if not inside:
            made = "outside of strategy.scope(), and the optimizer inside"
        error = UsageError(
            f"the model was made {made}: each replica would count and make every step, so that "
            "optimizer.iterations is a multiple of the steps"
        )
    else:
        return
    error.next = "make model and optimizer, and compile, in one block: with strategy.scope():"
    raise error


def require_no_tables(model: Any) -> None:
    """Refuses a model with a ``TPUEmbedding`` in it: its tables are on the TPUs, and no variables of the model.

    Raises:
        Unsupported: names the layer.
    """
    if backend.backend() != "tensorflow":
        return
    import tensorflow

    from ..tf import _tpu

    view = tensorflow.train.TrackableView(model)
    for one in view.descendants():
        found = [(name, child) for name, child in view.children(one).items() if _tpu.is_embedding(child)]
        for name, child in found:
            at = f"{getattr(one, 'path', None) or getattr(one, 'name', type(one).__name__)}.{name}"
            error = Unsupported(
                f"{at} is a {type(child).__name__}: its tables are no variables of the model, and Keras does not know "
                "them"
            )
            error.entry = at
            error.next = "save the job with pawl.tf.CheckpointManager, which retrieves such tables from the TPUs"
            raise error


def replicas_of(entries: Iterable[Entry]) -> dict[str, list[Any]]:
    """Of variables that each replica of a strategy has its own value of, each replica's, by the name of its entry.

    Metrics are read as one of all values (ON_READ); of BatchNormalization's averages and of random seeds each replica
    of Keras goes on with its own, and the first is what is read. With as many replicas training continues with
    these, which are the rows of ``replicas/NAME``; the entry of the variable itself has what is read.
    """
    if backend.backend() != "tensorflow":
        return {}
    import tensorflow

    from ..tf import _values

    found = {}
    for name, variable, what in entries:
        value = _values.variable_of(variable)
        if not isinstance(value, tensorflow.distribute.DistributedValues) or "slot_of" in what:
            continue
        alone = not variable.trainable and value.aggregation == tensorflow.VariableAggregation.NONE
        if alone or _values.is_on_read(variable):
            found[f"replicas/{name}"] = list(_values.replicas_of(variable))
    return found


def rows(arrays: list[Any]) -> Tensor:
    """Arrays of one shape as the rows of a tensor."""
    shape = arrays[0].shape
    boxes = [Box((i, *(0,) * len(shape)), array[None]) for i, array in enumerate(arrays)]
    return Tensor(boxes, shape=(len(arrays), *shape), role="other")
