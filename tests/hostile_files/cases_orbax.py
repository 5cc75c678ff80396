# SPDX-License-Identifier: Apache-2.0
"""Orbax: databases with loops and lies, arrays of zarr that cannot be."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from case import Scene, case
from made_bytes import crc32c
from made_ocdbt import MANIFEST, NODE, Key, block, manifest, node

BIG = 1 << 62
ZARRAY = {"chunks": [4], "compressor": None, "dtype": "<f4", "fill_value": None, "filters": None,
          "order": "C", "shape": [4], "zarr_format": 2, "dimension_separator": "."}


def zarray(**changes: Any) -> bytes:
    return json.dumps(ZARRAY | changes).encode()


def database(scene: Scene, root: bytes, height: int = 0, path: str = "d/a", **changes: Any) -> Path:
    """A tree whose root is at the beginning of d/a."""
    at = {"offset": 0, "size": len(root)} | changes
    scene.put("step/manifest.ocdbt", block(MANIFEST, manifest(height, path, **at)))
    scene.put("step/d/a", root)
    return scene.directory / "step"


def array(scene: Scene, **changes: Any) -> Path:
    """An array in a database."""
    return database(scene, block(NODE, node(0, [], [
        Key(b"w/.zarray", zarray(**changes)), Key(b"w/0", bytes(16))])))


def files(scene: Scene, chunk: bytes | None, **changes: Any) -> Path:
    """An array in files."""
    scene.put("step/w/.zarray", zarray(**changes))
    if chunk is not None:
        scene.put("step/w/0", chunk)
    return scene.directory / "step"


def zarr3(scene: Scene, codecs: Sequence[dict[str, Any]], chunk: bytes, shape: int = 4,
          each: int = 4, **changes: Any) -> Path:
    described = {"zarr_format": 3, "node_type": "array", "shape": [shape], "data_type": "float32",
                 "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [each]}},
                 "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
                 "codecs": list(codecs)} | changes
    scene.put("step/w/zarr.json", json.dumps(described).encode())
    scene.put("step/w/c/0", chunk)
    return scene.directory / "step"


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def sharding(each: int) -> dict[str, Any]:
    return {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [each], "codecs": [LITTLE], "index_codecs": [LITTLE, {"name": "crc32c"}],
        "index_location": "end"}}


def shard(index: Sequence[int], data: bytes = bytes(16)) -> bytes:
    numbers = struct.pack(f"<{len(index)}Q", *index)
    return data + numbers + struct.pack("<I", crc32c(numbers))


# ---- the database ---------------------------------------------------------------------------------


@case
def node_in_itself(scene: Scene) -> Path:
    """A node that is its own child: levels descend, and it has one."""
    size = 0
    for _ in range(3):
        root = block(NODE, node(3, ["d/a"], [Key(b"k", size=size)]))
        size = len(root)
    return database(scene, root, 3)


@case
def nodes_of_one_child(scene: Scene) -> Path:
    """Ten levels, each with the one below ten times."""
    data = block(NODE, node(0, [], [Key(b"w", b"x")]))
    at, size = 0, len(data)
    for level in range(1, 11):
        more = block(NODE, node(level, ["d/a"], [
            Key(bytes([ord("a") + i]), offset=at, size=size) for i in range(10)], common=1))
        at, size = len(data), len(more)
        data += more
    return database(scene, data, 10, offset=at, size=size)


@case
def levels_without_end(scene: Scene) -> Path:
    """A tree of 255 levels."""
    return database(scene, block(NODE, node(255, ["d/a"], [Key(b"k", size=10)])), 255)


@case
def node_of_another_level(scene: Scene) -> Path:
    """A root of level 1, where the manifest says 0."""
    return database(scene, block(NODE, node(1, ["d/a"], [Key(b"k", size=10)])), 0)


@case
def root_above(scene: Scene) -> Path:
    """A root in the directory above."""
    root = block(NODE, node(0, [], [Key(b"w", b"x")]))
    scene.put("a", root)
    return database(scene, root, path="../a")


@case
def root_with_an_absolute_path(scene: Scene) -> Path:
    """A root in /etc/passwd."""
    return database(scene, block(NODE, node(0, [], [Key(b"w", b"x")])), path="/etc/passwd")


@case
def value_above(scene: Scene) -> Path:
    """A value in the directory above."""
    scene.put("a", bytes(16))
    return database(scene, block(NODE, node(0, ["../../a"], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", size=16)])))


@case
def value_in_a_link_out(scene: Scene) -> Path:
    """A value in a symbolic link to a file outside, which is too short for it."""
    made = database(scene, block(NODE, node(0, ["d/link"], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", size=1 << 30)])))
    (made / "d/link").symlink_to(scene.put("outside", b"root:x:0:0\n" * 100))
    return made


@case
def value_behind_the_end(scene: Scene) -> Path:
    """A value behind the end of its file."""
    return database(scene, block(NODE, node(0, ["d/a"], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", offset=BIG, size=16)])))


@case
def value_of_no_file(scene: Scene) -> Path:
    """A value in file 9 of 1."""
    return database(scene, block(NODE, node(0, ["d/a"], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", size=16, file=9)])))


@case
def root_behind_the_end(scene: Scene) -> Path:
    """A root at 2^62."""
    return database(scene, block(NODE, node(0, [], [Key(b"w", b"x")])), offset=BIG)


@case
def root_of_nothing(scene: Scene) -> Path:
    """A root of 0 bytes."""
    return database(scene, b"", size=0)


@case
def keys_without_end(scene: Scene) -> Path:
    """2^40 keys in a node of one."""
    return database(scene, block(NODE, node(0, [], [Key(b"w", b"x")], count=1 << 40)))


@case
def key_that_shares_too_much(scene: Scene) -> Path:
    """A key that has more in common with the one before than that has."""
    return database(scene, block(NODE, node(0, [], [Key(b"a", b"x"), Key(b"b", b"x", shared=99)])))


@case
def keys_that_descend(scene: Scene) -> Path:
    """Keys that are not in order."""
    return database(scene, block(NODE, node(0, [], [Key(b"b", b"x"), Key(b"a", b"x")])))


@case
def versions_without_end(scene: Scene) -> Path:
    """2^40 versions."""
    return database(scene, b"x", versions=1 << 40)


@case
def manifest_of_a_manifest(scene: Scene) -> Path:
    """A manifest of a version that says that it is in other files, too."""
    made = database(scene, b"x", kind=1)
    (made / "manifest.0000000000000001").write_bytes((made / "manifest.ocdbt").read_bytes())
    return made


@case
def block_of_another_length(scene: Scene) -> Path:
    """A manifest that says 2^62 bytes."""
    made = database(scene, b"x")
    (made / "manifest.ocdbt").write_bytes(block(MANIFEST, manifest(0, "d/a", 0, 1), length=BIG))
    return made


@case
def zstd_that_is_none(scene: Scene) -> Path:
    """A node that is compressed by nothing."""
    return database(scene, block(NODE, b"\xff" * 40, packed=True))


def zstd(raw: bytes, byte: bytes, times: int) -> bytes:
    """A frame of some bytes as they are, and of 128 KiB of one byte so many times."""
    blocks = struct.pack("<I", len(raw) << 3)[:3] + raw
    for i in range(times):
        blocks += struct.pack("<I", 131072 << 3 | 1 << 1 | (i == times - 1))[:3] + byte
    return b"\x28\xb5\x2f\xfd\x00\x58" + blocks


@case
def zstd_bomb(scene: Scene) -> Path:
    """A node of 4 KiB that becomes 128 MiB of one byte."""
    return database(scene, block(NODE, zstd(b"", b"\x01", 1024), packed=True))


@case
def zstd_of_large_values(scene: Scene) -> Path:
    """A node of 600 bytes that has 15 values of 1 MiB."""
    body = node(0, [], [Key(b"%02d" % i, b"x" * (1 << 20)) for i in range(15)])
    begun = len(body) - 15 * (1 << 20)
    return database(scene, block(NODE, zstd(body[:begun], b"x", 120), packed=True))


# ---- arrays ---------------------------------------------------------------------------------------


@case
def chunks_of_0(scene: Scene) -> Path:
    """Chunks of no element, by which the shape would be divided."""
    return array(scene, chunks=[0])


@case
def shape_of_2_to_63(scene: Scene) -> Path:
    """2^63 elements."""
    return array(scene, shape=[1 << 63])


@case
def shape_that_overflows(scene: Scene) -> Path:
    """2^32 times 2^32 elements."""
    return array(scene, shape=[1 << 32] * 2, chunks=[1 << 32] * 2)


@case
def chunks_without_end(scene: Scene) -> Path:
    """2^61 chunks of one element, none of which is there."""
    return array(scene, shape=[1 << 60], chunks=[1])


@case
def negative_shape(scene: Scene) -> Path:
    """A negative dimension."""
    return array(scene, shape=[-4])


@case
def fraction_of_a_shape(scene: Scene) -> Path:
    """A dimension of 1e300."""
    return array(scene, shape=[1e300])


@case
def chunk_of_another_size(scene: Scene) -> Path:
    """A chunk of 8 bytes in place of 16."""
    return files(scene, bytes(8))


@case
def chunk_that_is_larger(scene: Scene) -> Path:
    """16 bytes that are compressed from 64 MiB."""
    return files(scene, gzip.compress(bytes(1 << 26), mtime=0), compressor={"id": "gzip", "level": 9})


@case
def bomb_of_gzip(scene: Scene) -> Path:
    """A chunk of 64 MiB, compressed 1000:1: read through, and never kept."""
    n = 1 << 24
    return files(scene, gzip.compress(bytes(4 * n), mtime=0), shape=[n], chunks=[n],
                 compressor={"id": "gzip", "level": 9})


@case
def compressor_that_is_none(scene: Scene) -> Path:
    """A compressor that somebody might import: listed, and not read."""
    return files(scene, bytes(16), compressor={"id": "os.system", "level": "touch x"})


@case
def filter_that_is_a_pickle(scene: Scene) -> Path:
    """The filter pickle of numcodecs: listed, and not read."""
    return files(scene, b"cos\nsystem\n.", filters=[{"id": "pickle", "protocol": 5}])


@case
def type_that_is_an_object(scene: Scene) -> Path:
    """Elements that are objects: listed, and not read."""
    return files(scene, bytes(16), dtype="|O")


@case
def described_by_nesting(scene: Scene) -> Path:
    """A description that is lists, 10^6 deep."""
    scene.put("step/w/.zarray", b"[" * 1_000_000)
    return scene.directory / "step"


@case
def described_without_end(scene: Scene) -> Path:
    """A description of 64 MiB of spaces."""
    scene.put("step/w/.zarray", b" " * (1 << 26))
    return scene.directory / "step"


@case
def described_twice(scene: Scene) -> Path:
    """A description that has a shape twice."""
    scene.put("step/w/.zarray", zarray()[:-1] + b', "shape": [8]}')
    scene.put("step/w/0", bytes(16))
    return scene.directory / "step"


@case
def shard_whose_index_leads_out(scene: Scene) -> Path:
    """A chunk behind the end of its shard."""
    return zarr3(scene, [sharding(4)], shard([BIG, 16]))


@case
def shard_whose_index_overflows(scene: Scene) -> Path:
    """A chunk that ends before it begins."""
    return zarr3(scene, [sharding(4)], shard([(1 << 64) - 8, 16]))


@case
def shard_that_is_shorter(scene: Scene) -> Path:
    """A shard that is shorter than its index."""
    return zarr3(scene, [sharding(2)], b"x" * 10)


@case
def shard_of_many(scene: Scene) -> Path:
    """An index of 2^40 chunks."""
    return zarr3(scene, [sharding(1)], b"x" * 100, 1 << 40, 1 << 40)


@case
def shard_of_nothing(scene: Scene) -> Path:
    """Chunks of no element in a shard."""
    return zarr3(scene, [sharding(0)], shard([0, 16]))


@case
def shard_with_another_checksum(scene: Scene) -> Path:
    """An index whose checksum is another one's."""
    return zarr3(scene, [sharding(4)], shard([0, 16])[:-1] + b"\xff")


@case
def shards_in_shards(scene: Scene) -> Path:
    """Shards in shards, 100 deep."""
    codec = LITTLE
    for _ in range(100):
        codec = {"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4], "codecs": [codec],
            "index_codecs": [LITTLE, {"name": "crc32c"}], "index_location": "end"}}
    return zarr3(scene, [codec], shard([0, 16]))


@case
def order_that_is_none(scene: Scene) -> Path:
    """A transposition to a dimension that there is not."""
    return zarr3(scene, [{"name": "transpose", "configuration": {"order": [7]}}, LITTLE], bytes(16))


@case
def directories_without_end(scene: Scene) -> Path:
    """Directories, 100 deep."""
    scene.put("step/" + "d/" * 100 + ".zarray", zarray())
    scene.put("step/.zgroup", b'{"zarr_format": 2}')
    return scene.directory / "step"


@case
def link_to_the_directory_above(scene: Scene) -> Path:
    """A symbolic link to the directory that it is in: a circle."""
    made = files(scene, bytes(16))
    (made / "again").symlink_to("..")
    return made


@case
def tree_that_leads_out(scene: Scene) -> Path:
    """A tree whose keys are paths: they are escaped."""
    keys = {"('..', '..', 'x')": {
        "key_metadata": [{"key": key, "key_type": 2} for key in ("..", "..", "x")],
        "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False}}}
    scene.put("step/_METADATA", json.dumps({"tree_metadata": keys, "use_ocdbt": True}).encode())
    return database(scene, block(NODE, node(0, [], [
        Key(b"......x/.zarray", zarray()), Key(b"......x/0", bytes(16))])))


@case
def tree_of_code(scene: Scene) -> Path:
    """A name that Python would evaluate."""
    keys = {f"__import__('os').system('touch {scene.marker}')": {
        "key_metadata": [{"key": "w", "key_type": 2}],
        "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False}}}
    scene.put("step/_METADATA", json.dumps({"tree_metadata": keys, "use_ocdbt": True}).encode())
    return array(scene)


@case
def tree_of_what_is_not_there(scene: Scene) -> Path:
    """A tree that names an array that no database has."""
    keys = {"('v',)": {"key_metadata": [{"key": "v", "key_type": 2}],
                       "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False}}}
    scene.put("step/_METADATA", json.dumps({"tree_metadata": keys, "use_ocdbt": True}).encode())
    return array(scene)


# ---- what processes saved -------------------------------------------------------------------------


def process(scene: Scene, number: int, root: bytes) -> None:
    """The database of one process."""
    where = f"step/ocdbt.process_{number}"
    at = {"offset": 0, "size": len(root)}
    scene.put(f"{where}/manifest.ocdbt", block(MANIFEST, manifest(0, "d/a", **at)))
    scene.put(f"{where}/d/a", root)


def processes(scene: Scene, *roots: bytes) -> Path:
    """Databases that were not put together, of one array."""
    keys = {"('w',)": {"key_metadata": [{"key": "w", "key_type": 2}],
                       "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False}}}
    scene.put("step/_METADATA", json.dumps({"tree_metadata": keys, "use_ocdbt": True}).encode())
    for number, root in enumerate(roots):
        process(scene, number, root)
    return scene.directory / "step"


@case
def processes_that_describe_it_otherwise(scene: Scene) -> Path:
    """Two processes, of which each says another type."""
    return processes(scene, *(block(NODE, node(0, [], [
        Key(b"w/.zarray", zarray(dtype=dtype)), Key(b"w/0", bytes(16))])) for dtype in ("<f4", "<i4")))


@case
def processes_that_saved_other_values(scene: Scene) -> Path:
    """Two processes that saved the same chunk, with other bytes."""
    return processes(scene, *(block(NODE, node(0, [], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", byte * 16)])) for byte in (b"a", b"b")))


@case
def process_that_takes_from_another(scene: Scene) -> Path:
    """A process whose chunk is in the file of another one."""
    return processes(scene, block(NODE, node(0, ["../ocdbt.process_1/d/a"], [
        Key(b"w/.zarray", zarray()), Key(b"w/0", size=16)])), b"x")


@case
def process_that_is_a_link_to_another(scene: Scene) -> Path:
    """A thousand processes, all of them links to one."""
    made = processes(scene, block(NODE, node(0, [], [
        Key(b"w/.zarray", zarray(shape=[8])), Key(b"w/0", bytes(16))])))
    for number in range(1, 1000):
        (made / f"ocdbt.process_{number}").symlink_to("ocdbt.process_0")
    return made


@case
def processes_of_large_values(scene: Scene) -> Path:
    """Forty processes, each with a node of 600 bytes that has 15 values of 1 MiB."""
    roots = []
    for number in range(40):
        body = node(0, [], [Key(b"%02d%02d" % (number, i), b"x" * (1 << 20)) for i in range(15)])
        begun = len(body) - 15 * (1 << 20)
        roots.append(block(NODE, zstd(body[:begun], b"x", 120), packed=True))
    return processes(scene, *roots)
