# SPDX-License-Identifier: Apache-2.0
"""Trackable objects of TensorFlow, saved into a run and restored from one, or from TensorFlow's own files."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow
from tensorflow.python.trackable import base

from .._abi import Difference
from .._checkpoint import Checkpoint as Opened
from .._checkpoint import ls
from .._checkpoint import open as open_checkpoint
from .._error import Damaged, Error, Mismatch, NotFound, UsageError
from .._handle import counted, path_text, whole_number
from .._report import Report
from .._run import Run
from .._state import State
from ._graph import Names, fingerprint_of, is_of_keras_alone, is_opaque, is_sharded, is_variable, join
from ._optimizers import inner_of
from ._target import Place, Target, build_optimizers, is_bundle, saved_state
from ._tf_keras import variables_of_tf_keras

logger = logging.getLogger("pawl.tf")


@dataclasses.dataclass(frozen=True)
class Restored(Report):
    """What a restore did: pawl's report, with the questions that ``tf.train`` lets one ask.

    Attributes:
        path: what was restored.
    """

    path: str = ""

    def _assert(self, kinds: dict[Difference, str], counts: int) -> Restored:
        if counts == 0:
            return self
        lines = [f"{kinds[item.difference]}: {item.name}" for item in self.items if item.difference in kinds]
        entries = counted(counts, "entry", "entries")
        raise AssertionError(f"{self.path} and the program differ in {entries}:\n" + "\n".join(lines))

    def assert_consumed(self) -> Restored:
        """Raises AssertionError, which names them, where checkpoint or program had entries that the other lacks."""
        kinds = {Difference.MISSING: "not in the checkpoint", Difference.UNEXPECTED: "in the checkpoint alone"}
        return self._assert(kinds, self.kept + self.ignored)

    def assert_existing_objects_matched(self) -> Restored:
        """Raises AssertionError, which names them, where the program had entries that the checkpoint lacks."""
        return self._assert({Difference.MISSING: "not in the checkpoint"}, self.kept)

    def assert_nontrivial_match(self) -> Restored:
        """Raises AssertionError where nothing was restored."""
        if self.restored == 0:
            raise AssertionError(f"nothing of {self.path} was restored")
        return self

    def expect_partial(self) -> Restored:
        """Nothing is left to be said: pass ``missing="allow"`` and ``unexpected="allow"`` to the restore itself."""
        return self


def step_path(run: str, step: int) -> str:
    """How a step of a run is called: RUN@STEP."""
    return f"{run}@{step}"


def split_step(path: str) -> tuple[str, int | None]:
    """The opposite of `step_path`; of another path itself, and None."""
    found = re.fullmatch(r"(.+)@(\d+)", path, re.DOTALL)
    return (found[1], int(found[2])) if found is not None and not os.path.exists(path) else (path, None)


def resolved(path: str | os.PathLike[str]) -> str:
    """An absolute path, whatever the process's directory becomes; what pawl refuses or explains stays as it is."""
    text = path_text(path)
    return text if not text or text[0] in "~$" or "://" in text or "\0" in text else os.path.abspath(text)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Says of a run of pawl.keras, which has more than these objects, how its training is continued."""
    try:
        yield
    except Mismatch as why:
        items = () if why.report is None else why.report.items
        names = {item.name for item in items if item.difference == Difference.UNEXPECTED}
        if {"training/step", "training/epoch"} <= names:
            why.next = (
                "this checkpoint was made by pawl.keras: to continue its training give pawl.keras.Checkpoint its run, "
                f"and fit by pawl.keras.resume; to take its model and optimizer: {why.next}"
            )
        raise


def _numbered(path: str, why: NotFound) -> NotFound:
    """The same failure; where checkpoints of TensorFlow begin with that path, it names the newest of them."""
    there = [found for found in glob.glob(f"{glob.escape(path)}-*.index") if os.path.isfile(found)]
    if there:
        newest = max(there, key=os.path.getmtime).removesuffix(".index")
        why.found = f"a prefix of TensorFlow: {len(there)} checkpoints begin with it, the newest is {newest}"
        why.next = f"restore({newest!r})"
    return why


def restored(report: Report, path: str) -> Restored:
    """A report as that of this package."""
    values = {field.name: getattr(report, field.name) for field in dataclasses.fields(Report)}
    return Restored(**values, path=path)


class Checkpoint:
    """Objects that are saved and restored together, as ``tf.train.Checkpoint`` groups them.

    ::

        checkpoint = pawl.tf.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(0))
        manager = pawl.tf.CheckpointManager(checkpoint, "runs/a", max_to_keep=3)
        manager.restore_or_initialize()
        ...
        checkpoint.step.assign_add(1)
        manager.save()

    Saved are variables, whatever holds them: ``tf.Module``, models, layers, metrics and optimizers of
    Keras (with the seeds of Dropout, and what the optimizer is set to), lists, dictionaries, generators;
    and, as bytes that each rank has of its own, iterators of ``tf.data``, mutable lookup tables and
    ``PythonState``. Values are held, not copied, while a save is written: training goes on.

    Names: ``model/dense/kernel`` of a Keras model, whatever else the process has made;
    ``optimizer/dense/kernel/momentums`` of a slot; else the attributes that lead to a variable,
    ``module/blocks/0/w``.

    Args:
        root: an object whose own attributes are at the top.
        trackables: objects by name: what ``tf.train.Checkpoint`` takes, and metrics and seed generators of Keras.

    Attributes given by name can be read and set: ``checkpoint.step``.
    """

    def __init__(self, root: Any = None, **trackables: Any) -> None:
        _require_holder(root)
        self._root = root
        self._of_keras = {name: one for name, one in trackables.items() if is_of_keras_alone(one)}
        tracked = {name: one for name, one in trackables.items() if name not in self._of_keras}
        self._tracked = tensorflow.train.Checkpoint(**tracked)
        self._names: Names | None = None
        self._fingerprint: list[int] = []
        self._saves = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._of_keras[name] if name in self._of_keras else getattr(self._tracked, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif is_of_keras_alone(value):
            self._of_keras[name] = value
        else:
            setattr(self._tracked, name, value)

    @property
    def save_counter(self) -> int:
        """How many saves this object has begun."""
        return self._saves

    # ---- what there is ----

    def _objects(self) -> dict[str, Any]:
        view = tensorflow.train.TrackableView(self._tracked)
        found = {name: child for name, child in view.children(self._tracked).items() if name != "save_counter"}
        return {**({} if self._root is None else {"": self._root}), **found, **self._of_keras}

    def _current(self) -> Names:
        objects = self._objects()
        fingerprint = fingerprint_of(objects)
        if self._names is None or fingerprint != self._fingerprint:
            self._names, self._fingerprint = Names(objects), fingerprint
        return self._names

    def variables(self) -> list[Any]:
        """All variables that are saved, with those of optimizers."""
        return [leaf.found for leaf in self._current().all_leaves() if leaf.kind != "opaque"]

    def state(self, place: tuple[int, int] = (0, 1)) -> State:
        """The present values, held, with their names: what a save of ``pawl.Run`` takes.

        Args:
            place: rank and number of ranks of a group, all of which have the same variables.

        Raises:
            UsageError: a model that is not built; two variables that nothing tells apart.
            Unsupported: what TensorFlow cannot make bytes of, by its name.
        """
        state = saved_state(self._current(), Place(*place))
        if len(state) == 0 and self._objects():
            error = UsageError("there is nothing to save: the objects of the checkpoint hold no variables yet")
            error.next = "make their variables first: call them, or build them"
            raise error
        return state

    # ---- saving ----

    def save(self, directory: str | os.PathLike[str], step: int | None = None, **options: Any) -> str:
        """Saves once, and returns when that is durable. For a loop use `CheckpointManager`.

        Args:
            directory: of the run.
            step: its number [one more than the newest there].
            options: of ``pawl.Run``.

        Returns:
            What `restore` takes: RUN@STEP.
        """
        path = resolved(directory)
        with Run(path, framework=f"tensorflow {tensorflow.__version__}", **options) as run:
            number = newest_step(path) + 1 if step is None else int(whole_number("step", step))
            self._saves += 1
            run.save(self.state(), number)
            run.wait()
        return step_path(path, number)

    # ---- restoring ----

    def restore(self, path: str | os.PathLike[str] | None, *, fallback: bool = True, **policies: Any) -> Restored:
        """Brings all objects back: every variable gets what the checkpoint has, or none does.

        Every difference is found before anything is read. Slots that an optimizer does not have yet are made.

        Args:
            path: a run (its newest step), RUN@STEP, or a checkpoint of TensorFlow: its prefix or directory.
            fallback: where the newest step of a run is damaged, take the next older one, and say so in the log.
            policies: of ``pawl.Checkpoint.restore``: missing, unexpected, cast, hyperparameter, per_rank,
                model_only, renames, progress.

        Raises:
            Mismatch: the checkpoint does not fit; its `report` has every difference. Nothing is changed.
            NotFound: there is no checkpoint; says what is there instead.
            Damaged: bytes do not verify. Nothing is changed.
            UsageError: no path; a model that is not built.
        """
        if path is None:
            error = UsageError("there is no checkpoint to restore: the path is None")
            error.next = "call restore_or_initialize() of the manager, which begins anew where there is none"
            raise error
        run, step = split_step(resolved(path))
        tried: set[int] = set()
        while True:
            try:
                opening = open_checkpoint(run, step)
            except NotFound as why:
                raise _numbered(run, why) from None
            with opening as opened:
                try:
                    report = self._restore_opened(opened, policies)
                except Damaged as why:
                    older = [n for n in committed(run) if opened.step is not None and n < opened.step]
                    if opened.format != "pawl" or not fallback or (step is not None and not tried) or not older:
                        raise
                    tried.add(opened.step or 0)
                    step = older[-1]
                    logger.error("step %s of %s is damaged, step %d is tried: %s", opened.step, run, step, why)
                    continue
                where = run if opened.step is None or opened.format != "pawl" else step_path(run, opened.step)
                return restored(dataclasses.replace(report, fallbacks=len(tried)), where)

    def _restore_opened(self, opened: Opened, policies: dict[str, Any]) -> Report:
        target = self._target(opened, policies)
        with explained():
            report = opened.restore(target.state, **policies)
        target.finish()
        return report

    def _target(self, opened: Opened, policies: dict[str, Any], place: tuple[int, int] = (0, 1)) -> Target:
        """What `opened` is restored into."""
        names = self._current()
        if not policies.get("model_only") and build_optimizers(names, opened):
            names = self._current()
        if not policies.get("model_only"):
            _refuse_other_optimizers(names, opened)
            _refuse_optimizers_of_tf_keras(names, opened)
        keep = bool(policies.get("model_only")) or policies.get("missing", "error") != "error"
        return Target(names, opened, keep, Place(*place))


def _require_holder(root: Any) -> None:
    """Refuses what has no attributes that would be saved: it would be left out.

    Raises:
        UsageError: a variable, a table, an iterator, or nothing that TensorFlow can track.
    """
    if root is None or is_of_keras_alone(root):
        return
    if not isinstance(root, base.Trackable) or is_variable(root) or is_sharded(root) or is_opaque(root):
        error = UsageError(f"the root of a checkpoint is an object that holds others, not a {type(root).__name__}")
        error.next = "give it a name: pawl.tf.Checkpoint(NAME=...)"
        raise error


def _refuse_other_optimizers(names: Names, opened: Opened) -> None:
    """Of several optimizers, or one of another name than "optimizer", whose class libpawl looks at itself.

    Raises:
        Mismatch: one is of another class.
    """
    for node in names.optimizers:
        saved, now = join(node.way, "class"), type(inner_of(node.found)).__name__
        if saved != "optimizer/class" and saved in opened and opened[saved] != now:
            error = Mismatch(f'{node.way}: the optimizer changed from "{opened[saved]}" in the checkpoint to "{now}"')
            error.entry, error.path = saved, opened.path
            error.safe = "nothing was restored"
            error.next = "make the optimizer that was saved, or pass model_only=True to restore the model alone"
            raise error


def _refuse_optimizers_of_tf_keras(names: Names, opened: Opened) -> None:
    """What Keras 2 saved of an optimizer is no state of one of Keras 3.

    Raises:
        Mismatch: the checkpoint has such an optimizer where the program has one.
    """
    if not names.optimizers or not is_bundle(opened) or not variables_of_tf_keras(opened):
        return
    for node in names.optimizers:
        prefix = join(node.way, "")
        first = next(iter(opened.entries(f"{prefix}/" if prefix else "")), None)
        if first is not None:
            error = Mismatch(f"{node.way}: an optimizer of Keras 2 (tf_keras) was saved, this one is of Keras 3")
            error.entry, error.path = first.name, opened.path
            error.safe = "nothing was restored"
            error.next = "pass model_only=True to restore the model alone, whose variables are found by their names"
            raise error


def committed(run: str) -> list[int]:
    """Steps of a run that are whole, ascending; none where there is no run."""
    try:
        return sorted(info.step for info in ls(run) if info.status == "committed")
    except Error:
        return []


def has_checkpoints(run: str) -> bool:
    """Has it steps that were committed once, damaged or not?"""
    try:
        return any(info.status != "unfinished" for info in ls(run))
    except NotFound:
        return False


def newest_step(run: str) -> int:
    """The newest step of a run, whole or not; 0 where there is none, as TensorFlow counts from 1."""
    try:
        return max((info.step for info in ls(run)), default=0)
    except Error:
        return 0
