# SPDX-License-Identifier: Apache-2.0
"""Random state of the process: of Python and NumPy, of PyTorch on its backend."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import keras
import numpy

from .._error import Damaged


def host_random_state() -> bytes:
    """Of Python and NumPy; of PyTorch on its backend."""
    version, internal, gauss = random.getstate()
    numbers: Any = numpy.random.get_state(legacy=True)
    name, keys, position, has_gauss, cached = numbers
    state: dict[str, Any] = {
        "python": [version, list(internal), gauss],
        "numpy": [name, keys.tolist(), int(position), int(has_gauss), float(cached)],
    }
    torch = sys.modules.get("torch")
    if torch is not None and keras.backend.backend() == "torch":
        state["torch"] = torch.get_rng_state().numpy().tobytes().hex()
    return json.dumps(state, separators=(",", ":")).encode()


def set_host_random_state(data: bytes, only: str | None = None) -> None:
    """Puts back what `host_random_state` gave.

    Args:
        data: its bytes; none: nothing is put back.
        only: "torch": that of PyTorch alone.

    Raises:
        Damaged: they are something else.
    """
    if not data:
        return
    try:
        state = json.loads(data)
        torch = sys.modules.get("torch")
        if "torch" in state and torch is not None:
            torch.set_rng_state(torch.frombuffer(bytearray.fromhex(state["torch"]), dtype=torch.uint8))
        if only == "torch":
            return
        version, internal, gauss = state["python"]
        random.setstate((version, tuple(internal), gauss))
        name, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    except (KeyError, TypeError, ValueError, RuntimeError) as why:
        raise Damaged(f"rng/host is no random state ({why!r})") from None
