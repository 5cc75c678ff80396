# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job that save and restore together, and how they meet."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _abi
from ._abi import Status
from ._error import Error, UsageError, check, decode, error_handle
from ._handle import fill_options, text_bytes
from ._library import lib

logger = logging.getLogger("pawl")

Gather = Callable[[bytes, float], "list[bytes | None] | None"]
Broadcast = Callable[["bytes | None", int, float], bytes]


class Group:
    """Which rank this process is, of how many, and how the ranks meet.

    ::

        pawl.Group(rank, world_size, launch="job-77-restart-0")         # through files in the run's directory
        pawl.Group(rank, world_size, gather=gather, broadcast=broadcast) # through what the job has already

    Args:
        rank: of this process, 0 to `world_size` - 1.
        world_size: processes that save together.
        launch: names this start of the job: the same text on all its ranks, another one when the job is
            started again; printable ASCII without spaces. Needed without callbacks. (`discover`)
        gather: ``gather(mine, deadline_s)`` hands rank 0 the bytes of every rank. There it returns a list of them by
            rank, with None for each that did not come within `deadline_s` seconds; on other ranks None.
        broadcast: ``broadcast(data, n, deadline_s)`` gives every rank the `n` bytes `data` of rank 0, which is
            None on other ranks. Raises TimeoutError when they did not arrive within `deadline_s` seconds.

    Both callbacks are called on the thread that opens, restores or meets. What else they raise is
    logged, and is a failure of the group: that call raises PeerFailed, caused by it.
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
            raise UsageError("a group has both callbacks, gather and broadcast, or neither")
        self.rank = rank
        self.world_size = world_size
        self.launch = launch
        self._gather = gather
        self._broadcast = broadcast
        self._raised = threading.local()  # by the callbacks of this thread's call
        self._struct = _abi.Group()  # refers to the callbacks, which live as long as it does
        fill_options(
            self._struct,
            {
                "rank": rank,
                "world_size": world_size,
                "launch": None if launch is None else text_bytes("the launch", launch),
                "gather": None if gather is None else _abi.GATHER_FUNCTION(self._call_gather),
                "broadcast": None if broadcast is None else _abi.BROADCAST_FUNCTION(self._call_broadcast),
            },
        )

    def __repr__(self) -> str:
        means = "files" if self._gather is None else "callbacks"
        return f"<pawl.Group rank {self.rank} of {self.world_size}, meets through {means}>"

    def _failed(self, what: str, why: BaseException) -> int:
        """What cannot pass through the library is kept for the caller."""
        self._raised.by_callback = why
        logger.error("rank %d: %s of the group failed: %s: %s", self.rank, what, type(why).__name__, why)
        return int(Status.EPEER)

    def _call_gather(
        self, _context: int | None, mine: int | None, n: int, everyone: int | None, came: Any, deadline_s: float
    ) -> int:
        assert self._gather is not None
        try:
            parts = self._gather(ctypes.string_at(mine, n) if mine else b"", deadline_s)
            if self.rank != 0:
                return 0
            if parts is None or len(parts) != self.world_size:
                found = "None" if parts is None else f"{len(parts)} parts"
                raise UsageError(f"gather returns a list of {self.world_size} parts on rank 0, not {found}")
            for rank, part in enumerate(parts):
                if part is not None and len(part) != n:
                    raise UsageError(f"gather returned {len(part)} bytes of rank {rank}, which handed in {n}")
                came[rank] = part is not None
                if part is not None and everyone and n > 0:
                    ctypes.memmove(everyone + rank * n, bytes(part), n)
        except BaseException as why:
            return self._failed("gather", why)
        return 0

    def _call_broadcast(self, _context: int | None, data: int | None, n: int, deadline_s: float) -> int:
        assert self._broadcast is not None
        try:
            mine = (ctypes.string_at(data, n) if data else b"") if self.rank == 0 else None
            found = self._broadcast(mine, n, deadline_s)
            if self.rank == 0:
                return 0
            if len(found) != n:
                raise UsageError(f"broadcast returned {len(found)} bytes of {n}")
            if data and n > 0:
                ctypes.memmove(data, bytes(found), n)
        except TimeoutError as why:
            logger.warning("rank %d: nothing came from rank 0 within %g s: %s", self.rank, deadline_s, why)
            return int(Status.ETIMEOUT)
        except BaseException as why:
            return self._failed("broadcast", why)
        return 0


@contextlib.contextmanager
def calling(group: Group | None) -> Iterator[None]:
    """Around a collective call: what a callback raised is the cause of its failure; Ctrl-C is raised itself."""
    if group is None:
        yield
        return
    group._raised.by_callback = None
    try:
        yield
    except Error as why:
        raised, group._raised.by_callback = group._raised.by_callback, None
        if raised is None:
            raise
        if not isinstance(raised, Exception):
            raise raised from why
        raise why from raised
    raised = group._raised.by_callback
    if raised is not None and not isinstance(raised, Exception):
        raise raised


@dataclasses.dataclass(frozen=True)
class Discovered:
    """What an environment says about the job.

    Attributes:
        rank: of this process; 0 where the environment says nothing.
        world_size: processes of the job; 1 where it says nothing.
        local_rank: on this node; None: not known.
        local_size: processes on this node; None: not known.
        source: "torchrun", "Slurm", ...; "none".
        launch: names this start of the job; None: nothing does.
        text: for people: what was decided, and from which variables.
    """

    rank: int
    world_size: int
    local_rank: int | None
    local_size: int | None
    source: str
    launch: str | None
    text: str

    def group(self) -> Group:
        """The group that meets through files in the run's directory; needs `launch` for more than one rank."""
        return Group(self.rank, self.world_size, launch=self.launch)


def discover(environ: Mapping[str, str] | None = None) -> Discovered:
    """Finds rank and world size in an environment [that of this process].

    Looks for torchrun, TF_CONFIG (of TensorFlow), Slurm, Open MPI, PMIx, PMI (MPICH, Intel MPI, Cray), MVAPICH,
    PALS, JSM, Flux and Kubernetes' indexed jobs.

    Raises:
        Mismatch: two sources disagree.
        UsageError: a variable is negative or not a number.
        LimitExceeded: more ranks than pawl takes.
    """
    pairs = (os.environ if environ is None else environ).items()
    lines = [os.fsencode(f"{name}={value}") for name, value in pairs]
    listed = (ctypes.c_char_p * (len(lines) + 1))(*lines, None)
    found = _abi.GroupFound()
    check(lib.pawl_group_discover(listed, ctypes.byref(found), error_handle()))
    return Discovered(
        rank=found.rank,
        world_size=found.world_size,
        local_rank=found.local_rank if found.local_rank >= 0 else None,
        local_size=found.local_size if found.local_size > 0 else None,
        source=decode(found.source) or "none",
        launch=decode(found.launch) or None,
        text=decode(found.text) or "",
    )


def check_group(group: object) -> None:
    """An argument is a group, or none."""
    if group is not None and not isinstance(group, Group):
        raise TypeError(f"group is a pawl.Group, not {type(group).__name__}: {group!r}")
