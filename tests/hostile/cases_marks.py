# SPDX-License-Identifier: Apache-2.0
"""Marks of readers: many, of garbage, and no files."""

from __future__ import annotations

import os

from case import Scene, add, case, owner_record

GARBAGE = (b"\xff" * 70000, b"[" * 60000, owner_record(), b'{"counter":5}',
           owner_record(host="\x1b[2J", pid=2**62, counter="\x1b"))


def empty_marks(scene: Scene, count: int) -> None:
    for i in range(scene.many(count)):
        (scene.directory / f"reader-{i:012x}").touch()


add("marks_20k", "twenty thousand marks without a byte", lambda scene: empty_marks(scene, 20000),
    cpu_s=4, mib=32)
add("marks_100k", "a hundred thousand marks without a byte",
    lambda scene: empty_marks(scene, 100000), cpu_s=20, mib=128)


@case("marks of garbage")
def marks_garbage(scene: Scene) -> None:
    for i, content in enumerate(GARBAGE):
        (scene.directory / f"reader-{i:012x}").write_bytes(content)


@case("marks that are a FIFO, a directory and a symbolic link to a file elsewhere")
def marks_fifo(scene: Scene) -> None:
    os.mkfifo(scene.directory / f"reader-{'a' * 12}")
    (scene.directory / f"reader-{'b' * 12}").mkdir()
    (scene.directory / f"reader-{'c' * 12}").symlink_to(scene.victim("reader"))


@case("a mark that is a second name of a file elsewhere")
def marks_hardlink(scene: Scene) -> None:
    victim = scene.victim("reader", owner_record().decode())
    os.link(victim, scene.directory / f"reader-{'d' * 12}")
