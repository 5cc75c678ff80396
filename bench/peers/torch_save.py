# SPDX-License-Identifier: Apache-2.0
"""torch.save and torch.load, as the tutorial "Saving and Loading Models" has it."""

import torch

from torch_tensors import adopt, arrays_of, scramble  # noqa: F401


def prepare():
    return None


def save(_context, state, directory):
    torch.save(state, directory / "checkpoint.pt")


def load(_context, _state, directory):
    return torch.load(directory / "checkpoint.pt", weights_only=True)
