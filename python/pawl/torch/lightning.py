# SPDX-License-Identifier: Apache-2.0
"""Lightning's checkpoints without pickle: a plug-in for its Trainer.

::

    from pawl.torch.lightning import CheckpointIO

    trainer = Trainer(plugins=[CheckpointIO()], callbacks=[ModelCheckpoint(save_top_k=2, save_last=True)])
    trainer.fit(model, ckpt_path="last")

It works with ``lightning`` and with ``pytorch_lightning``, on one process and with DDP. Kept is all that
Lightning puts into a checkpoint: weights, optimizers, schedulers, loops, callbacks, hyperparameters, the
data module's state, and what ``on_save_checkpoint`` adds; something that only pickle could keep is
refused by name. Lightning itself keeps no random state, and the position in an epoch only of a
``StatefulDataLoader``. FSDPStrategy and ModelParallelStrategy do not ask a plug-in, they save by
``torch.distributed.checkpoint``: call `pawl.torch.install`. ``LightningModule.load_from_checkpoint``
asks none, either: use `pawl.torch.load`.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from typing import Any

import torch

from .._checkpoint import ls, open
from .._error import NotFound, UsageError
from .._run import Run
from ._saved import NAME, load, save

__all__ = ["CheckpointIO"]

#: Where the two packages have the class that a Trainer asks its plug-ins for.
_BASES = ("lightning.fabric.plugins.io.checkpoint_io", "lightning_fabric.plugins.io.checkpoint_io")
#: Names that pawl makes in the directory of a run.
_OWN_NAMES = re.compile(
    r"step-[0-9]{8,}|owner-[0-9]{8,}|latest(\.tmp)?|reserve|events(\.old)?\.jsonl|\.pawl-(probe|doctor)-.*"
)


def _refusal(path: str, what: str, found: str | None = None, then: str | None = None) -> UsageError:
    error = UsageError(what)
    error.path = os.path.abspath(path)
    error.found = found
    error.next = then
    return error


def _local(path: Any) -> str:
    text = os.fspath(path)
    if "://" in text:
        raise _refusal(text, f"{text} is a URL, and checkpoints are directories", then="give a path")
    return str(text)


def _plain(value: Any) -> Any:
    """Hyperparameters with Lightning's own kind of dictionary as plain ones, which they equal."""
    if isinstance(value, dict) and (type(value) is dict or type(value).__name__ == "AttributeDict"):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if type(value) is list else value


class CheckpointIO:
    """Writes each of Lightning's checkpoints with `pawl.torch.save`: a directory, every byte verified.

    A checkpoint of the same name is replaced when the new one is whole; after a failure the old one is
    as it was. Saving returns when the checkpoint is durable.

    Args:
        options: of ``pawl.Run``: deadline_s, budget_bytes, ...
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        if not any(name in sys.modules for name in _BASES):
            _import_one()
        for name in _BASES:
            if name in sys.modules:
                sys.modules[name].CheckpointIO.register(type(self))

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Saves what Lightning has put together.

        Args:
            checkpoint: what the Trainer dumps.
            path: of the directory, which is made.
            storage_options: of ``pawl.Run``, for this checkpoint.

        Raises:
            UsageError: names the place of what cannot be saved without pickle.
            Error: why it could not be written.
        """
        if storage_options is not None and not isinstance(storage_options, dict):
            raise UsageError(f"storage_options is a {type(storage_options).__qualname__}, not a dict of options")
        plain = {key: _plain(value) if "hyper_parameters" in key else value for key, value in checkpoint.items()}
        try:
            save(plain, _local(path), **{**self._options, **(storage_options or {})})
        except UsageError as error:
            if error.entry is not None and error.next is None and "hyper_parameters" in error.entry:
                error.next = "name it in save_hyperparameters(ignore=[...]), or give it as numbers, texts and dicts"
            raise

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Reads a checkpoint, every byte verified.

        Args:
            path: of its directory.
            map_location: the device to put tensors on, or its name [host memory].
            weights_only: makes no difference: nothing that is read can run code.

        Raises:
            NotFound: there is none; says what is there instead.
            Damaged: names the file, the tensor and the bytes.
            UsageError: it is a file, as Lightning itself writes them.
        """
        del weights_only
        path = _local(path)
        if map_location is not None and not isinstance(map_location, (str, torch.device)):
            raise UsageError(f"map_location is a {type(map_location).__qualname__}; give a device, or its name")
        if os.path.isfile(path):
            raise _refusal(
                path,
                f"{path} is a file, such as torch.save writes; checkpoints of this plug-in are directories",
                then="if you trust the file: pawl.torch.save(torch.load(file, weights_only=False), directory), once",
            )
        found = load(path, map_location)
        if not isinstance(found, dict):
            raise _refusal(path, f"{path} has no checkpoint of Lightning", f"a {type(found).__qualname__}")
        return found

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint that `pawl.torch.save` has written; nothing else, whatever has the name.

        Raises:
            UsageError: it is something else, or has other files in it. Nothing is removed.
        """
        path = _local(path)
        if not os.path.lexists(path):
            return
        if os.path.islink(path):  # as ModelCheckpoint(save_last="link") makes: what it leads to stays
            os.unlink(path)
            return
        _require_own(path)
        with Run(path, no_event_file=True) as run:  # nobody else may be writing there
            run.remove(0, force=True)
        shutil.rmtree(path)

    def teardown(self) -> None:
        """Nothing: no save is ever left unfinished."""


def _import_one() -> None:
    for name in _BASES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
        else:
            return
    raise ModuleNotFoundError("neither lightning nor pytorch_lightning is installed: pip install lightning")


def _require_own(path: str) -> None:
    """Refuses to remove anything but the directory of one saved object."""
    what = f"{path} is not removed: it is no checkpoint that this plug-in has written"
    if not os.path.isdir(path):
        raise _refusal(path, what, "a file", "remove it yourself if nothing needs it")
    others = sorted(name for name in os.listdir(path) if not _OWN_NAMES.fullmatch(name))
    if others:
        more = ", ..." if len(others) > 3 else ""
        raise _refusal(path, what, f"a directory with {', '.join(others[:3])}{more}", "remove it yourself")
    try:
        steps = [info.step for info in ls(path)]
        if steps != [0]:
            raise _refusal(path, what, f"a run with steps {steps[:3]}", f"see pawl ls {path}")
        with open(path) as checkpoint:
            own = NAME in checkpoint and checkpoint.entry(NAME).kind == "json"
    except NotFound as error:
        raise _refusal(path, what, error.found or "an empty directory", "remove it yourself") from None
    if not own:
        raise _refusal(path, what, "a checkpoint of a training job", f"see pawl ls {path}")
