# SPDX-License-Identifier: Apache-2.0
"""HDF5 files of the first version, structure by structure."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

UNDEFINED = (1 << 64) - 1
SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPERBLOCK_BYTES = 96
# A 32-bit float, little-endian.
FLOAT = struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127)
SPACE, TYPE, LAYOUT, FILTERS, SYMBOLS, CONTINUES = 1, 3, 8, 11, 17, 16


def message(kind: int, data: bytes) -> bytes:
    data += bytes(-len(data) % 8)
    return struct.pack("<HHB3x", kind, len(data), 0) + data


def space(shape: Sequence[int]) -> bytes:
    return message(SPACE, struct.pack(f"<BBB5x{len(shape)}Q", 1, len(shape), 0, *shape))


def filters(*each: tuple[int, Sequence[int]]) -> bytes:
    data = struct.pack("<BB6x", 1, len(each))
    for identity, values in each:
        padding = len(values) % 2 * 4
        data += struct.pack(f"<HHHH{len(values)}I{padding}x", identity, 0, 0, len(values), *values)
    return message(FILTERS, data)


class File:
    """What is added has the address that is returned."""

    def __init__(self) -> None:
        self.data = bytearray(SUPERBLOCK_BYTES)

    def add(self, data: bytes) -> int:
        at = len(self.data)
        self.data += data + bytes(-len(data) % 8)
        return at

    def put(self, at: int, data: bytes) -> None:
        self.data[at:at + len(data)] = data

    def header(self, *messages: bytes, count: int | None = None, size: int | None = None) -> int:
        body = b"".join(messages)
        return self.add(struct.pack("<BxHII4x", 1, len(messages) if count is None else count, 1,
                                    len(body) if size is None else size) + body)

    def symbols(self, links: Sequence[tuple[int, int]], count: int | None = None) -> int:
        """A node of names, by where they are in the heap, and what they lead to."""
        said = len(links) if count is None else count
        return self.add(b"SNOD" + struct.pack("<BxH", 1, said) + b"".join(
            struct.pack("<QQI4x16x", name, to, 0) for name, to in links))

    def tree(self, kind: int, level: int, children: Sequence[int], keys: Sequence[bytes],
             count: int | None = None) -> int:
        said = len(children) if count is None else count
        data = b"TREE" + struct.pack("<BBHQQ", kind, level, said, UNDEFINED, UNDEFINED)
        for key, child in zip(keys, children):
            data += key + struct.pack("<Q", child)
        return self.add(data + keys[len(children)])

    def heap(self, names: bytes, size: int | None = None) -> int:
        at = self.add(names)
        return self.add(b"HEAP" + struct.pack("<B3xQQQ", 0, len(names) if size is None else size,
                                              UNDEFINED, at))

    def group_of(self, tree: int, heap: int) -> int:
        return self.header(message(SYMBOLS, struct.pack("<QQ", tree, heap)))

    def group(self, links: Mapping[str, int]) -> int:
        names = bytearray(8)
        entries = []
        for name in sorted(links):
            entries.append((len(names), links[name]))
            names += name.encode() + b"\0"
        heap = self.heap(bytes(names))
        keys = [struct.pack("<Q", 0), struct.pack("<Q", entries[-1][0])]
        return self.group_of(self.tree(0, 0, [self.symbols(entries)], keys), heap)

    def dataset(self, shape: Sequence[int], data: bytes, address: int | None = None,
                size: int | None = None) -> int:
        at = self.add(data) if address is None else address
        layout = struct.pack("<BBQQ", 3, 1, at, len(data) if size is None else size)
        return self.header(space(shape), message(TYPE, FLOAT), message(LAYOUT, layout))

    def chunked(self, shape: Sequence[int], chunk: Sequence[int], tree: int,
                filtered: bytes = b"") -> int:
        layout = struct.pack(f"<BBBQ{len(chunk)}II", 3, 2, len(chunk) + 1, tree, *chunk, 4)
        more = [filtered] if filtered else []
        return self.header(space(shape), message(TYPE, FLOAT), message(LAYOUT, layout), *more)

    def finish(self, root: int, end: int | None = None, offset_bytes: int = 8,
               base: int = 0) -> bytes:
        end = len(self.data) if end is None else end
        self.put(0, SIGNATURE + struct.pack("<8B", 0, 0, 0, 0, 0, offset_bytes, 8, 0)
                 + struct.pack("<HHIQQQQ", 4, 16, 0, base, UNDEFINED, end, UNDEFINED)
                 + struct.pack("<QQI4x16x", 0, root, 0))
        return bytes(self.data)


def chunk_key(size: int, *offsets: int) -> bytes:
    return struct.pack(f"<II{len(offsets)}QQ", size, 0, *offsets, 0)
