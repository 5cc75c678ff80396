# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a job agree to save or to stop at the same step, without a collective call."""

from __future__ import annotations

import itertools
import os

import torch.distributed

_numbers = itertools.count()
_WORDS = ("save", "stop")


class Agreement:
    """What one rank wants done at the end of the next step, in the store of ``torch.distributed``.

    Ranks that train together are never more than one optimizer step apart, since each step waits for
    the gradients of all. So what one rank tells at the end of a step, all know at the end of the next.
    All ranks make as many agreements, in the same order.
    """

    def __init__(self, name: str) -> None:
        self._store = torch.distributed.distributed_c10d._get_default_store()
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # the store may outlive a start of the job
        self._name = f"{restart}/{next(_numbers)}/{name}"

    def _key(self, step: int, word: str) -> str:
        return f"pawl/{self._name}/{step}/{word}"

    def tell(self, step: int, word: str) -> None:
        """Asks all ranks to "save" or to "stop" at the end of `step`, which none has finished yet."""
        self._store.set(self._key(step, word), "1")

    def told(self, step: int) -> str | None:
        """What is to be done at the end of `step`; the stronger word counts."""
        for word in reversed(_WORDS):
            if self._store.check([self._key(step, word)]):
                return word
        return None
