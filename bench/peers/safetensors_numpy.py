# SPDX-License-Identifier: Apache-2.0
"""safetensors.numpy.save_file and load_file."""

from safetensors.numpy import load_file, save_file

from numpy_savez import adopt, arrays_of, prepare, scramble  # noqa: F401


def save(_context, state, directory):
    save_file(state, directory / "checkpoint.safetensors")


def load(_context, _state, directory):
    return load_file(directory / "checkpoint.safetensors")
