# SPDX-License-Identifier: Apache-2.0
"""Copies of a device's tensors to host memory, beside the training."""

from __future__ import annotations

from typing import Protocol

import torch

from .._shadow import Shadow


class Pairs:
    """Tensors, and host memory of their shapes and dtypes to copy them to."""

    def __init__(self) -> None:
        self.of: list[torch.Tensor] = []
        self.to: list[torch.Tensor] = []

    def add(self, of: torch.Tensor, to: torch.Tensor) -> None:
        """One more. The alias of `of` keeps its memory, whatever becomes of the tensor."""
        self.of.append(of.detach())
        self.to.append(to)

    def copy(self) -> None:
        """Copies them."""
        self._copy(waits=True)

    def start(self) -> None:
        """Starts to copy them, on the current stream of their device."""
        self._copy(waits=False)

    def _copy(self, waits: bool) -> None:
        if self.of:
            with torch.no_grad():
                torch._foreach_copy_(self.to, self.of, non_blocking=not waits)


class Streams(Protocol):
    """What a device's copies are made by. For the thread that trains, but for `is_complete`."""

    def start(self, changing: Pairs, steady: Pairs) -> None:
        """Starts copies of the tensors as they are after all that was started before.

        Args:
            changing: what training may change at any time: later work of the device comes after these.
            steady: what does not change before `wait`.
        """

    def is_complete(self) -> bool:
        """Are all copies made? On any thread; returns at once."""

    def wait(self) -> bool:
        """Lets what is started from now on, on the current stream, come after the copies; no thread waits.

        False: that is impossible now, while a CUDA graph is captured.
        """


class CudaStreams:
    """A stream beside the one that trains, and an event behind the copies."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._aside = torch.cuda.Stream(device)
        self._copied = torch.cuda.Event()

    def start(self, changing: Pairs, steady: Pairs) -> None:
        training = torch.cuda.current_stream(self._device)
        changing.start()
        self._aside.wait_stream(training)
        with torch.cuda.stream(self._aside):
            steady.start()
            self._copied.record(self._aside)

    def is_complete(self) -> bool:
        return bool(self._copied.query())

    def wait(self) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.current_stream(self._device).wait_event(self._copied)
        return True


def streams_of(device: torch.device) -> Streams | None:
    """Those of a device; None: host memory, or a device whose copies are waited for."""
    return CudaStreams(device) if device.type == "cuda" else None


class Aside:
    """The copies of one device: made beside the training, and read by a save when they are complete.

    Args:
        name: of the device, for messages.
        streams: of the device.
    """

    def __init__(self, name: str, streams: Streams) -> None:
        self.shadow = Shadow(name)
        self._streams = streams
        self._steady: Pairs | None = None  # None: no copies are being made

    def start(self, changing: Pairs, steady: Pairs) -> None:
        """Starts the copies of a save. No save reads those of the one before."""
        self._steady = steady
        self.shadow.begin(self._streams.is_complete)
        self._streams.start(changing, steady)

    def fence(self) -> bool:
        """`Streams.wait`, unless the copies are complete. Call it before each change: any may be on another stream."""
        if self._steady is None:
            return True
        if self.shadow.complete():
            self._steady = None  # which kept the memory of tensors that were replaced
            return True
        return self._streams.wait()
