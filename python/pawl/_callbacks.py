# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that the library calls while it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _abi
from ._progress import Progress


class Callbacks:
    """What they raise, Ctrl-C too, cannot pass through the library: it is kept, and ends the call.

    ::

        callbacks = Callbacks()
        options = VerifyOptions(problem=PROBLEM_FUNCTION(callbacks.kept(tell)), stop=callbacks.stop)
        status = lib.pawl_checkpoint_verify(..., options, ...)
        callbacks.raise_kept()
    """

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self.stop = _abi.STOP_FUNCTION(self._stop)

    def _stop(self, _context: int | None) -> int:
        return int(bool(self._raised))

    def kept(self, call: Callable[..., None]) -> Callable[..., None]:
        """A function for the library to call."""

        def guarded(_context: int | None, *arguments: Any) -> None:
            try:
                if not self._raised:
                    call(*arguments)
            except BaseException as why:
                self._raised.append(why)

        return guarded

    def progress(self, progress: Progress | None) -> Any:
        """A ``PROGRESS_FUNCTION``; also where nobody wants to know, since it is here that Ctrl-C is answered."""

        def tell(done: int, of: int) -> None:
            if progress is not None:
                progress(done, of)

        return _abi.PROGRESS_FUNCTION(self.kept(tell))

    def raise_kept(self) -> None:
        if self._raised:
            raise self._raised[0]
