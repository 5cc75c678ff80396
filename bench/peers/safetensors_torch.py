# SPDX-License-Identifier: Apache-2.0
"""safetensors.torch.save_file and load_file."""

from safetensors.torch import load_file, save_file

from torch_tensors import adopt, arrays_of, scramble, touch  # noqa: F401


def prepare():
    return None


def save(_context, state, directory):
    save_file(state, directory / "checkpoint.safetensors")


def load(_context, _state, directory):
    """It may map the file: every page is brought in."""
    return touch(load_file(directory / "checkpoint.safetensors"))
