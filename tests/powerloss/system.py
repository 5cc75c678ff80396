# SPDX-License-Identifier: Apache-2.0
"""Programs, mounts and filesystems, each with a deadline; what was mounted is unmounted."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import select
import shutil
import subprocess
import time

COMMAND_S = 60
UNMOUNT_S = 20
MIB = 1 << 20
# When its first process ends, however, all others do, and with them what they mounted.
OWN_NAMESPACE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
                 "--mount-proc")


class RigError(Exception):
    """The rig itself could not do what it had to."""


def output_of(*command, timeout: float = COMMAND_S) -> tuple[int, str]:
    """Exit code, and everything that it printed. One that does not end is killed, and is an error."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=timeout)
    except subprocess.TimeoutExpired as expired:
        raise RigError(f"{' '.join(words)}: did not end within {timeout} s") from expired
    return done.returncode, done.stdout


def must(*command) -> str:
    code, output = output_of(*command)
    if code != 0:
        raise RigError(f"{' '.join(map(str, command))}: exit code {code}\n{output}")
    return output


@dataclasses.dataclass(frozen=True)
class Filesystem:
    """One way of making and mounting a filesystem."""

    type: str
    size_mib: int  # the least that its mkfs takes, about
    mkfs: tuple[str, ...]
    mount: str        # options while trainers work
    mount_crashed: str  # and afterwards

    def make(self, image: pathlib.Path) -> None:
        with image.open("wb") as file:
            file.truncate(self.size_mib * MIB)
        must(*self.mkfs, image)


_EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")
_XFS = ("mkfs.xfs", "-q", "-f", "-K")
_BTRFS = ("mkfs.btrfs", "-q", "-f", "-K")
# The first of each is the plain one; the others promise less, or write in another order.
FILESYSTEMS = {
    "ext4": (Filesystem("ext4", 96, _EXT4, "noatime", "noatime"),
             Filesystem("ext4", 96, _EXT4, "data=writeback,noauto_da_alloc,commit=1",
                        "data=writeback,noauto_da_alloc")),
    "xfs": (Filesystem("xfs", 320, _XFS, "noatime", "nouuid"),
            Filesystem("xfs", 320, (*_XFS, "-i", "sparse=0"), "noatime,wsync", "nouuid")),
    "btrfs": (Filesystem("btrfs", 256, _BTRFS, "noatime", "noatime"),
              Filesystem("btrfs", 256, _BTRFS, "commit=1,compress-force=zstd", "noatime")),
}


# ---- mounts ----------------------------------------------------------------------------------


def unmount(point: pathlib.Path) -> None:
    """Also where something holds it for a moment; one that stays is detached, and is an error."""
    deadline = time.monotonic() + UNMOUNT_S
    while True:
        code, output = output_of("umount", point)
        if code == 0:
            return
        if time.monotonic() > deadline:
            output_of("umount", "-l", point)
            raise RigError(f"{point} could not be unmounted: {output}")
        time.sleep(0.05)


@contextlib.contextmanager
def mounted(filesystem: Filesystem, image: pathlib.Path, options: str, point: pathlib.Path):
    """The loop device goes with the mount, whoever ends it."""
    must("mount", "-t", filesystem.type, "-o", f"loop,{options}", image, point)
    try:
        yield point
    finally:
        unmount(point)
        if filesystem.type == "btrfs":  # remembers disks, and takes the next image for this one
            output_of("btrfs", "device", "scan", "--forget")


@contextlib.contextmanager
def memory(point: pathlib.Path, mib: int):
    """A filesystem in memory, of at most so much."""
    must("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", point)
    try:
        yield point
    finally:
        unmount(point)


@contextlib.contextmanager
def recording(program: pathlib.Path, image: pathlib.Path, point: pathlib.Path, log: pathlib.Path):
    """Serves the image as point/disk; the log is whole afterwards."""
    with subprocess.Popen([program, image, point, log], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as disk:
        assert disk.stdin is not None and disk.stdout is not None
        try:
            ready, _, _ = select.select([disk.stdout], [], [], COMMAND_S)
            if not ready or disk.stdout.readline() != "ready\n":
                raise RigError("the disk does not start")
            yield point
            disk.stdin.close()
            if disk.wait(timeout=COMMAND_S) != 0:
                raise RigError("the disk failed")
        finally:
            if disk.poll() is None:
                disk.kill()
                output_of("umount", "-l", point)


# ---- what is there ---------------------------------------------------------------------------


def missing() -> str | None:
    """Why no power can be cut here."""
    if os.geteuid() != 0:
        return "only root can mount filesystems"
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(device):
            return f"the system has no {device}"
    for command in ("mount", "umount", "unshare"):
        if shutil.which(command) is None:
            return f"the command {command} is not installed"
    code, output = output_of(*OWN_NAMESPACE, "true")
    return None if code == 0 else f"the system makes no namespaces: {output.strip()}"


def filesystem_missing(filesystem: Filesystem, scratch: pathlib.Path) -> str | None:
    """Why there can be no filesystem of this kind here."""
    if shutil.which(filesystem.mkfs[0]) is None:
        return f"{filesystem.mkfs[0]} is not installed"
    image, point = scratch / "probe.img", scratch / "probe"
    point.mkdir(exist_ok=True)
    try:
        filesystem.make(image)
        with mounted(filesystem, image, filesystem.mount, point):
            return None
    except RigError as error:
        return str(error).strip().splitlines()[-1]
    finally:
        image.unlink(missing_ok=True)
