# SPDX-License-Identifier: Apache-2.0
"""How a rank that cannot save tells the others why: by a state that cannot be copied."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._abi import Dtype, Status
from ._error import Error, printable
from ._library import lib
from ._memory import Memory
from ._state import State, Tensor

#: Where a storage hangs, a thread of the library may ask even after the run was closed: so they are never freed.
_kept: list[Refusal] = []

#: Of a text for the others.
_MAX_CHARACTERS = 400


class Refusal:
    """Why a rank does not save, in place of what it would have saved.

    Saving its `state` fails in the library, which counts that save, and tells the other ranks of the
    failure as of any other: they need not wait for this rank, and their next saves are numbered alike.

    Args:
        why: they are told.
    """

    def __init__(self, why: BaseException) -> None:
        status = why.status if isinstance(why, Error) else Status.EPEER
        self._status = Status.EPEER if status == Status.ETIMEOUT else status  # for nothing goes on
        text = why.attempt if isinstance(why, Error) else f"{type(why).__name__}: {why}"
        self._text = printable(" ".join(text.split()))[:_MAX_CHARACTERS].encode()
        self._function = _abi.START_OUT_FUNCTION(self._start_out)
        self._memory = _abi.Memory(
            struct_size=ctypes.sizeof(_abi.Memory),
            name=b"Python",
            start_out=ctypes.cast(self._function, ctypes.c_void_p),
        )
        byte = (ctypes.c_ubyte * 1)()
        memory = Memory(Dtype.U8, (1,), None, ctypes.addressof(byte), True, byte, provider=self)
        self.state = State({"refused": Tensor(memory, role="other")})
        _kept.append(self)

    @property
    def address(self) -> int:
        """Of the ``pawl_memory``, for ``pawl_tensor``."""
        return ctypes.addressof(self._memory)

    def _start_out(self, _context: Any, _copies: Any, _count: int, _ticket: Any, error: Any) -> int:
        return int(lib.pawl_copy_failed(error, self._status, None, self._text))
