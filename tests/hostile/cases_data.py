# SPDX-License-Identifier: Apache-2.0
"""Data files: what stands in their place, their length, and their headers, which a rebuild reads."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from case import EPOCH, RANDOM, SPLIT, Scene, add, case
from pawlformat import DataFile, Step, make_data_file, parse_data_file

KERNEL = "model/dense1/kernel"
BIAS = "model/dense1/bias"

# ---- in the place of a data file ------------------------------------------------------------------


def instead(name: str, purpose: str, make: Callable[[Scene, Path], Any]) -> None:
    """The first data file is moved to RUN/saved, and something else stands in its place."""

    def damage(scene: Scene) -> None:
        path = scene.step().data_path()
        path.rename(scene.run / "saved")
        make(scene, path)

    add(name, purpose, damage)


def put_socket(scene: Scene, path: Path) -> None:
    # The path of a socket is short: it is bound beside, by a name relative to the run.
    here = os.getcwd()
    os.chdir(scene.run)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind("socket")
        os.rename("socket", path)
    finally:
        os.chdir(here)


instead("data_fifo", "a data file that is a FIFO", lambda scene, path: os.mkfifo(path))
instead("data_zero_dev", "a data file that is a device without end",
        lambda scene, path: os.mknod(path, 0o20666, os.makedev(1, 5)))
instead("data_tty_dev", "a data file that is a terminal",
        lambda scene, path: os.mknod(path, 0o20666, os.makedev(5, 0)))
instead("data_symlink", "a data file that is a symbolic link to itself elsewhere",
        lambda scene, path: path.symlink_to("../saved"))
instead("data_symlink_loop", "a data file that is a symbolic link to itself",
        lambda scene, path: path.symlink_to(path.name))
instead("data_dir", "a data file that is a directory", lambda scene, path: path.mkdir())
instead("data_hardlink", "a data file that has a second name",
        lambda scene, path: os.link(scene.run / "saved", path))
instead("data_missing", "a data file that is not there", lambda scene, path: None)
instead("data_socket", "a data file that is a socket", put_socket)


def cut(name: str, purpose: str, size: Callable[[int], int]) -> None:
    """A data file of another length."""

    def damage(scene: Scene) -> None:
        path = scene.step().data_path()
        os.truncate(path, size(path.stat().st_size))

    add(name, purpose, damage)


cut("data_sparse_8e", "a data file that is 16 TB long, of holes", lambda size: (16 << 40) - 4096)
cut("data_empty", "a data file without a byte", lambda size: 0)
cut("data_cut", "a data file that lacks its last byte", lambda size: size - 1)

# ---- a bit that has changed -----------------------------------------------------------------------


def flip(name: str, purpose: str, at: Callable[[Step], tuple[int, int]]) -> None:
    """One bit of a data file, at its number and offset, is another one, and no checksum knows."""

    def damage(scene: Scene) -> None:
        step = scene.step()
        number, offset = at(step)
        data = bytearray(step.data_path(number).read_bytes())
        data[offset] ^= 1
        step.data_path(number).write_bytes(data)

    add(name, purpose, damage)


def inside(key: bytes, more: int = 0) -> Callable[[Step], tuple[int, int]]:
    """So many bytes behind the beginning of an entry's last piece."""

    def at(step: Step) -> tuple[int, int]:
        piece = step.record(key).pieces[-1]
        return piece.file, piece.offset + more

    return at


flip("data_bit_first", "the first byte of a tensor that is in one piece", inside(b"e" + KERNEL.encode()))
flip("data_bit_last", "the last byte of that tensor, blocks behind the first",
     inside(b"e" + KERNEL.encode(), 512 * 16 * 4 - 1))
flip("data_bit_box", "a byte of a box of a tensor in several files", inside(SPLIT))
flip("data_bit_value", "a byte of a number, of which the index has a copy", inside(EPOCH))
flip("data_bit_rank", "a byte of what each rank has of its own", inside(RANDOM))
flip("data_bit_header", "a byte of a data file's header, which only a rebuild reads",
     lambda step: (0, 9))

# ---- headers, where nothing but the data files is left ---------------------------------------------


def lose_index(scene: Scene) -> Path:
    """Takes manifest and index away; the first data file's path."""
    step = scene.step()
    path = step.data_path()
    scene.manifest.unlink()
    step.index_path.unlink()
    return path


def header(name: str, purpose: str, edit: Callable[[DataFile], Any]) -> None:
    """Another header, with its sum; only a rebuild can read the step."""

    def damage(scene: Scene) -> None:
        path = lose_index(scene)
        file = parse_data_file(path.read_bytes())
        edit(file)
        path.write_bytes(make_data_file(file))

    add(name, purpose, damage)


def about(name: str, purpose: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Something else that the file says of itself."""

    def change(file: DataFile) -> None:
        said = file.about()
        edit(said)
        file.say(said)

    header(name, purpose, change)


def of_kernel(name: str, purpose: str, /, **members: Any) -> None:
    """Something else that the file says of the kernel."""
    about(name, purpose, lambda said: said["entries"].__setitem__(KERNEL, members))


def renamed(name: str, purpose: str, to: str) -> None:
    """Another key of the bias."""

    def change(file: DataFile) -> None:
        file.header[to] = file.header.pop(BIAS)

    header(name, purpose, change)


header("sf_plain", "nothing but the index is lost", lambda file: None)
header("sf_n_huge", "nothing but the index is lost, once more with a sum of its own",
       lambda file: file.header["__metadata__"].update(more=""))
about("sf_step_other", "a data file of another step", lambda said: said.update(step=31))
about("sf_step_big", "a data file of step 2^63", lambda said: said.update(step=2**63))
about("sf_ws_big", "a data file of as many ranks as there may be",
      lambda said: said.update(world_size=100000))
about("sf_rank", "a data file of a rank that there is not", lambda said: said.update(rank=5))
about("sf_ver2", "a data file that describes itself in a newer version",
      lambda said: said.update(version=2))
of_kernel("sf_shape_big", "a piece of a tensor of an exabyte", shape=[2**60, 16], offset=[0, 0])
of_kernel("sf_shape_out", "a piece that sticks out", shape=[512, 16], offset=[1, 0])
of_kernel("sf_shape_part", "half a tensor, whose other half is nowhere", shape=[1024, 16],
          offset=[0, 0])
of_kernel("sf_off_only", "a place without a shape", offset=[2**63 - 1, 2**63 - 1])
of_kernel("sf_off_neg", "a negative place", shape=[512, 16], offset=[-1, 0])
of_kernel("sf_kind_wrong", "a tensor that says to be a number", kind="int64")
of_kernel("sf_slot_nothing", "a slot of a variable that there is not", role="slot",
          slot_of="model/nobody", slot="adam/m")
about("sf_unknown_entry", "a description of an entry that there is not",
      lambda said: said["entries"].__setitem__("nope", {"kind": "json"}))
about("sf_kind_json", "a number that says to be JSON",
      lambda said: said["entries"]["data/epoch"].update(kind="json"))
about("sf_entries_list", "descriptions that are a list", lambda said: said.update(entries=[1]))
header("sf_pawl_garbage", "a description that is no JSON", lambda file: file.say("[1,2"))
header("sf_pawl_deep", "a description nested a hundred thousand levels deep",
       lambda file: file.say('{"version":1,"x":' + "[" * 100000))
header("sf_no_meta", "a data file that says nothing of itself",
       lambda file: file.header.pop("__metadata__"))
renamed("sf_name_dotdot", "an entry whose name leads out of a directory", "../../../tmp/x")
renamed("sf_name_esc", "an entry whose name clears a terminal", "\x1b[2Jx")
renamed("sf_name_long", "an entry whose name is longer than names may be", "a" * 2000)

# ---- headers that are large, or lie of their size --------------------------------------------------


def lone(description: dict[str, Any]) -> str:
    """The metadata of the only file of a save."""
    said = {"version": 1, "step": 30, "rank": 0, "world_size": 1, "entries": {}}
    return json.dumps({"pawl": json.dumps({**said, **description}, separators=(",", ":"))})


def only_file(scene: Scene) -> Path:
    """Takes away all but the first data file, which is then the only one of its save."""
    step = scene.step()
    lose_index(scene)
    paths = [step.directory / f["name"] for f in step.manifest["files"]]
    for path in paths[1:]:
        path.unlink()
    alone = paths[0].with_name(paths[0].name.replace("-of-00004", "-of-00001"))
    paths[0].rename(alone)
    return alone


def write_header(path: Path, text: bytes, body: bytes = b"") -> int:
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return 8 + len(text)


@case("a header of 2^64 - 1 bytes")
def sf_len_2_64(scene: Scene) -> None:
    with scene.step().data_path().open("r+b") as file:
        file.write(b"\xff" * 8)
    scene.manifest.unlink()


@case("a header of nearly 100 MB with seven million pairs of metadata", cpu_s=8, mib=768)
def sf_100mb_10m_keys(scene: Scene) -> None:
    pairs = b",".join(b'"%x":"a"' % i for i in range(scene.many(7000000)))[:99000000]
    pairs = pairs[:pairs.rindex(b",")]
    write_header(only_file(scene), b'{"__metadata__":{' + pairs + b"}}")


@case("a header of nearly 100 MB with 1.4 million tensors of a byte", cpu_s=12, mib=1536)
def sf_100mb_tensors(scene: Scene) -> None:
    count = scene.many(1450000)
    tensors = b",".join(b'"%x":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}' % (i, i, i + 1)
                        for i in range(count))
    text = b'{"__metadata__":' + lone({}).encode() + b"," + tensors + b"}"
    write_header(only_file(scene), text, bytes(count))


@case("a header nested five million levels deep")
def sf_deep(scene: Scene) -> None:
    write_header(only_file(scene), b'{"a":' + b"[" * 5000000)


@case("a tensor of 16 TB in a file of holes", holes=True)
def sf_sparse_16t(scene: Scene) -> None:
    path = only_file(scene)
    size = (16 << 40) - 8192
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = '{"__metadata__":' + lone({}) + ',"w":' + json.dumps(tensor) + "}"
    os.truncate(path, write_header(path, text.encode()) + size)
