# SPDX-License-Identifier: Apache-2.0
"""What a disk recorded, and the disks that a power cut could have left of it."""

from __future__ import annotations

import bisect
import dataclasses
import enum
import os
import pathlib
import random
import struct

import system

HEADER = struct.Struct("<QII")  # disk.c: offset, bytes, kind
TORN_BYTES = 4096
# Marks after which something has just been promised.
PROMISES = ("durable", "removed", "pinned")


class Kind(enum.IntEnum):
    WRITE = 1
    FLUSH = 2
    MARK = 3


@dataclasses.dataclass(frozen=True)
class Record:
    kind: Kind
    offset: int
    data: memoryview

    def text(self) -> str:
        return bytes(self.data).decode()


class Log:
    """The records of one recording, in the order in which they took effect."""

    def __init__(self, path: pathlib.Path) -> None:
        whole = memoryview(path.read_bytes())
        self.records: list[Record] = []
        at = 0
        while at + HEADER.size <= len(whole):
            offset, size, kind = HEADER.unpack_from(whole, at)
            at += HEADER.size
            self.records.append(Record(Kind(kind), offset, whole[at:at + size]))
            at += size
        if at != len(whole):
            raise system.RigError(f"{path} ends in the middle of a record")
        self.flushes = self._places(Kind.FLUSH, lambda text: True)
        self.promises = self._places(Kind.MARK, lambda text: any(f" {p} " in text for p in PROMISES))
        (self.start,) = self._places(Kind.MARK, lambda text: text == "- START\n")
        (self.end,) = self._places(Kind.MARK, lambda text: text == "- END\n")
        self.mib = len(whole) >> 20

    def _places(self, kind: Kind, fits) -> list[int]:
        return [i for i, record in enumerate(self.records)
                if record.kind == kind and (kind != Kind.MARK or fits(record.text()))]

    def last_flush(self, point: int) -> int:
        """The number of records that are durable when the power goes after `point` of them."""
        i = bisect.bisect_left(self.flushes, point)
        return self.flushes[i - 1] + 1 if i > 0 else 0


@dataclasses.dataclass(frozen=True)
class Crash:
    """The power goes after so many records; of what was written since the last flush a share stays."""

    point: int
    how: str  # "in order": all of it, as a disk without a cache; "whole" writes; "torn" ones
    share: float
    seed: int  # which of them

    def __str__(self) -> str:
        kept = "all" if self.how == "in order" else f"{self.share:.0%}, {self.how}"
        return f"record {self.point}, of what was not flushed {kept}"


def choose(log: Log, count: int, dice: random.Random) -> list[Crash]:
    crashes = []
    inside = [i for i in log.flushes if log.start < i < log.end]
    for _ in range(count):
        what = dice.random()
        how = dice.choice(("whole", "torn"))
        share = dice.choice((0.0, 0.1, 0.5, 0.9))
        point = dice.randint(log.start, log.end)
        if what < 0.3 and log.promises:
            point = dice.choice(log.promises) + 1
        elif what < 0.5 and inside:
            point = min(dice.choice(inside) + dice.randint(0, 3), log.end)
        elif what < 0.7:
            how, share = "in order", 1.0
        crashes.append(Crash(point, how, share, dice.getrandbits(30)))
    return sorted(crashes, key=lambda crash: crash.point)


def promised(log: Log, count: int, dice: random.Random) -> list[Crash]:
    """Right after something was promised, with nothing but what was flushed."""
    points = dice.sample(log.promises, min(count, len(log.promises)))
    return [Crash(point + 1, "whole", 0.0, 0) for point in sorted(points)]


class Disk:
    """Makes images, for crashes in the order of their points."""

    def __init__(self, log: Log, base: pathlib.Path) -> None:
        self._log = log
        self._base = base  # an image from before the recording, which is carried on
        self._applied = 0

    def cut(self, crash: Crash, image: pathlib.Path) -> int:
        """Makes the image, the same one each time; the number of writes that were pending."""
        durable = self._log.last_flush(crash.point)
        _write(self._base, ((r.offset, r.data) for r in self._writes(self._applied, durable)))
        self._applied = max(self._applied, durable)
        pending = self._writes(self._applied, crash.point)
        system.must("cp", "--sparse=auto", self._base, image)
        _write(image, _left(crash, pending))
        return len(pending)

    def _writes(self, first: int, end: int) -> list[Record]:
        return [r for r in self._log.records[first:end] if r.kind == Kind.WRITE]


def _left(crash: Crash, pending: list[Record]):
    dice = random.Random(crash.seed)
    for record in pending:
        if crash.how == "in order":
            yield record.offset, record.data
        elif crash.how == "whole" or len(record.data) <= TORN_BYTES:
            if dice.random() < crash.share:
                yield record.offset, record.data
        else:
            for at in range(0, len(record.data), TORN_BYTES):
                if dice.random() < crash.share:
                    yield record.offset + at, record.data[at:at + TORN_BYTES]


def _write(path: pathlib.Path, pieces) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        for offset, data in pieces:
            if os.pwrite(fd, data, offset) != len(data):
                raise system.RigError(f"{path} could not be written")
    finally:
        os.close(fd)
