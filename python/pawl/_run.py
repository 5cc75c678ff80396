# SPDX-License-Identifier: Apache-2.0
"""A run's directory, and saving into it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import logging
import os
import signal as signals
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _abi
from ._abi import Io, IoPriority, LogLevel, OnBusy, Status
from ._callbacks import Callbacks
from ._error import Canceled, Error, Timeout, UsageError, check, decode, error_handle, failure, keep, log_text
from ._group import Group, calling, check_group
from ._handle import (
    Handle,
    call_back,
    close_after,
    fill_options,
    path_bytes,
    path_text,
    real_number,
    require_mapping,
    seconds,
    switch,
    text_bytes,
    texts,
    whole_number,
    whole_numbers,
)
from ._interrupt import Interruptible
from ._library import lib
from ._progress import Progress, shown
from ._refusal import Refusal
from ._report import Report
from ._restore import Supply, refuse_read_only, restore_by, restore_options
from ._state import State, require_state

logger = logging.getLogger("pawl")

#: A wait is cut into slices of so many seconds, so that Ctrl-C is answered.
SLICE_S = 0.1
#: Between them other threads get the handle, which who lets go of it and takes it again at once mostly keeps.
GIVE_WAY_S = 0.001

_LEVELS = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
}


@_abi.LOG_FUNCTION  # type: ignore[untyped-decorator]
def _write_log(_context: int | None, level: int, text: bytes) -> None:
    try:
        call_back(logger.log, _LEVELS.get(LogLevel(level), logging.INFO), "%s", log_text(text))
    except Exception:
        raise
    except BaseException as why:  # of a signal handler
        keep(why)


# A thread of libpawl may log until the process is gone: the function is never freed.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_write_log))


def log_options() -> _abi.Log:
    """A log that goes to ``logging.getLogger("pawl")``, as detailed as that wants now."""
    wanted = logger.getEffectiveLevel()
    level = LogLevel.ERROR
    for pawl_level, python_level in _LEVELS.items():
        if python_level >= wanted:
            level = max(level, pawl_level)
    return _abi.Log(write=_write_log, level=level)


@dataclasses.dataclass(frozen=True)
class SaveStats:
    """How a save went: times in seconds, by one monotonic clock. See ``pawl_save_stats``.

    Attributes:
        step: that was saved; None: none yet.
        skipped: the latest save was skipped, because the one before was still being written.
        bytes: of data files.
        files: data files.
        total_s: from the call of save until the outcome was known.
        busy_wait_s: save waited for the previous save.
        prepare_s: save itself: values copied, files laid out.
        write_s: from the first byte until all are written.
        sync_s: then until they were durable.
        commit_s: then index, manifest, names; on other ranks: vote and outcome.
        group_wait_s: part of that, waiting for other ranks.
        tidy_s: after total_s: retention.
        fence_copy_s: the fence copied into the staging budget.
        fence_wait_s: the fence waited for writes, because the budget was full.
        fence_copied_bytes: copied by the fence.
        budget_bytes: the budget it had.
        budget_wanted_bytes: the budget with which the fence would not have waited.
        retries: operations repeated after failures that may be temporary.
        io: "io_uring", "threads", "in line"; None: not opened.
        written_bytes: of data files, so far.
    """

    step: int | None
    skipped: bool
    bytes: int
    files: int
    total_s: float
    busy_wait_s: float
    prepare_s: float
    write_s: float
    sync_s: float
    commit_s: float
    group_wait_s: float
    tidy_s: float
    fence_copy_s: float
    fence_wait_s: float
    fence_copied_bytes: int
    budget_bytes: int
    budget_wanted_bytes: int
    retries: int
    io: str | None
    written_bytes: int


def save_stats(found: _abi.SaveStats) -> SaveStats:
    """``pawl_save_stats`` as Python's own data."""
    values = {field.name: getattr(found, field.name) for field in dataclasses.fields(SaveStats)}
    values["step"] = found.step if found.step >= 0 else None
    values["skipped"] = found.skipped != 0
    values["io"] = decode(found.io)
    return SaveStats(**values)


@dataclasses.dataclass(frozen=True)
class Leftover:
    """What gc removes, or would: path relative to the run, its size in bytes, and why."""

    path: str
    bytes: int
    reason: str


#: Runs that are open: closed at exit. A run that nobody references stays open.
_open_runs: set[Run] = set()
#: States whose tensors a thread of libpawl may still read: kept until the process ends.
_still_read: list[State] = []


class Run(Handle):
    """A directory that collects the checkpoints of one training job; one process writes to it.

    ::

        with pawl.Run("runs/a", keep_last=3, save_every_steps=100) as run:
            try:
                run.restore(state)
            except pawl.NotFound:
                pass                        # the first start of this run
            for step in range(...):
                ...                         # forward and backward: tensors are only read
                run.fence()                 # the save in flight has let go of the tensors
                ...                         # the optimizer's step: tensors change
                if run.due(step):
                    run.save(state, step)   # returns at once; writing goes on in the background

    Args:
        path: of the directory, which is made with its parents.
        must_exist: raise NotFound instead of making the directory.
        keep_last: retention keeps the newest so many checkpoints [all].
        keep_every_steps: ... and those of steps divisible by this.
        keep_every_hours: ... and, of older ones, one per so many hours.
        keep_best: ... and so many of the best by `metric`.
        metric: name of a metric given to save.
        metric_max: larger metrics are better.
        save_every_steps: for `due` [never by steps].
        save_every_s: seconds, for `due` [never by time].
        framework: who writes, for people: "trainer 1.0".
        lease_s: seconds without a heartbeat after which another process may take the run over [30].
        takeover_wait_s: seconds to wait for another writer [lease_s + 5]; negative: none. A process of this
            host that lives is not waited for.
        deadline_s: seconds that each call may wait [600].
        budget_bytes: staging memory of a save, at most [256 MiB].
        budget_ready: the budget gets its memory as the run is opened, so that the first fence is fast.
        on_busy: what a save does while the one before is being written: "wait", "skip" or "error".
        checking: find tensors that change while they are being saved, by reading them twice.
        io: "auto", "uring", "threads" or "buffered".
        in_flight_bytes: of writes at a time [32 MiB].
        bandwidth_bytes_per_s: of data files [no limit].
        io_priority: "default", "low" or "idle".
        cpus: numbers of the processors that threads which save may run on [any].
        hang_deadline_s: seconds without progress after which a save has failed [deadline_s].
        no_event_file: keep no events.jsonl.
        group: the ranks that save together; rank 0's process owns the run [this process alone].
        group_deadline_s: seconds that ranks wait for each other [deadline_s].

    Raises:
        Busy: another process writes to the run; the text names it.
        NotFound, PermissionDenied, StorageError, UsageError: the path or an argument, explained.

    Leaving the ``with`` block waits for the save in flight and closes. Runs that are open when the
    interpreter ends are closed then. What is logged goes to ``logging.getLogger("pawl")``.

    In a group, opening, `restore` and `meet` are made by all ranks, in the same order. A
    save is committed when the parts of all ranks are there.

    Threads: calls of several threads come one after another.
    """

    _what = "run"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        must_exist: bool = False,
        keep_last: int | None = None,
        keep_every_steps: int | None = None,
        keep_every_hours: float | None = None,
        keep_best: int | None = None,
        metric: str | None = None,
        metric_max: bool = False,
        save_every_steps: int | None = None,
        save_every_s: float | None = None,
        framework: str | None = None,
        lease_s: float | None = None,
        takeover_wait_s: float | None = None,
        deadline_s: float = 600.0,
        budget_bytes: int | None = None,
        budget_ready: bool = False,
        on_busy: str = "wait",
        checking: bool = False,
        io: str = "auto",
        in_flight_bytes: int | None = None,
        bandwidth_bytes_per_s: int | None = None,
        io_priority: str = "default",
        cpus: Iterable[int] | None = None,
        hang_deadline_s: float | None = None,
        no_event_file: bool = False,
        group: Group | None = None,
        group_deadline_s: float | None = None,
    ) -> None:
        super().__init__()
        self.path = path_text(path)
        self._deadline_s = seconds("deadline_s", deadline_s)
        check_group(group)
        self._group = group
        self._on_busy = _choice("on_busy", on_busy, OnBusy)
        self._retry_of: int | None = None  # see _wait_for_previous()
        self._reading: set[State] = set()  # states whose tensors a save may still read
        self._closing = threading.RLock()  # another call of close() returns when the run is closed
        retention = _retention(keep_last, keep_every_steps, keep_every_hours, keep_best, metric, metric_max)
        options = _abi.RunOptions(retention=ctypes.pointer(retention), log=ctypes.pointer(log_options()))
        numbers = _processors(cpus)
        fill_options(
            options,
            {
                "must_exist": switch("must_exist", must_exist),
                "framework": None if framework is None else text_bytes("the framework", framework),
                "lease_s": lease_s,
                "takeover_wait_s": takeover_wait_s,
                "deadline_s": self._deadline_s,
                "budget_bytes": budget_bytes,
                "budget_ready": switch("budget_ready", budget_ready),
                "on_busy": self._on_busy,
                "checking": switch("checking", checking),
                "save_every_steps": save_every_steps,
                "save_every_s": save_every_s,
                "io": _choice("io", io, Io),
                "in_flight_bytes": in_flight_bytes,
                "bandwidth_bytes_per_s": bandwidth_bytes_per_s,
                "io_priority": _choice("io_priority", io_priority, IoPriority),
                "cpus": whole_numbers("cpus", numbers, ctypes.c_int) if numbers else None,
                "cpu_count": len(numbers),
                "hang_deadline_s": hang_deadline_s,
                "no_event_file": switch("no_event_file", no_event_file),
                "group": None if group is None else ctypes.pointer(group._struct),
                "group_deadline_s": group_deadline_s,
            },
        )
        self._open(options)

    def _open(self, options: _abi.RunOptions) -> None:
        self._interruptible = Interruptible(options)
        opened = ctypes.c_void_p()
        path = path_bytes(self.path)
        try:
            with calling(self._group):
                status = lib.pawl_run_open(path, ctypes.byref(options), ctypes.byref(opened), error_handle())
                if status != Status.OK:
                    self._interruptible.check()
                check(status)
                self._pointer = opened
                _open_runs.add(self)
        except BaseException:  # a signal handler's, too: nobody else would close it
            _open_runs.discard(self)
            self._pointer = None
            lib.pawl_run_close(opened, -1.0, error_handle())
            raise

    def __repr__(self) -> str:
        return f"<pawl.Run {self.path!r}{', closed' if self.closed else ''}>"

    # ---- waiting ----

    def _sliced(
        self, call: Callable[[ctypes.c_void_p, float], int], timeout: float | None, *, lets_go: bool = False
    ) -> None:
        """Repeats a call that waits, in slices, until it returns or `timeout` has passed.

        Args:
            call: gets the run and the seconds that it may wait.
            timeout: seconds in all [deadline_s].
            lets_go: when it has succeeded, no save reads a state's tensors any more.
        """
        end = self._end(timeout)
        while True:
            left = end - time.monotonic()
            with self._held() as pointer:
                # Less than 0 is "do not wait"; 0 would be the run's own deadline.
                status = call(pointer, min(left, SLICE_S) if left > 0 else -1.0)
                if status != Status.ETIMEOUT or left <= SLICE_S:
                    check(status)
                    if lets_go:  # before another thread may begin a save
                        self._reading.clear()
                    return
            time.sleep(GIVE_WAY_S)

    def _end(self, timeout: float | None) -> float:
        return time.monotonic() + (self._deadline_s if timeout is None else seconds("timeout", timeout))

    def _wait(self, timeout: float | None, tell: Progress | None = None) -> _abi.SaveStats:
        stats = _abi.SaveStats()

        def wait(pointer: ctypes.c_void_p, seconds: float) -> int:
            status = int(lib.pawl_wait(pointer, seconds, ctypes.byref(stats), error_handle()))
            if tell is not None:
                tell(stats.written_bytes, stats.bytes)
            return status

        self._sliced(wait, timeout, lets_go=True)
        return stats

    # ---- saving ----

    def save(
        self,
        state: State,
        step: int,
        *,
        metrics: Mapping[str, float] | None = None,
        pin: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Starts to save `state` as `step` (0 or more) and returns.

        Values and ``pawl.Tensor(array, copied=True)`` are copied now; other arrays are read from
        their memory until `fence` returns, and must not change before. Saving a step again replaces
        it once the new one is whole.

        Args:
            state: what to save. It may be changed and saved again; its arrays may not, see above.
            step: of training.
            metrics: name to value, for the manifest and retention.
            pin: retention never removes this checkpoint.
            timeout: seconds in all to wait for the previous save, with ``on_busy="wait"``, and to copy
                tensors that are ``copied`` [deadline_s].

        Raises:
            Error: what the previous save failed with, if no call has raised that yet; nothing was
                started then: call it again to save.
            Timeout: tensors could not be copied in time; the save is given up.
        """
        require_state(state)
        step = whole_number("step", step)
        try:
            options, kept = self._save_options(metrics, pin)
        except Exception as why:
            self._does_not_save(step, why)
            raise
        end = self._end(timeout)
        self._give_up_retry(step)
        if self._on_busy == OnBusy.WAIT:
            self._wait_for_previous(step, timeout)
        with self._held() as pointer, state._held() as saved:
            options.deadline_s = max(end - time.monotonic(), 0.0) or -1.0  # 0 would be the run's
            self._reading.add(state)
            self._asked(lib.pawl_save(pointer, saved, step, ctypes.byref(options), error_handle()))
        del kept

    def _wait_for_previous(self, step: int, timeout: float | None) -> None:
        """As ``pawl_save`` does, but answers Ctrl-C.

        Ranks may learn of a failure at different calls, this one by `save` and others by `wait`. So what one of them
        gave up is only logged here; and where this call does no more than raise another failure, the call after it
        is for the same step, or tells the others that it was not.
        """
        try:
            self._wait(timeout)
        except Error as why:
            if self._group is None:
                raise
            if isinstance(why, Canceled):
                logger.warning("%s", why)
            elif not isinstance(why, Timeout):  # of which pawl_save tells the others
                self._retry_of = step
                raise

    def _give_up_retry(self, step: int) -> None:
        retry_of, self._retry_of = self._retry_of, None
        if retry_of is not None and retry_of != step:
            why = Canceled("save raised an earlier failure instead of beginning this, and was not called again for it")
            why.status = Status.ECANCELED
            self._does_not_save(retry_of, why)

    def _does_not_save(self, step: int, why: Exception) -> None:
        """Tells the other ranks, where there are any, that this one cannot save `step`: they need not wait for it."""
        if self._group is None or self._group.world_size == 1:
            return
        state = Refusal(why).state
        options = _abi.SaveOptions()
        options.deadline_s = -1.0  # of the save before
        try:
            if not isinstance(why, Timeout):
                with contextlib.suppress(Error):  # it is in the log
                    self._wait(None)
            with self._held() as pointer, state._held() as refused:
                check(lib.pawl_save(pointer, refused, step, ctypes.byref(options), error_handle()))
            self._wait(None)
        except Error as how:
            logger.debug("this rank does not save step %d: %s", step, how)

    def _asked(self, status: int) -> None:
        """After a call that asks whether to end: raises what ended it, a signal handler or pawl."""
        self._interruptible.check()
        check(status)

    def _save_options(self, metrics: Mapping[str, float] | None, pin: bool) -> tuple[_abi.SaveOptions, Any]:
        options = _abi.SaveOptions(pin=int(pin))
        if metrics is not None:
            require_mapping("metrics", "names to numbers", metrics)
        listed = (_abi.Metric * len(metrics or {}))()
        for metric, (name, value) in zip(listed, (metrics or {}).items(), strict=True):
            metric.name = text_bytes("the metric", name)
            metric.value = real_number(f"metrics[{name!r}]", value)
        if metrics:
            options.metrics = listed
            options.metric_count = len(listed)
            options.metric_size = ctypes.sizeof(_abi.Metric)
        return options, listed

    def save_final(
        self, state: State, step: int, grace_s: float, *, metrics: Mapping[str, float] | None = None, pin: bool = False
    ) -> None:
        """Saves and waits until it is durable, at most `grace_s` seconds in all.

        Signal handlers run meanwhile only where tensors are ``copied``, and once it has ended; so does
        Ctrl-C.

        Raises:
            Timeout: it was too short, and the save was given up; says which step is safe.
        """
        require_state(state)
        step = whole_number("step", step)
        try:
            grace = seconds("grace_s", grace_s)
            options, kept = self._save_options(metrics, pin)
        except Exception as why:
            self._does_not_save(step, why)
            raise
        self._give_up_retry(step)
        with self._held() as pointer, state._held() as saved:
            self._reading.add(state)
            self._asked(lib.pawl_save_final(pointer, saved, step, ctypes.byref(options), grace, error_handle()))
            self._reading.clear()
        del kept

    def fence(self, timeout: float | None = None) -> None:
        """Returns when the save in flight no longer needs the arrays' memory.

        Call it before anything changes an array that is being saved. Without a save in flight it
        returns at once, and after one that failed, too.

        Raises:
            Timeout: after `timeout` seconds [deadline_s]; the memory is still in use.
        """
        self._sliced(lambda pointer, s: int(lib.pawl_fence(pointer, s, error_handle())), timeout, lets_go=True)

    def fenced(self) -> bool:
        """Has the save in flight let go of the arrays, so that `fence` has nothing to do?

        Copies nothing and waits for nothing. True without a save in flight.
        """
        with self._held() as pointer:
            free = bool(lib.pawl_fenced(pointer))
            if free:
                self._reading.clear()
            return free

    def fenced_arrays(self, names: Sequence[str]) -> list[bool]:
        """For each of these names of a state: does no save in flight need the memory of that array?

        A save reads arrays in an order of its own. So memory can be given back before it has read all of them; the
        run itself references the whole state until `fenced`. Copies nothing and waits for nothing.
        """
        given = texts("names", names)
        listed = (ctypes.c_char_p * len(given))(*given)
        answers = (ctypes.c_uint8 * len(given))()
        with self._held() as pointer:
            lib.pawl_fenced_tensors(pointer, listed, len(given), answers)
        return [bool(answer) for answer in answers]

    def wait(self, timeout: float | None = None, *, progress: Progress | bool = False) -> SaveStats:
        """Waits until the save in flight is durable and committed, and tells how it went.

        Args:
            timeout: seconds to wait [deadline_s].
            progress: called ten times a second with the bytes of data files written and those there
                are. True shows a line on standard error, where that is a terminal.

        Raises:
            Timeout: after `timeout` seconds; the save goes on.
            Error: why the save failed.
        """
        with shown(progress, "saving") as tell:
            return save_stats(self._wait(timeout, tell))

    def cancel(self, timeout: float | None = None) -> None:
        """Gives up the save in flight: nothing of it remains. `wait` then raises Canceled."""
        self._sliced(lambda pointer, s: int(lib.pawl_cancel(pointer, s, error_handle())), timeout)

    def meet(self, timeout: float | None = None) -> None:
        """Never needed. Where the ranks of a group come together anyway, it tells rank 0 whose parts are written.

        Then a listing of the storage that is out of date delays no commit. Without callbacks it does nothing.

        Args:
            timeout: seconds to wait for the others [deadline_s].

        Raises:
            PeerFailed: a rank did not come in time; the save goes on.
        """
        at_most = 0.0 if timeout is None else seconds("timeout", timeout)
        with calling(self._group), self._held() as pointer:
            check(lib.pawl_meet(pointer, at_most, error_handle()))

    def due(self, step: int) -> bool:
        """Is a save due, by `save_every_steps` or `save_every_s`? Not twice at the same step."""
        with self._held() as pointer:
            return bool(lib.pawl_due(pointer, whole_number("step", step)))

    # ---- restoring ----

    def restore(
        self,
        state: State,
        *,
        step: int | None = None,
        fallback: bool = True,
        missing: str = "error",
        unexpected: str = "error",
        cast: str = "error",
        hyperparameter: str = "checkpoint",
        batch: str = "allow",
        per_rank: str = "error",
        model_only: bool = False,
        renames: Mapping[str, str] | None = None,
        supply: Supply | None = None,
        progress: Progress | bool = False,
    ) -> Report:
        """Brings `state` back from a checkpoint of the run: writes to its arrays, sets its values.

        Every difference is found before a byte is read into the arrays.

        Args:
            state: what to restore; its arrays are written to.
            step: exactly this one [the newest].
            fallback: where the newest is damaged, take the next older one, and say so in the log.
            missing: the checkpoint lacks an entry: "error", or "allow" keeps the state's.
            unexpected: the state lacks an entry: "error", or "allow" leaves it out.
            cast: another float type: "error", or "allow" converts, to nearest.
            hyperparameter: changed value: "error", "checkpoint" or "caller".
            batch: changed batch signature: "error" or "allow".
            per_rank: saved by another number of ranks: "error", "allow" or "caller".
            model_only: entries of the model alone; the rest is kept as it is.
            renames: prefix of names in the checkpoint to what replaces it, such as {"module": ""}.
            supply: asked for each tensor of the checkpoint that the state lacks, by its entry: gives a
                `Tensor`, which is then a part of the state, or None. It makes no calls on the
                run or the state. After a failure nothing of what it gave is in the state.
            progress: called now and then with the bytes read and those there are; what it raises ends
                the restore. True shows a line on standard error, where that is a terminal.

        Returns:
            What was restored, and which differences were allowed.

        Raises:
            Mismatch: the checkpoint does not fit; its `report` has every difference, with the
                argument that would allow it. The state is unchanged.
            NotFound: there is no checkpoint; says what is there instead.
            Damaged: bytes do not verify. Those that did may already be in the arrays.
        """
        require_state(state)
        options = restore_options(
            step,
            {
                "missing": missing,
                "unexpected": unexpected,
                "cast": cast,
                "hyperparameter": hyperparameter,
                "batch": batch,
                "per_rank": per_rank,
            },
            {"no_fallback": not fallback, "model_only": model_only},
            renames,
        )
        with calling(self._group), self._held() as pointer, state._held() as restored:
            refuse_read_only(state)
            call = functools.partial(lib.pawl_restore, pointer, restored)
            found = restore_by(call, state, options, supply, progress)
            self._reading.clear()
        return found

    # ---- housekeeping ----

    def pin(self, step: int, pinned: bool = True) -> None:
        """A pinned checkpoint is never removed by retention."""
        with self._held() as pointer:
            check(lib.pawl_run_pin(pointer, whole_number("step", step), int(pinned), error_handle()))

    def remove(self, step: int, *, force: bool = False) -> None:
        """Removes one checkpoint, pinned or not. Raises Busy where it is read, or is the only one."""
        with self._held() as pointer:
            check(lib.pawl_run_remove(pointer, whole_number("step", step), int(force), error_handle()))

    def gc(self, *, dry_run: bool = False) -> list[Leftover]:
        """Removes what interrupted saves left behind, and tells what that was; or what it would be."""
        found: list[Leftover] = []
        with Callbacks() as callbacks:

            def each(path: bytes, size: int, reason: bytes) -> None:
                found.append(Leftover(decode(path) or "", size, decode(reason) or ""))

            tell = _abi.GC_FUNCTION(callbacks.kept(3, each))
            with self._held() as pointer:
                status = lib.pawl_run_gc(pointer, int(dry_run), tell, None, error_handle())
                callbacks.raise_kept()
                check(status)
        return found

    def rebuild(self, step: int, *, force: bool = False) -> None:
        """Writes a new index and manifest for `step` from its data files alone."""
        with self._held() as pointer:
            check(lib.pawl_run_rebuild(pointer, whole_number("step", step), int(force), error_handle()))

    # ---- closing ----

    def close(self, timeout: float | None = None) -> None:
        """Waits for the save in flight, at most `timeout` seconds [deadline_s], and closes.

        Raises:
            Error: what the last save failed with, if no call has raised that yet. It is closed
                whatever is raised, but for KeyboardInterrupt.
        """
        if self.closed or os.getpid() != self._pid:
            return
        if timeout is not None:
            timeout = seconds("timeout", timeout)  # or it stays open
        with self._closing:
            self._close(timeout)

    def _close(self, timeout: float | None) -> None:
        if self.closed:
            return
        with self._lock:
            self._refuse_inside()
        problem: Error | None = None
        try:
            self.wait(timeout)
        except Error as why:
            problem = why
        pointer = self._take()
        _open_runs.discard(self)
        if pointer is None:
            return
        status = lib.pawl_run_close(pointer, -1.0 if problem is not None else self._deadline_s, error_handle())
        if status == Status.EUSAGE or self._interruptible.ended():  # it is open still
            self._pointer = pointer
            _open_runs.add(self)
            self._interruptible.check()
            check(status)
        if status in (Status.ETIMEOUT, Status.EIO) or problem is not None:
            _still_read.extend(self._reading)
        self._reading.clear()
        if problem is not None:
            raise problem from (failure(status) if status != Status.OK else None)
        check(status)
        self._interruptible.end()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_after(error, self.close, self.path)


def _retention(
    keep_last: int | None,
    keep_every_steps: int | None,
    keep_every_hours: float | None,
    keep_best: int | None,
    metric: str | None,
    metric_max: bool,
) -> _abi.Retention:
    retention = _abi.Retention(metric_max=int(metric_max))
    fill_options(
        retention,
        {
            "keep_last": keep_last,
            "keep_every_steps": keep_every_steps,
            "keep_every_hours": keep_every_hours,
            "keep_best": keep_best,
            "metric": None if metric is None else text_bytes("the metric", metric),
        },
    )
    return retention


def _processors(cpus: Iterable[int] | None) -> tuple[int, ...]:
    try:
        return tuple(cpus or ())
    except TypeError:
        raise TypeError(f"cpus is numbers of processors, [0, 1], not {type(cpus).__name__}: {cpus!r}") from None


def _choice(argument: str, value: str, choices: type[OnBusy] | type[Io] | type[IoPriority]) -> int:
    try:
        return int(choices[value.upper()])
    except (AttributeError, KeyError):
        known = ", ".join(repr(choice.name.lower()) for choice in choices)
        raise UsageError(f"{argument}={value!r}: it is one of {known}") from None


@atexit.register
def _close_all() -> None:
    """A save in flight at exit is finished: nothing is lost, and nothing reads freed memory."""
    ended: BaseException | None = None
    for run in list(_open_runs):
        try:
            run.close()
        except Error as why:
            logger.error("closing %s at exit: %s", run.path, why)
        except BaseException as why:  # Ctrl-C gives up this one alone
            logger.error("closing %s at exit: %r", run.path, why)
            ended = why
    if ended is not None:
        raise ended


# ---- preemption ----------------------------------------------------------------------------------

_watching = threading.RLock()  # the library's functions are not for two threads at once


def watch_preemption(*watched: int) -> None:
    """Notes these signals [SIGTERM] for `preempted`; then calls the handlers of before."""
    numbers = watched or (signals.SIGTERM,)
    with _watching:
        check(lib.pawl_preemption_watch(whole_numbers("watched", numbers, ctypes.c_int), len(numbers), error_handle()))


def preempted() -> int:
    """The signal that was caught, or 0. Look at it once per training step."""
    caught: int = lib.pawl_preempted()
    return caught


def unwatch_preemption() -> None:
    """Puts the earlier handlers back and forgets the signal."""
    with _watching:
        lib.pawl_preemption_unwatch()
