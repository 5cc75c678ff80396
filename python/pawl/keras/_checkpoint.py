# SPDX-License-Identifier: Apache-2.0
"""A callback that saves a training job of Keras while it goes on, and restores it."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import keras
import numpy

from .. import _run
from .._abi import Difference
from .._checkpoint import ls
from .._checkpoint import open as open_checkpoint
from .._entry import Entry as Found
from .._error import Error, Mismatch, NotFound, UsageError
from .._handle import close_after, real_number, seconds, whole_number
from .._let_go import LetGo
from .._others import warn_of_others
from .._report import Report
from .._run import Run, SaveStats
from .._skipped import was_skipped
from .._state import State, Tensor
from ._arguments import frequencies, larger_is_better
from ._parts import (
    BEST_WEIGHTS,
    Entry,
    Optimizer,
    best_weights,
    callback_of,
    callback_values,
    generator_entries,
    metric_entries,
    model_entries,
    other_optimizers,
    require_built,
    require_optimizer_of,
    require_types,
    set_callback_values,
)
from ._random import host_random_state, set_host_random_state
from ._strategy import replicas_of, require_no_tables, require_one_strategy, rows, scope_of
from ._values import array_for, as_numpy, values_of

logger = logging.getLogger("pawl.keras")

#: Before the names of what a checkpoint may have, and a process that restores it need not.
_OPTIONAL = ("metrics/", "rng/", "replicas/", BEST_WEIGHTS)
#: TensorFlow's graph of objects, which converted checkpoints keep.
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SIGNATURE = "training/batch_signature"
#: What Keras begins anew with each epoch.
_OF_EPOCH = re.compile(r"(replicas/)?metrics/")
#: Options of a run by which checkpoints are removed; without any all stay.
_RETENTION = ("keep_best", "keep_every_steps", "keep_every_hours")
#: Callbacks that are open and act on signals.
_watching: weakref.WeakSet[Any] = weakref.WeakSet()


class Position(NamedTuple):
    """Where training is.

    Attributes:
        epoch: that is being trained, or begins, from 0.
        batch: batches of that epoch that are trained on; 0: the epoch begins.
        step: batches in all.
    """

    epoch: int
    batch: int
    step: int


class _There(NamedTuple):
    """Of a checkpoint.

    Attributes:
        of_tensorflow: it was converted from one of TensorFlow, with its graph of objects.
        optional: names and shapes of what a process need not have: metrics, generators, replicas.
        signature: of its batches; None: it has none.
    """

    of_tensorflow: bool
    optional: dict[str, tuple[int, ...]]
    signature: Any


class Checkpoint(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves a model that is trained by ``fit``, in the background, and restores it when ``fit`` begins again.

    ::

        checkpoint = pawl.keras.Checkpoint("runs/a", every=500, keep_last=3)
        pawl.keras.resume(model, dataset, epochs=10, callbacks=[checkpoint])

    `resume` begins, or continues at the very batch. ``model.fit(..., callbacks=[checkpoint])`` continues, too, where
    the newest checkpoint is of the end of an epoch; one from within an epoch it refuses, since only `resume` can
    leave out the batches that are trained on.

    Saved are all variables of the model, random seeds (Dropout's) among them, the optimizer's slots, each with
    the variable that it belongs to, number of steps and hyperparameters, other optimizers in the model's attributes,
    metrics, Keras's global seed generator, ``tf.random``'s global generator, random state of NumPy and Python, epoch
    and batch, the best value of `monitor`, what EarlyStopping and ReduceLROnPlateau have counted, and the weights
    that EarlyStopping would put back.

    On TensorFlow and JAX values are written from where they are, while training goes on: these never write to a
    value that is held. Until it is written, a variable has two copies. On PyTorch they are copied when the save begins.

    Names of entries do not depend on what else a process has made: ``model/dense/kernel``; slots
    ``optimizer/dense/kernel/momentums``.

    Give it as the last of the callbacks, so that what others do at the end of an epoch is saved, too; `resume`
    puts it there.

    Args:
        run: directory of the run, or an open ``pawl.Run``, which then stays open.
        every: steps between two saves; the end of training is saved, too [only the ends of epochs].
        save_freq: as of ``keras.callbacks.BackupAndRestore``: "epoch", a number of steps, or False. With `every`
            "epoch" adds the ends of epochs [without `every` "epoch"].
        keep_last: retention keeps the newest so many checkpoints [all].
        monitor: name of a metric: with `keep_last` the best checkpoint by it stays, too [none; "val_loss" with
            save_best_only].
        mode: "min", "max", or "auto": by the name of `monitor`.
        save_best_only: save only where `monitor` is better than before. A job that is killed then goes back that far.
        initial_value_threshold: what the first value of `monitor` has to be better than.
        verbose: 1: a line for each save.
        restore: policies of ``pawl.Run.restore`` for when training begins: missing, unexpected, cast,
            hyperparameter, model_only, renames, step; or False: begin anew.
        signals: at the first of these the final save is made, and training stops [SIGTERM].
        grace_s: seconds that the final save may take.
        options: of ``pawl.Run``: deadline_s, budget_bytes, keep_every_steps, keep_best, ...

    Attributes:
        run: the ``pawl.Run``.
        step: batches trained on so far, over all epochs.
        epoch: that is being trained, from 0.
        batch: batches of it that are trained on.
        best: the best value of `monitor`.
        preempted: a signal came, and the final save is made.
        report: of the restore with which training began; None: it began anew.

    Raises:
        UsageError: something that cannot be saved, by name, with what to do.
        Error: as ``pawl.Run``.
    """

    def __init__(
        self,
        run: str | os.PathLike[str] | Run,
        *,
        every: int | None = None,
        save_freq: Any = None,
        keep_last: int | None = None,
        monitor: str | None = None,
        mode: str = "auto",
        save_best_only: bool = False,
        initial_value_threshold: float | None = None,
        verbose: int = 0,
        restore: Mapping[str, Any] | bool = True,
        signals: Iterable[int] = (signal.SIGTERM,),
        grace_s: float = 20.0,
        **options: Any,
    ) -> None:
        super().__init__()
        require_types(monitor, restore, signals)
        self._every, self._at_epochs = frequencies(every, save_freq)
        if save_best_only and monitor is None:
            monitor = "val_loss"
        self.monitor, self.save_best_only, self.verbose = monitor, save_best_only, verbose
        self._more_is_better = monitor is not None and larger_is_better(monitor, mode)
        best = initial_value_threshold
        self.best = None if best is None else real_number("initial_value_threshold", best)
        self._policies: dict[str, Any] | None = (
            None if restore is False else dict(restore) if restore is not True else {}
        )
        self._grace_s, self._signals = (
            seconds("grace_s", grace_s),
            tuple(whole_number("a signal", number) for number in signals),
        )
        self.step = self.epoch = self.batch = 0
        self.preempted = False
        self.report: Report | None = None
        self._offset = 0  # batches of the epoch that this fit has left out
        self._seen = 0  # batches of the epoch as this fit counts them
        self._host: bytes | None = None  # random state of the process, with which the next epoch begins
        self._saved_at: Position | None = None
        self._trainer: threading.Thread | None = None  # that `fit` runs in
        self._due = False  # a save that waits for the end of the epoch
        self._began: Any = None  # the model that it was begun with
        self._again: list[tuple[Any, Any]] = []  # variables and values for when the epoch has begun
        self._again_rate: dict[str, Any] = {}
        self._callbacks: list[Any] = []  # others of the same training
        self._callback_values: dict[str, Any] = {}
        self._best: dict[str, list[Any]] = {}  # weights for EarlyStopping, when training has begun
        self._data: dict[str, Any] = {}  # what `resume` says of the data
        self._saved_data: dict[str, Any] = {}  # and said of them when the checkpoint was made
        self._signature: Any = None
        self._owns_run = not isinstance(run, Run)
        if isinstance(run, Run):
            if keep_last is not None or options:
                raise UsageError("give what the run is opened with to pawl.Run, or give a path")
            self.run = run
        else:
            if monitor is not None and (keep_last or any(options.get(name) for name in _RETENTION)):
                options = {"keep_best": 1, "metric": monitor, "metric_max": self._more_is_better, **options}
            framework = options.pop("framework", f"keras {keras.__version__} on {keras.backend.backend()}")
            self.run = Run(run, keep_last=keep_last, framework=framework, **options)
        self._let_go = LetGo(self.run)

    def __repr__(self) -> str:
        return f"<pawl.keras.Checkpoint of {self.run.path!r}, step {self.step}>"

    # ---- what is saved ----

    def _entries(self, model: Any) -> list[Entry]:
        """All variables, with their names; the metrics of an epoch that has just begun are none yet."""
        entries = model_entries(model)
        names = {id(entry.variable): entry.name for entry in entries}
        if getattr(model, "optimizer", None) is not None:
            require_optimizer_of(model, names)
        for optimizer in self._optimizers(model, names):
            entries += optimizer.entries()
        return entries

    def _optimizers(self, model: Any, names: Mapping[int, str]) -> list[Optimizer]:
        """That of ``compile``, and those of a training step of one's own, once they are built."""
        own = getattr(model, "optimizer", None)
        found = [] if own is None else [Optimizer(own, names)]
        return found + [Optimizer(one, names, prefix) for prefix, one in other_optimizers(model) if one.built]

    def _set_values(self, state: State, model: Any, position: Position) -> None:
        for optimizer in self._optimizers(model, {}):
            for name, value in optimizer.values().items():
                give = state.set if name == optimizer.class_name else state.set_json
                give(name, value, role="hyperparameter")
        state.set("training/step", position.step, role="step")
        state.set("training/epoch", position.epoch, role="step")
        state.set("training/batch", position.batch, role="step")
        best = None if self.best is None else float(self.best)
        state.set_json("training/best", best if best is None or numpy.isfinite(best) else repr(best), role="other")
        state.set_json("training/callbacks", callback_values(self._callbacks), role="other")
        state.set_json("training/data", self._data or None, role="data_position")
        state.set_json(_SIGNATURE, self._signature, role="batch_signature")
        state.set("rng/host", host_random_state(), role="rng", per_rank=True)

    def _state(self, model: Any, position: Position) -> State:
        entries = [*self._entries(model), *generator_entries()]
        if position.batch:
            entries += metric_entries(model)
        tensors: dict[str, Any] = {}
        for name, replicas in replicas_of(entries).items():
            tensors[name] = rows([values_of(one).hold(name, one) for one in replicas])
        for name, variable, what in entries:
            values = values_of(variable)
            tensors[name] = Tensor(values.hold(name, variable), copied=values.copied, **what)
        for name, array in self._best_weights(model, entries):
            tensors[name] = Tensor(array, role="other", copied=keras.backend.backend() == "torch")
        state = State(tensors)
        self._set_values(state, model, position)
        return state

    def _best_weights(self, model: Any, entries: list[Entry]) -> Iterator[tuple[str, Any]]:
        """What EarlyStopping would put back now."""
        names = {id(entry.variable): entry.name for entry in entries}
        for key, listed in best_weights(self._callbacks, names, model).items():
            held = getattr(callback_of(self._callbacks, key), "best_weights", None)
            if held is not None:
                yield from ((name, numpy.asarray(array)) for name, array in zip(listed, held, strict=True))

    # ---- saving ----

    def save(self, metrics: Mapping[str, float] | None = None) -> None:
        """Starts to save the job as step `step`; writing goes on in the background.

        Args:
            metrics: name to value, for the manifest and retention.

        Raises:
            Error: what the save before failed with; nothing was started then: call it again to save.
            UsageError: something that cannot be saved, by name; `fit` trains in another thread meanwhile.
        """
        trainer = self._trainer
        if trainer is not None and trainer is not threading.current_thread() and trainer.is_alive():
            error = UsageError(f"fit() trains in the thread {trainer.name!r}, and would change what is saved here")
            error.next = "call save() in that thread, from a callback, or when fit() has ended"
            raise error
        self._save(Position(self.epoch, self.batch, self.step), metrics)

    def _save(
        self, position: Position, metrics: Mapping[str, float] | None, *, final: bool = False, last: bool = False
    ) -> bool:
        """Did a save begin? With ``on_busy="skip"`` none does while the one before is being written.

        `final`: before the process ends. `last`: of this training, which waits for the save before: none that comes
        after could make up for a skip.
        """
        model = self.model
        if last:
            self.run.wait()
        state = self._state(model, position)
        self._due = False
        if final:
            self.run.save_final(state, position.step, self._grace_s, metrics=metrics)
        else:
            self.run.save(state, position.step, metrics=metrics)
            if was_skipped(self.run):
                self._tell(f"step {position.step} is skipped: the save before it is still being written")
                return False
            self._let_go.begin(state)
        self._saved_at = position
        at = f"batch {position.batch} of epoch {position.epoch + 1}" if position.batch else f"epoch {position.epoch}"
        self._tell(f"saving step {position.step}, after {at}")
        return True

    def _tell(self, what: str) -> None:
        logger.info("%s: %s", self.run.path, what)
        if self.verbose:
            print(f"\n{self.run.path}: {what}")

    def _improved(self, logs: Mapping[str, Any]) -> bool:
        """Notes the best value of what is monitored."""
        if self.monitor is None:
            return False
        value = logs.get(self.monitor)
        if value is None:
            if self.save_best_only:
                logger.warning(
                    "%s is not among %s: the best cannot be told, and it is saved", self.monitor, sorted(logs)
                )
            return True
        number = float(value)
        better = self.best is None or (number > self.best if self._more_is_better else number < self.best)
        if better:
            self.best = number
        return better

    def _metrics(self, logs: Mapping[str, Any] | None) -> dict[str, float]:
        return {str(name): float(value) for name, value in (logs or {}).items() if numpy.ndim(value) == 0}

    def wait(self, timeout: float | None = None) -> SaveStats:
        """Waits until the save in flight is durable, and tells how it went.

        Raises:
            Timeout: after `timeout` seconds [the run's deadline_s]; the save goes on.
            Error: why the save failed.
        """
        return self.run.wait(timeout)

    # ---- restoring ----

    def restore(self, model: Any = None, **policies: Any) -> Report | None:
        """Brings model, optimizer and the rest back from a checkpoint; what is saved next goes on from there.

        Nothing is changed before every difference is known.

        Args:
            model: built, and compiled unless ``model_only=True`` [that of the callback].
            policies: of ``pawl.Run.restore``: step, missing, unexpected, cast, hyperparameter, model_only,
                renames, fallback, progress.

        Returns:
            What was restored; None: there is no checkpoint yet, and no step was asked for.

        Raises:
            Mismatch: the checkpoint does not fit; its `report` has every difference. Nothing is changed.
            UsageError: model or optimizer are not built, or for other variables.
            Damaged, ...: as ``pawl.Run.restore``. Nothing is changed.
        """
        if model is not None:
            self.set_model(model)
        model = self.model
        there = self._there()
        if there.of_tensorflow:
            return self._restore_of_tensorflow(model, policies)
        model_only = bool(policies.get("model_only"))
        keep = model_only or policies.get("missing", "error") != "error"  # what is not restored stays as it is
        entries = self._prepared(model, there)
        memory: dict[str, Any] = {}
        tensors: dict[str, Any] = {}
        for name, variable, what in entries:
            memory[name], array = values_of(variable).new(name, variable, keep)
            tensors[name] = Tensor(array, **what)
        best = self._memory_for_best(model, entries, there.optional, memory, tensors)
        replicas = {}
        for name, of in replicas_of(entries).items():
            if there.optional.get(name) == (len(of), *of[0].shape):
                replicas[name] = [values_of(one).new(name, one, keep) for one in of]
                tensors[name] = rows([array for _, array in replicas[name]])
        state = State(tensors)
        if self._signature is None:
            self._signature = there.signature
        self._set_values(state, model, Position(self.epoch, self.batch, self.step))
        supplied: dict[str, Any] = {}

        def supply(found: Found) -> Tensor | None:
            """What is not in use in this process."""
            if found.name.startswith(_OPTIONAL) and found.dtype is not None:
                supplied[found.name] = array_for(found)
                return Tensor(supplied[found.name], role=found.role)
            return None

        try:
            report = self.run.restore(state, supply=supply, **policies)
        except NotFound:
            if policies.get("step") is not None:
                raise
            return None
        except Mismatch as why:
            _explain(why)
            raise
        for name, of in replicas_of(entries).items():  # after the variables themselves, whose values all get
            for one, (value, _) in zip(of, replicas.get(name, ()), strict=False):
                entries.append(Entry(f"{name}/{len(memory)}", one, {"role": "other"}))
                memory[entries[-1].name] = value
        self._take(model, state, entries, memory, model_only)
        if not model_only:
            self._best = {key: [as_numpy(memory[name]) for name in listed] for key, listed in best.items()}
        logger.info("step %s of %s is restored", report.step, self.run.path)
        self.report = report
        return report

    def _memory_for_best(
        self,
        model: Any,
        entries: list[Entry],
        shapes: Mapping[str, Any],
        memory: dict[str, Any],
        tensors: dict[str, Any],
    ) -> dict[str, list[str]]:
        """Names, by callback, of the weights that EarlyStopping would put back, where the checkpoint has them."""
        names = {id(entry.variable): entry.name for entry in entries}
        found = best_weights(self._callbacks, names, model)
        found = {key: listed for key, listed in found.items() if all(name in shapes for name in listed)}
        for listed in found.values():
            for name, weight in zip(listed, model.weights, strict=True):
                memory[name], array = values_of(weight).new(name, weight, keep=True)
                tensors[name] = Tensor(array, role="other")
        return found

    def _restore_of_tensorflow(self, model: Any, policies: dict[str, Any]) -> Report | None:
        """Model and optimizer, as pawl.tf finds them; training then begins at step 0 of epoch 0."""
        from .. import tf as of_tensorflow

        require_built(model)
        with self._saved() as checkpoint:
            step = checkpoint.step
            roots = {name.split("/", 1)[0] for name in checkpoint}
        objects = {"model": model}
        if "model" not in roots:
            error = UsageError(f"step {step} is of TensorFlow's objects, and its model is none of {sorted(roots)}")
            error.next = "restore it by pawl.tf.Checkpoint(NAME=model, ...), with the names that it was saved with"
            raise error
        if "optimizer" in roots and not policies.get("model_only"):
            objects["optimizer"] = model.optimizer
        trackable: Any = of_tensorflow
        given = {name: value for name, value in policies.items() if name not in ("step", "fallback")}
        try:
            report: Report = trackable.Checkpoint(**objects).restore(f"{self.run.path}@{step}", **given)
        except Mismatch as why:
            if why.report is not None and any(item.difference == Difference.UNEXPECTED for item in why.report.items):
                why.next = (
                    "this checkpoint was made by pawl.tf or tf.train, and model and optimizer can be taken from it: "
                    f"what is passed stands in Checkpoint(restore={{...}}): {why.next}"
                )
            raise
        self.report = report
        logger.info("step %s of %s, which is of TensorFlow's objects, is restored", step, self.run.path)
        return report

    def _prepared(self, model: Any, there: _There) -> list[Entry]:
        """All variables, those of an optimizer that has made no step, too."""
        require_built(model)
        require_no_tables(model)
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None:
            require_one_strategy(model)
            if not optimizer.built:
                with scope_of(model):
                    optimizer.build(model.trainable_variables)
        self._prepare_others(model)
        entries = [*self._entries(model), *generator_entries(frozenset(there.optional))]
        found = metric_entries(model) if getattr(model, "compiled", False) else []
        return entries + [entry for entry in found if entry.name in there.optional]

    def _prepare_others(self, model: Any) -> None:
        """Builds other optimizers for what the checkpoint has slots of; refuses those of another class."""
        others = other_optimizers(model)
        if not others or self._policies is None or not self._may_restore():
            return
        names = {entry.name: entry.variable for entry in model_entries(model)}
        with self._saved() as checkpoint:
            for prefix, one in others:
                inner = getattr(one, "inner_optimizer", one)
                saved = checkpoint.get(f"{prefix}/class")
                if saved is not None and saved != type(inner).__name__:
                    error = Mismatch(
                        f'{prefix}: the optimizer changed from "{saved}" in the checkpoint to "{type(inner).__name__}"'
                    )
                    error.entry, error.path = f"{prefix}/class", str(checkpoint.path)
                    error.safe = "nothing was restored"
                    error.next = "make the optimizer that was saved, or give restore={'model_only': True}"
                    raise error
                of = {entry.slot_of for entry in checkpoint.entries(f"{prefix}/") if entry.role == "slot"}
                if of and not one.built:
                    known = {id(variable) for name, variable in names.items() if name in of}
                    with scope_of(model):
                        one.build([variable for variable in model.trainable_variables if id(variable) in known])

    def _may_restore(self) -> bool:
        """Is there a checkpoint to begin with?"""
        if self._policies is None:
            return False
        try:
            with self._saved():
                return True
        except Error:
            return False

    def _saved(self) -> Any:
        step = (self._policies or {}).get("step")
        return open_checkpoint(self.run.path, step) if step is not None else open_checkpoint(self.run.path)

    def _there(self) -> _There:
        """What the checkpoint is and has, that this process has to know before it is restored."""
        try:
            with self._saved() as checkpoint:
                by_tf = checkpoint.framework.startswith("tensorflow") and keras.backend.backend() == "tensorflow"
                return _There(
                    of_tensorflow=(by_tf or _GRAPH in checkpoint) and "training/step" not in checkpoint,
                    optional={one.name: one.shape or () for prefix in _OPTIONAL for one in checkpoint.entries(prefix)},
                    signature=checkpoint[_SIGNATURE] if _SIGNATURE in checkpoint else None,  # noqa: SIM401
                )
        except Error:  # what is wrong the restore says
            return _There(False, {}, None)

    def _take(
        self, model: Any, state: State, entries: list[Entry], memory: Mapping[str, Any], model_only: bool
    ) -> None:
        """Hands what was restored to the job."""
        self._again = []
        begun = bool(state["training/batch"]) and not model_only
        for name, variable, what in entries:
            of_epoch = begun and _OF_EPOCH.match(name) is not None
            if model_only and what.get("role") != "model":
                continue
            values_of(variable).put(variable, memory[name], again=of_epoch)
            if of_epoch:
                self._again.append((variable, memory[name]))
        if model_only:
            return
        wanted = ("optimizer/", "optimizers/")
        hyperparameters = {name: state[name] for name in state if name.startswith(wanted) and name not in memory}
        changed = [optimizer.set_values(hyperparameters) for optimizer in self._optimizers(model, {})]
        if any(changed) and model.train_function is not None:
            model.make_train_function(force=True)
        self._again_rate = hyperparameters if begun else {}
        self.step, self.epoch, self.batch = (state[f"training/{name}"] for name in ("step", "epoch", "batch"))
        best = state["training/best"]
        self.best = self.best if best is None else float(best)
        self._callback_values = state["training/callbacks"] or {}
        self._saved_data = state["training/data"] or {}
        self._saved_at = Position(self.epoch, self.batch, self.step)
        self._host = state["rng/host"]
        set_host_random_state(self._host)

    # ---- as a callback ----

    def begin(self, model: Any) -> Report | None:
        """Restores what there is, once for a model; `resume` and ``on_train_begin`` call it."""
        self.set_model(model)
        if self._began is model:
            return None
        self.preempted = False
        report = None
        if self._policies is not None:
            report = self.restore(**self._policies)
        else:
            self._prepared(self.model, self._there())
        self._began = model
        if report is None:
            self._warn_of_what_is_there()
        return report

    def _warn_of_what_is_there(self) -> None:
        try:
            newest = max((info.step for info in ls(self.run.path) if info.status == "committed"), default=-1)
        except NotFound:
            newest = -1
        except Error:
            return
        if newest < 0 and self._policies is not None:
            warn_of_others(self.run.path, logger, "pawl.tf.Checkpoint(...).restore, or model.load_weights")
        if newest > self.step:
            logger.warning(
                "%s has step %d already, from which the next job would continue: remove what is not wanted "
                "(pawl rm %s@%d), or save into another directory",
                self.run.path,
                newest,
                self.run.path,
                newest,
            )

    def on_train_begin(self, logs: Any = None) -> None:
        """Restores, unless `resume` has, and makes the optimizer's variables, where it has made no step.

        Raises:
            UsageError: the model is not built; the checkpoint is from within an epoch, and this is no `resume`.
            Mismatch, Damaged, ...: as `restore`.
        """
        del logs
        self._trainer = threading.current_thread()
        if self._signals and self not in _watching:
            _run.watch_preemption(*self._signals)
            _watching.add(self)
        report = self.begin(self._model)
        if report is not None and self.step:
            if self.batch:
                error = UsageError(
                    f"step {self.step} of {self.run.path} is of batch {self.batch} of epoch {self.epoch}, and fit() "
                    "cannot begin within an epoch: it would train on its first batches again"
                )
                error.step = self.step
                error.next = (
                    "call pawl.keras.resume(model, dataset, epochs=..., callbacks=[...]) instead of model.fit, or "
                    "give Checkpoint(restore={'step': ...}) a step at the end of an epoch"
                )
                self._began = None
                raise error
            self._model._initial_epoch = self.epoch
        set_callback_values(self._callbacks, self._callback_values)
        for key, arrays in self._best.items():
            callback_of(self._callbacks, key).best_weights = arrays
        self._callback_values, self._best = {}, {}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Counts anew; in an epoch that goes on, what it has counted so far is put back."""
        del logs
        self.epoch, self.batch, self._seen = epoch, self._offset, 0
        if self._offset:
            for variable, value in self._again:
                values_of(variable).put(variable, value)
            for optimizer in self._optimizers(self._model, {}) if self._again_rate else ():
                optimizer.set_values(self._again_rate)
        self._again, self._again_rate = [], {}
        if self._host is not None:  # fit has drawn from it to look at the data
            set_host_random_state(self._host)
        self._host = self._host if self._offset else None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """An iterator of PyTorch's DataLoader has drawn a number, which the one of before had drawn already."""
        del batch, logs
        if self._host is not None:
            set_host_random_state(self._host, only="torch")
            self._host = None

    def _steps(self) -> int | None:
        """Batches of this epoch, those that were left out, too; None: nobody knows."""
        steps = (self.params or {}).get("steps")
        return None if steps is None else int(steps) + self._offset

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts, and saves if it is time. What is due at the last batch is saved at the epoch's end."""
        steps = self._steps()
        seen = batch + 1  # more than there are, where several steps are made at a time
        if steps is not None:
            seen = min(seen, steps - self._offset)
        before = self.step
        self.step += seen - self._seen
        self.batch += seen - self._seen
        self._seen = seen
        if _run.preempted() and not self.preempted and self in _watching:
            self._stop(steps)
            return
        if self._every is not None and self.step // self._every > before // self._every:
            self._due = True
        if self._due and not self.preempted and self.batch != steps:
            metrics, best = self._metrics(logs), self.best
            if not self.save_best_only or self._improved(metrics):
                saved = self._save(Position(self.epoch, self.batch, self.step), metrics)
                if not saved and self.save_best_only:
                    self.best = best  # the next one that is as good is saved
            self._due = False

    def _stop(self, steps: int | None) -> None:
        """The final save after a signal; then training stops."""
        logger.warning("signal %d came: saving step %d, then training stops", _run.preempted(), self.step)
        self.preempted = True
        position = Position(self.epoch, self.batch, self.step)
        if self.batch == steps:
            position = Position(self.epoch + 1, 0, self.step)
        if self._saved_at == position:
            self.run.wait(self._grace_s)
        else:
            self._save(position, None, final=True)
        self._model.stop_training = True

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a signal an evaluation is not finished."""
        del batch, logs
        if self.preempted or (self in _watching and _run.preempted()):
            self._model.stop_evaluating = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves the end of the epoch, if that is asked for or a save is due."""
        steps = self._steps()
        whole = steps is None or self.batch >= steps or not self._model.stop_training
        self._offset = 0
        if self.preempted:
            return
        metrics, best = self._metrics(logs), self.best
        better = self._improved(metrics)
        last = epoch + 1 >= ((self.params or {}).get("epochs") or 0) or self._model.stop_training
        self._due = self._due or (last and self._every is not None)
        position = Position(epoch + 1, 0, self.step) if whole else Position(epoch, self.batch, self.step)
        if whole:
            self.epoch, self.batch = epoch + 1, 0
        if _run.preempted() and self in _watching:
            self.preempted = True
            logger.warning("signal %d came: saving step %d, then training stops", _run.preempted(), self.step)
            self._save(position, metrics, final=True)
            self._model.stop_training = True
        elif (self._due or self._at_epochs) and (better or not self.save_best_only):
            saved = self._save(position, metrics, last=last)
            if not saved and self.save_best_only:
                self.best = best
        self._due = False

    def on_train_end(self, logs: Any = None) -> None:
        """Waits until the last save is durable.

        Raises:
            Error: why a save failed, if nothing has raised that yet.
        """
        del logs
        self._trainer = None
        if self._began is not None:
            self._began._initial_epoch = 0
        self._unwatch()
        self.run.wait()

    def _unwatch(self) -> None:
        if self in _watching:
            _watching.discard(self)
            if not _watching:  # from now on a signal ends the process again
                _run.unwatch_preemption()

    # ---- closing ----

    def close(self, timeout: float | None = None) -> None:
        """Waits for the save in flight, at most `timeout` seconds, and closes the run if it opened it."""
        self._unwatch()
        if self._owns_run:
            self.run.close(timeout)
        elif not self.run.closed:
            self.run.wait(timeout)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_after(error, self.close, self.run.path)


def _explain(why: Mismatch) -> None:
    """A checkpoint of another tool has no place in the training."""
    report = why.report
    names = {item.name for item in report.items} if report is not None else set()
    if "training/step" in names and "training/epoch" in names:
        why.next = (
            "this checkpoint was not made by pawl.keras: give restore={'model_only': True, 'unexpected': 'allow'} "
            "to take the model's variables from it" + (f"; {why.next}" if why.next else "")
        )
