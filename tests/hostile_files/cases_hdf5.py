# SPDX-License-Identifier: Apache-2.0
"""HDF5 files with loops, lies and bombs."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from case import Scene, case
from made_hdf5 import (CONTINUES, FLOAT, LAYOUT, SYMBOLS, TYPE, File, chunk_key, filters, message,
                       space)

BIG = 1 << 62
DEFLATE, SHUFFLE, LZF = 1, 2, 32000


def put(scene: Scene, data: bytes) -> Path:
    return scene.put("model.h5", data)


def one(scene: Scene, file: File, dataset: int) -> Path:
    return put(scene, file.finish(file.group({"w": dataset})))


def chunks(scene: Scene, packed: bytes, shape: int = 4, chunk: int = 4, filtered: bytes = b"",
           size: int | None = None) -> Path:
    """One chunk."""
    file = File()
    at = file.add(packed)
    tree = file.tree(1, 0, [at], [chunk_key(len(packed) if size is None else size, 0),
                                  chunk_key(0, shape)])
    return one(scene, file, file.chunked([shape], [chunk], tree, filtered))


@case
def group_in_itself(scene: Scene) -> Path:
    """A group that is its own member."""
    file = File()
    root = file.group({"again": 0})
    node = bytes(file.data).index(b"SNOD")
    file.put(node + 16, struct.pack("<Q", root))
    return put(scene, file.finish(root))


@case
def groups_in_a_circle(scene: Scene) -> Path:
    """Two groups that are in each other."""
    file = File()
    first = file.group({"b": 0})
    second = file.group({"a": first})
    node = bytes(file.data).index(b"SNOD")
    file.put(node + 16, struct.pack("<Q", second))
    return put(scene, file.finish(first))


@case
def groups_of_groups(scene: Scene) -> Path:
    """30 groups, each with ten links to the one before."""
    file = File()
    group = file.group({"w": file.dataset([4], bytes(16))})
    for _ in range(30):
        group = file.group({f"{i}": group for i in range(10)})
    return put(scene, file.finish(group))


@case
def groups_a_thousand_deep(scene: Scene) -> Path:
    """A group in a group, 10,000 deep."""
    file = File()
    group = file.group({"w": file.dataset([4], bytes(16))})
    for _ in range(10_000):
        group = file.group({"g": group})
    return put(scene, file.finish(group))


@case
def tree_in_itself(scene: Scene) -> Path:
    """A node of a group's B-tree that is its own child."""
    file = File()
    heap = file.heap(b"\0" * 8 + b"w\0")
    key = struct.pack("<Q", 0)
    tree = file.tree(0, 1, [len(file.data)], [key, key])
    return put(scene, file.finish(file.group_of(tree, heap)))


@case
def tree_of_255_levels(scene: Scene) -> Path:
    """More levels than there can be."""
    file = File()
    heap = file.heap(b"\0" * 8 + b"w\0")
    key = struct.pack("<Q", 0)
    return put(scene, file.finish(file.group_of(file.tree(0, 255, [96], [key, key]), heap)))


@case
def tree_with_one_child_often(scene: Scene) -> Path:
    """A node of names that is there 60,000 times."""
    file = File()
    heap = file.heap(b"\0" * 8 + b"w\0")
    node = file.symbols([(8, file.dataset([4], bytes(16)))])
    key = struct.pack("<Q", 0)
    return put(scene, file.finish(file.group_of(
        file.tree(0, 0, [node] * 60_000, [key] * 60_001), heap)))


@case
def names_without_end(scene: Scene) -> Path:
    """A heap of 2^62 bytes for names."""
    file = File()
    heap = file.heap(b"\0" * 8 + b"w\0", size=BIG)
    key = struct.pack("<Q", 0)
    node = file.symbols([(8, 96)])
    return put(scene, file.finish(file.group_of(file.tree(0, 0, [node], [key, key]), heap)))


@case
def name_outside_of_the_heap(scene: Scene) -> Path:
    """A name behind the heap."""
    file = File()
    heap = file.heap(b"\0" * 16)
    key = struct.pack("<Q", 0)
    node = file.symbols([(4000, 96)])
    return put(scene, file.finish(file.group_of(file.tree(0, 0, [node], [key, key]), heap)))


@case
def header_in_itself(scene: Scene) -> Path:
    """An object header that goes on where it began."""
    file = File()
    at = len(file.data)
    root = file.header(message(CONTINUES, struct.pack("<QQ", at + 16, 24)))
    return put(scene, file.finish(root))


@case
def header_without_end(scene: Scene) -> Path:
    """65535 messages in 4 GiB."""
    file = File()
    return put(scene, file.finish(file.header(message(SYMBOLS, bytes(16)), count=65535,
                                              size=0xffffffff)))


@case
def superblock_that_ends_later(scene: Scene) -> Path:
    """A file that says that it is 4 EiB."""
    file = File()
    return put(scene, file.finish(file.group({"w": file.dataset([4], bytes(16))}), end=BIG))


@case
def superblock_of_odd_addresses(scene: Scene) -> Path:
    """Addresses of 255 bytes."""
    file = File()
    return put(scene, file.finish(file.group({"w": file.dataset([4], bytes(16))}),
                                  offset_bytes=255))


@case
def superblock_that_begins_later(scene: Scene) -> Path:
    """Addresses that count from 2^62 on."""
    file = File()
    return put(scene, file.finish(file.group({"w": file.dataset([4], bytes(16))}), base=BIG))


@case
def root_outside(scene: Scene) -> Path:
    """A root group at 2^64 - 2."""
    return put(scene, File().finish((1 << 64) - 2))


@case
def data_outside(scene: Scene) -> Path:
    """Data behind the end of the file."""
    file = File()
    return one(scene, file, file.dataset([4], b"", address=BIG, size=16))


@case
def data_of_another_size(scene: Scene) -> Path:
    """2^60 elements in 16 bytes."""
    file = File()
    return one(scene, file, file.dataset([1 << 60], bytes(16)))


@case
def shape_that_overflows(scene: Scene) -> Path:
    """2^32 times 2^32 elements."""
    file = File()
    return one(scene, file, file.dataset([1 << 32, 1 << 32], bytes(16)))


@case
def chunk_that_overflows(scene: Scene) -> Path:
    """A chunk of (2^32 - 1)^3 elements."""
    file = File()
    most = 0xffffffff
    return one(scene, file, file.chunked([most] * 3, [most] * 3, (1 << 64) - 1))


@case
def chunk_of_nothing(scene: Scene) -> Path:
    """A chunk of 0 elements, by which the shape would be divided."""
    file = File()
    return one(scene, file, file.chunked([4], [0], (1 << 64) - 1))


@case
def chunks_of_one_without_end(scene: Scene) -> Path:
    """2^60 elements in chunks of one, none of which was written."""
    file = File()
    return one(scene, file, file.chunked([1 << 60], [1], (1 << 64) - 1))


@case
def chunks_that_are_in_themselves(scene: Scene) -> Path:
    """A B-tree of chunks that is its own child."""
    file = File()
    tree = file.tree(1, 1, [len(file.data)], [chunk_key(16, 0), chunk_key(0, 4)])
    return one(scene, file, file.chunked([4], [4], tree))


@case
def chunk_outside(scene: Scene) -> Path:
    """A chunk behind the end of the file."""
    file = File()
    tree = file.tree(1, 0, [BIG], [chunk_key(16, 0), chunk_key(0, 4)])
    return one(scene, file, file.chunked([4], [4], tree))


@case
def chunk_of_another_size(scene: Scene) -> Path:
    """A chunk that is not packed, and has 4 of 16 bytes."""
    return chunks(scene, bytes(4))


@case
def bomb_of_deflate(scene: Scene) -> Path:
    """A chunk of 32 MiB, deflated 1000:1."""
    n = 1 << 23
    return chunks(scene, zlib.compress(bytes(4 * n), 9), n, n, filters((DEFLATE, [9])))


@case
def bomb_in_a_bomb(scene: Scene) -> Path:
    """Deflate of deflate: what comes between is larger than the chunk."""
    inner = zlib.compress(bytes(1 << 26), 9)
    return chunks(scene, zlib.compress(inner, 9), 4, 4, filters((DEFLATE, [9]), (DEFLATE, [9])))


@case
def bomb_larger_than_its_chunk(scene: Scene) -> Path:
    """16 bytes of a chunk, deflated from 64 MiB."""
    return chunks(scene, zlib.compress(bytes(1 << 26), 9), 4, 4, filters((DEFLATE, [9])))


@case
def chunk_of_lzf_that_lies(scene: Scene) -> Path:
    """LZF that goes back before its first byte."""
    return chunks(scene, b"\xe0\xff\xff" * 10, 4, 4, filters((LZF, [4, 261, 16])))


@case
def shuffle_of_nothing(scene: Scene) -> Path:
    """Elements of 0 bytes that are to be put in order."""
    return chunks(scene, bytes(16), 4, 4, filters((SHUFFLE, [0])))


@case
def filters_without_end(scene: Scene) -> Path:
    """32 filters, one on another."""
    return chunks(scene, zlib.compress(bytes(16)), 4, 4, filters(*[(DEFLATE, [9])] * 32))


@case
def filter_of_a_plugin(scene: Scene) -> Path:
    """A filter that HDF5 would load from a file: listed, and not read."""
    return chunks(scene, bytes(16), 4, 4, filters((65535, [])))


@case
def type_in_a_type(scene: Scene) -> Path:
    """Arrays of arrays, 100 deep."""
    inner = FLOAT
    for _ in range(100):
        inner = struct.pack("<BBBBIB3xII", 0x1a | 0x10, 0, 0, 0, 4, 1, 1, 0) + inner
    file = File()
    layout = struct.pack("<BBQQ", 3, 1, file.add(bytes(16)), 16)
    return one(scene, file, file.header(space([4]), message(TYPE, inner), message(LAYOUT, layout)))


@case
def type_without_size(scene: Scene) -> Path:
    """Elements of 0 bytes."""
    file = File()
    layout = struct.pack("<BBQQ", 3, 1, file.add(bytes(16)), 16)
    return one(scene, file, file.header(space([4]), message(TYPE, FLOAT[:4] + bytes(4) + FLOAT[8:]),
                                        message(LAYOUT, layout)))
