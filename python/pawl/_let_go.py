# SPDX-License-Identifier: Apache-2.0
"""Values that a save holds are let go as soon as it needs them no more, although nobody calls."""

from __future__ import annotations

import logging
import threading
import time

from ._error import Error
from ._run import Run

logger = logging.getLogger("pawl")

#: Of the thread.
NAME = "pawl.let_go"
#: Between two looks whether a save has let go of the values that it holds.
_LOOK_S = 0.01


class LetGo:
    """Lets go of what the saves of a run hold. A thread looks, from the beginning of a save until it has let go.

    A save lets go of all at a time, when the last byte is written or copied; before it is durable.

    Args:
        run: whose saves are looked at.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._looking = False

    def begin(self) -> None:
        """After a save has begun."""
        with self._lock:
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look, name=NAME, daemon=True).start()

    def _look(self) -> None:
        while self._must_look():
            time.sleep(_LOOK_S)

    def _must_look(self) -> bool:
        with self._lock:
            try:
                self._looking = not (self._run.closed or self._run.fenced())
            except Error as why:  # it is being closed, or the save has failed, which others are told
                self._looking = False
                logger.debug("nobody looks any more whether a save has let go: %s", why)
            return self._looking
