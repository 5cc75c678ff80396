# SPDX-License-Identifier: Apache-2.0
"""One line on a terminal that says how far a long call is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with the bytes done and those there are.
Progress = Callable[[int, int], None]

_AT_MOST_EVERY_S = 0.1
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def _text(count: int) -> str:
    """Bytes with three digits, as the library's messages have them: "704 B", "1.02 kB", "41.2 GB"."""
    amount, power = float(count), 0
    while amount >= 999.5 and power + 1 < len(_UNITS):
        amount, power = amount / 1000, power + 1
    digits = 0 if not power or amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{digits}f} {_UNITS[power]}"


@contextmanager
def shown(progress: Progress | bool, doing: str) -> Iterator[Progress | None]:
    """What to call with progress.

    Args:
        progress: True shows a line on standard error, where that is a terminal, and takes it away at
            the end; False shows nothing; anything else is called itself.
        doing: begins the line, "verifying".
    """
    if not isinstance(progress, bool):
        if progress is not None and not callable(progress):
            raise TypeError(f"progress is True, False or a function, not {type(progress).__name__}: {progress!r}")
        yield progress
        return
    if not progress or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    last = -_AT_MOST_EVERY_S

    def show(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _AT_MOST_EVERY_S:
            last = now
            percent = 100 * done // of if of else 100
            sys.stderr.write(f"\r\x1b[K{doing}: {_text(done)} of {_text(of)}, {percent} %")
            sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
