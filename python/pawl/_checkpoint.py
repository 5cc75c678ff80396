# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, looked at and read without owning their run."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Mapping
from types import EllipsisType, TracebackType
from typing import Any

from . import _abi
from ._abi import Dtype, EventKind, Kind, Status, StepStatus
from ._callbacks import Callbacks
from ._entry import Entry, entry_of, value_of
from ._error import NotFound, OutOfMemory, UsageError, check, decode, error_handle
from ._group import Group, calling, check_group
from ._handle import Handle, counted, path_bytes, text_bytes, whole_number
from ._library import lib
from ._memory import Array, dtype_bits
from ._progress import Progress, shown
from ._report import Report
from ._restore import Supply, refuse_read_only, restore_by, restore_options
from ._run import SaveStats, log_options, save_stats
from ._state import State, require_state

Path = str | os.PathLike[str]
Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]


def _open_options(step: int | None) -> _abi.OpenOptions:
    options = _abi.OpenOptions(log=ctypes.pointer(log_options()))
    if step is not None:
        options.step = ctypes.pointer(ctypes.c_int64(whole_number("step", step)))
    return options


@dataclasses.dataclass(frozen=True)
class StepInfo:
    """A step of a run.

    Attributes:
        step: its number.
        status: "committed", "unfinished", "damaged" or "unreadable".
        bytes: of all its files.
        files: how many there are.
        entries: of a committed one.
        time: when it was saved, in seconds since 1970 by the writer's clock; None: unknown.
        world_size: ranks that saved it.
        pinned: retention never removes it.
        being_read: somebody has it open.
        metrics: given to save.
        why: why it is not committed, or None.
    """

    step: int
    status: str
    bytes: int
    files: int
    entries: int
    time: float | None
    world_size: int
    pinned: bool
    being_read: bool
    metrics: dict[str, float]
    why: str | None


def ls(path: Path) -> list[StepInfo]:
    """The steps of a run, ascending. Opens no data file.

    Raises:
        NotFound: there is no run; says what is there instead.
    """
    options, pointer = _open_options(None), ctypes.c_void_p()
    check(lib.pawl_catalog_open(path_bytes(path), ctypes.byref(options), ctypes.byref(pointer), error_handle()))
    try:
        return [_step_info(lib.pawl_catalog_get(pointer, i).contents) for i in range(lib.pawl_catalog_count(pointer))]
    finally:
        lib.pawl_catalog_free(pointer)


def _step_info(found: _abi.StepInfo) -> StepInfo:
    return StepInfo(
        step=found.step,
        status=StepStatus(found.status).name.lower(),
        bytes=found.bytes,
        files=found.files,
        entries=found.entries,
        time=found.unix_time_ns / 1e9 if found.unix_time_ns else None,
        world_size=found.world_size,
        pinned=found.pinned != 0,
        being_read=found.being_read != 0,
        metrics=metrics_of(found.metrics_json),
        why=decode(found.why),
    )


# ---- one checkpoint ------------------------------------------------------------------------------


def _one_dimension(name: str, index: int | slice, extent: int) -> tuple[int, int, bool]:
    """Offset, elements, and is the dimension kept?"""
    if isinstance(index, slice):
        begin, end, step = index.indices(extent)
        if step != 1:
            raise UsageError(f"{name}: slices have steps of 1; read more, and take [::{step}] of that")
        return begin, max(end - begin, 0), True
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"{name}: an index is a whole number or a slice, not {index!r}")
    at = index.__index__()
    if not -extent <= at < extent:
        raise IndexError(f"{name}: index {at} is outside its {extent} elements")
    return at % extent, 1, False


class StoredTensor:
    """A tensor of an open checkpoint, read when it is asked for.

    ::

        rows = checkpoint["model/embedding"][10:20]     # only the blocks of these rows are read
        all_of_it = checkpoint["model/embedding"].read()

    Attributes:
        entry: what the checkpoint says of it.
    """

    def __init__(self, checkpoint: Checkpoint, entry: Entry, dtype: Dtype | None) -> None:
        self._checkpoint = checkpoint
        self._dtype = dtype
        self.entry = entry

    @property
    def name(self) -> str:
        """Its name in the checkpoint."""
        return self.entry.name

    @property
    def dtype(self) -> str:
        """Name of the elements' type, as in safetensors files."""
        return self.entry.dtype or ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return self.entry.shape

    @property
    def nbytes(self) -> int:
        """Bytes of all its elements."""
        return self.entry.bytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index: Index) -> Array:
        """Reads a slice: integers, slices with steps of 1, and "..."; verified as by `read`."""
        indices = index if isinstance(index, tuple) else (index,)
        if indices.count(Ellipsis) > 1:
            raise IndexError(f"{self.name}: an index can only have one '...'")
        if Ellipsis in indices:
            at = indices.index(Ellipsis)
            missing = len(self.shape) - len(indices) + 1
            indices = indices[:at] + (slice(None),) * missing + indices[at + 1 :]
        indices += (slice(None),) * (len(self.shape) - len(indices))
        if len(indices) != len(self.shape):
            raise IndexError(f"{self.name}: {len(indices)} indices for {len(self.shape)} dimensions")
        parts = [
            _one_dimension(self.name, i, n)  # type: ignore[arg-type]
            for i, n in zip(indices, self.shape, strict=True)
        ]
        return self._read(
            [part[0] for part in parts], [part[1] for part in parts], tuple(part[1] for part in parts if part[2])
        )

    def read(self) -> Array:
        """Reads all of it.

        Every byte is verified in a checkpoint of pawl, and where another format has checksums of parts
        of a tensor (Orbax, some of HDF5). Those of whole tensors (PyTorch, DCP, TensorFlow, NumPy, Keras)
        are compared by `Checkpoint.restore` and `verify`.
        """
        return self._read([0] * len(self.shape), list(self.shape), self.shape)

    def _read(self, offset: list[int], extent: list[int], shape: tuple[int, ...]) -> Array:
        if self._dtype is None:
            raise UsageError(f"{self.name}: elements of type {self.dtype} cannot be read")
        count = 1
        for n in extent:
            count *= n
        try:
            found = Array(self._dtype, shape, count * dtype_bits(self._dtype) // 8)
        except OutOfMemory as error:
            error.entry = self.name
            raise
        self._checkpoint._read(self.name, offset, extent, found)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Reads all of it, for ``numpy.asarray``."""
        if copy is False:
            raise ValueError(f"{self.name} is read from a checkpoint, which is a copy")
        return self.read().__array__(dtype)

    def __dlpack__(self, **arguments: Any) -> object:
        """Reads all of it."""
        return self.read().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __repr__(self) -> str:
        return f"<pawl.StoredTensor {self.name!r} {self.dtype} {list(self.shape)}>"


@dataclasses.dataclass(frozen=True)
class Problem:
    """A damaged range of a file.

    Attributes:
        file: relative to the step's directory.
        entry: that it hits, or None.
        offset: in the file, in bytes.
        length: in bytes.
        text: for people.
    """

    file: str
    entry: str | None
    offset: int
    length: int
    text: str


@dataclasses.dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes:
        files: that were read.
        bytes: that were read.
        entries: of the checkpoint.
        problems: what is damaged, at most 1000 ranges.
        unverified: what could not be checked, where the format has no checksums; else None.
    """

    files: int
    bytes: int
    entries: int
    problems: tuple[Problem, ...]
    unverified: str | None

    @property
    def ok(self) -> bool:
        """Was nothing found damaged?"""
        return not self.problems


class Checkpoint(Handle, Mapping[str, Any]):
    """A committed checkpoint, or weights of another tool, open for reading.

    ::

        with pawl.open("runs/a") as checkpoint:
            checkpoint.step
            checkpoint["training/step"]                 # a value
            checkpoint["model/kernel"].shape            # a tensor: nothing is read yet
            numpy.asarray(checkpoint["model/kernel"])

    A mapping from names to `StoredTensor` and values; `entry` tells more of one.

    Attributes:
        step: its step; None for weights of other tools.
        format: "pawl", "safetensors" or "safetensors, sharded".
        path: absolute path of the step's directory, or of what was opened.
        framework: who wrote it; "" when not given.
        world_size: ranks that saved it; 0 for weights of other tools.
        metrics: given to save.
    """

    _what = "checkpoint"

    def __init__(self, path: Path, step: int | None = None) -> None:
        super().__init__()
        self._close = lib.pawl_checkpoint_close
        self._free_walk = lib.pawl_entries_free
        self._uses = 0
        self._closing: ctypes.c_void_p | None = None  # when it is used no more
        self._walks: set[int] = set()  # which are to be freed before the checkpoint is closed
        options, pointer, info = _open_options(step), ctypes.c_void_p(), _abi.CheckpointInfo()
        raw = path_bytes(path)
        try:
            check(lib.pawl_checkpoint_open(raw, ctypes.byref(options), ctypes.byref(pointer), error_handle()))
            self._pointer = pointer
            check(lib.pawl_checkpoint_describe(pointer, ctypes.byref(info), error_handle()))
        except BaseException:  # a signal handler's, too: nobody else would close it
            self._pointer = None
            self._close(pointer)
            raise
        self.step: int | None = info.step if info.step >= 0 else None
        self.format = decode(info.format) or ""
        self.path = decode(info.path) or ""
        self.framework = decode(info.framework) or ""
        self.world_size: int = info.world_size
        self.metrics: dict[str, float] = metrics_of(info.metrics_json)
        self._entries: int = info.entries

    # ---- as a mapping ----

    def _find(self, name: str) -> tuple[Entry, Dtype | None, Any]:
        raw, found = text_bytes("the name", name), _abi.EntryInfo()
        with self._used() as pointer:
            check(lib.pawl_checkpoint_find(pointer, raw, ctypes.byref(found), error_handle()))
            dtype = Dtype(found.dtype) if found.dtype else None
            return entry_of(found), dtype, None if found.kind == Kind.TENSOR else value_of(found)

    def __getitem__(self, name: str) -> Any:
        entry, dtype, value = self._find(name)
        if entry.kind == "tensor":
            return StoredTensor(self, entry, dtype)
        if entry.per_rank:
            raise UsageError(f"{name}: each rank has its own: read_rank(name, rank)")
        return value

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._find(name)
        except NotFound:
            return False
        return True

    def __len__(self) -> int:
        return self._entries

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries())

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        entries = counted(self._entries, "entry", "entries")
        return f"<pawl.Checkpoint {self.path!r}, {entries}{', closed' if self.closed else ''}>"

    # ---- more ----

    def entry(self, name: str) -> Entry:
        """What the checkpoint says of an entry. Raises NotFound, which names near misses."""
        return self._find(name)[0]

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Entries whose name begins with `prefix`, ascending by name."""
        walk, found, more = ctypes.c_void_p(), _abi.EntryInfo(), ctypes.c_int(1)
        with self._held() as pointer:
            raw = text_bytes("the prefix", prefix)
            check(lib.pawl_entries_open(pointer, raw, ctypes.byref(walk), error_handle()))
            self._walks.add(walk.value or 0)
        try:
            while True:
                with self._used():
                    check(lib.pawl_entries_next(walk, ctypes.byref(found), ctypes.byref(more), error_handle()))
                    if more.value == 0:
                        return
                    entry = entry_of(found)
                yield entry
        finally:
            if self._getpid() == self._pid:
                with self._lock:
                    self._free(walk.value or 0)

    def _free(self, walk: int) -> None:
        if walk in self._walks:
            self._walks.remove(walk)
            self._free_walk(walk)

    def read_rank(self, name: str, rank: int) -> bytes:
        """A rank's own bytes of a per-rank entry."""
        raw, size = text_bytes("the name", name), ctypes.c_size_t()
        rank = whole_number("rank", rank, ctypes.c_int)
        with self._held() as pointer:
            check(lib.pawl_checkpoint_read_rank(pointer, raw, rank, None, 0, ctypes.byref(size), error_handle()))
            found = ctypes.create_string_buffer(max(size.value, 1))
            check(
                lib.pawl_checkpoint_read_rank(pointer, raw, rank, found, size.value, ctypes.byref(size), error_handle())
            )
            return found.raw[: size.value]

    def _read(self, name: str, offset: list[int], extent: list[int], to: Array) -> None:
        ndim = max(len(offset), 1)
        with self._held() as pointer:
            check(
                lib.pawl_checkpoint_read(
                    pointer,
                    text_bytes("the name", name),
                    (ctypes.c_int64 * ndim)(*offset),
                    (ctypes.c_int64 * ndim)(*extent),
                    to._address,
                    to.nbytes,
                    error_handle(),
                )
            )

    def restore(
        self,
        state: State,
        *,
        missing: str = "error",
        unexpected: str = "error",
        cast: str = "error",
        hyperparameter: str = "checkpoint",
        batch: str = "allow",
        per_rank: str = "error",
        model_only: bool = False,
        renames: Mapping[str, str] | None = None,
        supply: Supply | None = None,
        group: Group | None = None,
        group_deadline_s: float | None = None,
        progress: Progress | bool = False,
    ) -> Report:
        """Restores `state` without owning the run; arguments as of `Run.restore`.

        The ranks of a `group` restore it together: all make this call, and wait for each other at
        most `group_deadline_s` seconds [600].
        """
        require_state(state)
        options = restore_options(
            None,
            {
                "missing": missing,
                "unexpected": unexpected,
                "cast": cast,
                "hyperparameter": hyperparameter,
                "batch": batch,
                "per_rank": per_rank,
            },
            {"model_only": model_only},
            renames,
        )
        check_group(group)
        if group is not None:
            options.group = ctypes.pointer(group._struct)
            options.group_deadline_s = group_deadline_s or 0.0
        with calling(group), self._used() as pointer, state._held() as restored:
            refuse_read_only(state)
            call = functools.partial(lib.pawl_checkpoint_restore, pointer, restored)
            return restore_by(call, state, options, supply, progress)

    def verify(self, progress: Progress | bool = False) -> Verification:
        """Reads every byte of the checkpoint's files; goes on after damage.

        Args:
            progress: called now and then with the bytes done and those there are. True shows a line
                on standard error, where that is a terminal.
        """
        with shown(progress, "verifying") as tell:
            return self._verify(tell)

    def _verify(self, progress: Progress | None) -> Verification:
        problems: list[Problem] = []
        with Callbacks() as callbacks:

            def tell_problem(found: Any) -> None:
                it = found.contents
                problems.append(
                    Problem(decode(it.file) or "", decode(it.entry), it.offset, it.length, decode(it.text) or "")
                )

            options = _abi.VerifyOptions(
                problem=_abi.PROBLEM_FUNCTION(callbacks.kept(1, tell_problem)),
                progress=callbacks.progress(progress),
                stop=callbacks.stop,
            )
            result = _abi.VerifyResult()
            with self._used() as pointer:
                status = lib.pawl_checkpoint_verify(
                    pointer, ctypes.byref(options), ctypes.byref(result), error_handle()
                )
                callbacks.raise_kept()
                if not (status == Status.EDAMAGED and problems):  # which are told one by one
                    check(status)
                return Verification(
                    result.files, result.bytes, result.entries, tuple(problems), decode(result.unverified)
                )

    def close(self) -> None:
        """Closes it; what was read from it stays."""
        if self._getpid() != self._pid:  # where a thread that is not here may have the lock
            return
        with self._lock:  # until it is closed: an iterator of another thread frees its own
            self._refuse_inside()
            if self._pointer is not None:
                self._closing = self._pointer  # before it is forgotten: a signal handler may raise at any point
                self._pointer = None
            self._close_unused()

    def _close_unused(self) -> None:
        """With the lock. A signal handler may close it in the middle of a call."""
        if self._uses == 0 and self._closing is not None:
            for walk in list(self._walks):
                self._free(walk)
            pointer, self._closing = self._closing, None
            self._close(pointer)

    @contextlib.contextmanager
    def _used(self) -> Iterator[ctypes.c_void_p]:
        """The pointer, for a call that asks the program whether to go on, or whose result is read where it is."""
        with self._held() as pointer:
            before = self._uses
            try:
                self._uses = before + 1
                yield pointer
            finally:
                self._uses = before
                self._close_unused()

    def __del__(self) -> None:
        if hasattr(self, "_close"):
            self.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(path: Path, step: int | None = None) -> Checkpoint:
    """Opens a checkpoint of a run, the newest where no step is given, or weights of another tool.

    Raises:
        NotFound: there is none; says what is there instead.
        Damaged: it is not what was written.
    """
    return Checkpoint(path, step)


def verify(path: Path, step: int | None = None, progress: Progress | bool = False) -> Verification:
    """Reads every byte of a checkpoint, the newest where no step is given. `progress`: see `Checkpoint.verify`.

    Returns:
        What was read, and what is damaged; a checkpoint that cannot even be opened is raised.
    """
    with Checkpoint(path, step) as checkpoint:
        return checkpoint.verify(progress)


def metrics_of(text: bytes | None) -> dict[str, float]:
    """Of a checkpoint; NaN and the infinities are texts in JSON."""
    return {name: float(value) for name, value in json.loads(text or b"{}").items()}


# ---- events --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened to a run.

    Attributes:
        kind: "save_begun", "save_progress", "save_ended" or "restored".
        step: None: a restore that found none.
        time: in seconds since 1970, by the writer's clock.
        ok: it did not fail.
        message: the failure in one line, or None.
        done_bytes: of data files, written so far; of entries that were restored.
        of_bytes: of data files in all; 0 of a restore.
        seconds: so far, or in all.
        stats: of a save that ended, else None.
        json: the line of the file.
    """

    kind: str
    step: int | None
    time: float
    ok: bool
    message: str | None
    done_bytes: int
    of_bytes: int
    seconds: float
    stats: SaveStats | None
    json: str


def events(path: Path) -> Iterator[Event]:
    """The events of a run so far, oldest first."""
    options, pointer = _open_options(None), ctypes.c_void_p()
    check(lib.pawl_events_open(path_bytes(path), ctypes.byref(options), ctypes.byref(pointer), error_handle()))
    found, more = _abi.Event(), ctypes.c_int()
    try:
        while True:
            check(lib.pawl_events_next(pointer, ctypes.byref(found), ctypes.byref(more), error_handle()))
            if more.value == 0:
                return
            yield Event(
                kind=EventKind(found.kind).name.lower(),
                step=found.step if found.step >= 0 else None,
                time=found.unix_time_ns / 1e9,
                ok=found.status == Status.OK,
                message=decode(found.message),
                done_bytes=found.done_bytes,
                of_bytes=found.of_bytes,
                seconds=found.seconds,
                stats=save_stats(found.stats.contents) if found.stats else None,
                json=decode(found.json) or "",
            )
    finally:
        lib.pawl_events_close(pointer)
