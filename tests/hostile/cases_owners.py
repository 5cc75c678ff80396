# SPDX-License-Identifier: Apache-2.0
"""Records of owners that nobody wrote, or that somebody forged."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from case import Scene, add, case, owner_record

FIRST = "owner-00000001"


def owner(name: str, purpose: str, content: bytes, file: str = FIRST) -> None:
    add(name, purpose, lambda scene: (scene.run / file).write_bytes(content), waits=True)


owner("own_garbage", "a record of garbage", b"\xff" * 1000)
owner("own_empty", "a record without a byte", b"")
owner("own_huge", "a record of ten megabytes of spaces", b" " * (10 << 20))
owner("own_deep", "a record nested deeply", b"[" * 60000)
owner("own_max_gen", "a generation of 18 digits", owner_record(), "owner-999999999999999999")
owner("own_max_gen2", "a generation of 19 digits", owner_record(), "owner-9999999999999999999")
owner("own_pad", "a generation with more zeros than there may be", owner_record(),
      "owner-000000000000000001")
owner("own_lease_huge", "a lease without end", owner_record(lease_s=1e308))
owner("own_lease_neg", "a negative lease", owner_record(lease_s=-1))
owner("own_lease_tiny", "a lease of no time", owner_record(lease_s=1e-300))
owner("own_pid_neg", "a negative process", owner_record(pid=-1))
owner("own_pid_big", "a process that no system has", owner_record(pid=2**62))
owner("own_esc", "a host and an attempt that a terminal acts on",
      owner_record(host="\x1b[2J\u202e\n", attempt="\x1b[31m", lease_s=1e5))
owner("own_long", "a host of sixty thousand characters", owner_record(host="h" * 60000))
owner("own_counter", "a counter that wraps", owner_record(counter="9" * 20))
owner("own_ticks", "a process that began before time, with a fraction of a number",
      owner_record(start_ticks=-5, pid=1.5))


@case("an owner's record that is a directory", waits=True)
def own_dir(scene: Scene) -> None:
    (scene.run / FIRST).unlink(missing_ok=True)
    (scene.run / FIRST).mkdir()


@case("an owner's record that is a FIFO", waits=True)
def own_fifo(scene: Scene) -> None:
    (scene.run / FIRST).unlink(missing_ok=True)
    os.mkfifo(scene.run / FIRST)


@case("an owner's record that is a symbolic link to a file elsewhere", waits=True)
def own_symlink(scene: Scene) -> None:
    (scene.run / FIRST).unlink(missing_ok=True)
    (scene.run / FIRST).symlink_to(scene.victim("owner", owner_record().decode()))


@case("an owner's record of a time before all clocks", waits=True)
def own_mtime(scene: Scene) -> None:
    (scene.run / FIRST).write_bytes(owner_record())
    os.utime(scene.run / FIRST, ns=(2**62, -(2**62)))


@case("an owner that says to be this system's first process", waits=True)
def own_self_init(scene: Scene) -> None:
    ticks = Path("/proc/1/stat").read_text().rsplit(")", 1)[1].split()[19]
    (scene.run / FIRST).write_bytes(owner_record(
        host=socket.gethostname(), pid=1, start_ticks=int(ticks),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        pid_namespace=os.readlink("/proc/self/ns/pid")))
