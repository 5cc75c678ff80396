# SPDX-License-Identifier: Apache-2.0
"""Nested objects in a directory of their own: ``torch.save`` and ``torch.load`` without pickle."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch

from .._checkpoint import ls, open
from .._entry import Entry
from .._error import Damaged, NotFound, UsageError
from .._handle import counted
from .._run import Run
from .._state import State, Tensor
from ._objects import flatten, rebuild
from ._parts import pack_skeleton, unpack_skeleton
from ._tensors import empty, is_sharded, memory_of

#: The entry that says how the object is nested; its tensors are below it.
NAME = "object"


def save(obj: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Saves nested data as the checkpoint in a directory, and returns when it is durable.

    Dictionaries, lists, tuples, sets, numbers, texts, tensors, NumPy arrays, paths, ... in each other.
    Nothing is pickled. Tensors that share memory share it after `load`; of a tensor that is a
    view of a larger one its own elements are saved alone. A list or dictionary that is in several places
    comes back as several, and every tensor in row-major order (no channels_last).

    An object that is there already is replaced when the new one is whole; until then, and after a
    failure, it stays.

    Args:
        obj: what to save.
        path: of the directory, which is made.
        options: of ``pawl.Run``: deadline_s, budget_bytes, ...

    Raises:
        UsageError: names the place of what cannot be saved without pickle; or the directory has the
            checkpoints of a training job.
        Error: why it could not be written.
    """
    _require_own(path)
    skeleton, tensors = flatten(obj, NAME)
    state = State()
    skeleton, packed = pack_skeleton(skeleton, NAME)
    state.set_json(NAME, skeleton)
    entries = {}
    for name, tensor in {**tensors, **packed}.items():
        if is_sharded(tensor):
            raise UsageError(
                f"{name} is a DTensor; save full_tensor(), or use torch.distributed.checkpoint with Writer"
            )
        entries[name] = Tensor(memory_of(name, tensor.cpu()), role="other")
    state.update(entries)
    with Run(path, no_event_file=True, framework=f"torch {torch.__version__}", **options) as run:
        run.save(state, 0)
        run.wait()


def _require_own(path: str | os.PathLike[str]) -> None:
    with contextlib.suppress(NotFound, Damaged):  # of what is damaged, and step 0, nothing is lost that could be read
        steps = [info.step for info in ls(path)]
        if not steps:
            return
        with open(path) as checkpoint:
            own = NAME in checkpoint and checkpoint.entry(NAME).kind == "json"
        if steps != [0] or not own:
            where = f"{os.fspath(path)} has checkpoints of a training job"
            raise UsageError(f"{where} (step {max(steps)}); name another path")


def load(path: str | os.PathLike[str], map_location: torch.device | str | None = None) -> Any:
    """Reads what `save` has written, every byte verified. Nothing that is read can run code.

    Args:
        path: of the directory.
        map_location: the device to put tensors on [host memory, wherever they were when they were saved].

    Returns:
        The object.

    Raises:
        NotFound: there is none; says what is there instead.
        Damaged: names the file, the tensor and the bytes.
    """
    if map_location is not None and not isinstance(map_location, (str, torch.device)):
        raise TypeError(f"map_location is a device or its name, not {type(map_location).__qualname__}")
    tensors: dict[str, torch.Tensor] = {}

    def supply(entry: Entry) -> Tensor | None:
        tensor = empty(entry)
        if tensor is None:
            return None
        tensors[entry.name] = tensor
        return Tensor(memory_of(entry.name, tensor), role=entry.role)

    state = State()
    state.set_json(NAME, None)
    with open(path) as checkpoint:
        if NAME not in checkpoint or checkpoint.entry(NAME).kind != "json":
            error = NotFound(f"{os.fspath(path)} has no object that pawl.torch.save has written")
            entries = counted(len(checkpoint), "entry", "entries")
            error.found = f"a checkpoint of step {checkpoint.step} with {entries}"
            error.next = "use pawl.torch.Checkpointer(...).restore() for a training job, pawl.open for single tensors"
            if checkpoint.format != "pawl":
                error.found = f"a checkpoint of another tool ({checkpoint.format}) with {entries}"
                error.next = "load it with the tool that wrote it, or single tensors with pawl.open"
            raise error
        checkpoint.restore(state, supply=supply)
    if map_location is not None:
        tensors = {name: tensor.to(map_location) for name, tensor in tensors.items()}
    return rebuild(unpack_skeleton(state[NAME], tensors, NAME), tensors, NAME)
