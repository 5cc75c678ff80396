# SPDX-License-Identifier: Apache-2.0
"""The ranks of a torch.distributed job meet through torch's own store: keys and values, no collectives."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from typing import Any

import torch.distributed

from .._group import Group

#: The nth group that this process makes of the same ranks: the same number on all of them.
_counters: dict[tuple[int, ...], itertools.count[int]] = {}
#: Keys that this process has set, the oldest first.
_keys: deque[str] = deque()
#: So many of them are left: ranks that are late may still look for them.
_KEPT = 256
#: After so many seconds a rank asks whether another has failed.
_PATIENCE_S = 0.2


def _wait(store: Any, keys: list[str], deadline: float, failed: str) -> bool:
    """Are the keys there before the deadline? Raises RuntimeError where a rank has said that it cannot come.

    Asks again and again: a wait of the store itself cannot be interrupted, keeps other threads from
    the store meanwhile, and warns when it times out.
    """
    begin = time.monotonic()
    while not store.check(keys):
        now = time.monotonic()
        if now >= deadline:
            return False
        if now - begin > _PATIENCE_S and store.check([failed]):
            raise RuntimeError(bytes(store.get(failed)).decode())
        time.sleep(min(max((now - begin) / 8, 0.001), 0.25, deadline - now))
    return True


class _Meeting:
    """gather and broadcast over a store; the calls of all ranks come in the same order."""

    def __init__(self, store: Any, rank: int, ranks: int, prefix: str) -> None:
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._prefix = prefix
        self._failed = f"{prefix}/failed"
        self._gathers = 0
        self._broadcasts = 0

    def _set(self, key: str, data: bytes) -> None:
        self._store.set(key, data)
        _keys.append(key)
        while len(_keys) > _KEPT:
            self._store.delete_key(_keys.popleft())

    def gather(self, mine: bytes, deadline_s: float) -> list[bytes | None] | None:
        """As `pawl.Group` wants it."""
        self._gathers += 1
        prefix = f"{self._prefix}/g{self._gathers}/"
        if self._rank != 0:
            self._set(f"{prefix}{self._rank}", mine)
            return None
        deadline = time.monotonic() + deadline_s
        keys = [f"{prefix}{rank}" for rank in range(1, self._ranks)]
        if not keys or _wait(self._store, keys, deadline, self._failed):
            return [mine, *(bytes(self._store.get(key)) for key in keys)]
        parts: list[bytes | None] = [mine]
        for key in keys:
            parts.append(bytes(self._store.get(key)) if self._store.check([key]) else None)
        return parts

    def broadcast(self, data: bytes | None, n: int, deadline_s: float) -> bytes:
        """As `pawl.Group` wants it."""
        del n
        self._broadcasts += 1
        key = f"{self._prefix}/b{self._broadcasts}"
        if data is not None:
            self._set(key, data)
            return data
        if not _wait(self._store, [key], time.monotonic() + deadline_s, self._failed):
            raise TimeoutError(f"rank 0 did not answer within {deadline_s:g} s")
        return bytes(self._store.get(key))


def process_group(group: torch.distributed.ProcessGroup | None = None) -> Group | None:
    """The ranks of a process group as a group of pawl; they meet through torch's own store, from any thread.

    Every rank calls it equally often. What it returns is used for one run or one restore, on all ranks the same.

    Args:
        group: of torch.distributed [all ranks]; rank 0 of it is rank 0 of pawl's group.

    Returns:
        None where torch.distributed is not initialised, or this process is not in `group`.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
    if rank < 0:
        return None
    members = tuple(torch.distributed.get_process_group_ranks(group or torch.distributed.group.WORLD))
    number = next(_counters.setdefault(members, itertools.count()))
    name = "all" if group is None else "-".join(map(str, members))
    return group_by_store(rank, size, f"{name}/{number}")


def _prefix(key: str) -> str:
    # A start after a restart by torchrun may find the same store, and the keys of the start before in it.
    return f"pawl/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{key}"


def group_by_store(rank: int, size: int, key: str) -> Group:
    """Ranks that meet through torch's own store, under keys that begin with `key`: the same on all, used once."""
    store = torch.distributed.distributed_c10d._get_default_store()
    meeting = _Meeting(store, rank, size, _prefix(key))
    return Group(rank, size, gather=meeting.gather, broadcast=meeting.broadcast)


def fail_by_store(rank: int, key: str, why: BaseException) -> None:
    """Tells the ranks that meet under `key` that this one will not come: they need not wait for it."""
    store = torch.distributed.distributed_c10d._get_default_store()
    failed = f"{_prefix(key)}/failed"
    store.set(failed, f"rank {rank} failed: {why}".encode("utf-8", "replace"))
    _keys.append(failed)
