# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer, saved while it trains, and continued where it was.

::

    from pawl.torch.transformers import Callback, train

    trainer = Trainer(model, TrainingArguments(save_strategy="no", ...), train_dataset=data,
                      callbacks=[Callback("runs/a", every=500, keep_last=3)])
    train(trainer)              # instead of trainer.train(): begins, or continues from the newest checkpoint

A callback alone can save, but it cannot resume: the Trainer decides where in the data to begin before it
asks any callback, and only by a folder in its own format. `train` gives it such a folder, with the
progress alone, and keeps it from reading weights there; all else comes from the checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers

from .._checkpoint import ls, open
from .._error import Damaged, NotFound, UsageError
from .._handle import close_after
from .._run import Run
from ._checkpointer import Checkpointer
from ._parts import loads
from ._rng import random_state, set_random_state

__all__ = ["Callback", "train"]

logger = logging.getLogger("pawl.torch")

#: The entry of what the Trainer itself knows.
_NAME = "loader/trainer"
#: Methods of the Trainer that read its own checkpoints, for which others stand in while it resumes.
_READERS = ("_load_from_checkpoint", "_load_optimizer_and_scheduler", "_load_scaler", "_load_rng_state")
_USED = (*_READERS, "_init_training_state", "get_total_train_batch_size")
_BY_TRAINER = ("model", "optimizer", "scheduler", "scaler", "loader", "rng")


class _Progress:
    """What the Trainer of this rank knows: its TrainerState, sums until the next line of the log, its data."""

    def __init__(self, trainer: Any, data: dict[str, Any]) -> None:
        self._trainer = trainer
        self._data = data

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        callbacks = [*trainer.callback_handler.callbacks, trainer.control]
        exportable = [one for one in callbacks if hasattr(one, "state") and hasattr(one, "from_state")]
        return {
            "state": dataclasses.asdict(dataclasses.replace(trainer.state, stateful_callbacks=exportable)),
            "data": self._data,
            "loss": float(trainer._tr_loss),
            "logged_at": trainer._globalstep_last_logged,
            "operations": float(trainer.current_flos),
        }

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Sets the sums; the Trainer has taken its state from the folder by now."""
        trainer = self._trainer
        trainer._tr_loss.fill_(found["loss"])
        trainer._total_loss_scalar = -found["loss"]  # the loss that train() returns is of its own steps
        trainer._globalstep_last_logged = found["logged_at"]
        trainer.current_flos = found["operations"]


class Callback(transformers.TrainerCallback):  # type: ignore[misc]
    """Saves what a Trainer trains, in the background; `train` continues from it.

    A step is saved when all that belongs to it is done, its log and its evaluation, too. The last one is
    saved when training ends. After SIGTERM a final save is made, and training stops with the batch that
    has begun; what is done with it is not in the checkpoint, and is done again after a resume.

    Args:
        run: directory of the run, or an open ``pawl.Run``.
        every: steps between two saves [``save_steps`` of the TrainingArguments, if every_s is not given].
        every_s: seconds between two saves.
        restore: policies of ``Checkpointer.restore``: missing, unexpected, cast, ...
        options: of ``pawl.torch.Checkpointer``: keep_last, best (a metric such as "eval_loss"), mode,
            extra, by_reference, signals, grace_s, ...

    Attributes:
        checkpointer: while training goes on.
        preempted: a signal has stopped the training; the final save is made.
    """

    def __init__(
        self,
        run: str | os.PathLike[str] | Run,
        *,
        every: int | None = None,
        every_s: float | None = None,
        restore: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        given = [name for name in _BY_TRAINER if name in options]
        if given:
            raise UsageError(f"{given[0]}= is the Trainer's own; give what else is to be saved in extra=")
        self._run = run
        self._every, self._every_s = every, every_s
        self._policies = dict(restore or {})
        self._options = options
        self.checkpointer: Checkpointer | None = None
        self.preempted = False
        self._trainer: Any = None  # while train() runs
        self._data: dict[str, Any] = {}
        self._step: int | None = None  # to continue from
        self._rng: dict[str, Any] | None = None  # of that step
        self._damaged: Damaged | None = None  # why it cannot be used
        self._done: int | None = None  # the last step that needs no save
        self._pending = False  # a step is over, and not yet counted
        self._metrics: dict[str, float] = {}  # of its evaluation

    @property
    def path(self) -> str:
        """The directory of the run."""
        return self._run.path if isinstance(self._run, Run) else os.fspath(self._run)

    def _open(self, state: Any, parts: dict[str, Any]) -> Checkpointer:
        every = self._every
        if every is None and self._every_s is None:
            every = int(state.save_steps)
        return Checkpointer(
            self._run,
            model=parts["model"],
            optimizer=parts["optimizer"],
            scheduler=parts["lr_scheduler"],
            scaler=getattr(parts["optimizer"], "scaler", None),
            loader={"trainer": _Progress(self._trainer, self._data)},
            every=every,
            every_s=self._every_s,
            **self._options,
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Restores, if `train` has found a checkpoint.

        Raises:
            UsageError: the Trainer was not started by `train`.
            Mismatch, Damaged: as ``Checkpointer.restore``.
        """
        del args, control
        if self._trainer is None:
            raise UsageError(
                "call pawl.torch.transformers.train(trainer) instead of trainer.train(): a callback alone cannot "
                "tell the Trainer where in the data to continue"
            )
        self.preempted, self._pending, self._metrics, self._rng, self._done = False, False, {}, None, None
        self.checkpointer = self._open(state, parts)
        if self._step is None:
            return
        try:
            self.checkpointer.restore(self._step, fallback=False, **self._policies)
        except Damaged as error:
            self._damaged = error
            raise
        self._rng = random_state()
        self._done = self._step

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Notes that a step is over; its log and its evaluation are still to come."""
        del args, state, control, parts
        self._pending, self._metrics = True, {}

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **parts: Any) -> None:
        """Keeps the metrics, for the save of this step."""
        del args, state, control, parts
        self._metrics = {name: float(one) for name, one in (metrics or {}).items() if isinstance(one, (int, float))}

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> Any:
        """Counts the last step of the epoch before, and saves if it is time."""
        del args, parts
        return self._count(state, control)

    def on_step_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> Any:
        """Counts the step before, and saves if it is time."""
        del args, parts
        return self._count(state, control)

    def _count(self, state: Any, control: Any) -> Any:
        checkpointer = self.checkpointer
        if self._pending and checkpointer is not None and not self.preempted:
            self._pending = False
            checkpointer.steps = state.global_step - 1
            checkpointer.step(self._metrics or None)
            self.preempted = checkpointer.preempted
        if self.preempted:
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Saves the last step, and waits until it is durable."""
        del args, parts
        self._count(state, control)
        checkpointer = self.checkpointer
        if checkpointer is None:
            return
        if not self.preempted and state.global_step not in (0, self._done, checkpointer._last_step):
            checkpointer.save(metrics=self._metrics or None)
        if checkpointer._last_step is not None and not self.preempted:
            checkpointer.wait()
        self._close()

    def _close(self) -> None:
        checkpointer, self.checkpointer = self.checkpointer, None
        if checkpointer is not None:
            checkpointer.close()


def _callback_of(trainer: Any) -> Callback:
    found = [one for one in trainer.callback_handler.callbacks if isinstance(one, Callback)]
    if len(found) != 1:
        raise UsageError(f"the Trainer has {len(found)} of pawl's callbacks; give it one: callbacks=[Callback(...)]")
    return found[0]


def _require_resumable(trainer: Any) -> None:
    """Refuses what could not be resumed, or not by this module."""
    args = trainer.args
    missing = [name for name in _USED if not callable(getattr(trainer, name, None))]
    if missing:
        raise UsageError(
            f"the Trainer of transformers {transformers.__version__} has no {missing[0]}(), and cannot be resumed; "
            "use a version that pawl is tested with, or pawl.torch.Checkpointer with a loop of your own"
        )
    reasons = {
        "auto_find_batch_size": "it changes the size of batches while it trains; give the size",
        "enable_jit_checkpoint": "pawl makes the final save after a signal; leave it out",
    }
    for name, reason in reasons.items():
        if getattr(args, name, False):
            raise UsageError(f"TrainingArguments({name}=True): {reason}")
    if getattr(trainer, "is_deepspeed_enabled", False):
        raise UsageError("DeepSpeed keeps the weights and slots to itself, and pawl cannot save them; use FSDP2")
    if str(getattr(args.save_strategy, "value", args.save_strategy)) != "no":
        logger.warning('the Trainer writes checkpoints of its own, too; give TrainingArguments(save_strategy="no")')
    config = getattr(args, "accelerator_config", None)
    if config is not None and not getattr(config, "use_seedable_sampler", True):
        logger.warning("with use_seedable_sampler=False the order of the data is not the same after a resume")


def _data_of(trainer: Any) -> dict[str, Any]:
    """What decides which samples a step gets."""
    args, data = trainer.args, trainer.train_dataset
    seed = args.data_seed
    if seed is None:
        seed = args.seed if trainer.model_init is not None else torch.initial_seed()
    return {
        "samples of a step": trainer.get_total_train_batch_size(args),
        "batches of a step": args.gradient_accumulation_steps,
        "samples in all": len(data) if hasattr(data, "__len__") else None,
        "seed": seed,
    }


def _read(trainer: Any, path: str, step: int) -> dict[str, Any]:
    """What `_Progress` has saved for this rank."""
    rank = trainer.args.process_index
    saved_by = next(info.world_size for info in ls(path) if info.step == step)
    with open(path, step) as checkpoint:
        if _NAME not in checkpoint:
            error = NotFound(f"step {step} was not saved by the callback for the Trainer")
            error.path = os.path.abspath(path)
            error.expected = f"an entry {_NAME}"
            error.next = "give the callback a run of its own"
            raise error
        found = loads(checkpoint.read_rank(_NAME, rank if rank < saved_by else 0), _NAME)
    if not isinstance(found, dict) or not isinstance(found.get("state"), dict):
        raise Damaged(f"{path}: step {step}: {_NAME} is not what the callback saves")
    return found


def _require_same_data(trainer: Any, then: dict[str, Any], now: dict[str, Any], step: int) -> None:
    differences = [f"{name}: {then.get(name)} then, {now[name]} now" for name in now if then.get(name) != now[name]]
    if not differences:
        return
    if trainer.args.ignore_data_skip:
        logger.warning("step %d was trained on other data: %s; the epoch begins anew", step, "; ".join(differences))
        return
    error = UsageError(f"the data would not continue where step {step} was: {'; '.join(differences)}")
    error.step = step
    error.next = "give the same as then; TrainingArguments(ignore_data_skip=True) begins the epoch anew instead"
    raise error


@contextlib.contextmanager
def _instead(trainer: Any, methods: Mapping[str, Any]) -> Iterator[None]:
    """Other methods for one Trainer, for a while."""
    before = {name: trainer.__dict__[name] for name in methods if name in trainer.__dict__}
    trainer.__dict__.update(methods)
    try:
        yield
    finally:
        for name in methods:
            trainer.__dict__.pop(name, None)
        trainer.__dict__.update(before)


def _resume(trainer: Any, callback: Callback, step: int, arguments: dict[str, Any]) -> Any:
    try:
        found = _read(trainer, callback.path, step)
    except Damaged as error:
        callback._damaged = error
        raise
    _require_same_data(trainer, found.get("data", {}), callback._data, step)
    known = {field.name for field in dataclasses.fields(transformers.TrainerState)}
    state = {name: value for name, value in found["state"].items() if name in known}
    begin = trainer._init_training_state

    def begin_where_it_was(*positional: Any, **named: Any) -> Any:
        where = begin(*positional, **named)
        over = trainer.state.global_step >= trainer.state.max_steps
        return (sys.maxsize, 0) if over else where  # a finished training has no epoch left

    def set_rng(_folder: Any) -> None:
        if callback._rng is not None:
            set_random_state(callback._rng)

    def nothing(*_positional: Any, **_named: Any) -> None:
        pass

    methods = {**dict.fromkeys(_READERS, nothing), "_load_rng_state": set_rng}
    with tempfile.TemporaryDirectory(prefix="pawl-") as folder:
        file = pathlib.Path(folder, "trainer_state.json")
        file.write_text(json.dumps(state), encoding="utf-8")
        with _instead(trainer, {**methods, "_init_training_state": begin_where_it_was}):
            return trainer.train(resume_from_checkpoint=folder, **arguments)


def train(trainer: Any, **arguments: Any) -> Any:
    """Trains, from the beginning or from the newest checkpoint of the Trainer's `Callback`.

    Call it instead of ``trainer.train()``. After an interruption at any time the same call, in a new
    process, gives the same weights, slots, schedule, ``log_history`` and best metric, bit for bit, as if
    there had been none. Restored are also random state and the position in the data; batches that were
    trained on are skipped, by number where the data set has a length. Not restored is the random state
    with which data are transformed in advance of their step (a collator that masks at random): after a
    resume within an epoch those draw other numbers. Only Callbacks with a ``state()`` are kept, and given
    back where ``restore_callback_states_from_checkpoint=True``.

    Args:
        trainer: with one `Callback`.
        arguments: for ``trainer.train``, without resume_from_checkpoint.

    Returns:
        What ``trainer.train`` returns; its loss and speed are of the steps of this call.

    Raises:
        UsageError: something that cannot be resumed: DeepSpeed, auto_find_batch_size, other data than before.
        Mismatch: the checkpoint does not fit; its `report` has every difference.
        Damaged: no checkpoint of the run can be used. Otherwise a damaged one is passed over with a warning.
    """
    if arguments.get("resume_from_checkpoint") is not None:
        raise UsageError("resume_from_checkpoint= is for the Trainer's own checkpoints; call trainer.train() for those")
    arguments.pop("resume_from_checkpoint", None)
    callback = _callback_of(trainer)
    _require_resumable(trainer)
    steps: list[int] = []
    with contextlib.suppress(NotFound):
        steps = [info.step for info in reversed(ls(callback.path)) if info.status != "unfinished"]
    callback._trainer, callback._data = trainer, _data_of(trainer)
    try:
        for step in steps:
            callback._step, callback._damaged = step, None
            try:
                return _resume(trainer, callback, step, arguments)
            except Damaged as error:
                if error is not callback._damaged or step == steps[-1]:
                    raise
                logger.warning("step %d is damaged, and the next older one is taken: %s", step, error)
                callback._close()
        callback._step = None
        return trainer.train(**arguments)
    except BaseException as error:
        close_after(error, callback._close, callback.path)
        raise
    finally:
        callback._trainer = None
