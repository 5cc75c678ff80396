# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch Lightning and Fabric through pawl: durable, verified, nothing pickled.

::

    trainer = lightning.Trainer(plugins=[pawl.torch.lightning.CheckpointIO()])
"""

from __future__ import annotations

import logging
import os
import shutil
from typing import Any

import torch

from .._checkpoint import ls, open
from .._error import Error
from ._saved import NAME, load, save

try:
    from lightning.fabric.plugins import CheckpointIO as _CheckpointIO
except ImportError:  # the older name
    from lightning_fabric.plugins import CheckpointIO as _CheckpointIO

logger = logging.getLogger("pawl.torch")


class CheckpointIO(_CheckpointIO):  # type: ignore[misc]
    """Writes each checkpoint of Lightning as a directory of pawl, and reads it back.

    With FSDP2 (``ModelParallelStrategy``) Lightning saves through ``torch.distributed.checkpoint``:
    call :func:`pawl.torch.install` instead.

    Args:
        options: of ``pawl.Run``: deadline_s, budget_bytes, ...
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Saves, and returns when it is durable.

        Raises:
            TypeError: there are `storage_options`.
            UsageError: names what is in the checkpoint that cannot be saved without pickle.
            Error: why it could not be written; a checkpoint that was there before still is.
        """
        if storage_options is not None:
            raise TypeError("pawl's CheckpointIO has no storage_options; give options to CheckpointIO(...)")
        save(checkpoint, path, **self._options)

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Reads what :meth:`save_checkpoint` has written; of what PyTorch has written, what it is.

        Args:
            path: of the directory.
            map_location: a device; anything else means host memory.
            weights_only: of no account: nothing that is read can run code.

        Raises:
            NotFound, Damaged: as :func:`pawl.torch.load`.
        """
        device = map_location if isinstance(map_location, (str, torch.device)) else None
        found: dict[str, Any] = load(path, device)
        return found

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Removes a directory that :meth:`save_checkpoint` has written, and nothing else.

        What it cannot prove to be one stays, and the log says so.
        """
        try:
            steps = [info.step for info in ls(path)]
            with open(path) as checkpoint:
                own = steps == [0] and NAME in checkpoint
        except Error as why:
            logger.warning("%s stays: it cannot be read as a checkpoint of pawl: %s", path, why.attempt)
            return
        if not own:
            logger.warning("%s stays: pawl's CheckpointIO has not written it", path)
            return
        shutil.rmtree(path)
