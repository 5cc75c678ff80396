# SPDX-License-Identifier: Apache-2.0
"""What describes much in few bytes: 256 KiB of it, in each format."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from case import Scene, case
from cases_gguf import U32, array, value
from cases_gguf import put as put_gguf
from cases_hdf5 import File
from cases_orbax import Key, block, database, node
from cases_safetensors import file_of
from cases_tensorflow import body, entry, header, index_of
from cases_tensorflow import put as put_bundle
from made_bytes import varint
from made_pickle import dict_of, number, storage, tensor, text, torch_file
from made_zip import Member, zip_of

ROOM = 1 << 18


def pickled(scene: Scene, body: bytes) -> Path:
    return scene.put("model.pt", torch_file(body, {"0": bytes(16)}))


@case
def pickle_of_nothing(scene: Scene) -> Path:
    """None, one byte each."""
    return pickled(scene, b"](" + b"N" * ROOM + b"e")


@case
def pickle_of_dicts(scene: Scene) -> Path:
    """Empty dicts, one byte each."""
    return pickled(scene, b"](" + b"}" * ROOM + b"e")


@case
def pickle_of_lists_of_one(scene: Scene) -> Path:
    """Lists of one value, three bytes each."""
    return pickled(scene, b"](" + b"]Na" * (ROOM // 3) + b"e")


@case
def pickle_of_one_tensor(scene: Scene) -> Path:
    """One tensor, by two bytes of the memo each."""
    one = tensor(storage("0", 4), [4], [1]) + b"q\0" + b"0"
    return pickled(scene, one + b"](" + b"h\0" * (ROOM // 2) + b"e")


@case
def pickle_of_one_dict(scene: Scene) -> Path:
    """One dict of 500 numbers, by two bytes of the memo each, in a list with a tensor."""
    one = tensor(storage("0", 4), [4], [1])
    many = dict_of({f"{i}": number(i) for i in range(500)}) + b"q\0" + b"0"
    return pickled(scene, many + b"](" + one + b"h\0" * 1000 + b"e")


@case
def safetensors_of_empty_tensors(scene: Scene) -> Path:
    """Empty tensors, 60 bytes each."""
    one = {f"{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(ROOM // 60)}
    return scene.put("model.safetensors", file_of(json.dumps(one, separators=(",", ":")).encode(),
                                                  b""))


@case
def gguf_of_values(scene: Scene) -> Path:
    """Empty arrays, 28 bytes each."""
    return put_gguf(scene, [value(f"{i:04x}", 9, array(U32, 0)) for i in range(ROOM // 28)], [])


@case
def zip_of_empty_members(scene: Scene) -> Path:
    """Empty members, 84 bytes each."""
    return scene.put("model.npz", zip_of([Member(f"{i:04x}") for i in range(ROOM // 84)]
                                         + [Member("w.npy", b"")]))


@case
def bundle_of_empty_tensors(scene: Scene) -> Path:
    """Empty tensors, 14 bytes each."""
    record = varint(1 << 3) + varint(1) + varint(2 << 3 | 2) + b"\x04\x12\x02\x08\x00"
    return put_bundle(scene, index_of(body(entry(b"", header()), *(
        entry(f"{i:05x}".encode(), record) for i in range(ROOM // 14)))))


@case
def bundle_of_empty_slices(scene: Scene) -> Path:
    """Slices without dimensions, two bytes each."""
    record = varint(1 << 3) + varint(1) + b"\x3a\0" * (ROOM // 2)
    return put_bundle(scene, index_of(body(entry(b"", header()), entry(b"w", record))))


@case
def hdf5_of_links(scene: Scene) -> Path:
    """Links to one dataset, 45 bytes each."""
    file = File()
    dataset = file.dataset([4], bytes(16))
    names = b"\0" * 8 + b"".join(f"{i:04x}\0".encode() for i in range(ROOM // 45))
    heap = file.heap(names)
    key = struct.pack("<Q", 0)
    tree = file.tree(0, 0, [file.symbols([(8 + 5 * i, dataset) for i in range(ROOM // 45)])],
                     [key, key])
    return scene.put("model.h5", file.finish(file.group_of(tree, heap)))


@case
def database_of_empty_values(scene: Scene) -> Path:
    """Empty values, 8 bytes each."""
    keys = [Key(f"{i:05x}".encode(), b"") for i in range(ROOM // 8)]
    return database(scene, block(0x0cdb20de, node(0, [], keys)))


@case
def text_that_is_used_often(scene: Scene) -> Path:
    """A text of 200 kB that 1000 names have."""
    shared = text("x" * 200_000) + b"q\0" + b"0"
    return pickled(scene, shared + dict_of({f"{i}": b"h\0" for i in range(1000)}))
