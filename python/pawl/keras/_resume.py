# SPDX-License-Identifier: Apache-2.0
"""Training that begins, or goes on at the very batch after which it was interrupted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from .._error import UsageError
from .._handle import whole_number
from ._checkpoint import Checkpoint
from ._data import Fit, Source, fits_of, source_of, warn_of_other_order
from ._parts import require_built
from ._random import host_random_state
from ._strategy import scope_of

logger = logging.getLogger("pawl.keras")


class _OneTraining(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Callbacks of several calls of ``fit`` that are one training: it begins once, and ends once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._has_begun, self._logs = False, None
        super().__init__(*arguments, **named)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._has_begun:
            self._has_begun = True
            super().on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self._logs = logs

    def finish(self) -> None:
        """Tells all that training has ended."""
        super().on_train_end(self._logs)


def _checkpoint_of(callbacks: Iterable[Any]) -> tuple[Checkpoint, list[Any]]:
    """The callback of pawl, and all of them with it as the last."""
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks is a list of callbacks, not {type(callbacks).__name__}: {callbacks!r}")
    listed = list(callbacks)
    found = [one for one in listed if isinstance(one, Checkpoint)]
    if len(found) != 1:
        raise UsageError(f"there are {len(found)} of pawl.keras.Checkpoint among the callbacks; give one")
    return found[0], [*(one for one in listed if one is not found[0]), found[0]]


class _Data:
    """The data of each epoch: one source for all, or what a function gives for each."""

    def __init__(self, data: Any, steps_per_epoch: int | None, batch_size: int | None) -> None:
        self._function = data if callable(data) and not hasattr(data, "element_spec") else None
        if isinstance(data, keras.utils.PyDataset):
            self._function = None
        self._data, self._steps, self._batch_size = data, steps_per_epoch, batch_size
        self._made: tuple[int, Any] | None = None

    @property
    def each(self) -> bool:
        """Has each epoch data of its own?"""
        return self._function is not None

    def of(self, epoch: int) -> Any:
        """The source of an epoch's batches."""
        key = epoch if self._function is not None else 0
        if self._made is None or self._made[0] != key:
            data = self._data if self._function is None else self._function(epoch)
            self._made = key, source_of(data, self._steps, self._batch_size)
        return self._made[1]


def _require_same_data(checkpoint: Checkpoint, now: dict[str, Any]) -> None:
    then = checkpoint._saved_data
    differences = [
        f"{name}: {then[name]} then, {now[name]} now" for name in now if name in then and then[name] != now[name]
    ]
    if differences and checkpoint.batch:
        error = UsageError(
            f"the data would not continue where step {checkpoint.step} was, batch {checkpoint.batch} of epoch "
            f"{checkpoint.epoch}: {'; '.join(differences)}"
        )
        error.step = checkpoint.step
        error.next = (
            "give the same data as then, or continue from the end of an epoch: Checkpoint(restore={'step': ...})"
        )
        raise error
    if differences:
        logger.warning("the data are others than at step %d: %s", checkpoint.step, "; ".join(differences))


def _require_steps_fit(model: Any, steps_per_epoch: int | None) -> None:
    at_a_time = getattr(model, "steps_per_execution", 1) or 1
    if not isinstance(at_a_time, int):
        error = UsageError(f"steps_per_execution={at_a_time!r}: how many batches a step has has to be a number")
        error.next = "compile the model with a number, or without it"
        raise error
    if steps_per_epoch is not None and steps_per_epoch % at_a_time:
        more = -(-steps_per_epoch // at_a_time) * at_a_time
        error = UsageError(
            f"steps_per_epoch={steps_per_epoch} is no multiple of steps_per_execution={at_a_time}: Keras would train "
            f"on {more} batches, and nobody could tell where in the data it is"
        )
        error.next = f"give steps_per_epoch={more}"
        raise error


def _build_metrics(model: Any, source: Source) -> None:
    """Metrics are made by the first batch; what they had counted could not be restored before it."""

    def symbolic(spec: Any) -> Any:
        return None if spec is None else keras.KerasTensor(spec.shape, spec.dtype)

    specs = source.specs()
    if any(spec is None for spec in keras.tree.flatten(specs)):
        return
    batch = keras.tree.map_structure(symbolic, specs)
    with scope_of(model):
        model._symbolic_build(data_batch=batch)


def _require_types(checkpoint: object, model: object) -> None:
    for name, value, wanted in (("checkpoint", checkpoint, Checkpoint), ("model", model, keras.Model)):
        if not isinstance(value, wanted):
            of = "pawl.keras.Checkpoint" if wanted is Checkpoint else "keras.Model"
            raise TypeError(f"{name} is a {of}, not {type(value).__name__}: {value!r}")


def fits(
    checkpoint: Checkpoint,
    model: Any,
    data: Any,
    epochs: int = 1,
    *,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    batch_size: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Restores, and gives the arguments of each call of ``fit`` that is left, one after the other.

    For loops of one's own; `resume` makes the calls::

        for arguments in pawl.keras.fits(checkpoint, model, dataset, epochs=10):
            model.fit(**arguments, callbacks=[..., checkpoint])

    Make each call before the next is asked for. After an interruption within an epoch there are two: the rest of
    that epoch, ``fit(dataset.skip(k), initial_epoch=e, epochs=e + 1)``, and the others,
    ``fit(dataset, initial_epoch=e + 1)``; with `data` that are a function one for each epoch. They end when
    ``model.stop_training`` is set.

    Args:
        checkpoint: the callback, which is among those of ``fit``.
        model: built and compiled.
        data: as of `resume`.
        epochs: in all, as of ``fit``.
        initial_epoch: where there is no checkpoint.
        steps_per_epoch: as of ``fit``.
        batch_size: of data that are arrays.

    Yields:
        x, initial_epoch, epochs and, where it is given, steps_per_epoch.

    Raises:
        UsageError, Mismatch, Damaged, ...: as `resume`.
    """
    _require_types(checkpoint, model)
    epochs, initial_epoch = whole_number("epochs", epochs), whole_number("initial_epoch", initial_epoch)
    if steps_per_epoch is not None:
        steps_per_epoch = whole_number("steps_per_epoch", steps_per_epoch)
    if batch_size is not None:
        batch_size = whole_number("batch_size", batch_size)
    require_built(model)
    _require_steps_fit(model, steps_per_epoch)
    given = _Data(data, steps_per_epoch, batch_size)
    source = given.of(initial_epoch)
    checkpoint._signature = source.signature() or None
    if checkpoint._may_restore():
        _build_metrics(model, source)
    now = {"batches": source.batches, "steps_per_epoch": steps_per_epoch}
    if checkpoint.begin(model) is not None:
        _require_same_data(checkpoint, now)
    elif not checkpoint.step:
        checkpoint.epoch, checkpoint.batch = initial_epoch, 0
    checkpoint._data = now
    if not given.each:
        warn_of_other_order(source, checkpoint.epoch, checkpoint.step > 0)
    planned = fits_of(checkpoint.epoch, checkpoint.batch, epochs, source.batches, steps_per_epoch, given.each)
    if not planned and checkpoint.step and model.optimizer is not None:  # all that ``fit`` would still do
        model.optimizer.finalize_variable_values(model.trainable_weights)
    for i, fit in enumerate(planned):
        if i and model.stop_training:
            return
        checkpoint._offset = fit.offset
        if i:
            checkpoint._host = host_random_state()
        with _NotFinal(model, i + 1 < len(planned)):
            yield _arguments(given, fit)


def _arguments(given: _Data, fit: Fit) -> dict[str, Any]:
    found = {
        "x": given.of(fit.initial_epoch).skipped(fit.skip),
        "initial_epoch": fit.initial_epoch,
        "epochs": fit.epochs,
    }
    if fit.steps_per_epoch is not None:
        found["steps_per_epoch"] = fit.steps_per_epoch
    return found


class _NotFinal:
    """At the end of ``fit`` an average takes the variables' place (``use_ema``): not before the last call."""

    def __init__(self, model: Any, active: bool) -> None:
        optimizer = getattr(model, "optimizer", None)
        self._optimizer = optimizer if active and optimizer is not None else None

    def __enter__(self) -> None:
        if self._optimizer is not None:
            object.__setattr__(self._optimizer, "finalize_variable_values", lambda _variables: None)

    def __exit__(self, *_why: object) -> None:
        if self._optimizer is not None:
            object.__delattr__(self._optimizer, "finalize_variable_values")


def resume(
    model: Any,
    data: Any,
    epochs: int = 1,
    *,
    callbacks: Iterable[Any],
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    **fit: Any,
) -> Any:
    """Trains, from the beginning or from where the run's newest checkpoint is, as one that was not interrupted.

    Call it instead of ``model.fit``. After a kill at any time the same call, in a new process, ends with the same
    bits in all variables, seeds and slots::

        checkpoint = pawl.keras.Checkpoint("runs/a", every=500)
        history = pawl.keras.resume(model, dataset, epochs=10, callbacks=[checkpoint], validation_data=...)

    It makes the calls of ``fit`` that `fits` gives. For the callbacks they are one training.

    Args:
        model: built and compiled.
        data: a ``tf.data.Dataset`` in batches that knows how many it has, a ``keras.utils.PyDataset``, NumPy arrays
            (a tuple of x and y), which are not shuffled, or a function that gives one of these for the number of an
            epoch, from 0: so can the order be another in each epoch.
        epochs: in all, as of ``fit``.
        callbacks: as of ``fit``, with one `Checkpoint`, which is called last.
        initial_epoch: where there is no checkpoint.
        steps_per_epoch: as of ``fit``.
        batch_size: of data that are arrays [32].
        verbose: as of ``fit``.
        fit: more arguments of ``fit``: validation_data, class_weight, ...

    Returns:
        ``keras.callbacks.History`` of the epochs of this call.

    Raises:
        UsageError: something that could not be continued, by name: a model that is not built, data of unknown
            length, a generator.
        Mismatch: the checkpoint does not fit; its `report` has every difference.
        Damaged: no checkpoint can be used.
    """
    checkpoint, listed = _checkpoint_of(callbacks)
    _require_types(checkpoint, model)
    _refuse(listed, fit)
    together = _OneTraining(
        listed, add_history=True, add_progbar=verbose != 0, model=model, verbose=verbose, epochs=epochs, steps=None
    )
    checkpoint._callbacks = [one for one in together.callbacks if one is not checkpoint]
    calls = fits(
        checkpoint,
        model,
        data,
        epochs,
        initial_epoch=initial_epoch,
        steps_per_epoch=steps_per_epoch,
        batch_size=batch_size,
    )
    for arguments in calls:
        steps = arguments.get("steps_per_epoch") or _number_of_batches(arguments["x"])
        together.set_params({"verbose": verbose, "epochs": epochs, "steps": steps})
        model.fit(**arguments, shuffle=False, verbose=verbose, callbacks=together, **fit)
    if together._has_begun:
        together.finish()
    else:
        together._history.epoch = []  # as Keras has it once training began
    return together._history


def _refuse(callbacks: list[Any], fit: dict[str, Any]) -> None:
    """What would undo a resume.

    Raises:
        UsageError: a callback that restores itself; data beside the data.
    """
    also = [one for one in callbacks if isinstance(one, keras.callbacks.BackupAndRestore)]
    if also:
        error = UsageError(
            "keras.callbacks.BackupAndRestore is among the callbacks: it would restore over what is restored"
        )
        error.next = "leave it out: pawl.keras.Checkpoint does what it does"
        raise error
    refused = [name for name in ("x", "y", "sample_weight", "validation_split", "shuffle") if name in fit]
    if refused:
        raise UsageError(f"{refused[0]}= is not for resume: the data are x, y and weights together, in their order")


def _number_of_batches(data: Any) -> int | None:
    if hasattr(data, "cardinality"):
        return int(data.cardinality())
    return int(data.num_batches)
