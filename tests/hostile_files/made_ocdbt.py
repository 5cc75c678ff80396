# SPDX-License-Identifier: Apache-2.0
"""Databases of Orbax (OCDBT): manifests, nodes, in columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from made_bytes import crc32c, varint

MANIFEST, NODE = 0x0cdb3a2a, 0x0cdb20de
MISSING = (1 << 64) - 1


def block(magic: int, body: bytes, packed: bool = False, length: int | None = None) -> bytes:
    size = 12 + 2 + len(body) + 4 if length is None else length
    whole = struct.pack(">I", magic) + struct.pack("<Q", size) + bytes([0, packed]) + body
    return whole + struct.pack("<I", crc32c(whole))


def columns(*each: Sequence[int]) -> bytes:
    return b"".join(varint(n) for column in each for n in column)


def files(paths: Sequence[str]) -> bytes:
    n = len(paths)
    if n == 0:
        return varint(0)
    data = [path.encode() for path in paths]
    return (varint(n) + columns([0] * (n - 1), [len(path) for path in data], [0] * n)
            + b"".join(data))


@dataclass
class Key:
    """Inline, or in the file of number `file`, or a child there."""

    key: bytes
    inlined: bytes | None = None
    offset: int = 0
    size: int = 0
    file: int = 0
    shared: int = 0  # with the key before


def node(height: int, paths: Sequence[str], keys: Sequence[Key], common: int = 0,
         count: int | None = None) -> bytes:
    outside = [key for key in keys if key.inlined is None]
    out = bytes([height]) + files(paths) + varint(len(keys) if count is None else count)
    out += columns([key.shared for key in keys[1:]], [len(key.key) for key in keys])
    if height > 0:
        out += columns([common] * len(keys))
    out += b"".join(key.key for key in keys)
    if height == 0:
        out += columns([key.size if key.inlined is None else len(key.inlined) for key in keys],
                       [key.inlined is None for key in keys])
    out += columns([key.file for key in outside], [key.offset for key in outside])
    if height > 0:
        out += columns([key.size for key in keys], [1] * 3 * len(keys))
    return out + b"".join(key.inlined or b"" for key in keys)


def manifest(height: int, path: str, offset: int, size: int, versions: int = 1,
             kind: int = 0) -> bytes:
    """One version; `versions`: how many it says."""
    configuration = bytes(16) + varint(kind) + varint(100) + varint(120) + bytes([4]) + varint(0)
    if kind == 1:
        return configuration
    return (configuration + files([path]) + varint(versions) + varint(1) + bytes([height])
            + columns([0], [offset], [size], [1], [1], [1]) + bytes(8) + varint(0))
