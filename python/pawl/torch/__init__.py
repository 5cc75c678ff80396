# SPDX-License-Identifier: Apache-2.0
"""pawl for PyTorch: training jobs that are saved while they go on, and continue where they were.

::

    with pawl.torch.Checkpointer("runs/a", model=model, optimizer=optimizer, every=500) as ckpt:
        ckpt.restore()
        while ckpt.steps < 100_000 and not ckpt.preempted:
            ...                             # forward, backward, optimizer.step()
            ckpt.step()
"""

from typing import TYPE_CHECKING, Any

from ._checkpointer import Checkpointer
from ._group import process_group
from ._install import install, uninstall
from ._saved import load, save

if TYPE_CHECKING:
    from ._dcp import Reader, Writer

__all__ = ["Checkpointer", "Reader", "Writer", "install", "load", "process_group", "save", "uninstall"]


def __getattr__(name: str) -> Any:
    """Reader and Writer import torch.distributed.checkpoint, which not everybody needs."""
    if name in ("Reader", "Writer"):
        from . import _dcp

        return getattr(_dcp, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
