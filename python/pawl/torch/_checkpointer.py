# SPDX-License-Identifier: Apache-2.0
"""A training job in PyTorch, saved while it goes on, and continued where it was."""

from __future__ import annotations

import functools
import logging
import operator
import os
import signal
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from .. import _run
from .._checkpoint import ls
from .._entry import Entry
from .._error import Canceled, Error, Mismatch, NotFound, UsageError
from .._handle import close_after
from .._progress import Progress
from .._report import Report
from .._run import Run, SaveStats
from .._skipped import was_skipped
from .._state import State, Tensor
from . import _streams
from ._agree import Agreement
from ._group import process_group
from ._hook import fence_before_steps, leave_steps_alone
from ._names import escape
from ._parts import (
    Json,
    Live,
    ModelPart,
    ObjectPart,
    OptimizerPart,
    Part,
    RankPart,
    StepPart,
    extra_parts,
    put_position,
)
from ._rng import random_state, set_random_state
from ._tensors import is_dense, is_sharded, local_of, memory_of, require_elements, sharded

logger = logging.getLogger("pawl.torch")

#: Copies of tensors above so many bytes are mentioned in the log, once.
_BIG_COPY = 64 << 20
#: In a job on a device, tensors in host memory of so many bytes at most (an optimizer's counters) are copied, too:
#: then an optimizer's step need not wait for the save.
_SMALL_COPY = 64 << 10


def _named(what: str, given: Any) -> dict[str, Any]:
    """One object under the name `what`, or several below it."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {f"{what}/{escape(key)}": value for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return {f"{what}/{i}": value for i, value in enumerate(given)}
    return {what: given}


def _require_position(loader: Any) -> None:
    if not (hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")):
        raise UsageError(
            f"the loader is a {type(loader).__module__}.{type(loader).__qualname__}, which cannot tell where in the "
            "data it is; use torchdata.stateful_dataloader.StatefulDataLoader, which takes the same arguments, or "
            "give no loader"
        )


#: Checkpointers that are open and act on signals.
_watching: weakref.WeakSet[Any] = weakref.WeakSet()


_shape = operator.attrgetter("shape")
_dtype = operator.attrgetter("dtype")
_device = operator.attrgetter("device")
_version = operator.attrgetter("_version")


def _memory_id(tensor: torch.Tensor) -> int:
    """The same of all views of one piece of memory; 0 of what has none of its own."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # a tensor made of others, or sparse
        return 0


class _Saved:
    """The state that was handed to libpawl, and what it was made from."""

    def __init__(self) -> None:
        self.state = State()
        self.fingerprint: list[Any] = []
        self.names: list[str] = []  # of the tensors read in place
        self.in_place: list[torch.Tensor] = []  # of DTensors the local ones
        self.sharded: list[tuple[int, torch.Tensor]] = []  # their places in in_place, and the DTensors
        self.layout: list[list[Any]] = []  # see look()
        self.uncounted: bool | None = None  # has a tensor no version, as those of torch.inference_mode()?
        self.live: list[torch.Tensor] = []  # what is copied ...
        self.shadows: list[torch.Tensor] = []  # ... to where
        self.aside: list[tuple[str, torch.Tensor, torch.Tensor]] = []  # name, what a device copies later, to where
        self.values: dict[str, Any] = {}

    def local(self) -> list[torch.Tensor]:
        """The tensors that are read in place, as they are now."""
        for i, tensor in self.sharded:
            self.in_place[i] = local_of(tensor)
        return self.in_place

    def look(self) -> list[Iterator[Any]]:
        """Where the tensors that are read in place are now, and what those that are copied are like.

        Iterators that go to each tensor once, and keep nothing: of thousands it is memory that takes the time.
        """
        tensors, live = self.local(), self.live
        return [
            zip(
                map(torch.Tensor.data_ptr, tensors),
                map(_shape, tensors),
                map(torch.Tensor.stride, tensors),
                map(_dtype, tensors),
                strict=True,
            ),
            zip(map(_shape, live), map(_dtype, live), map(_device, live), strict=True),
            ((tensor.shape, tensor.dtype, local_of(tensor).device) for _, tensor, _ in self.aside),
        ]

    def is_as_it_was(self) -> bool:
        """Is all that `look` looks at as it was when this was made?"""
        return all(all(map(operator.eq, now, before)) for now, before in zip(self.look(), self.layout, strict=True))

    def versions(self) -> list[int]:
        """A counter of each tensor that must not change before a fence, which most changes advance."""
        tensors = self.local()
        if self.aside:
            tensors = [*tensors, *(local_of(tensor) for _, tensor, _ in self.aside)]
        if self.uncounted is None:
            self.uncounted = any(map(torch.Tensor.is_inference, tensors))
        if self.uncounted:
            return [0 if tensor.is_inference() else tensor._version for tensor in tensors]
        return list(map(_version, tensors))

    def name_of(self, place: int) -> str:
        """Of a tensor, by its place in `versions`."""
        names = [*self.names, *(name for name, _, _ in self.aside)]
        return names[place]


class Checkpointer:
    """Saves a training job asynchronously, and restores it.

    ::

        with pawl.torch.Checkpointer("runs/a", model=model, optimizer=optimizer, scheduler=scheduler,
                                     loader=loader, every=500, keep_last=3) as ckpt:
            ckpt.restore()                      # continues, where there is a checkpoint
            while ckpt.steps < 100_000 and not ckpt.preempted:
                ...                             # forward, backward, optimizer.step(), scheduler.step()
                ckpt.step()                     # counts, and saves when it is time

    Saved are parameters and persistent buffers, slots and hyperparameters of the optimizer, what the
    others' ``state_dict()`` gives, random state (PyTorch's, NumPy's, Python's), and the number of steps.
    Parameters that an optimizer changes, and its slots, are written from where they are; before an
    optimizer's next step pawl waits until that is done (a hook of all ``torch.optim`` optimizers).
    Those of CUDA devices are copied to pinned host memory on a stream of their own; the optimizer's
    next step comes after these copies on the device, and no thread waits for them.
    All else (buffers, frozen parameters, ...) is copied by `save`, into memory that is kept.

    Names of entries: ``model/layer/0/weight`` for ``layer.0.weight``, as of the model without wrappers
    (DistributedDataParallel, torch.compile); slots ``optimizer/layer/0/weight/exp_avg``.

    With ``torch.distributed`` all ranks make the same calls, and one checkpoint is saved: of DTensors
    (FSDP2, HSDP, tensor parallel) each rank its part, other parameters once, of what is copied rank
    0's, random state and data position of each rank.

    Args:
        run: directory of the run, or an open ``pawl.Run``, which then stays open.
        model: a module, plain or wrapped; or several, by name.
        optimizer: an optimizer of ``torch.optim``, or several, by name or in a list.
        scheduler: with ``state_dict`` and ``load_state_dict``, or several.
        scaler: a GradScaler, or several.
        loader: a StatefulDataLoader, or several: continued where each rank was.
        extra: more to save, by name: modules (EMA, SWA), tensors, dictionaries of nested data, objects
            with ``state_dict`` and ``load_state_dict``.
        every: steps between two saves of `step` [it never saves].
        every_s: seconds between two saves of `step`.
        keep_last: retention keeps the newest so many checkpoints [all].
        best: name of a metric given to save: the best by it stays, too.
        mode: "min" or "max": what is better.
        rng: save and restore random state.
        by_reference: tensors to read in place although no optimizer changes them (such as large frozen
            parameters): call `fence` before changing one.
        signals: at the first of these `step` makes a final save [SIGTERM].
        grace_s: seconds that the final save may take.
        options: of ``pawl.Run``: deadline_s, budget_bytes, keep_every_steps, ...; checking=True finds
            tensors that were changed without a fence, by reading all of them twice.

    Attributes:
        run: the ``pawl.Run``.
        steps: steps counted so far; set by `restore`.
        preempted: a signal came, and the final save is made: leave the loop.

    Raises:
        UsageError: something that cannot be saved, by name, with what to do.
        Error: as ``pawl.Run``.

    Threads: for the thread that trains.
    """

    _looked_for_newer = False  # see _warn_of_newer()

    def __init__(
        self,
        run: str | os.PathLike[str] | Run,
        *,
        model: torch.nn.Module | Mapping[str, torch.nn.Module] | None = None,
        optimizer: Any = None,
        scheduler: Any = None,
        scaler: Any = None,
        loader: Any = None,
        extra: Mapping[str, Any] | None = None,
        every: int | None = None,
        every_s: float | None = None,
        keep_last: int | None = None,
        best: str | None = None,
        mode: str = "min",
        rng: bool = True,
        by_reference: Iterable[torch.Tensor] = (),
        signals: Iterable[int] = (signal.SIGTERM,),
        grace_s: float = 20.0,
        **options: Any,
    ) -> None:
        if mode not in ("min", "max"):
            raise UsageError(f"mode={mode!r}: it is 'min' or 'max'")
        self.steps = 0
        self.preempted = False
        self._grace_s = grace_s
        self._user_reference = list(by_reference)
        self._parts = self._make_parts(_named("model", model), optimizer, scheduler, scaler, loader, extra, rng)
        self._saved: _Saved | None = None
        self._shadows: dict[str, torch.Tensor] = {}
        self._devices: dict[torch.device, _streams.Aside] = {}
        self._versions: list[int] = []
        self._in_flight = False
        self._last_step: int | None = None  # of the save before
        self._fenced = True  # since then
        self._problem: Error | None = None  # of the save before, for the next call to raise
        self._mixed = False  # a restore has ended in the middle
        self._closed = False
        self._group = process_group()
        if self._group is not None and self._group.world_size == 1:
            self._group = None
        self._rank = 0 if self._group is None else self._group.rank
        self._owns_run = not isinstance(run, Run)
        if isinstance(run, Run):
            given = {"every": every, "every_s": every_s, "keep_last": keep_last, "best": best, **options}
            refused = [name for name, value in given.items() if value is not None]
            if refused:
                raise UsageError(f"{', '.join(refused)}: give what the run is opened with to pawl.Run, or give a path")
            self.run = run
        else:
            if best is not None:
                options = {"keep_best": 1, "metric": best, "metric_max": mode == "max", **options}
            if self._group is not None:
                options["group"] = self._group
            framework = options.pop("framework", f"torch {torch.__version__}")
            self.run = Run(
                run,
                keep_last=keep_last,
                save_every_steps=every,
                save_every_s=every_s,
                framework=framework,
                **options,
            )
        self._agreement = None if self._group is None else Agreement(os.path.abspath(self.run.path))
        self._by_time = every_s is not None and self._group is not None
        self._watched = tuple(signals)
        if self._watched:
            _run.watch_preemption(*self._watched)
            _watching.add(self)
        fence_before_steps(self)

    def _make_parts(
        self,
        models: dict[str, Any],
        optimizer: Any,
        scheduler: Any,
        scaler: Any,
        loader: Any,
        extra: Mapping[str, Any] | None,
        rng: bool,
    ) -> list[Part]:
        for name, model in models.items():
            if not isinstance(model, torch.nn.Module):
                raise UsageError(f"{name} is a {type(model).__qualname__}, not a torch.nn.Module")
        parts: list[Part] = [ModelPart(model, name, self._by_reference) for name, model in models.items()]
        self._models = [part for part in parts if isinstance(part, ModelPart)]
        self._optimizers = [
            OptimizerPart(one, name, self._parameter_names, scheduler is not None)
            for name, one in _named("optimizer", optimizer).items()
        ]
        parts.extend(self._optimizers)
        for what, given in (("scheduler", scheduler), ("scaler", scaler)):
            for name, one in _named(what, given).items():
                parts.append(ObjectPart(name, one.state_dict, one.load_state_dict))
        for name, one in _named("loader", loader).items():
            _require_position(one)
            put = functools.partial(put_position, one)
            parts.append(RankPart(name, "data_position", one.state_dict, put))
        parts.extend(extra_parts(extra or {}, self._by_reference))
        if rng:
            parts.append(RankPart("rng", "rng", random_state, set_random_state, comparable=True))
        parts.append(StepPart(lambda: self.steps, self._set_steps))
        return parts

    def __repr__(self) -> str:
        return f"<pawl.torch.Checkpointer of {self.run.path!r}, step {self.steps}>"

    # ---- what is saved ----

    def _set_steps(self, steps: int) -> None:
        self.steps = steps

    def _parameter_names(self) -> dict[int, str]:
        if len(self._models) == 1:
            return self._models[0].tree.names
        return {key: name for part in self._models for key, name in part.tree.names.items()}

    def _by_reference(self) -> set[int]:
        changed = {id(tensor) for part in self._optimizers for tensor in part.parameters()}
        return changed | {id(tensor) for tensor in self._user_reference}

    def _describe(
        self, live: Live, memory_tensor: torch.Tensor, restoring: bool, aside: _streams.Aside | None = None
    ) -> Tensor:
        """The entry of a tensor in the memory of `memory_tensor`, to which `aside` copies it."""
        completion = None if aside is None else aside.shadow
        if is_sharded(live.tensor):
            return sharded(live.name, live.tensor, memory_tensor, completion, **live.what)
        replicated = self._group is not None and (restoring or not live.copied)
        memory = memory_of(live.name, memory_tensor)._replace(provider=completion)
        return Tensor(memory, replicated=replicated, **live.what)

    def _aside(self, tensor: torch.Tensor) -> _streams.Aside | None:
        """What copies a tensor of a device beside the training; None: it is copied before `save` returns."""
        device = tensor.device
        if device not in self._devices:
            streams = _streams.streams_of(device)
            if streams is None:
                return None
            self._devices[device] = _streams.Aside(str(device), streams)
        return self._devices[device]

    def _is_elsewhere(self, live: Live) -> bool:
        """Does rank 0 save it alone, and this is another?"""
        return live.copied and self._rank != 0 and not is_sharded(live.tensor)

    def _shadow(self, live: Live) -> torch.Tensor:
        """Host memory for a copy of a tensor; the same for each save."""
        local = local_of(live.tensor)
        require_elements(live.name, local)
        if not is_dense(local):
            error = UsageError(
                f"{live.name}: its elements share memory (expand()), so that it cannot be restored; make it a tensor "
                "with elements of its own by .contiguous(), or a buffer with persistent=False"
            )
            error.entry = live.name
            raise error
        shadow = self._shadows.get(live.name)
        if shadow is None or shadow.shape != local.shape or shadow.dtype != local.dtype:
            pinned = local.device.type == "cuda"
            shadow = torch.empty(local.shape, dtype=local.dtype, pin_memory=pinned)
            if shadow.nbytes >= _BIG_COPY and local.device.type == "cpu":
                logger.info(
                    "%s (%.1f GB) is copied at each save, because no optimizer of this job changes it; give it as "
                    "by_reference=[...] if nothing changes it while a save is written",
                    live.name,
                    shadow.nbytes / 1e9,
                )
            self._shadows[live.name] = shadow
        return shadow

    def _build(self, restoring: bool) -> _Saved:
        saved = _Saved()
        entries: dict[str, Tensor] = {}
        lives = [live for part in self._parts for live in part.tensors() if restoring or not self._is_elsewhere(live)]
        on_device = any(self._is_on_device(local_of(live.tensor)) for live in lives)
        # What changes in forward advances the version of all that is in the same memory, which is copied with it.
        changing = {_memory_id(local_of(live.tensor)) for live in lives if live.copied} - {0}
        for live in lives:
            if live.name in entries:
                raise UsageError(f"two tensors of this job are called {live.name}; give one another name")
            local = local_of(live.tensor)
            with_others = (on_device and local.nbytes <= _SMALL_COPY) or _memory_id(local) in changing
            if live.copied or with_others or self._is_on_device(local) or local.is_conj() or local.is_neg():
                shadow = self._shadow(live)
                aside = None if restoring else self._aside(local)
                entries[live.name] = self._describe(live, shadow, restoring, aside)
                if aside is None or live.copied:
                    saved.live.append(live.tensor)
                    saved.shadows.append(shadow)
                else:
                    saved.aside.append((live.name, live.tensor, shadow))
            else:
                entries[live.name] = self._describe(live, local.detach(), restoring)
                if is_sharded(live.tensor):
                    saved.sharded.append((len(saved.in_place), live.tensor))
                saved.names.append(live.name)
                saved.in_place.append(local)
        saved.state.update(entries)
        saved.fingerprint = [part.fingerprint() for part in self._parts]
        saved.layout = [list(now) for now in saved.look()]
        return saved

    def _is_on_device(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type != "cpu" or self._aside(tensor) is not None

    def _current(self) -> _Saved:
        """The state of the save before, made anew if tensors were added, removed or moved."""
        saved = self._saved
        if (
            saved is None
            or saved.fingerprint != [part.fingerprint() for part in self._parts]
            or not saved.is_as_it_was()
        ):
            saved = self._saved = self._build(restoring=False)
        return saved

    def _set_values(self, saved: _Saved, restoring: bool = False) -> None:
        for part in self._parts:
            values = part.placeholders() if restoring else part.values()
            for name, (value, role, per_rank) in values.items():
                if saved.values.get(name) != value:
                    if isinstance(value, Json):
                        saved.state.set_json(name, value.value, role=role)
                    else:
                        saved.state.set(name, value, role=role, per_rank=per_rank)
                    saved.values[name] = value

    # ---- saving ----

    def step(self, metrics: Mapping[str, float] | None = None) -> None:
        """Counts a step of training, and saves if one is due. Call it after the optimizer's step.

        After a signal the final save is made, and `preempted` is True. With ``torch.distributed`` all
        ranks stop at the same step.

        Args:
            metrics: for `save`, if it saves.
        """
        self.steps += 1
        word = self._agreement.told(self.steps) if self._agreement is not None else None
        if self._agreement is None:
            if _run.preempted():
                word = "stop"
        elif _run.preempted() and word != "stop":
            self._agreement.tell(self.steps + 1, "stop")
        due = self.run.due(self.steps) if self._rank == 0 or not self._by_time else False
        if self._by_time and due and self._agreement is not None:
            self._agreement.tell(self.steps + 1, "save")
            due = False
        if word == "stop":
            self._save_final(metrics)
        elif due or word == "save":
            self.save(metrics=metrics)

    def save(self, *, metrics: Mapping[str, float] | None = None, pin: bool = False) -> None:
        """Starts to save the job as step `steps`; writing goes on in the background.

        Args:
            metrics: name to value, for the manifest and retention.
            pin: retention never removes this checkpoint.

        Raises:
            Error: what the save before failed with; nothing was started then: call it again to save.
            UsageError: something that cannot be saved, by name.

        With several ranks a save of which one rank raises something fails on all: `wait`, or the next `save`, names
        the rank there and what it said. Later saves are made by all of them again.
        """
        state = self._ready_or_tell()
        self._warn_of_newer()
        before = self._last_step
        self._begins()  # before: whatever interrupts the call, the next step is fenced
        self.run.save(state, self.steps, metrics=metrics, pin=pin)
        if was_skipped(self.run):
            self._last_step = before  # a final save is not to take this one for its own
            logger.info("%s: step %d is skipped: the save before it is still being written", self.run.path, self.steps)

    def _warn_of_newer(self) -> None:
        """Before the first save: the next job continues from the newest step, wherever that came from."""
        if self._looked_for_newer or self._rank != 0:
            return
        self._looked_for_newer = True
        try:
            newest = max((info.step for info in ls(self.run.path) if info.status == "committed"), default=-1)
        except Error:  # there is nothing yet
            return
        if newest > self.steps:
            logger.warning(
                "%s has step %d, which is newer than step %d that is saved now, and restore() continues from the "
                "newest: remove what is not wanted (pawl rm %s@%d), or save into another directory",
                self.run.path,
                newest,
                self.steps,
                self.run.path,
                newest,
            )

    def _save_final(self, metrics: Mapping[str, float] | None) -> None:
        logger.warning("signal %d came: saving step %d, then training can stop", _run.preempted(), self.steps)
        self.preempted = True
        if self._last_step == self.steps and self._in_flight:
            self.run.wait(self._grace_s)
            return
        state = self._ready_or_tell()
        self._begins()
        self.run.save_final(state, self.steps, self._grace_s, metrics=metrics)
        self._in_flight, self._fenced = False, True

    def _ready_or_tell(self) -> State:
        """`_ready`; the other ranks learn what this one fails with, and do not wait for its part."""
        try:
            return self._ready()
        except Exception as why:
            self.run._does_not_save(self.steps, why)
            raise

    def _ready(self) -> State:
        """The state, as it is to be saved now."""
        self._raise_problem()
        if self._mixed:
            error = UsageError(
                "a restore ended in the middle: the model may have tensors of two steps, and is not saved"
            )
            error.next = "call restore() again, or make model and optimizer anew"
            raise error
        if self._in_flight and not self._fenced and self._last_step != self.steps:
            logger.warning(
                "no optimizer's step waited for the save of step %s: either nothing was trained since, or what changes "
                "the parameters is no torch.optim.Optimizer, or a CUDA graph; then call fence() before each change",
                self._last_step,
            )
        self.fence()
        self.run.fence()  # the copies on the host are about to be written to
        self._raise_problem()
        for part in self._parts:
            part.prepare()
        saved = self._current()
        self._copy_all(saved)
        self._set_values(saved)
        return saved.state

    def _copy_all(self, saved: _Saved) -> None:
        """Copies what is not read in place: of host memory now, of devices beside the training."""
        now = _streams.Pairs()
        changing: dict[torch.device, _streams.Pairs] = {device: _streams.Pairs() for device in self._devices}
        steady: dict[torch.device, _streams.Pairs] = {device: _streams.Pairs() for device in self._devices}
        for tensor, shadow in zip(saved.live, saved.shadows, strict=True):
            local = local_of(tensor)
            changing.get(local.device, now).add(local, shadow)
        for _, tensor, shadow in saved.aside:
            local = local_of(tensor)
            steady[local.device].add(local, shadow)
        now.copy()
        for device, aside in self._devices.items():
            aside.start(changing[device], steady[device])

    def _begins(self) -> None:
        assert self._saved is not None
        self._versions = self._saved.versions()
        self._in_flight, self._fenced, self._last_step = True, False, self.steps

    def _raise_problem(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def fence(self, timeout: float | None = None) -> None:
        """Returns when the save in flight no longer needs the tensors' memory.

        Each ``torch.optim`` optimizer calls it before its step. Call it before anything else changes
        parameters or slots: ``clamp_``, ``p.data``, ``model.load_state_dict``. Of CUDA devices it
        returns at once: what is started afterwards on the current stream comes after the copies.

        Raises:
            Timeout: after `timeout` seconds [the run's deadline_s]; the memory is still in use.
        """
        if self._look_for_changes():
            return
        in_order = [aside.fence() for aside in self._devices.values()]
        if self._in_flight or not all(in_order):
            assert self._saved is not None
            if self._saved.in_place or not all(in_order):
                self.run.fence(timeout)
        self._in_flight, self._fenced = False, True

    def _moved(self) -> str | None:
        """A tensor that was changed since the save began, although nobody had called fence (S01)."""
        assert self._saved is not None
        now = self._saved.versions()
        if now == self._versions:
            return None
        changed = map(operator.ne, now, self._versions)
        return self._saved.name_of(list(changed).index(True))

    def _look_for_changes(self) -> bool:
        """Gives the save in flight up where a tensor was changed that it may still have to read."""
        moved = self._moved() if self._in_flight else None
        if moved is not None:
            self._give_up(moved)
        return moved is not None

    def _give_up(self, name: str) -> None:
        step = self._last_step
        problem = UsageError(f"{name} was changed while it was being saved (step {step})")
        problem.entry = name
        problem.step = step
        problem.next = "call fence() before it is changed, or give it in extra= so that it is copied"
        try:
            self.run.cancel()
            self.run.wait()
            problem.safe = None
            problem.found = f"step {step} was committed before: some of its tensors may be of after the change"
            problem.next += f"; remove that checkpoint: pawl rm {self.run.path}@{step}"
        except Canceled:
            problem.safe = (
                f"the save was given up, nothing of step {step} remains; earlier checkpoints are as they were"
            )
        self._in_flight, self._fenced = False, True
        self._problem = problem
        logger.error("%s", problem)

    def wait(self, timeout: float | None = None, *, progress: Progress | bool = False) -> SaveStats:
        """Waits until the save in flight is durable, and tells how it went.

        Args:
            timeout: seconds to wait [the run's deadline_s].
            progress: as of ``pawl.Run.wait``.

        Raises:
            Timeout: after `timeout` seconds; the save goes on.
            Error: why the save failed.
        """
        self._look_for_changes()
        self._raise_problem()
        stats = self.run.wait(timeout, progress=progress)
        self._in_flight, self._fenced = False, True
        return stats

    # ---- restoring ----

    def restore(self, step: int | None = None, **policies: Any) -> Report | None:
        """Continues from a checkpoint: writes to the tensors where they are, sets all else.

        Slots that the optimizer does not have yet are made as the checkpoint has them. Every difference
        is found before a byte is read.

        Args:
            step: exactly this one [the newest].
            policies: of ``pawl.Run.restore``: missing, unexpected, cast, hyperparameter, per_rank,
                model_only, renames, fallback; and its progress.

        Returns:
            What was restored; None: there is no checkpoint yet, and no `step` was asked for.

        Raises:
            Mismatch: the checkpoint does not fit; its `report` has every difference. Nothing is changed.
            NotFound: there is no such step. Nothing is changed.
            Damaged, StorageError, KeyboardInterrupt, ...: some tensors may have been restored: nothing is
                saved until a restore has succeeded.
        """
        self.fence()
        for part in self._parts:
            part.prepare()
        saved = self._build(restoring=True)
        self.run.fence()  # the copies on the host are about to be written to
        with torch.no_grad():
            if saved.shadows:  # so that what is not restored stays as it is
                _copy(saved.shadows, [local_of(tensor) for tensor in saved.live])
        self._set_values(saved, restoring=True)
        before, self._mixed = self._mixed, True  # whatever ends it: some tensors may be of the checkpoint then
        try:
            report = self.run.restore(saved.state, step=step, supply=self._supply, **policies)
        except (NotFound, Mismatch, UsageError) as why:  # before a byte was read
            story = getattr(why, "report", None)
            if story is None or story.fallbacks == 0:  # else a newer one, which is damaged, was read in part
                self._mixed = before
            if step is None and isinstance(why, NotFound):
                return None
            raise
        with torch.no_grad():
            if saved.shadows:
                _copy([local_of(tensor) for tensor in saved.live], saved.shadows)
            if not policies.get("model_only"):
                for part in self._parts:
                    part.restored(saved.state)
        self._mixed = False
        logger.info("step %s of %s is restored", report.step, self.run.path)
        return report

    def _supply(self, entry: Entry) -> Tensor | None:
        for part in self._parts:
            tensor = part.supply(entry)
            if tensor is not None:
                what: dict[str, Any] = {"role": entry.role}
                if entry.slot_of is not None:
                    what = {"slot_of": entry.slot_of, "slot": entry.slot}
                live = Live(entry.name, tensor, False, what)
                return self._describe(live, local_of(tensor).detach(), restoring=True)
        return None

    # ---- closing ----

    def close(self, timeout: float | None = None) -> None:
        """Waits for the save in flight, at most `timeout` seconds, and closes the run if it opened it.

        Raises:
            Error: what the last save failed with, if no call has raised that yet.
        """
        if self._closed:
            return
        self._look_for_changes()
        self._closed = True
        leave_steps_alone(self)
        _watching.discard(self)
        if self._watched and not _watching:  # from now on a signal ends the process again
            _run.unwatch_preemption()
        self._in_flight = False
        if self._owns_run:
            self.run.close(timeout)
        else:
            self.run.wait(timeout)
        self._raise_problem()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_after(error, self.close, self.run.path)


def _copy(to: list[torch.Tensor], of: list[torch.Tensor]) -> None:
    """Copies tensors, and waits for those of devices."""
    if any(tensor.is_conj() or tensor.is_neg() for tensor in to):  # which _foreach_copy_ cannot write to
        for one, tensor in zip(to, of, strict=True):
            one.copy_(tensor.detach(), non_blocking=True)
    else:
        torch._foreach_copy_(to, [tensor.detach() for tensor in of], non_blocking=True)
    devices = {tensor.device for tensor in (*to, *of) if tensor.device.type == "cuda"}
    for device in devices:
        torch.cuda.current_stream(device).synchronize()
