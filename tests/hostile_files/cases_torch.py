# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save whose tensors and storages lie."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from case import Scene, case
from made_pickle import (Number, call, dict_of, named, number, pickle, storage, tensor, text,
                         torch_file, tuple_of)
from made_zip import Member, zip_of

MAGIC = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
BIG = 1 << 62


def one(scene: Scene, shape: Sequence[Number], strides: Sequence[Number], offset: Number = 0,
        kept: bytes = bytes(16), of: bytes = storage("0", 4)) -> Path:
    """A tensor `w` in a storage of 16 bytes."""
    body = dict_of({"w": tensor(of, shape, strides, offset)})
    return scene.put("model.pt", torch_file(body, {"0": kept}))


@case
def storage_that_is_missing(scene: Scene) -> Path:
    """A storage that no member has."""
    return one(scene, [4], [1], of=storage("1", 4))


@case
def storage_of_a_thousand_digits(scene: Scene) -> Path:
    """A storage whose key is longer than any."""
    return one(scene, [4], [1], of=storage("0" * 1000, 4))


@case
def storage_that_is_the_pickle(scene: Scene) -> Path:
    """A storage whose key leads to the pickle itself."""
    return one(scene, [4], [1], of=storage("../data.pkl", 4))


@case
def storage_of_unknown_class(scene: Scene) -> Path:
    """A storage of a class that there is not."""
    return one(scene, [4], [1], of=storage("0", 4, "EvilStorage"))


@case
def storage_that_is_shorter(scene: Scene) -> Path:
    """A storage of 4 elements, where the member has 1."""
    return one(scene, [4], [1], kept=bytes(4))


@case
def storage_that_is_code(scene: Scene) -> Path:
    """A call in place of a storage."""
    return one(scene, [4], [1], of=call("os", "system", text(f"touch {scene.marker}")))


@case
def offset_outside(scene: Scene) -> Path:
    """A tensor that begins behind its storage."""
    return one(scene, [4], [1], offset=1)


@case
def negative_offset(scene: Scene) -> Path:
    """A tensor that begins before its storage."""
    return one(scene, [4], [1], offset=-4)


@case
def offset_that_overflows(scene: Scene) -> Path:
    """An offset whose bytes are 0 in 64 bits."""
    return one(scene, [4], [1], offset=BIG)


@case
def offset_of_a_hundred_bytes(scene: Scene) -> Path:
    """An offset that no integer of the machine holds."""
    return one(scene, [4], [1], offset=1 << 800)


@case
def stride_outside(scene: Scene) -> Path:
    """Strides that lead behind the storage."""
    return one(scene, [2, 2], [4, 1])


@case
def negative_stride(scene: Scene) -> Path:
    """Strides that lead before the storage."""
    return one(scene, [4], [-1])


@case
def stride_that_overflows(scene: Scene) -> Path:
    """Strides whose product with the shape is 0 in 64 bits."""
    return one(scene, [5, 2], [BIG, 1])


@case
def stride_of_0(scene: Scene) -> Path:
    """2^40 elements that are all the same one: what a slice has is read, and no more."""
    return one(scene, [1 << 40], [0])


@case
def size_that_overflows(scene: Scene) -> Path:
    """2^32 times 2^32 elements."""
    return one(scene, [1 << 32, 1 << 32], [1 << 32, 1])


@case
def size_of_0_and_much(scene: Scene) -> Path:
    """No element, but 2^62 times 2^62 before it."""
    return one(scene, [BIG, BIG, 0], [0, 0, 1])


@case
def negative_size(scene: Scene) -> Path:
    """A negative dimension."""
    return one(scene, [-4], [1])


@case
def sizes_without_strides(scene: Scene) -> Path:
    """Two dimensions, and one stride."""
    return one(scene, [2, 2], [1])


@case
def a_thousand_dimensions(scene: Scene) -> Path:
    """More dimensions than there can be."""
    return one(scene, [1] * 1000, [1] * 1000)


@case
def name_twice(scene: Scene) -> Path:
    """A key twice in one dict."""
    of = tensor(storage("0", 4), [4], [1])
    body = b"}(" + (text("w") + of) * 2 + b"u"
    return scene.put("model.pt", torch_file(body, {"0": bytes(16)}))


@case
def names_that_become_one(scene: Scene) -> Path:
    """The keys 1 and "1", which are two names."""
    of = tensor(storage("0", 4), [4], [1])
    body = b"}(" + number(1) + of + text("1") + of + b"u"
    return scene.put("model.pt", torch_file(body, {"0": bytes(16)}))


@case
def name_that_leads_out(scene: Scene) -> Path:
    """A key that is a path: it is escaped."""
    of = tensor(storage("0", 4), [4], [1])
    return scene.put("model.pt", torch_file(dict_of({"../../etc/passwd": of}), {"0": bytes(16)}))


@case
def name_with_controls(scene: Scene) -> Path:
    """A key that would clear the terminal: it is escaped."""
    of = tensor(storage("0", 4), [4], [1])
    return scene.put("model.pt", torch_file(dict_of({"a\x1b[2J\u202eb": of}), {"0": bytes(16)}))


@case
def program_of_torchscript(scene: Scene) -> Path:
    """A program, whose code is in the zip."""
    return scene.put("model.pt", zip_of([
        Member("a/data.pkl", pickle(b"}")), Member("a/version", b"3\n"),
        Member("a/constants.pkl", pickle(b")")),
        Member("a/code/__torch__.py", b"import os\nos.system('touch x')\n")]))


@case
def unknown_byte_order(scene: Scene) -> Path:
    """A byte order that there is not."""
    body = dict_of({"w": tensor(storage("0", 4), [4], [1])})
    return scene.put("model.pt", zip_of([
        Member("a/data.pkl", pickle(body)), Member("a/version", b"3\n"),
        Member("a/byteorder", b"middle"), Member("a/data/0", bytes(16))]))


@case
def notes_that_are_shared(scene: Scene) -> Path:
    """100,000 tensors beside which one dict of 100,000 keys stands, which is searched for each."""
    notes = dict_of({f"{i}": b"N" for i in range(100_000)}) + b"r\0\0\0\0" + b"0"
    parts = (b"c" + b"torch._utils\n_rebuild_tensor_v2\nr\1\0\0\0" + b"0" + storage("0", 4)
             + b"r\2\0\0\0" + b"0" + tuple_of(number(4)) + b"r\3\0\0\0" + b"0"
             + tuple_of(number(1)) + b"r\4\0\0\0" + b"0")
    one_more = b"h\1(h\2K\0h\3h\4\x89Nh\0tR"
    return scene.put("model.pt", torch_file(notes + parts + b"](" + one_more * 100_000 + b"e",
                                            {"0": bytes(16)}))


def legacy(count: bytes, keys: bytes, elements: int) -> bytes:
    """Before there were zips: magic, protocol, system, object, keys, storages."""
    body = dict_of({"w": tensor(
        tuple_of(text("storage"), named("torch", "FloatStorage"), text("0"), text("cpu"), count,
                 b"N") + b"Q", [4], [1])})
    return (pickle(MAGIC) + pickle(number(1001)) + pickle(b"}") + pickle(body) + pickle(keys)
            + struct.pack("<q", elements) + bytes(16))


@case
def legacy_storage_without_end(scene: Scene) -> Path:
    """A storage of 2^62 elements, in a file of before PyTorch 1.6."""
    return scene.put("model.pt", legacy(number(4), b"]" + text("0") + b"a", BIG))


@case
def legacy_negative_storage(scene: Scene) -> Path:
    """A storage of -1 elements."""
    return scene.put("model.pt", legacy(number(4), b"]" + text("0") + b"a", -1))


@case
def legacy_keys_that_are_missing(scene: Scene) -> Path:
    """No storage is there."""
    return scene.put("model.pt", legacy(number(4), b"]", 4))


def tar_of(members: dict[str, bytes], size: int | None = None) -> bytes:
    out = b""
    for name, data in members.items():
        said = len(data) if size is None else size
        head = (name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
                + f"{said:011o}\0".encode() + b"0" * 11 + b"\0" + b" " * 8 + b"0" + bytes(100)
                + b"ustar\x0000" + bytes(64)).ljust(512, b"\0")[:512]
        total = sum(head)
        head = head[:148] + f"{total:06o}\0 ".encode() + head[156:]
        out += head + data + bytes(-len(data) % 512)
    return out + bytes(1024)


@case
def tar_member_without_end(scene: Scene) -> Path:
    """A tar with a member of 8 GiB."""
    return scene.put("model.pt", tar_of({"storages": pickle(number(0)), "pickle": pickle(b"}")},
                                        (8 << 30) - 1))


@case
def tar_of_many_storages(scene: Scene) -> Path:
    """2^62 storages."""
    return scene.put("model.pt", tar_of({"storages": pickle(number(BIG)), "pickle": pickle(b"}"),
                                         "tensors": pickle(number(BIG))}))
