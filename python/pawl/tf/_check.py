# SPDX-License-Identifier: Apache-2.0
"""Looks at a job in TensorFlow before it trains: whose variables are where, and does the optimizer know them?

Keras is silent where an optimizer was made outside of the strategy's scope: each replica then updates the same
variables, one after the other, so that ``iterations`` is 2 after one step on two replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._abi import Status
from .._error import Mismatch, UsageError
from .._handle import counted

#: Names in a message; the rest is counted.
_SHOWN = 8


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", None) or getattr(variable, "name", variable)).removesuffix(":0")


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _mismatch(attempt: str, entry: str, expected: str, found: str, advice: str) -> Mismatch:
    error = Mismatch(attempt)
    error.status = Status.EMISMATCH
    error.entry, error.expected, error.found, error.next = entry, expected, found, advice
    return error


def _variables_of(what: str, owner: Any) -> list[Any]:
    variables = getattr(owner, "variables", None)
    variables = variables() if callable(variables) else variables  # of optimizers of Keras 2
    if variables is None:
        raise UsageError(f"{what}: {type(owner).__name__} has no variables")
    return list(variables)


def _in_tensorflow(variable: Any) -> Any:
    """The variable of TensorFlow of one of Keras."""
    import tensorflow as tf

    held = getattr(variable, "value", variable)
    held = variable if callable(held) else held  # of a tf.Variable, whose value is read by a call
    if not isinstance(held, tf.Variable):
        raise UsageError(
            f"{_name(variable)} is a {type(held).__name__}, no variable of TensorFlow: a strategy of "
            "tf.distribute has none of it"
        )
    return held


def check_scope(
    strategy: Any,
    *,
    model: Any = None,
    optimizer: Any = None,
    variables: Iterable[Any] | Mapping[str, Any] | None = None,
) -> None:
    """J04: was everything made in the scope of the strategy?

    ::

        with strategy.scope():
            model = build()
            optimizer = keras.optimizers.Adam()
        pawl.tf.check_scope(strategy, model=model, optimizer=optimizer)

    Args:
        strategy: of ``tf.distribute``.
        model: its variables. If it is compiled, its optimizer is looked at, too, and its metrics.
        optimizer: its variables; one that is not built yet has but its own numbers.
        variables: further ones.

    Raises:
        Mismatch: names all that were made outside; `entry` is the first one. Replicas of these hold values of their
            own, or update one variable several times.
    """
    extended = getattr(strategy, "extended", None)
    if extended is None or not hasattr(extended, "variable_created_in_scope"):
        raise UsageError(f"strategy is a tf.distribute.Strategy, not {type(strategy).__name__}")
    given: dict[str, list[Any]] = {}
    if model is not None:
        given["model"] = _variables_of("model", model)
        compiled = getattr(model, "optimizer", None)
        optimizer = compiled if optimizer is None else optimizer
        given["metrics"] = list(getattr(model, "metrics_variables", None) or ())
    if optimizer is not None:
        given["optimizer"] = _variables_of("optimizer", optimizer)
    if variables is not None:
        if not isinstance(variables, Iterable):
            raise TypeError(f"variables are a list of variables, not {type(variables).__name__}: {variables!r}")
        given["variables"] = list(variables.values() if isinstance(variables, Mapping) else variables)
    looked: dict[int, str] = {}
    outside: list[str] = []
    of = []
    for what, listed in given.items():
        count = len(outside)
        for variable in listed:
            held = _in_tensorflow(variable)
            if id(held) not in looked:
                looked[id(held)] = _name(variable)
                if not extended.variable_created_in_scope(held):
                    outside.append(_name(variable))
        if len(outside) > count:
            of.append(what)
    if not outside:
        return
    name = type(strategy).__name__
    noun = counted(len(outside), "variable was", "variables were")
    raise _mismatch(
        f"{noun} made outside of the scope of {name}: {_listed(outside)}",
        outside[0],
        f"all {len(looked)} made in the scope, for {strategy.num_replicas_in_sync} replicas",
        f"{len(outside)} made outside",
        f"make {' and '.join(of)} inside of `with strategy.scope():`, and build or load them there",
    )


def check_optimizer(optimizer: Any, model: Any) -> None:
    """R06, J05: does the optimizer know the variables of the model, and no others?

    An optimizer is built for the variables that it is given first. A layer that is added later has none of its slots:
    ``apply_gradients`` fails, in Keras 2 it was silent. An optimizer that is not built yet knows none, which is fine.

    Args:
        optimizer: of Keras 3.
        model: of Keras 3, whose trainable variables are those to be trained.

    Raises:
        Mismatch: names the variables that only one of both has; `entry` is the first one.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    known = getattr(inner, "_trainable_variables", None)
    wanted = getattr(model, "trainable_variables", None)
    if known is None or wanted is None:
        raise UsageError(
            f"an optimizer and a model of Keras 3 are compared, not {type(optimizer).__name__} and "
            f"{type(model).__name__}"
        )
    if not getattr(inner, "built", True):
        return
    known_ids = {id(one) for one in known}
    its_own = {id(one) for one in (*wanted, *(getattr(model, "variables", None) or ()))}  # those that are frozen, too
    missing = [_name(one) for one in wanted if id(one) not in known_ids]
    left = [_name(one) for one in known if id(one) not in its_own]
    if not missing and not left:
        return
    parts = []
    if missing:
        parts.append(f"it was not built for {_listed(missing)}")
    if left:
        parts.append(f"the model has no {_listed(left)}")
    raise _mismatch(
        f"the optimizer {type(inner).__name__} knows {counted(len(known), 'variable')}, "
        f"the model trains {len(wanted)}: " + "; ".join(parts),
        (missing or left)[0],
        f"the {counted(len(wanted), 'trainable variable')} of the model",
        f"{counted(len(known), 'variable')}, {len(known) - len(left)} of them of this model",
        "make a new optimizer once the model is complete and compile the model with it, or restore the model alone",
    )
