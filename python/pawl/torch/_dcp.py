# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint through pawl: drop-in storage writer and reader.

::

    dcp.save(state_dict, storage_writer=pawl.torch.Writer(path))
    dcp.load(state_dict, storage_reader=pawl.torch.Reader(path))

A path is a run with one step, 0. Entries are named by torch's names, with "/" for ".".
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import logging
import os
import pathlib
import pickle
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .._checkpoint import Checkpoint, ls
from .._checkpoint import open as open_checkpoint
from .._entry import Entry
from .._error import Damaged, Error, Mismatch, NotFound, Timeout, UsageError
from .._group import Group
from .._run import Run
from .._state import Box, State, Tensor
from .._whole import sync_directory
from ._group import fail_by_store, group_by_store
from ._hook import fence_before_steps, leave_steps_alone
from ._names import entry_name, torch_name
from ._objects import flatten, rebuild
from ._planner import tell_reader
from ._tensors import IN_PARTS, TORCH_DTYPES, is_dense, memory_of, refuse_float4, replica_of

logger = logging.getLogger("pawl")

#: What each rank knows of its items: JSON. No name that is made of torch's begins like this.
_PLANS = "%dcp/plan/"
_STEP = 0

#: Programs look for this file to see whether there is a checkpoint. It is no pickle: torch by itself refuses it.
_MARK = ".metadata"
#: Torch's own; one of each rank where ranks save without collectives.
_TORCHS = re.compile(r"(__[0-9]+)?\.metadata")
_MARK_TEXT = b"# Saved by pawl: load it with pawl.torch.Reader, or after pawl.torch.install().\n"


def _is_mark(path: pathlib.Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_MARK_TEXT)) == _MARK_TEXT


def _only_mark(directory: pathlib.Path) -> NotFound | None:
    """Is that all there is?"""
    mark = directory / _MARK
    if any(directory.glob("step-*")) or not (mark.is_file() and _is_mark(mark)):
        return None
    error = NotFound("there is no checkpoint here, but the mark of one that pawl has saved")
    error.path, error.next = str(mark.absolute()), "copy the whole directory: its step-... directory is missing"
    return error


def _leave_mark(directory: pathlib.Path) -> None:
    """After the commit: a mark is never there without a checkpoint, nor half of one."""
    written = directory / f"{_MARK}.tmp"
    try:
        with written.open("wb") as stream:
            stream.write(_MARK_TEXT)
            stream.flush()
            os.fsync(stream.fileno())
        written.replace(directory / _MARK)
        sync_directory(os.fspath(directory))
    except OSError as why:
        logger.warning(
            "%s: the checkpoint is committed, but programs that look for %s do not find it: %s", directory, _MARK, why
        )


# ---- names ---------------------------------------------------------------------------------------


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """Elements in host memory, each at an address of its own; the tensor itself where it can be."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor if is_dense(tensor) else tensor.contiguous()


def _bytes_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


_IN_PARTS = {str(dtype).removeprefix("torch."): dtype for dtype in IN_PARTS}  # as notes have them


def _dtype(entry: Entry) -> torch.dtype:
    found = TORCH_DTYPES.get(entry.dtype or "")
    if found is None:
        raise UsageError(f"{entry.name}: torch has no type {entry.dtype}")
    return found


# ---- the group of one call -----------------------------------------------------------------------

_calls: dict[str, int] = {}  # calls of this process by what they do and where


def _call_key(what: str, path: str) -> str:
    """The same text on all ranks that save to, or load from, this path: one for each call."""
    where = hashlib.sha256(f"{what}:{path}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    _calls[where] = _calls.get(where, 0) + 1
    return f"dcp/{where}/{_calls[where]}"


@dataclasses.dataclass(frozen=True)
class _Ranks:
    """Travels with a plan: this is rank `rank` of `size`; `partial`: they ask for some parts of a checkpoint alone."""

    rank: int
    size: int
    partial: bool = False


def _group(ranks: _Ranks, key: str) -> Group | None:
    return group_by_store(ranks.rank, ranks.size, key) if ranks.size > 1 else None


@contextlib.contextmanager
def _telling(ranks: _Ranks, key: str) -> Iterator[None]:
    """What this rank fails with before the ranks meet is told to those that wait for it."""
    try:
        yield
    except BaseException as why:
        if ranks.size > 1:
            fail_by_store(ranks.rank, key, why)
        raise


# ---- zero copy -----------------------------------------------------------------------------------


class _Fence:
    """A state dict that is saved by reference: its tensors may change when it has been let go."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._let_go = threading.Event()
        fence_before_steps(self)

    def let_go(self) -> None:
        """The tensors may change."""
        self._let_go.set()
        leave_steps_alone(self)

    def fence(self) -> None:
        """Waits until the save has let go of the tensors. Raises Timeout."""
        end = time.monotonic() + self._timeout
        while not self._let_go.wait(0.1):
            if time.monotonic() > end:
                leave_steps_alone(self)
                raise Timeout(
                    f"the save to {self._path} has not let go of the tensors within {self._timeout:g} s; the "
                    "optimizer has not stepped"
                )


def _on_host(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value.device.type == "cpu")
    if isinstance(value, dict):
        value = list(value.values())
    return all(map(_on_host, value)) if isinstance(value, (list, tuple)) else True


# ---- writing -------------------------------------------------------------------------------------


class Writer(filesystem.FileSystemWriter):  # type: ignore[misc]
    """``torch.distributed.checkpoint.FileSystemWriter`` that saves through pawl.

    What it saves is committed as a whole or not at all; a checkpoint that is at the path stays until then. Nothing
    is pickled. Whatever fails is raised (and logged: a future that nobody asks is silent).

    Args:
        path: of the run's directory; a checkpoint in it is replaced.
        zero_copy: ``async_save`` copies nothing: the tensors are read while training goes on, and every optimizer
            waits before its step until they have been. What is changed in another way (buffers in forward) must
            not be in the state dict then. With threads only.
        process_group: of the ranks, where ``use_collectives=False`` saves with a group of its own.
        deadline_s: seconds that a save may take, and that ranks wait for each other.
        arguments: of FileSystemWriter.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *arguments: Any,
        zero_copy: bool = False,
        process_group: torch.distributed.ProcessGroup | None = None,
        deadline_s: float = 600.0,
        **named: Any,
    ) -> None:
        super().__init__(path, *arguments, **named)
        self._zero_copy = zero_copy
        self._process_group = process_group
        self._deadline_s = deadline_s
        self._fence: _Fence | None = None
        self._coordinates = False
        self._call = ""

    def __getstate__(self) -> dict[str, Any]:
        """For ``async_save`` in a process: no handles of this one."""
        if self._fence is not None:
            raise UsageError("zero_copy=True needs async_save with threads: another process does not see this memory")
        return {**self.__dict__, "_process_group": None}

    # -- staging --

    def stage(self, state_dict: Any) -> Any:
        if not self._zero_copy or not _on_host(state_dict):
            return super().stage(state_dict)
        self._fence = _Fence(str(self.path), self._deadline_s)
        return state_dict

    # -- planning --

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)
        self._coordinates = is_coordinator
        self._call = _call_key("save", str(self.path))

    def _metadata_exists(self) -> bool:
        try:
            return any(info.status == "committed" for info in ls(self.path))
        except NotFound:
            return bool(super()._metadata_exists())

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        if not self.overwrite and self._metadata_exists():
            self._release()
            raise UsageError(f"there is a checkpoint in {self.path} already, and overwrite=False")
        return plan

    def _ranks_without_plans(self) -> _Ranks:
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return _Ranks(0, 1)
        group = self._process_group
        rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        if self.rank is not None and self.rank != rank:
            raise UsageError(
                f"rank {rank} saves as rank {self.rank}: with use_collectives=False a group of ranks is given to the "
                "writer, too: Writer(path, process_group=...)"
            )
        return _Ranks(rank, size)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        if not self.use_collectives:
            return plans
        return [dataclasses.replace(plan, storage_data=_Ranks(i, len(plans))) for i, plan in enumerate(plans)]

    # -- saving --

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        try:
            ranks = plan.storage_data if self.use_collectives else self._ranks_without_plans()
            with _telling(ranks, self._call):
                state = _state_to_save(plan, planner, ranks, replicated=not self.use_collectives)
            with Run(
                self.path,
                framework=f"torch.distributed.checkpoint of torch {torch.__version__}",
                deadline_s=self._deadline_s,
                group=_group(ranks, self._call),
                group_deadline_s=self._deadline_s,
            ) as run:
                run.save(state, _STEP)
                if self._fence is not None:
                    run.fence()
                    self._release()
                run.wait()
        except Error as why:
            logger.error("saving to %s failed: %s", self.path, why)
            raise
        finally:
            self._release()
        done: Future[list[WriteResult]] = Future()
        done.set_result(
            [WriteResult(index=item.index, size_in_bytes=_size(item), storage_data=None) for item in plan.items]
        )
        return done

    def _release(self) -> None:
        fence, self._fence = self._fence, None
        if fence is not None:
            fence.let_go()

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The checkpoint was committed when the last rank's part was there: the mark is left to do."""
        if self._coordinates:
            _leave_mark(pathlib.Path(self.path))
        metadata.version = getattr(filesystem, "CURRENT_DCP_VERSION", None)
        metadata.storage_data = {}
        metadata.storage_meta = self.storage_meta()


def _size(item: WriteItem) -> int:
    return item.tensor_storage_size() or 0


class _Saved:
    """Collects the items of a plan as entries of a state."""

    def __init__(self, planner: Any, replicated: bool) -> None:
        self._planner = planner
        self._replicated = replicated  # other ranks may hold the same: nobody has compared the plans
        self.boxes: dict[str, list[Box]] = {}
        self.about: dict[str, dict[str, Any]] = {}  # keyword arguments of the entry
        self.notes: dict[str, dict[str, Any]] = {}

    def _add(self, name: str, tensor: torch.Tensor, offset: Iterable[int], shape: Iterable[int], **about: Any) -> None:
        refuse_float4(name, tensor)
        self.boxes.setdefault(name, []).append(Box(tuple(offset), memory_of(name, tensor)))
        self.about[name] = {"shape": tuple(shape), **about}

    def tensor(self, item: WriteItem) -> None:
        """Adds an item of a tensor, or of a part of one."""
        fqn, data = item.index.fqn, item.tensor_data
        assert data is not None
        tensor = _host(self._planner.resolve_data(item))
        offset, shape = tuple(data.chunk.offsets), tuple(data.size)
        if not any(offset):
            self.note(fqn)
        if tensor.dtype in IN_PARTS:
            offset, shape = (*offset, 0), (*shape, 2)
            self.note(fqn)["dtype"] = str(tensor.dtype).removeprefix("torch.")
        about: dict[str, Any] = {}
        if self._replicated and item.type == WriteItemType.SHARD:
            whole = getattr(self._planner, "state_dict", {}).get(fqn)
            number, count = replica_of(fqn, whole) if hasattr(whole, "placements") else (0, 1)
            about = {"replicated": True, "replica": number, "replica_count": count} if count > 1 else {}
        elif self._replicated:
            about = {"replicated": True}
        self._add(entry_name(fqn), tensor, offset, shape, **about)

    def object(self, item: WriteItem) -> None:
        """Adds an object that torch would pickle: as JSON, and the tensors in it."""
        fqn = item.index.fqn
        if not hasattr(self._planner, "lookup_object"):
            raise UsageError(
                f"{fqn}: {type(self._planner).__name__} has no lookup_object: its objects are pickled only"
            )
        skeleton, tensors = flatten(self._planner.lookup_object(item.index), entry_name(fqn))
        name, about = entry_name(fqn), {"role": "other", "replicated": self._replicated}
        text = _bytes_tensor(json.dumps(skeleton, allow_nan=False, separators=(",", ":")).encode())
        self._add(name, text, (0,), text.shape, **about)
        self.note(fqn)["object"] = sorted(tensors)
        for part, tensor in tensors.items():
            host = _host(tensor)
            self._add(part, host, (0,) * host.ndim, host.shape, **about)

    def note(self, fqn: str) -> dict[str, Any]:
        """What the plan says of an entry; where the planner has a path for it, that."""
        return self.notes.setdefault(fqn, {})


def _state_to_save(plan: SavePlan, planner: SavePlanner, ranks: _Ranks, replicated: bool) -> State:
    saved = _Saved(planner, replicated and ranks.size > 1)
    for item in plan.items:
        if item.type == WriteItemType.BYTE_IO:
            saved.object(item)
        else:
            saved.tensor(item)
    paths = plan.planner_data if isinstance(plan.planner_data, dict) else {}
    for fqn, note in saved.notes.items():
        if fqn in paths:
            note["path"] = list(paths[fqn])
    text = _bytes_tensor(json.dumps({"version": 1, "entries": saved.notes}, separators=(",", ":")).encode())
    entries: dict[str, Any] = {name: Tensor(boxes, **saved.about[name]) for name, boxes in saved.boxes.items()}
    entries[f"{_PLANS}{ranks.rank}"] = Tensor(memory_of("plan", text), role="other")
    return State(entries)


# ---- reading -------------------------------------------------------------------------------------


def _take_notes(noted: dict[str, dict[str, Any]], name: str, text: bytes) -> None:
    """What a rank has noted of its entries, which nobody has to believe."""
    try:
        notes = json.loads(text)["entries"]
        for fqn, note in notes.items():
            path, parts = note.get("path", []), note.get("object", [])
            if not (all(isinstance(one, (str, int)) for one in path) and all(isinstance(one, str) for one in parts)):
                raise ValueError("a path or a list of parts is not one")
            noted.setdefault(fqn, {}).update(note)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as why:
        error = Damaged(f"{name}: it does not say what Writer notes there ({why!r})")
        error.entry = name
        raise error from None


class Reader(filesystem.FileSystemReader):  # type: ignore[misc]
    """``torch.distributed.checkpoint.FileSystemReader`` of what `Writer` has saved.

    A directory that pawl did not write is read as torch does. Every difference between checkpoint and state dict is
    raised as `pawl.Mismatch` before a byte is read, also those that torch is silent about: another dtype,
    entries of the checkpoint that are not asked for. Every byte is verified. Nothing of a checkpoint is executed.

    Args:
        path: of the run's directory.
        unexpected: the checkpoint has entries that nobody asks for: "error", or "allow" leaves them out. Parts
            ("optimizer") of which nobody asks for anything are left out in any case.
        cast: another float type: "error", or "allow" converts.
        deadline_s: seconds that ranks wait for each other.
        arguments: of FileSystemReader.
    """

    # Here, for subclasses that call FileSystemReader's __init__ by name.
    _unexpected = "error"
    _cast = "error"
    _deadline_s = 600.0
    _checkpoint: Checkpoint | None = None
    _why: NotFound | None = None  # there is none
    _entries: Mapping[str, Entry] = MappingProxyType({})
    _notes: Mapping[str, dict[str, Any]] = MappingProxyType({})
    _sizes: Mapping[str, torch.Size | None] = MappingProxyType({})  # None: of an object
    _call = ""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *arguments: Any,
        unexpected: str = "error",
        cast: str = "error",
        deadline_s: float = 600.0,
        **named: Any,
    ) -> None:
        super().__init__(path, *arguments, **named)
        self._unexpected = unexpected
        self._cast = cast
        self._deadline_s = deadline_s

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_checkpoint"}  # opened anew

    def _close(self) -> None:
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is not None:
            checkpoint.close()

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        super().reset(checkpoint_id)
        self._close()

    def _opened(self) -> bool:
        """Is there a checkpoint of pawl, and none of torch that is newer?"""
        self._close()
        try:
            self._why = None
            infos = [info for info in ls(self.path) if info.status == "committed"]
            checkpoint = open_checkpoint(self.path)
        except NotFound as why:
            self._why = _only_mark(pathlib.Path(self.path)) or why
            return False
        named = [path for path in pathlib.Path(self.path).glob(f"*{_MARK}") if _TORCHS.fullmatch(path.name)]
        torchs = [path for path in named if path.is_file() and not _is_mark(path)]
        newest = max((info.time or 0.0 for info in infos), default=0.0)
        if any(path.stat().st_mtime > newest for path in torchs):
            logger.warning("%s: torch has saved here after pawl did; what torch saved is read", self.path)
            checkpoint.close()
            return False
        self._checkpoint = checkpoint
        return True

    # -- planning --

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if not self._opened():
            try:
                return super().read_metadata(*args, **kwargs)
            except (FileNotFoundError, pickle.UnpicklingError) as why:
                raise self._why or why from why
        assert self._checkpoint is not None
        self._entries = {entry.name: entry for entry in self._checkpoint.entries() if entry.kind == "tensor"}
        noted: dict[str, dict[str, Any]] = {}
        for name in self._entries:
            if name.startswith(_PLANS):
                _take_notes(noted, name, bytes(self._checkpoint[name].read().buffer))
        self._notes = noted
        inside = {part for note in self._notes.values() for part in note.get("object", ())}
        described: dict[str, Any] = {}
        for name, entry in self._entries.items():
            if not name.startswith(_PLANS) and name not in inside:
                fqn = torch_name(name)
                described[fqn] = _described(entry, self._notes.get(fqn, {}))
        self._sizes = {fqn: getattr(found, "size", None) for fqn, found in described.items()}
        tell_reader(self.load_id, self)
        return Metadata(
            state_dict_metadata=described,
            planner_data={fqn: tuple(note["path"]) for fqn, note in self._notes.items() if "path" in note},
            storage_data=_files(pathlib.Path(self.path), self._checkpoint.step, described),
            storage_meta=StorageMeta(checkpoint_id=self.path, load_id=self.load_id),
        )

    def refused(self, state_dict: dict[str, Any], strict: bool, why: Exception) -> None:
        """Torch's planner has refused the first of the differences: raises all that there are on this rank."""
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        try:
            checkpoint.restore(
                State(self._outlines(state_dict)),
                missing="error" if strict else "allow",
                unexpected="allow",  # other ranks may ask for it
                cast=self._cast,
            )
        except Mismatch as error:
            error.system = str(why)  # programs know it by this text
            if error.next is not None:
                partial = "planner=DefaultLoadPlanner(allow_partial_load=True)"
                error.next = error.next.replace("missing='allow'", partial)
            raise error from why
        except Error:
            logger.debug("the differences cannot be told", exc_info=True)
        finally:
            self._close()

    def _outlines(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A state dict without memory; of objects, whose bytes do not compare, all that the checkpoint has."""
        objects = {name: note["object"] for name, note in self._notes.items() if "object" in note}
        parts = {part for name, inside in objects.items() for part in (entry_name(name), *inside)}
        asked = {entry_name(name): what for name, what in state_dict.items() if name not in objects}
        for name, entry in self._entries.items():
            if name in parts or name.startswith(_PLANS):
                asked[name] = torch.empty(entry.shape, dtype=_dtype(entry), device="meta")
        return {name: _outline(name, what) for name, what in asked.items()}

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._call = _call_key("load", str(self.path))

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        partial = self._partial({item.storage_index.fqn for plan in plans for item in plan.items})
        return [dataclasses.replace(plan, storage_data=_Ranks(i, len(plans), partial)) for i, plan in enumerate(plans)]

    def _partial(self, asked: set[str]) -> bool:
        """Is all that nobody asks for in parts ("model", "optimizer") of which nobody asks for anything?

        Programs load a model first and its optimizer later, or never.
        """
        parts = {fqn: note["path"][0] for fqn, note in self._notes.items() if len(note.get("path", ())) > 1}
        asked_parts = {parts.get(fqn) for fqn in asked}
        left_out = {fqn for fqn, size in self._sizes.items() if fqn not in asked and (size is None or 0 not in size)}
        partial = all(fqn in parts and parts[fqn] not in asked_parts for fqn in left_out)
        if partial and left_out:
            names = sorted({str(parts[fqn]) for fqn in left_out})
            logger.info("%s: %s of the checkpoint is not asked for", self.path, ", ".join(names))
        return partial

    # -- reading --

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        if self._checkpoint is None:
            return super().read_data(plan, planner)
        ranks = plan.storage_data if isinstance(plan.storage_data, _Ranks) else _Ranks(0, 1)
        try:
            with _telling(ranks, self._call):
                wanted = _Wanted(self._entries, self._notes, plan, planner)
                if ranks.rank == 0:
                    wanted.rest()
                state = wanted.state()
            keys = getattr(planner, "keys", None)  # of a planner that was asked for some of them
            self._checkpoint.restore(
                state,
                unexpected="allow" if ranks.partial or keys is not None else self._unexpected,
                cast=self._cast,
                group=_group(ranks, self._call),
                group_deadline_s=self._deadline_s,
            )
            wanted.hand_over()
        finally:
            self._close()
        done: Future[None] = Future()
        done.set_result(None)
        return done


def _described(entry: Entry, note: dict[str, Any]) -> TensorStorageMetadata | BytesStorageMetadata:
    if "object" in note:
        return BytesStorageMetadata()
    shape, dtype = entry.shape, _dtype(entry)
    if note.get("dtype") in _IN_PARTS:
        shape, dtype = shape[:-1], _IN_PARTS[note["dtype"]]
    size = torch.Size(shape)
    whole = ChunkStorageMetadata(offsets=torch.Size([0] * len(shape)), sizes=size)
    return TensorStorageMetadata(properties=TensorProperties(dtype=dtype), size=size, chunks=[whole])


def _files(path: pathlib.Path, step: int | None, described: dict[str, Any]) -> dict[MetadataIndex, Any]:
    """For a program's own readers, which look at files first: the manifest, which names those of every entry."""
    if step is None:  # weights of another tool
        return {}
    name = f"step-{step:08}/manifest.json"
    manifest = filesystem._StorageInfo(name, 0, (path / name).stat().st_size)
    whole = {fqn: getattr(found, "chunks", None) for fqn, found in described.items()}
    return {MetadataIndex(fqn, chunks[0].offsets if chunks else None): manifest for fqn, chunks in whole.items()}


def _outline(name: str, what: Any) -> Any:
    """An entry with the shape and type of what is in a state dict, and memory of its own for one element at most."""
    if not isinstance(what, torch.Tensor):
        return {}
    shape, dtype = tuple(what.shape), what.dtype
    if dtype in IN_PARTS:
        shape, dtype = (*shape, 2), IN_PARTS[dtype]
    memory = memory_of(name, torch.empty([min(1, extent) for extent in shape], dtype=dtype))
    return Tensor([Box((0,) * len(shape), memory)], shape=shape)


class _Wanted:
    """What a rank's plan asks for: memory for it, and what to do when it has come."""

    def __init__(
        self, entries: Mapping[str, Entry], notes: Mapping[str, dict[str, Any]], plan: LoadPlan, planner: LoadPlanner
    ) -> None:
        self._entries = entries
        self._notes = notes
        self._planner = planner
        self._boxes: dict[str, list[Box]] = {}
        self._tensors: list[tuple[ReadItem, torch.Tensor, torch.Tensor]] = []  # to, from
        self._objects: list[tuple[ReadItem, torch.Tensor, dict[str, torch.Tensor]]] = []
        for item in plan.items:
            (self._object if item.type == LoadItemType.BYTE_IO else self._tensor)(item)

    def _add(self, name: str, tensor: torch.Tensor, offset: Iterable[int]) -> torch.Tensor:
        refuse_float4(name, tensor)
        self._boxes.setdefault(name, []).append(Box(tuple(offset), memory_of(name, tensor)))
        return tensor

    def _tensor(self, item: ReadItem) -> None:
        fqn = item.storage_index.fqn
        target = self._planner.resolve_tensor(item).detach()
        memory = target
        if target.device.type != "cpu" or target.is_conj() or target.is_neg():
            memory = torch.empty(target.shape, dtype=target.dtype)
        self._tensors.append((item, target, memory))
        offset = tuple(item.storage_offsets)
        if self._notes.get(fqn, {}).get("dtype") in _IN_PARTS:
            offset = (*offset, 0)
        self._add(entry_name(fqn), memory, offset)

    def _whole(self, name: str) -> torch.Tensor:
        entry = self._entries[name]
        return self._add(name, torch.empty(entry.shape, dtype=_dtype(entry)), [0] * len(entry.shape))

    def _object(self, item: ReadItem) -> None:
        fqn = item.storage_index.fqn
        name = entry_name(fqn)
        parts = {part: self._whole(part) for part in self._notes[fqn]["object"]}
        self._objects.append((item, self._whole(name), parts))

    def rest(self) -> None:
        """Asks for what no planner asks for: what the reader has read already, and tensors without elements."""
        for name, entry in self._entries.items():
            if name.startswith(_PLANS) or (0 in entry.shape and name not in self._boxes):
                self._whole(name)

    def state(self) -> State:
        """Memory for all of it."""
        return State({name: Tensor(boxes, shape=self._entries[name].shape) for name, boxes in self._boxes.items()})

    def hand_over(self) -> None:
        """Gives the planner what has been read."""
        for item, target, memory in self._tensors:
            if memory is not target:
                target.copy_(memory)
            self._planner.commit_tensor(item, target)
        for item, text, parts in self._objects:
            fqn = item.storage_index.fqn
            try:
                skeleton = json.loads(bytes(text.tolist()))
            except ValueError as why:
                raise Damaged(f"{fqn}: is no object that pawl has written: {why}") from None
            self._planner.load_bytes(item, _as_torch_bytes(rebuild(skeleton, parts, entry_name(fqn))))


def _as_torch_bytes(value: Any) -> Any:
    """An object as a planner wants it: pickled by this process a moment ago, never by the disk."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer
