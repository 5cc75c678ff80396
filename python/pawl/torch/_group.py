# SPDX-License-Identifier: Apache-2.0
"""The ranks of ``torch.distributed`` as a group: they meet through its store, without collective calls."""

from __future__ import annotations

import datetime
import itertools
import time

import torch
import torch.distributed

from .._group import Group

#: A wait in the store is cut into slices of so many seconds, so that signals are answered.
_SLICE_S = 0.5
_numbers = itertools.count()


class _Meetings:
    """The meetings of one group. All ranks make the same calls, in the same order."""

    def __init__(self, rank: int, world_size: int) -> None:
        self._store = torch.distributed.distributed_c10d._get_default_store()
        self._prefix = f"pawl/group/{next(_numbers)}"
        self._rank = rank
        self._world_size = world_size
        self._gathers = itertools.count()
        self._broadcasts = itertools.count()
        self._told: list[str] = []  # keys of broadcasts that all ranks may not have read yet

    def _wait(self, key: str, deadline: float) -> bool:
        """Is there such a key, before the deadline?"""
        while True:
            left = deadline - time.monotonic()
            try:
                self._store.wait([key], datetime.timedelta(seconds=max(0.001, min(left, _SLICE_S))))
                return True
            except torch.distributed.DistStoreError:
                if left <= _SLICE_S:
                    return False

    def gather(self, mine: bytes, deadline_s: float) -> list[bytes | None] | None:
        prefix = f"{self._prefix}/gather/{next(self._gathers)}"
        if self._rank != 0:
            self._store.set(f"{prefix}/{self._rank}", mine)
            return None
        deadline = time.monotonic() + deadline_s
        found: list[bytes | None] = [mine]
        for rank in range(1, self._world_size):
            key = f"{prefix}/{rank}"
            found.append(self._store.get(key) if self._wait(key, deadline) else None)
            self._store.delete_key(key)
        if None not in found:  # so all have read what they were told before
            for key in self._told:
                self._store.delete_key(key)
            self._told.clear()
        return found

    def broadcast(self, data: bytes | None, _size: int, deadline_s: float) -> bytes:
        key = f"{self._prefix}/broadcast/{next(self._broadcasts)}"
        if data is not None:
            self._store.set(key, data)
            self._told.append(key)
            return data
        if not self._wait(key, time.monotonic() + deadline_s):
            raise TimeoutError(f"rank 0 did not answer within {deadline_s} s")
        found: bytes = self._store.get(key)
        return found


def process_group() -> Group | None:
    """The ranks of this job; None where ``torch.distributed`` is not initialized, or has one rank.

    All ranks make the call, in the same order among such calls.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if world_size == 1:
        return None
    meetings = _Meetings(rank, world_size)
    return Group(rank, world_size, gather=meetings.gather, broadcast=meetings.broadcast)
