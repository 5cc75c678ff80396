# SPDX-License-Identifier: Apache-2.0
"""Values that a save holds are let go as soon as it needs them no more, although nobody calls."""

from __future__ import annotations

import logging
import threading
import time

from ._error import Error
from ._run import Run
from ._state import State

logger = logging.getLogger("pawl")

#: Of the thread.
NAME = "pawl.let_go"
#: Between two looks whether a save has let go of the values that it holds.
_LOOK_S = 0.01
#: Values of fewer bytes, and more values than that, are let go all at a time.
_LARGE_BYTES = 65536
_MOST_LARGE = 1000


class LetGo:
    """Lets go of what the saves of a run hold. A thread looks, from the beginning of a save until it has let go.

    A large value is let go when its last byte is written or copied, small ones when that is so of all; before the
    save is durable.

    Args:
        run: whose saves are looked at.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._looking = False
        self._state: State | None = None
        self._large: list[str] | None = None  # those of the state that it still holds; None: not looked at yet

    def begin(self, state: State) -> None:
        """After a save of that state has begun, which nobody else has: its values go one by one."""
        with self._lock:
            self._state, self._large = state, None
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
                if self._looking:
                    self._let_go_of_some()
            except Error as why:  # it is being closed, or the save has failed, which others are told
                self._looking = False
                logger.debug("nobody looks any more whether a save has let go: %s", why)
            if not self._looking:
                self._state = None
            return self._looking

    def _let_go_of_some(self) -> None:
        if self._state is None:
            return
        if self._large is None:
            self._large = self._state._largest(_LARGE_BYTES, _MOST_LARGE)
        answers = dict(zip(self._large, self._run.fenced_arrays(self._large), strict=True))
        self._state._give_back(name for name, fenced in answers.items() if fenced)
        self._large = [name for name in self._large if not answers[name]]
