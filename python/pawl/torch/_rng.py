# SPDX-License-Identifier: Apache-2.0
"""Random state of every kind that a training loop uses: PyTorch's, of all devices, NumPy's, Python's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from ._objects import damaged
from ._tensors import bytes_of


def random_state() -> dict[str, Any]:
    """The random state of this process: of PyTorch, of each CUDA device, of NumPy if it is in use."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": bytes_of(torch.get_rng_state())}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = [bytes_of(one) for one in torch.cuda.get_rng_state_all()]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.random.get_state(legacy=True)
        state["numpy"] = (name, keys.tobytes(), int(position), int(has_gauss), float(gauss))
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Continues where `random_state` was called. What the checkpoint lacks stays as it is.

    Raises:
        Damaged: it is no random state.
    """
    try:
        _set(state)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as why:
        raise damaged("rng", f"it is no random state ({why!r})") from None


def _set(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(torch.frombuffer(bytearray(state["torch"]), dtype=torch.uint8))
    cuda = state.get("cuda")
    if cuda is not None and torch.cuda.is_available():
        for device, one in zip(range(torch.cuda.device_count()), cuda, strict=False):
            torch.cuda.set_rng_state(torch.frombuffer(bytearray(one), dtype=torch.uint8), device)
    if "numpy" in state:
        import numpy

        name, keys, position, has_gauss, gauss = state["numpy"]
        numpy.random.set_state((name, numpy.frombuffer(keys, dtype=numpy.uint32), position, has_gauss, gauss))
