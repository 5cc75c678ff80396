# SPDX-License-Identifier: Apache-2.0
"""torch.load(mmap=True), as the recipe "Tips for Loading an nn.Module from a Checkpoint" has it; every
page is brought in, since a training step needs them all."""

import torch

from torch_save import prepare, save  # noqa: F401
from torch_tensors import adopt, arrays_of, scramble, touch  # noqa: F401


def load(_context, _state, directory):
    return touch(torch.load(directory / "checkpoint.pt", mmap=True, weights_only=True))
