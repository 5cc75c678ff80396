# SPDX-License-Identifier: Apache-2.0
"""Names in a run's directory that pawl would not have made, and other things under names that it makes."""

from __future__ import annotations

import os
import shutil

from case import STRANGER, Scene, case

STRANGE_STEPS = ("step-99999999999999999999", "step-9223372036854775807", "step-9223372036854775808",
                 "step-00000000", "step-000000031", "step-1", "step-", "step--0000001",
                 "step-00000031x", "step-00000031\n", "step-\x1b[2J", "step-0000003\uff11")
LEFT_DATA = f"data-{STRANGER}-9-00000-of-00001.safetensors"


@case("directories named nearly like steps, each with a manifest")
def step_names(scene: Scene) -> None:
    for name in STRANGE_STEPS:
        (scene.run / name).mkdir()
        shutil.copy(scene.manifest, scene.run / name)


@case("a step's directory under another step's name")
def step_copy_renamed(scene: Scene) -> None:
    shutil.copytree(scene.directory, scene.run / "step-00000099")


@case("a step that is a file")
def step_is_file(scene: Scene) -> None:
    (scene.run / "step-00000099").write_text("x")


@case("a step that is a symbolic link to a directory elsewhere")
def step_is_symlink(scene: Scene) -> None:
    shutil.copytree(scene.directory, scene.victims / "step")
    (scene.run / "step-00000099").symlink_to(scene.victims / "step")


@case("a step that is a FIFO")
def step_is_fifo(scene: Scene) -> None:
    os.mkfifo(scene.run / "step-00000099")


@case("sixty thousand empty steps", cpu_s=20, mib=64)
def step_many(scene: Scene) -> None:
    for i in range(scene.many(60000)):
        (scene.run / f"step-{i + 100:08d}").mkdir()


@case("two thousand files in a step whose names clear a terminal and break lines")
def step_unreadable_names(scene: Scene) -> None:
    for i in range(2000):
        (scene.directory / f"\x1b[2J\n{i}").touch()


@case("a `latest` that leads elsewhere and is long")
def latest_lies(scene: Scene) -> None:
    (scene.run / "latest").write_text("../../../etc/passwd\n\x1b[2J" + "A" * 1000000)


@case("a `latest` that is a FIFO")
def latest_fifo(scene: Scene) -> None:
    (scene.run / "latest").unlink()
    os.mkfifo(scene.run / "latest")


@case("a directory where `latest` is published")
def latest_tmp_dir(scene: Scene) -> None:
    (scene.run / "latest.tmp").mkdir()


@case("a `latest` that is a symbolic link to a file elsewhere")
def latest_symlink(scene: Scene) -> None:
    (scene.run / "latest").unlink()
    (scene.run / "latest").symlink_to(scene.victim("latest"))


@case("outcomes, structures, meetings, votes and temporary files of garbage, links and FIFOs")
def root_garbage(scene: Scene) -> None:
    for name in (f"outcome-{scene.step().manifest['attempt']}-1", f"outcome-{STRANGER}-1",
                 f"outcome-{STRANGER}-18446744073709551616", f"structure-{STRANGER}-0a0b0c0d-128",
                 f"structure-{STRANGER}-0a0b0c0d-99999999999999999999999",
                 "meet-00000000abcd-1-r00001", f"meet-{STRANGER}-1-answer",
                 f"meet-{STRANGER}-1-r99999999", f"visit-{STRANGER}-1-answer"):
        (scene.run / name).write_bytes(b"\xff" * 100000)
    other = "b" * 12
    (scene.run / f"outcome-{other}-2").mkdir()
    (scene.run / f"outcome-{other}-3").symlink_to(scene.victim("outcome"))
    os.mkfifo(scene.run / f"structure-{other}-0a0b0c0d-1")
    for name in (f"vote-{STRANGER}-9-r00003", f"index-{STRANGER}-9",
                 f"manifest.json.{STRANGER}-9.tmp"):
        (scene.directory / name).write_bytes(b"\xff" * 1000)


@case("garbage that is a second name of a file elsewhere")
def gc_hardlinks(scene: Scene) -> None:
    os.link(scene.victim("gc"), scene.directory / LEFT_DATA)


@case("garbage that is a symbolic link to a file elsewhere")
def gc_symlink_file(scene: Scene) -> None:
    victim = scene.victim("gc")
    (scene.directory / LEFT_DATA).symlink_to(victim)
    (scene.run / f"outcome-{'b' * 12}-3").symlink_to(victim)


@case("garbage that is a directory with something in it")
def gc_dir_as_file(scene: Scene) -> None:
    (scene.directory / LEFT_DATA).mkdir()
    (scene.directory / LEFT_DATA / "x").write_text("x")


@case("times of files that begin before 1970 by more than a century")
def mtimes(scene: Scene) -> None:
    for directory, names, files in os.walk(scene.run):
        for name in names + files:
            os.utime(os.path.join(directory, name), ns=(0, -(2**62)))
