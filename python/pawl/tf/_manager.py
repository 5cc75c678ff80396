# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training job in one run: when they are saved, which stay, which is restored."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import tensorflow

from .._checkpoint import Checkpoint as Opened
from .._checkpoint import open as open_checkpoint
from .._error import Damaged, NotFound, UsageError
from .._group import check_group
from .._handle import close_after, whole_number
from .._let_go import LetGo
from .._others import warn_of_others
from .._run import Run, SaveStats
from .._skipped import was_skipped
from ._checkpoint import (
    Checkpoint,
    Restored,
    committed,
    explained,
    has_checkpoints,
    newest_step,
    resolved,
    restored,
    step_path,
)
from ._group import group_of, strategy_of
from ._values import hold

logger = logging.getLogger("pawl.tf")


def _number(value: Any) -> int:
    """A step as a number: an int, or a variable or tensor of integers."""
    if isinstance(value, int):
        return value
    array = hold(value) if hasattr(value, "assign") else value.numpy() if hasattr(value, "numpy") else value
    try:
        return int(array)
    except (TypeError, ValueError):
        raise UsageError(f"a step is a whole number, or a variable that has one, not {value!r}") from None


class CheckpointManager:
    """Saves a `Checkpoint` again and again into one run, as ``tf.train.CheckpointManager`` does.

    ::

        with pawl.tf.CheckpointManager(checkpoint, "runs/a", max_to_keep=3, step_counter=checkpoint.step,
                                       checkpoint_interval=500) as manager:
            manager.restore_or_initialize()
            for batch in dataset:
                train_step(batch)
                checkpoint.step.assign_add(1)
                manager.save()                  # saves when 500 steps have passed, and returns at once

    A save holds the values of the variables, which no update changes, and is written in the background:
    it is one cut, and training goes on. Memory for the values is needed twice until they are written.

    Steps of the run are numbered by `step_counter`, or from 1 on, one more than the newest. The newest is the one of
    the greatest number: a job that saves lower numbers than there are is told so in the log.

    With a ``MultiWorkerMirroredStrategy`` all workers make the same calls, and one checkpoint is saved.

    Args:
        checkpoint: a `Checkpoint`, or a ``tf.train.Checkpoint``.
        directory: of the run; resolved once.
        max_to_keep: the newest so many stay; None: all.
        keep_checkpoint_every_n_hours: of older ones, one per so many hours stays.
        checkpoint_name: not used: the names in a run are its own.
        step_counter: a variable that counts steps.
        checkpoint_interval: steps between two saves, at least.
        init_fn: called by `restore_or_initialize` where there is no checkpoint.
        last_checkpoint_step: from which the interval counts [the first save is made at once].
        options: of ``pawl.Run``: budget_bytes, deadline_s, keep_best, metric, group, ...

    Attributes:
        run: the ``pawl.Run``.
        checkpoint: as given.
        directory: absolute path of the run.
        report: what the last restore did; None: there was none.

    Raises:
        ValueError: max_to_keep below 1; an interval without a counter.
        Busy: another manager, of this or another process, writes there: says which.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | Any,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], object] | None = None,
        last_checkpoint_step: int | None = None,
        **options: Any,
    ) -> None:
        del checkpoint_name
        max_to_keep, checkpoint_interval, last_checkpoint_step = (
            None if value is None else whole_number(name, value)
            for name, value in (
                ("max_to_keep", max_to_keep),
                ("checkpoint_interval", checkpoint_interval),
                ("last_checkpoint_step", last_checkpoint_step),
            )
        )
        if max_to_keep is not None and max_to_keep <= 0:
            raise UsageError(f"max_to_keep={max_to_keep}: a positive integer, or None to keep all")
        if checkpoint_interval is not None and checkpoint_interval < 1:
            raise UsageError(f"checkpoint_interval={checkpoint_interval}: saves are at least one step apart")
        if init_fn is not None and not callable(init_fn):
            raise TypeError(f"init_fn is a function, not {type(init_fn).__name__}: {init_fn!r}")
        check_group(options.get("group"))
        if checkpoint_interval is not None and step_counter is None:
            raise UsageError("checkpoint_interval needs a step_counter, the variable that counts steps")
        self.checkpoint = checkpoint if isinstance(checkpoint, Checkpoint) else _taken_over(checkpoint)
        self.directory = resolved(directory)
        self.report: Restored | None = None
        self._interval = checkpoint_interval
        self._step_counter = step_counter
        self._init_fn = init_fn
        self._last_step = last_checkpoint_step
        self._warned = False
        if "group" not in options:
            options["group"] = group_of(strategy_of(_variables_of(self.checkpoint)))
        group = options["group"]
        self._place = (0, 1) if group is None else (group.rank, group.world_size)
        self.run = Run(
            self.directory,
            keep_last=max_to_keep,
            keep_every_hours=keep_checkpoint_every_n_hours,
            framework=options.pop("framework", f"tensorflow {tensorflow.__version__}"),
            **options,
        )
        self._newest = newest_step(self.directory)
        self._let_go = LetGo(self.run)

    def __repr__(self) -> str:
        return f"<pawl.tf.CheckpointManager of {self.directory!r}>"

    @property
    def checkpoint_interval(self) -> int | None:
        """As given."""
        return self._interval

    @property
    def latest_checkpoint(self) -> str | None:
        """RUN@STEP of the newest checkpoint, which `Checkpoint.restore` takes; None: there is none.

        Waits for the save in flight, and raises what it failed with.
        """
        found = self.checkpoints
        return found[-1] if found else None

    @property
    def checkpoints(self) -> list[str]:
        """All checkpoints that are whole, oldest first. Waits for the save in flight."""
        self.run.wait()
        return [step_path(self.directory, step) for step in committed(self.directory)]

    # ---- saving ----

    def _is_due(self, check_interval: bool) -> bool:
        if self._interval is None:
            return True
        now = _number(self._step_counter)
        if self._last_step is None:
            return True
        return now != self._last_step and not (check_interval and now < self._last_step + self._interval)

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: object = None,
        *,
        metrics: Mapping[str, float] | None = None,
        pin: bool = False,
    ) -> str | None:
        """Begins to save, if a save is due, and returns; writing goes on in the background.

        Args:
            checkpoint_number: the step, a number or a variable [that of the step counter; without one the next].
            check_interval: False: save although the interval has not passed, but not twice at one step.
            options: not used: saving is always asynchronous.
            metrics: name to value, for the manifest and retention.
            pin: retention never removes this checkpoint.

        Returns:
            RUN@STEP, which is there when `sync` has returned; None: no save is due, or it was skipped
            (``on_busy="skip"``), and the next call is as due.

        Raises:
            Error: what the save before failed with; nothing was begun then: call it again to save.
            UsageError, Unsupported: something that cannot be saved, by its name.
        """
        del options
        if not self._is_due(check_interval):
            return None
        step = self._next_step() if checkpoint_number is None else _number(checkpoint_number)
        if step < 0:
            raise UsageError(f"checkpoint_number={step}: a step is 0 or more")
        self._warn_of_newer(step)
        try:
            state = self.checkpoint.state(self._place)
        except Exception as why:
            self.run._does_not_save(step, why)  # the other ranks learn of it
            raise
        self.run.save(state, step, metrics=metrics, pin=pin)
        if was_skipped(self.run):
            logger.info("%s: step %d is skipped: the save before it is still being written", self.run.path, step)
            return None
        self._let_go.begin(state)
        self.checkpoint._saves += 1
        self._newest = max(self._newest, step)
        if self._step_counter is not None:
            self._last_step = _number(self._step_counter)
        return step_path(self.directory, step)

    def _next_step(self) -> int:
        return self._newest + 1 if self._step_counter is None else _number(self._step_counter)

    def _warn_of_newer(self, step: int) -> None:
        if step < self._newest and not self._warned:
            self._warned = True
            logger.warning(
                "%s has step %d, which is newer than step %d that is saved now, and the newest is restored: remove "
                "what is not wanted (pawl rm %s@%d), or save into another directory",
                self.directory,
                self._newest,
                step,
                self.directory,
                self._newest,
            )

    def sync(self, timeout: float | None = None) -> SaveStats:
        """Waits until the save in flight is durable, and tells how it went; raises what it failed with."""
        return self.run.wait(timeout)

    # ---- restoring ----

    def restore(self, step: int | None = None, **policies: Any) -> Restored:
        """Brings all objects back from the newest checkpoint of the run: all variables, or none.

        Args:
            step: exactly this one [the newest; where that is damaged, the next older one, said in the log].
            policies: of ``pawl.Run.restore``.

        Raises:
            NotFound: there is none.
            Mismatch, Damaged, UsageError: as `Checkpoint.restore`; nothing is changed.
        """
        self.run.fence()
        with self._open(step) as opened:
            target = self.checkpoint._target(opened, policies, self._place)
        with explained():
            report = self.run.restore(target.state, step=step, **policies)
        target.finish()
        path = step_path(self.directory, report.step if report.step is not None else 0)
        self.report = restored(report, path)
        if self._step_counter is not None:
            self._last_step = _number(self._step_counter)
        logger.info("%s is restored", path)
        return self.report

    def _open(self, step: int | None) -> Opened:
        """The checkpoint that is restored, or, where it cannot be opened, an older one: of the same names."""
        try:
            return open_checkpoint(self.directory, step)
        except Damaged:
            for older in reversed(committed(self.directory)) if step is None else ():
                with contextlib.suppress(Damaged):
                    return open_checkpoint(self.directory, older)
            raise

    def restore_or_initialize(self, **policies: Any) -> str | None:
        """Restores the newest checkpoint; where there is none, calls ``init_fn``.

        Returns:
            RUN@STEP that was restored, or None. What was found is in `report`.
        """
        try:
            return self.restore(**policies).path
        except NotFound:
            if has_checkpoints(self.directory):
                raise
            warn_of_others(self.directory, logger, "pawl.tf.Checkpoint.restore")
        if self._init_fn is not None:
            self._init_fn()
        return None

    # ---- closing ----

    def close(self, timeout: float | None = None) -> None:
        """Waits for the save in flight and closes the run; raises what the last save failed with."""
        self.run.close(timeout)

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_after(error, self.close, self.directory)


def _variables_of(checkpoint: Checkpoint) -> list[Any]:
    """None of a model that is not built yet, and so belongs to no strategy yet."""
    try:
        return checkpoint.variables()
    except UsageError:
        return []


def _taken_over(given: Any) -> Checkpoint:
    if not isinstance(given, tensorflow.train.Checkpoint):
        raise TypeError(f"checkpoint is a pawl.tf.Checkpoint, not {type(given).__name__}: {given!r}")
    found = tensorflow.train.TrackableView(given).children(given)
    return Checkpoint(**{name: child for name, child in found.items() if name != "save_counter"})
