# SPDX-License-Identifier: Apache-2.0
"""Zip files whose every field may lie."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

STORED, DEFLATED = 0, 8
LINK = 0o120777 << 16
UNIX = 3 << 8


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@dataclass
class Member:
    """None: as it is."""

    name: str | bytes
    data: bytes = b""
    method: int = STORED
    flags: int = 0
    attributes: int = 0
    made_by: int = UNIX
    bytes: int | None = None  # what both headers say of its size
    packed_bytes: int | None = None
    crc: int | None = None
    local_name: str | None = None
    local_bytes: int | None = None
    offset: int | None = None  # what the directory says
    extra: bytes = b""
    packed: bytes | None = None

    def fields(self, local: bool) -> bytes:
        packed = self.body()
        size = len(self.data) if self.bytes is None else self.bytes
        if local and self.local_bytes is not None:
            size = self.local_bytes
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        name = self.local_name if local and self.local_name is not None else self.name
        name = name.encode() if isinstance(name, str) else name
        packed_size = len(packed) if self.packed_bytes is None else self.packed_bytes
        return struct.pack("<HHHHHIIIHH", 20, self.flags, self.method, 0, 33, crc, packed_size,
                           size, len(name), len(self.extra))

    def body(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.data) if self.method == DEFLATED else self.data

    def names(self, local: bool) -> bytes:
        name = self.local_name if local and self.local_name is not None else self.name
        return (name.encode() if isinstance(name, str) else name) + self.extra


@dataclass
class End:
    """What the end of the directory says; None: as it is."""

    count: int | None = None
    bytes: int | None = None
    offset: int | None = None
    disk: int = 0
    comment: bytes = b""
    comment_bytes: int | None = None
    between: bytes = b""  # before the end: records of zip64


def zip_of(members: Sequence[Member], end: End | None = None, behind: bytes = b"") -> bytes:
    end = end or End()
    out = bytearray()
    directory = bytearray()
    for member in members:
        at = len(out) if member.offset is None else member.offset
        out += b"PK\3\4" + member.fields(True) + member.names(True) + member.body()
        directory += (b"PK\1\2" + struct.pack("<H", member.made_by | 20) + member.fields(False)
                      + struct.pack("<HHHII", 0, 0, 0, member.attributes, at)
                      + member.names(False))
    said = [len(members) if end.count is None else end.count,
            len(directory) if end.bytes is None else end.bytes,
            len(out) if end.offset is None else end.offset]
    comment = len(end.comment) if end.comment_bytes is None else end.comment_bytes
    tail = b"PK\5\6" + struct.pack("<HHHHIIH", end.disk, end.disk, said[0], said[0], said[1],
                                   said[2], comment)
    return bytes(out + directory) + end.between + tail + end.comment + behind


def zip64_end(count: int, size: int, offset: int, at: int) -> bytes:
    """The end of zip64, and where it is."""
    return (b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset)
            + b"PK\6\7" + struct.pack("<IQI", 0, at, 1))
