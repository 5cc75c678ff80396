# SPDX-License-Identifier: Apache-2.0
"""pawl for PyTorch: training jobs that are saved while they go on, and continue where they were.

::

    with pawl.torch.Checkpointer("runs/a", model=model, optimizer=optimizer, every=500) as ckpt:
        ckpt.restore()
        while ckpt.steps < 100_000 and not ckpt.preempted:
            ...                             # forward, backward, optimizer.step()
            ckpt.step()
"""

from ._checkpointer import Checkpointer
from ._group import process_group
from ._saved import load, save

__all__ = ["Checkpointer", "load", "process_group", "save"]
