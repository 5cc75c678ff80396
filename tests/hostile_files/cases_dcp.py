# SPDX-License-Identifier: Apache-2.0
"""Directories of torch.distributed.checkpoint whose .metadata lies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from case import Scene, case
from made_pickle import (DCP, Number, call, dict_of, index, info, made_of, metadata, number,
                         pickle, size, storage, tensor, tensor_metadata, text, torch_file)

DATA = "__0_0.distcp"


def chunk_of(elements: int) -> bytes:
    return torch_file(tensor(storage("0", elements), [elements], [1]), {"0": bytes(4 * elements)})


CHUNK = chunk_of(2)
ALL = len(CHUNK)


def put(scene: Scene, chunks: Sequence[tuple[Sequence[Number], str, Number, Number]],
        shape: Sequence[Number] = (4,), data: bytes = CHUNK * 2) -> Path:
    """A tensor `w` of chunks: offset, file, and where in it."""
    storages = [(index("w", offset), info(path, at, n)) for offset, path, at, n in chunks]
    scene.put(f"step/{DATA}", data)
    scene.put("step/.metadata", metadata({"w": tensor_metadata(shape)}, storages))
    return scene.directory / "step"


def whole(path: str) -> list[tuple[Sequence[Number], str, Number, Number]]:
    return [((0,), path, 0, ALL), ((2,), path, ALL, ALL)]


@case
def file_above(scene: Scene) -> Path:
    """A file of the directory above."""
    scene.put("__0_0.distcp", CHUNK * 2)
    return put(scene, whole("../__0_0.distcp"))


@case
def file_with_an_absolute_path(scene: Scene) -> Path:
    """/etc/passwd for a file of tensors."""
    return put(scene, whole("/etc/passwd"))


@case
def file_with_a_nul(scene: Scene) -> Path:
    """A name that C would end before Python does."""
    return put(scene, whole("__0_0.distcp\0x"))


@case
def file_that_is_the_metadata(scene: Scene) -> Path:
    """.metadata for a file of tensors."""
    return put(scene, whole(".metadata"))


@case
def file_that_is_missing(scene: Scene) -> Path:
    """A file that is not there."""
    return put(scene, whole("__1_0.distcp"))


@case
def file_that_is_a_link_out(scene: Scene) -> Path:
    """A symbolic link to a file outside, which is no checkpoint."""
    made = put(scene, whole("__9_0.distcp"))
    (made / "__9_0.distcp").symlink_to(scene.put("outside", b"root:x:0:0\n" * 100))
    return made


@case
def chunks_that_overlap(scene: Scene) -> Path:
    """Two chunks of the same elements."""
    return put(scene, [((0,), DATA, 0, ALL), ((1,), DATA, ALL, ALL)], (3,))


@case
def chunks_with_a_hole(scene: Scene) -> Path:
    """Elements that no chunk has."""
    return put(scene, [((0,), DATA, 0, ALL), ((4,), DATA, ALL, ALL)], (6,))


@case
def chunk_outside_of_the_tensor(scene: Scene) -> Path:
    """A chunk behind the last element."""
    return put(scene, [((0,), DATA, 0, ALL), ((1 << 62,), DATA, ALL, ALL)])


@case
def chunk_at_a_negative_place(scene: Scene) -> Path:
    """A chunk before the first element."""
    return put(scene, [((0,), DATA, 0, ALL), ((-2,), DATA, ALL, ALL)])


@case
def length_beyond_the_end(scene: Scene) -> Path:
    """A chunk of 2^62 bytes."""
    return put(scene, [((0,), DATA, 0, 1 << 62), ((2,), DATA, ALL, ALL)])


@case
def offset_beyond_the_end(scene: Scene) -> Path:
    """A chunk that begins at 2^63 - 1."""
    return put(scene, [((0,), DATA, (1 << 63) - 1, ALL), ((2,), DATA, ALL, ALL)])


@case
def negative_length(scene: Scene) -> Path:
    """A chunk of -1 bytes."""
    return put(scene, [((0,), DATA, 0, -1), ((2,), DATA, ALL, ALL)])


@case
def length_of_a_part(scene: Scene) -> Path:
    """A chunk that ends within its zip."""
    return put(scene, [((0,), DATA, 0, ALL - 1), ((2,), DATA, ALL, ALL)])


@case
def chunk_of_another_size(scene: Scene) -> Path:
    """A chunk that has more elements than its place."""
    return put(scene, [((0,), DATA, 0, ALL), ((2,), DATA, ALL, len(chunk_of(3)))], (4,),
               CHUNK + chunk_of(3))


@case
def chunk_that_is_code(scene: Scene) -> Path:
    """A chunk whose pickle calls os.system."""
    code = torch_file(call("os", "system", text(f"touch {scene.marker}")))
    return put(scene, [((0,), DATA, 0, len(code))], (4,), code)


@case
def metadata_that_is_code(scene: Scene) -> Path:
    """.metadata that calls os.system."""
    scene.put("step/.metadata", pickle(call("os", "system", text(f"touch {scene.marker}"))))
    return scene.directory / "step"


@case
def metadata_that_is_something_else(scene: Scene) -> Path:
    """.metadata that is a number."""
    scene.put("step/.metadata", pickle(number(1)))
    return scene.directory / "step"


@case
def size_that_overflows(scene: Scene) -> Path:
    """A tensor of 2^32 times 2^32 elements."""
    return put(scene, [((0, 0), DATA, 0, ALL)], (1 << 32, 1 << 32))


@case
def chunks_that_share_a_large_object(scene: Scene) -> Path:
    """200,000 chunks with one index and one place, each a dict of 200,000 other keys first."""
    junk = {f"{i}": b"N" for i in range(200_000)}
    first = made_of(DCP, "MetadataIndex",
                    dict_of(junk | {"fqn": text("w"), "offset": size((0,))})) + b"r\0\0\0\0"
    place = made_of(DCP, "_StorageInfo",
                    dict_of(junk | {"relative_path": text(DATA), "offset": number(0),
                                    "length": number(ALL)})) + b"r\1\0\0\0"
    storages = [(first, place)] + [(b"h\0", b"h\1")] * 200_000
    scene.put(f"step/{DATA}", CHUNK)
    scene.put("step/.metadata", metadata({"w": tensor_metadata((4,))}, storages))
    return scene.directory / "step"


@case
def items_of_the_same_bytes(scene: Scene) -> Path:
    """20,000 names of one chunk, whose zip would be opened for each."""
    names = [f"w{i}" for i in range(20_000)]
    scene.put(f"step/{DATA}", CHUNK)
    scene.put("step/.metadata", metadata(
        {name: tensor_metadata((2,)) for name in names},
        [(index(name), info(DATA, 0, ALL)) for name in names]))
    return scene.directory / "step"


@case
def items_that_overlap(scene: Scene) -> Path:
    """A chunk that begins in another one."""
    return put(scene, [((0,), DATA, 0, 2 * ALL), ((2,), DATA, ALL, ALL)])
