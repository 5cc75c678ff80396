# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint.async_save, as the recipe "Asynchronous Saving with Distributed
Checkpoint" has it: training goes on when the call returns, which has then copied the state."""

import os
import tempfile

import torch.distributed
import torch.distributed.checkpoint as dcp

from dcp import arrays_of, load  # noqa: F401
from torch_tensors import adopt, scramble  # noqa: F401


def prepare():
    """async_save wants a process group with a CPU backend."""
    folder = tempfile.mkdtemp(dir=os.environ["BENCH_SCRATCH"])
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0,
                                         world_size=1)


def save(_context, state, directory):
    return dcp.async_save(state, checkpoint_id=str(directory / "checkpoint")).result
