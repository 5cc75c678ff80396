# SPDX-License-Identifier: Apache-2.0
"""What the peers of PyTorch have in common: a state is {name: tensor}."""

import numpy
import torch


def adopt(_context, tensors, arrays):
    state = {}
    for tensor, array in zip(tensors, arrays):
        value = torch.from_numpy(array)
        state[tensor.name] = value.view(torch.bfloat16) if tensor.dtype == "BF16" else value
    return state


def scramble(state):
    for value in state.values():
        value.zero_()


def touch(loaded):
    """Brings in every page of tensors that are mapped: a byte of each is read."""
    for value in loaded.values():
        value.reshape(-1).view(torch.uint8)[::4096].sum()
    return loaded


def arrays_of(_state, loaded):
    return {name: value.contiguous().reshape(-1).view(torch.uint8).numpy()
            if value.numel() else numpy.empty(0, numpy.uint8) for name, value in loaded.items()}
