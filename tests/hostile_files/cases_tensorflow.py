# SPDX-License-Identifier: Apache-2.0
"""Tensor bundles whose index lies."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from case import Scene, case
from made_bytes import crc32c, masked, varint

MAGIC = bytes.fromhex("57fb808b247547db")
F32, STRING = 1, 7
BIG = 1 << 62


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def header(shards: int = 1) -> bytes:
    return field(1, shards) + field(3, field(1, 1))


def record(shape: Sequence[int] = (4,), offset: int = 0, size: int = 16, shard: int = 0,
           kind: int = F32, slices: Sequence[bytes] = (), crc: int = masked(crc32c(bytes(16)))
           ) -> bytes:
    dims = b"".join(field(2, field(1, n)) for n in shape)
    return (field(1, kind) + field(2, dims) + field(3, shard) + field(4, offset) + field(5, size)
            + varint(6 << 3 | 5) + struct.pack("<I", crc) + b"".join(field(7, s) for s in slices))


def extent(start: int, length: int) -> bytes:
    return field(1, field(1, start) + field(2, length))


def entry(key: bytes, value: bytes, shared: int = 0, length: int | None = None) -> bytes:
    return (varint(shared) + varint(len(key)) + varint(len(value) if length is None else length)
            + key + value)


def body(*entries: bytes, restarts: int = 1) -> bytes:
    return b"".join(entries) + bytes(4) + struct.pack("<I", restarts)


def sealed(data: bytes, kind: int = 0) -> bytes:
    whole = data + bytes([kind])
    return whole + struct.pack("<I", masked(crc32c(whole)))


def handle(offset: int, size: int) -> bytes:
    return varint(offset) + varint(size)


def index_of(data: bytes, kind: int = 0, blocks: Sequence[bytes] | None = None,
             root: bytes | None = None) -> bytes:
    """One block of entries, one of blocks, and the end."""
    first = sealed(data, kind)
    where = [handle(0, len(data))] if blocks is None else blocks
    top = body(*(entry(b"~" + b"~" * i, at) for i, at in enumerate(where)))
    out = first + sealed(top)
    at = handle(len(first), len(top)) if root is None else root
    return out + (handle(0, 0) + at).ljust(40, b"\0") + MAGIC


def put(scene: Scene, index: bytes, data: bytes = bytes(16)) -> Path:
    scene.put("ckpt.data-00000-of-00001", data)
    return scene.put("ckpt.index", index)


def one(scene: Scene, value: bytes, shards: int = 1) -> Path:
    return put(scene, index_of(body(entry(b"", header(shards)), entry(b"w", value))))


def slice_key(name: bytes, *extents: tuple[int, int]) -> bytes:
    """As TensorFlow's OrderedCode writes it, for numbers below 64."""
    out = bytes([0]) + name + b"\0\1" + bytes([1, len(extents)])
    for start, length in extents:
        out += bytes([0x80 + start, 0x80 + length])
    return out


def sliced(scene: Scene, shape: int, parts: Sequence[tuple[int, int]]) -> Path:
    """A tensor in slices, each of which is at byte 0."""
    entries = [entry(b"", header())]
    entries += [entry(slice_key(b"w", part), record((part[1],), 0, 4 * part[1]))
                for part in sorted(parts)]
    entries.append(entry(b"w", record((shape,), 0, 0, slices=[extent(*part) for part in parts])))
    return put(scene, index_of(body(*entries)))


@case
def shard_out_of_range(scene: Scene) -> Path:
    """A tensor in file 7 of 1."""
    return one(scene, record(shard=7))


@case
def shard_that_overflows(scene: Scene) -> Path:
    """A tensor in file 2^32 - 1."""
    return one(scene, record(shard=0xffffffff))


@case
def shards_without_end(scene: Scene) -> Path:
    """2^31 files."""
    return one(scene, record(), 1 << 31)


@case
def no_shards(scene: Scene) -> Path:
    """No file."""
    return one(scene, record(), 0)


@case
def offset_that_overflows(scene: Scene) -> Path:
    """A tensor that ends before it begins."""
    return one(scene, record(offset=(1 << 64) - 8))


@case
def offset_behind_the_end(scene: Scene) -> Path:
    """A tensor behind the end of its file."""
    return one(scene, record(offset=8))


@case
def size_of_another_shape(scene: Scene) -> Path:
    """A shape that needs more bytes than there are."""
    return one(scene, record((BIG,)))


@case
def shape_that_overflows(scene: Scene) -> Path:
    """2^32 times 2^32 elements, and no byte."""
    return one(scene, record((1 << 32, 1 << 32), size=0))


@case
def negative_shape(scene: Scene) -> Path:
    """A dimension of -1."""
    return one(scene, record(((1 << 64) - 1,)))


@case
def dimensions_without_end(scene: Scene) -> Path:
    """1000 dimensions."""
    return one(scene, record((1,) * 1000))


@case
def unknown_type(scene: Scene) -> Path:
    """Type 99."""
    return one(scene, record(kind=99))


@case
def texts_that_are_longer(scene: Scene) -> Path:
    """Texts whose lengths are more than what there is."""
    data = varint(BIG) * 4
    made = one(scene, record((4,), 0, len(data), kind=STRING))
    scene.put("ckpt.data-00000-of-00001", data)
    return made


@case
def other_checksum(scene: Scene) -> Path:
    """A tensor whose checksum is another one's."""
    return one(scene, record(crc=0x12345678))


@case
def slices_that_overlap(scene: Scene) -> Path:
    """Slices that have the same elements."""
    return sliced(scene, 3, [(0, 2), (1, 2)])


@case
def slices_out_of_range(scene: Scene) -> Path:
    """A slice behind the last element."""
    return sliced(scene, 4, [(0, 2), (3, 2)])


@case
def slices_with_a_hole(scene: Scene) -> Path:
    """Elements that no slice has."""
    return sliced(scene, 6, [(0, 2), (4, 2)])


@case
def slice_that_is_missing(scene: Scene) -> Path:
    """A slice that has no entry."""
    value = record((4,), 0, 0, slices=[extent(0, 2), extent(2, 2)])
    return put(scene, index_of(body(entry(b"", header()), entry(b"w", value))))


@case
def slices_without_end(scene: Scene) -> Path:
    """300,000 slices, none of which is there."""
    value = record((300_000,), 0, 0, slices=[extent(i, 1) for i in range(300_000)])
    return put(scene, index_of(body(entry(b"", header()), entry(b"w", value))))


@case
def snappy_of_4_gib(scene: Scene) -> Path:
    """A compressed block that says that it becomes 4 GiB."""
    return put(scene, index_of(varint(0xffffffff) + b"\xf0\x00" + b"x" * 100, 1))


@case
def snappy_bomb(scene: Scene) -> Path:
    """A block of copies: 30 MB of 1.4 MB."""
    n = 30_000_000
    out = bytearray(varint(n) + b"\x00\x00")
    for _ in range((n - 1) // 64):
        out += b"\xfe\x01\x00"
    return put(scene, index_of(bytes(out), 1))


@case
def snappy_of_a_large_block(scene: Scene) -> Path:
    """A block that becomes more than a block may."""
    n = 90_000_000
    return put(scene, index_of(varint(n) + b"\x00\x00" + b"\xfe\x01\x00" * ((n - 1) // 64), 1))


@case
def snappy_that_goes_back_too_far(scene: Scene) -> Path:
    """A copy from before the first byte."""
    return put(scene, index_of(varint(64) + b"\x00x\xfe\xff\xff", 1))


@case
def snappy_of_less(scene: Scene) -> Path:
    """Fewer bytes than it says."""
    return put(scene, index_of(varint(1000) + b"\x00x", 1))


@case
def unknown_compression(scene: Scene) -> Path:
    """Compression 7."""
    return put(scene, index_of(body(entry(b"", header())), 7))


@case
def block_in_itself(scene: Scene) -> Path:
    """A block of blocks that is its own block."""
    first = sealed(body(entry(b"", header())))
    at = len(first)
    for n in range(10, 40):
        top = body(entry(b"~", handle(at, n)))
        if len(top) == n:
            break
    return put(scene, first + sealed(top)
               + (handle(0, 0) + handle(at, len(top))).ljust(40, b"\0") + MAGIC)


@case
def block_that_is_named_often(scene: Scene) -> Path:
    """A block of entries that the block of blocks names 1000 times."""
    data = body(entry(b"", header()), entry(b"w", record()))
    return put(scene, index_of(data, blocks=[handle(0, len(data))] * 1000))


@case
def block_outside(scene: Scene) -> Path:
    """A block behind the end."""
    return put(scene, index_of(body(entry(b"", header())), blocks=[handle(BIG, 100)]))


@case
def block_that_overflows(scene: Scene) -> Path:
    """A block that ends before it begins."""
    return put(scene, index_of(body(entry(b"", header())), root=handle((1 << 64) - 1, 100)))


@case
def restarts_without_end(scene: Scene) -> Path:
    """A block of 2^32 - 1 restarts."""
    return put(scene, index_of(body(entry(b"", header()), restarts=0xffffffff)))


@case
def key_that_shares_too_much(scene: Scene) -> Path:
    """A key that has more in common with the one before than that has."""
    return put(scene, index_of(body(entry(b"", header()), entry(b"w", record(), shared=100))))


@case
def value_that_is_longer(scene: Scene) -> Path:
    """A value of 2^32 - 1 bytes."""
    return put(scene, index_of(body(entry(b"", header(), length=0xffffffff))))


@case
def keys_that_descend(scene: Scene) -> Path:
    """Keys that are not in order."""
    return put(scene, index_of(body(entry(b"", header()), entry(b"w", record()),
                                    entry(b"a", record()))))


@case
def key_twice(scene: Scene) -> Path:
    """A key that is there twice."""
    return put(scene, index_of(body(entry(b"", header()), entry(b"w", record()),
                                    entry(b"w", record()))))


@case
def state_that_leads_out(scene: Scene) -> Path:
    """A state file that names a checkpoint of another directory."""
    put(scene, index_of(body(entry(b"", header()), entry(b"w", record()))))
    scene.put("step/checkpoint", b'model_checkpoint_path: "../ckpt"\n')
    return scene.directory / "step"
