# SPDX-License-Identifier: Apache-2.0
"""Lets go of what a save holds as soon as the save needs it no more, whatever the trainer does meanwhile."""

from __future__ import annotations

import logging
import threading
import time

from ._error import Error
from ._run import Run

logger = logging.getLogger("pawl")

#: Between two looks.
_LOOK_S = 0.01


class LetGo:
    """Looks, from a thread of its own, whether the save in flight has let go of the arrays that it reads.

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
                threading.Thread(target=self._look, name="pawl let go", daemon=True).start()

    def _look(self) -> None:
        while True:
            with self._lock:
                try:
                    if self._run.closed or self._run.fenced():
                        self._looking = False
                        return
                except Error as why:  # it is being closed
                    logger.debug("nobody looks any more whether a save has let go: %s", why)
                    self._looking = False
                    return
            time.sleep(_LOOK_S)
