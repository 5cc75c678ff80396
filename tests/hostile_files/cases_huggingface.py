# SPDX-License-Identifier: Apache-2.0
"""Directories of Hugging Face with files of torch.save: an index that lies about what is where."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from case import Scene, case
from made_pickle import call, dict_of, number, pickle, storage, tensor, text, torch_file

INDEX = "pytorch_model.bin.index.json"
ONE = "pytorch_model-00001-of-00002.bin"
TWO = "pytorch_model-00002-of-00002.bin"


def file_of(*names: str, **more: bytes) -> bytes:
    """A dict of tensors of 16 bytes, each with a storage of its own, and of other things."""
    items = {name: tensor(storage(str(i), 4), [4], [1]) for i, name in enumerate(names)}
    return torch_file(dict_of(items | more),
                      {str(i): struct.pack("<4f", i, 1, 2, 3) for i in range(len(names))})


def index_of(scene: Scene, places: Mapping[str, str]) -> Path:
    return scene.put(INDEX, json.dumps({"metadata": {"total_size": 48},
                                        "weight_map": places}).encode())


def sharded(scene: Scene, places: Mapping[str, str] | None = None,
            second: bytes | None = None) -> Path:
    """Two tensors in the first file, and one in the second."""
    scene.put(ONE, file_of("a.weight", "a.bias"))
    scene.put(TWO, file_of("b.weight") if second is None else second)
    whole = {"a.weight": ONE, "a.bias": ONE, "b.weight": TWO}
    return index_of(scene, whole | (places or {}))


@case
def index_that_leads_up(scene: Scene) -> Path:
    """An index that names a file of the directory above."""
    return sharded(scene, {"c": "../c.bin"})


@case
def index_with_an_absolute_path(scene: Scene) -> Path:
    """An index that names a device."""
    return sharded(scene, {"c": "/dev/zero.bin"})


@case
def index_that_leads_down(scene: Scene) -> Path:
    """An index that names a file of a directory below."""
    scene.put("sub/c.bin", file_of("c"))
    return sharded(scene, {"c": "sub/c.bin"})


@case
def index_that_names_itself(scene: Scene) -> Path:
    """An index that is its own file of tensors."""
    return sharded(scene, {"c": INDEX})


@case
def index_of_another_format(scene: Scene) -> Path:
    """An index that names a file of safetensors."""
    return sharded(scene, {"c": "model.safetensors"})


@case
def index_of_what_is_not_there(scene: Scene) -> Path:
    """An index that names a file that is not there."""
    return sharded(scene, {"c": "pytorch_model-00003-of-00003.bin"})


@case
def index_that_names_a_directory(scene: Scene) -> Path:
    """An index that names a directory which is called as a file."""
    scene.put("c.bin/data.pkl", b"")
    return sharded(scene, {"c": "c.bin"})


@case
def index_of_too_few(scene: Scene) -> Path:
    """A tensor that the index does not name."""
    scene.put(ONE, file_of("a.weight", "a.bias"))
    return index_of(scene, {"a.weight": ONE})


@case
def index_of_too_many(scene: Scene) -> Path:
    """A tensor that no file has."""
    return sharded(scene, {"c.weight": TWO})


@case
def index_of_the_wrong_file(scene: Scene) -> Path:
    """A tensor that is in another file than the index says."""
    return sharded(scene, {"a.bias": TWO})


@case
def index_with_a_name_twice(scene: Scene) -> Path:
    """A tensor that the index has in two files: parsers differ on which one counts."""
    sharded(scene)
    return scene.put(INDEX, f'{{"weight_map": {{"a.weight": "{ONE}", "a.bias": "{ONE}", '
                            f'"b.weight": "{TWO}", "a.bias": "{TWO}"}}}}'.encode())


@case
def tensor_in_two_files(scene: Scene) -> Path:
    """A tensor that both files have: which one counts depends on the order of loading."""
    return sharded(scene, second=file_of("b.weight", "a.bias"))


@case
def names_that_only_look_alike(scene: Scene) -> Path:
    """The index names "a/b"; the file has "b" in a dict "a"."""
    scene.put(ONE, torch_file(dict_of({"a": dict_of({"b": tensor(storage("0", 4), [4], [1])})}),
                              {"0": bytes(16)}))
    return index_of(scene, {"a/b": ONE})


@case
def call_in_the_second_file(scene: Scene) -> Path:
    """A file that would execute something, behind one that would not."""
    return sharded(scene, second=file_of(
        "b.weight", x=call("os", "system", text(f"touch {scene.marker}"))))


@case
def storage_that_is_in_the_other_file(scene: Scene) -> Path:
    """A tensor whose storage only the file before has."""
    body = dict_of({"b.weight": tensor(storage("1", 4), [4], [1])})
    return sharded(scene, second=torch_file(body, {"0": bytes(16)}))


@case
def file_of_the_format_before(scene: Scene) -> Path:
    """A file that is no zip, whose bytes have no checksum."""
    magic = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
    return sharded(scene, second=magic + pickle(number(1001)) + bytes(64))


@case
def file_that_was_not_fetched(scene: Scene) -> Path:
    """What git leaves in the place of a large file."""
    return sharded(scene, second=b"version https://git-lfs.github.com/spec/v1\n"
                                 b"oid sha256:" + b"0" * 64 + b"\nsize 9876543210\n")


@case
def file_with_another_value(scene: Scene) -> Path:
    """A byte of a tensor that is not what its checksum says: verify tells of it."""
    made = file_of("b.weight")
    at = made.index(struct.pack("<4f", 0, 1, 2, 3))
    return sharded(scene, second=made[:at] + b"\1" + made[at + 1:])


@case
def file_that_is_empty(scene: Scene) -> Path:
    """A file of no bytes."""
    return sharded(scene, second=b"")
