# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that the library calls while it reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from . import _abi
from ._handle import call_back
from ._progress import Progress


class Callbacks:
    """What they raise, Ctrl-C too, cannot pass through the library: it is kept, and ends the call.

    ::

        with Callbacks() as callbacks:
            options = VerifyOptions(problem=PROBLEM_FUNCTION(callbacks.kept(1, tell)), stop=callbacks.stop)
            status = lib.pawl_checkpoint_verify(..., options, ...)
            callbacks.raise_kept()

    As in `_interrupt.Interruptible`, signal handlers must not run before the first line of a function,
    but inside ``try``: so the library calls no function of Python, but ``send`` of a generator.
    """

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._generators: list[Generator[int, Any, None]] = []

    def __enter__(self) -> Callbacks:
        return self

    def __exit__(self, *_raised: object) -> None:
        """Ends the generators here: where they are collected, what a signal handler raises meanwhile would be lost."""
        try:
            if self._generators:
                self._generators.pop().close()
        finally:
            if self._generators:
                self.__exit__()

    def _taking(self, count: int, call: Callable[..., None]) -> Generator[int, Any, None]:
        """Makes a call of each `count` arguments that are sent to it; gives whether the library is to stop."""
        given: list[Any] = []

        def take(argument: Any) -> None:
            given.append(argument)
            if len(given) == count:
                arguments = given.copy()
                given.clear()
                if not self._raised:
                    try:
                        call_back(call, *arguments)
                    except GeneratorExit as why:  # which would end the generator as close() does
                        self._raised.append(why)

        # No condition within its inner `while`: CPython 3.13 and 3.14 jump back from one outside of `try`.
        def answers() -> Generator[int, Any, None]:
            while True:
                try:
                    while True:
                        take((yield int(bool(self._raised))))
                except GeneratorExit:
                    return
                except BaseException as why:
                    self._raised.append(why)  # and no call is made any more

        generator = answers()
        self._generators.append(generator)
        next(generator)
        return generator

    @property
    def stop(self) -> Any:
        """A ``STOP_FUNCTION``: is the call to end?"""
        return _abi.STOP_FUNCTION(self._taking(1, lambda _context: None).send)

    def kept(self, count: int, call: Callable[..., None]) -> Callable[..., Any]:
        """What the library calls with its context and `count` arguments; `call` gets those."""
        send = self._taking(count + 1, lambda _context, *arguments: call(*arguments)).send
        return functools.partial(max, key=send)  # which sends one argument after the other

    def progress(self, progress: Progress | None) -> Any:
        """A ``PROGRESS_FUNCTION``, which does nothing where nobody wants to know."""
        return _abi.PROGRESS_FUNCTION() if progress is None else _abi.PROGRESS_FUNCTION(self.kept(2, progress))

    def have_raised(self) -> bool:
        """Is there something to raise?"""
        return bool(self._raised)

    def raise_kept(self) -> None:
        """After the call."""
        if self._raised:
            raise self._raised[0]
