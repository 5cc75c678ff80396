# SPDX-License-Identifier: Apache-2.0
"""GGUF: counts and lengths of up to 2^64 - 1."""

from __future__ import annotations

import struct
from pathlib import Path

from case import Scene, case

MOST = (1 << 64) - 1
U32, TEXT, ARRAY, F32 = 4, 8, 9, 0


def text(value: str, length: int | None = None) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data) if length is None else length) + data


def value(key: str, kind: int, data: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + data


def array(kind: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + data


def tensor(name: str, shape: list[int], kind: int = F32, offset: int = 0) -> bytes:
    return (text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            + struct.pack("<IQ", kind, offset))


def put(scene: Scene, values: list[bytes], tensors: list[bytes], counts: tuple[int, int] | None = None,
        data: int = 64, version: int = 3) -> Path:
    said = (len(tensors), len(values)) if counts is None else counts
    head = b"GGUF" + struct.pack("<IQQ", version, *said) + b"".join(values + tensors)
    return scene.put("model.gguf", head + bytes(-len(head) % 32 + data))


@case
def text_of_2_to_64(scene: Scene) -> Path:
    """A key of 2^64 - 1 bytes."""
    return put(scene, [text("k", MOST) + struct.pack("<II", U32, 1)], [])


@case
def value_of_2_to_63(scene: Scene) -> Path:
    """A text of 2^63 bytes."""
    return put(scene, [value("k", TEXT, text("v", 1 << 63))], [])


@case
def values_without_end(scene: Scene) -> Path:
    """2^63 values."""
    return put(scene, [value("k", U32, b"\1\0\0\0")], [], (0, 1 << 63))


@case
def tensors_without_end(scene: Scene) -> Path:
    """2^63 tensors."""
    return put(scene, [], [tensor("w", [4])], (1 << 63, 0))


@case
def array_without_end(scene: Scene) -> Path:
    """An array of 2^62 numbers: 2^64 bytes."""
    return put(scene, [value("k", ARRAY, array(U32, 1 << 62))], [])


@case
def texts_without_end(scene: Scene) -> Path:
    """An array of 2^60 texts."""
    return put(scene, [value("k", ARRAY, array(TEXT, 1 << 60))], [])


@case
def array_in_an_array(scene: Scene) -> Path:
    """Arrays in arrays, 10,000 deep."""
    return put(scene, [value("k", ARRAY, array(ARRAY, 1) * 10_000 + array(U32, 0))], [])


@case
def alignment_of_0(scene: Scene) -> Path:
    """Alignment 0, by which nothing can be divided."""
    return put(scene, [value("general.alignment", U32, bytes(4))], [tensor("w", [4])])


@case
def alignment_of_2_to_32(scene: Scene) -> Path:
    """Alignment 2^32 - 1."""
    return put(scene, [value("general.alignment", U32, b"\xff" * 4)], [tensor("w", [4])])


@case
def shape_that_overflows(scene: Scene) -> Path:
    """2^63 times 2 elements: 0."""
    return put(scene, [], [tensor("w", [1 << 63, 2])])


@case
def dimensions_without_end(scene: Scene) -> Path:
    """2^32 - 1 dimensions."""
    return put(scene, [], [text("w") + struct.pack("<I", 0xffffffff) + bytes(100)])


@case
def offset_beyond_the_end(scene: Scene) -> Path:
    """A tensor at 2^64 - 32."""
    return put(scene, [], [tensor("w", [4], offset=MOST - 31)])


@case
def overlapping_tensors(scene: Scene) -> Path:
    """Two tensors of the same bytes."""
    return put(scene, [], [tensor("a", [4]), tensor("b", [4])])


@case
def unknown_type(scene: Scene) -> Path:
    """A type of tensors that there is not."""
    return put(scene, [], [tensor("w", [4], kind=250)])


@case
def blocks_in_part(scene: Scene) -> Path:
    """A row of a quantized tensor that is no whole number of blocks."""
    return put(scene, [], [tensor("w", [33], kind=2)])


@case
def name_twice(scene: Scene) -> Path:
    """Two tensors of one name."""
    return put(scene, [], [tensor("w", [4]), tensor("w", [4], offset=32)])


@case
def key_twice(scene: Scene) -> Path:
    """Two values of one key."""
    return put(scene, [value("k", U32, bytes(4))] * 2, [tensor("w", [4])])


@case
def part_of_many_files(scene: Scene) -> Path:
    """A model in 65535 files, of which this one is called as the first."""
    made = put(scene, [value("split.count", 2, b"\xff\xff"), value("split.no", 2, b"\0\0")],
               [tensor("w", [4])])
    return made.rename(made.with_name("model-00001-of-65535.gguf"))
