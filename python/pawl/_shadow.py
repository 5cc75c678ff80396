# SPDX-License-Identifier: Apache-2.0
"""``pawl_shadow``: copies of tensors, in host memory, that are still being made when a save begins."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any

from . import _abi
from ._error import check, error_handle
from ._library import lib

logger = logging.getLogger("pawl")

#: Where a device hangs, a thread of the library asks even after the run was closed: so they are never freed.
_kept: list[Shadow] = []


class Shadow:
    """Tells the library when the copies of a save are complete. It stays as long as the process.

    Args:
        name: of the device, for messages: "cuda:0".
    """

    def __init__(self, name: str) -> None:
        self._is_complete: Callable[[], bool] | None = None
        self._ready = _abi.READY_FUNCTION(self._answer)
        self._shadow = _abi.Shadow(
            struct_size=ctypes.sizeof(_abi.Shadow), name=name.encode(), ready=self._ready, complete=1
        )
        self._memory = _abi.Memory(struct_size=ctypes.sizeof(_abi.Memory))
        check(lib.pawl_shadow_memory(ctypes.byref(self._shadow), ctypes.byref(self._memory), error_handle()))
        _kept.append(self)

    @property
    def address(self) -> int:
        """Of the ``pawl_memory``, for ``pawl_tensor``."""
        return ctypes.addressof(self._memory)

    def begin(self, is_complete: Callable[[], bool]) -> None:
        """Call it before the copies of a save are started, when the save before no longer reads its own.

        Args:
            is_complete: are they all made? Called on a thread of the library, and must not wait. What it raises
                fails the save.
        """
        self._is_complete = is_complete
        self._shadow.complete = 0

    def complete(self) -> bool:
        """Has the library been told that the copies are complete? False where nobody reads them."""
        return bool(self._shadow.complete)

    def _answer(self, _context: Any) -> int:
        try:
            return int(self._is_complete is None or self._is_complete())
        except BaseException:  # on a thread of the library, where nobody would see it
            logger.exception("copies of tensors to host memory have failed")
            return -1
