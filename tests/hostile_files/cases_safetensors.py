# SPDX-License-Identifier: Apache-2.0
"""safetensors: headers that lie, and indexes that lead out of the directory."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from case import Scene, case


def file_of(header: bytes | dict[str, Any], data: bytes = bytes(16),
            length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def put(scene: Scene, *arguments: Any, **more: Any) -> Path:
    return scene.put("model.safetensors", file_of(*arguments, **more))


def sharded(scene: Scene, name: str) -> Path:
    scene.put("a.safetensors", file_of({"w": tensor(0, 16, [4])}))
    return scene.put("model.safetensors.index.json",
                     json.dumps({"metadata": {}, "weight_map": {"w": name}}).encode())


@case
def header_of_2_to_63(scene: Scene) -> Path:
    """A header of 2^63 bytes."""
    return put(scene, b"{}", length=1 << 63)


@case
def header_beyond_the_end(scene: Scene) -> Path:
    """A header of 90 MB in a file of 26 bytes."""
    return put(scene, b"{}", length=90_000_000)


@case
def header_that_overflows(scene: Scene) -> Path:
    """A header of 2^64 - 1 bytes, with its length 7."""
    return put(scene, b"{}", length=(1 << 64) - 1)


@case
def overlapping_tensors(scene: Scene) -> Path:
    """Two tensors of the same bytes."""
    return put(scene, {"a": tensor(0, 16, [4]), "b": tensor(0, 16, [4])})


@case
def hole_between_tensors(scene: Scene) -> Path:
    """Bytes that are no tensor's, where something may hide."""
    return put(scene, {"a": tensor(0, 4, [1]), "b": tensor(12, 16, [1])})


@case
def offsets_that_descend(scene: Scene) -> Path:
    """An end before the beginning."""
    return put(scene, {"a": tensor(16, 0, [4])})


@case
def offsets_beyond_the_end(scene: Scene) -> Path:
    """2^62 bytes."""
    return put(scene, {"a": tensor(0, 1 << 62, [1 << 60])})


@case
def negative_offset(scene: Scene) -> Path:
    """A negative offset."""
    return put(scene, {"a": tensor(-16, 0, [4])})


@case
def shape_that_overflows(scene: Scene) -> Path:
    """A shape whose product is 4 in 64 bits."""
    return put(scene, {"a": tensor(0, 16, [(1 << 62) + 1, 4])})


@case
def name_twice(scene: Scene) -> Path:
    """A name twice in one object: parsers differ on which one counts."""
    first, second = json.dumps(tensor(0, 8, [2])), json.dumps(tensor(8, 16, [2]))
    return put(scene, f'{{"a": {first}, "a": {second}}}'.encode())


@case
def nested_a_million_times(scene: Scene) -> Path:
    """Lists in lists, 10^6 deep."""
    return put(scene, b'{"__metadata__": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}")


@case
def name_that_leads_out(scene: Scene) -> Path:
    """A tensor called ../../x, which somebody might write to a file of that name."""
    return put(scene, {"../../x": tensor(0, 16, [4])})


@case
def unknown_type(scene: Scene) -> Path:
    """A type that there is not."""
    return put(scene, {"a": tensor(0, 16, [4], "__import__('os')")})


@case
def text_that_is_none(scene: Scene) -> Path:
    """Half of a surrogate pair."""
    return put(scene, b'{"\\ud800": ' + json.dumps(tensor(0, 16, [4])).encode() + b"}")


@case
def number_of_many_digits(scene: Scene) -> Path:
    """An offset of 10^6 digits."""
    return put(scene, b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, '
                      + b"9" * 1_000_000 + b"]}}")


@case
def index_that_leads_up(scene: Scene) -> Path:
    """An index that names a file of the directory above."""
    return sharded(scene, "../a.safetensors")


@case
def index_with_an_absolute_path(scene: Scene) -> Path:
    """An index that names /etc/passwd."""
    return sharded(scene, "/etc/passwd")


@case
def index_that_names_itself(scene: Scene) -> Path:
    """An index that is its own file of tensors."""
    return sharded(scene, "model.safetensors.index.json")


@case
def index_of_what_is_not_there(scene: Scene) -> Path:
    """An index that names a file that is not there."""
    return sharded(scene, "b.safetensors")
