# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job that save and restore together."""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping

from . import _abi
from ._abi import Status
from ._error import UsageError, check, decode, error_handle
from ._handle import text_bytes
from ._library import lib

logger = logging.getLogger("pawl")

#: On rank 0: the bytes of each rank, None of one that did not come in time. On others: nothing.
Gather = Callable[[bytes, float], "list[bytes | None] | None"]
#: On each rank: the bytes that rank 0 was given; raises TimeoutError when they did not come.
Broadcast = Callable[["bytes | None", int, float], bytes]


class Group:
    """Which rank this process is, of how many, and how the ranks meet.

    Give it to :class:`pawl.Run` on every rank; those calls are then made by all ranks, in the same
    order: opening, ``restore`` and ``meet``. ``pawl.torch`` makes one of ``torch.distributed``.

    Args:
        rank: of this process, from 0 on.
        world_size: processes that save together.
        launch: names this start of the job, alike on all ranks, and not used before; needed where the
            ranks meet through the run's directory, without `gather` and `broadcast`.
        gather: called as ``gather(mine, deadline_s)``: on rank 0 it returns a list with the bytes of
            each rank, and None for those that did not come within `deadline_s` seconds.
        broadcast: called as ``broadcast(data, size, deadline_s)``: returns the `size` bytes that rank
            0 has as `data`, which is None on the others. Raises TimeoutError when they did not come.

    What `gather` and `broadcast` raise is logged, and is a failure of the group. They are called on
    the thread that made the call.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        *,
        launch: str | None = None,
        gather: Gather | None = None,
        broadcast: Broadcast | None = None,
    ) -> None:
        if (gather is None) != (broadcast is None):
            raise UsageError("a group has both gather and broadcast, or neither")
        self.rank = rank
        self.world_size = world_size
        self._gather = gather
        self._broadcast = broadcast
        self.struct = _abi.Group(rank=rank, world_size=world_size)
        if launch is not None:
            self.struct.launch = text_bytes("the launch", launch)
        if gather is not None:
            self.struct.gather = _abi.GATHER_FUNCTION(self._gather_bytes)
            self.struct.broadcast = _abi.BROADCAST_FUNCTION(self._broadcast_bytes)

    def __repr__(self) -> str:
        return f"<pawl.Group, rank {self.rank} of {self.world_size}>"

    def _gather_bytes(
        self, _context: int | None, mine: int, n: int, everyone: int | None, came: int | None, deadline_s: float
    ) -> int:
        assert self._gather is not None
        try:
            found = self._gather(ctypes.string_at(mine, n), deadline_s)
            if self.rank == 0:
                if found is None or len(found) != self.world_size or everyone is None or came is None:
                    raise ValueError("gather on rank 0 returns a list with an item for each rank")
                for rank, data in enumerate(found):
                    if data is not None and len(data) == n:
                        ctypes.memmove(everyone + rank * n, data, n)
                        ctypes.memset(came + rank, 1, 1)
        except BaseException:
            logger.exception("the group's gather failed on rank %d", self.rank)
            return int(Status.EPEER)
        return 0

    def _broadcast_bytes(self, _context: int | None, data: int, n: int, deadline_s: float) -> int:
        assert self._broadcast is not None
        try:
            found = self._broadcast(ctypes.string_at(data, n) if self.rank == 0 else None, n, deadline_s)
            if len(found) != n:
                raise ValueError(f"broadcast returned {len(found)} bytes instead of {n}")
            if self.rank != 0:
                ctypes.memmove(data, found, n)
        except TimeoutError:
            return int(Status.ETIMEOUT)
        except BaseException:
            logger.exception("the group's broadcast failed on rank %d", self.rank)
            return int(Status.EPEER)
        return 0


@dataclasses.dataclass(frozen=True)
class Discovered:
    """What an environment says about the job.

    Attributes:
        rank: of this process; 0 where nothing is said.
        world_size: processes of the job; 1 where nothing is said.
        local_rank: on this node, or None.
        local_size: processes on this node, or None.
        source: "torchrun", "Slurm", ..., or "none".
        launch: names this start of the job, or None.
        text: for people: what was decided, and from which variables.
    """

    rank: int
    world_size: int
    local_rank: int | None
    local_size: int | None
    source: str
    launch: str | None
    text: str


def discover(environment: Mapping[str, str] | None = None) -> Discovered:
    """Finds rank and world size in an environment [this process's], of torchrun, Slurm, Open MPI, ...

    Raises:
        Mismatch: names two sources that disagree.
        UsageError, LimitExceeded: names a variable that is no valid number.
    """
    variables = [os.fsencode(f"{key}={value}") for key, value in (environment or os.environ).items()]
    listed = (ctypes.c_char_p * (len(variables) + 1))(*variables)
    found = _abi.GroupFound()
    check(lib.pawl_group_discover(listed, ctypes.byref(found), error_handle()))
    return Discovered(
        rank=found.rank,
        world_size=found.world_size,
        local_rank=found.local_rank if found.local_rank >= 0 else None,
        local_size=found.local_size or None,
        source=decode(found.source) or "none",
        launch=decode(found.launch) or None,
        text=decode(found.text) or "",
    )
