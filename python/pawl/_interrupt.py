# SPDX-License-Identifier: Apache-2.0
"""Signal handlers of Python while a call of libpawl waits: what they raise, such as KeyboardInterrupt, ends it."""

from __future__ import annotations

from collections.abc import Callable, Generator

from . import _abi


class Interruptible:
    """Answers libpawl's question whether a call is to end; it asks ten times a second.

    Python runs signal handlers when it runs a function of Python in the main thread, before the first
    line of that function: what they raise is lost to a callback of ctypes, which has nobody to raise it
    to. So the callback is a generator that goes on inside ``try``.

    Args:
        options: of the call, or of the run that calls are made on.
        or_else: another reason to end the call.
    """

    def __init__(
        self, options: _abi.RunOptions | _abi.RestoreOptions, or_else: Callable[[], bool] = lambda: False
    ) -> None:
        self._error: BaseException | None = None
        self._or_else = or_else
        self._answers = self._answer()
        next(self._answers)
        self._function = _abi.STOP_FUNCTION(self._answers.send)  # as long as libpawl may call it
        options.interrupted = self._function

    def _answer(self) -> Generator[int, int | None, None]:
        answer = 0
        while True:
            try:
                while True:
                    yield answer
                    answer = int(self._or_else())
            except GeneratorExit:
                return
            except BaseException as why:  # raised again by check()
                self._error = why
                answer = 1

    def ended(self) -> bool:
        """Has a handler raised something that check() has not raised yet?"""
        return self._error is not None

    def end(self) -> None:
        """After the last call: what a signal handler raises in the meantime is raised here."""
        self._answers.close()

    def check(self) -> None:
        """After the call: raises what a handler has raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error
