# SPDX-License-Identifier: Apache-2.0
"""Pickles, opcode by opcode, and what is around them: files of torch.save, .metadata of DCP."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from made_zip import Member, zip_of

Number = int | bytes  # what stands in a pickle for one
PROTO = b"\x80\x02"
END = b"."


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: Number) -> bytes:
    if isinstance(value, bytes):
        return value
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def named(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def dict_of(items: Mapping[str, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return named(module, name) + tuple_of(*arguments) + b"R"


def made_of(module: str, name: str, state: bytes) -> bytes:
    """An object of a class, with its state."""
    return named(module, name) + b")\x81" + state + b"b"


def pickle(body: bytes) -> bytes:
    return PROTO + body + END


# ---- torch.save -----------------------------------------------------------------------------------


def storage(key: str, elements: Number, kind: str = "FloatStorage") -> bytes:
    return tuple_of(text("storage"), named("torch", kind), text(key), text("cpu"),
                    number(elements)) + b"Q"


def tensor(of: bytes, shape: Sequence[Number], strides: Sequence[Number],
           offset: Number = 0) -> bytes:
    return call("torch._utils", "_rebuild_tensor_v2", of, number(offset),
                tuple_of(*map(number, shape)), tuple_of(*map(number, strides)), b"\x89",
                call("collections", "OrderedDict"))


def torch_file(body: bytes, storages: Mapping[str, bytes] | None = None) -> bytes:
    """As torch.save writes it; `body` is the pickle without its first and last opcode."""
    members = [Member("a/data.pkl", pickle(body)), Member("a/version", b"3\n")]
    members += [Member(f"a/data/{key}", data) for key, data in (storages or {}).items()]
    return zip_of(members)


# ---- torch.distributed.checkpoint -----------------------------------------------------------------

DCP = "torch.distributed.checkpoint.metadata"


def size(shape: Sequence[Number]) -> bytes:
    return call("torch", "Size", tuple_of(*map(number, shape)))


def index(fqn: str, offset: Sequence[Number] | None = (0,)) -> bytes:
    return made_of(DCP, "MetadataIndex",
                   dict_of({"fqn": text(fqn), "offset": b"N" if offset is None else size(offset),
                            "index": number(0)}))


def info(path: str, offset: Number, length: Number) -> bytes:
    return made_of("torch.distributed.checkpoint.filesystem", "_StorageInfo",
                   dict_of({"relative_path": text(path), "offset": number(offset),
                            "length": number(length)}))


def tensor_metadata(shape: Sequence[Number]) -> bytes:
    return made_of(DCP, "TensorStorageMetadata", dict_of({"size": size(shape), "chunks": b"]"}))


def metadata(tensors: Mapping[str, bytes], storages: Sequence[tuple[bytes, bytes]]) -> bytes:
    data = b"}(" + b"".join(key + value for key, value in storages) + b"u"
    return pickle(made_of(DCP, "Metadata", dict_of({"state_dict_metadata": dict_of(tensors),
                                                    "planner_data": b"N", "storage_data": data})))
