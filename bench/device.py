# SPDX-License-Identifier: Apache-2.0
"""What the disk gives, by fio: io_uring, direct, and a final fsync for writes."""

import json
import statistics
import subprocess

import harness

# (bytes a request, requests in flight)
DEPTHS = ((1 << 20, 16), (1 << 20, 32), (4 << 20, 4), (4 << 20, 8), (4 << 20, 16))


class Fio:
    def __init__(self, directory):
        self._file = directory / "fio.bin"
        self._engine = "io_uring"
        self.write_depth = self.read_depth = (4 << 20, 8)

    def _run(self, path, what, size, depth):
        """Seconds for `size` bytes. For a write: into a new file, its room reserved, and synced."""
        block, in_flight = depth
        command = ["fio", "--name=device", f"--filename={path}", f"--rw={what}", "--direct=1",
                   f"--ioengine={self._engine}", f"--bs={block}", f"--iodepth={in_flight}",
                   f"--size={size}", "--output-format=json"]
        command += ["--end_fsync=1"] if what == "write" else ["--readonly"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise harness.Failed("fio: " + (found.stderr or found.stdout).strip()[-300:])
        job = json.loads(found.stdout[found.stdout.index("{"):])["jobs"][0]
        side = job[what]
        if side["io_bytes"] != size:
            raise harness.Failed(f"fio moved {side['io_bytes']} bytes instead of {size}")
        return max(side["runtime"], 1) / 1e3

    def write_s(self, size, depth=None):
        depth = depth or self.write_depth
        whole = size // depth[0] * depth[0]
        try:
            return self._run(self._file, "write", whole, depth) * size / whole
        finally:
            self._file.unlink(missing_ok=True)

    def read_s(self, path, depth=None):
        """Reads a file from its start, in whole requests of the largest size."""
        size = path.stat().st_size // (4 << 20) * (4 << 20)
        seconds = self._run(path, "read", size, depth or self.read_depth)
        return seconds * path.stat().st_size / size

    def choose_engine(self):
        """io_uring, or libaio where that does not work; then returns why."""
        try:
            self.write_s(self.write_depth[0])
        except harness.Failed as why:
            self._engine = "libaio"
            return str(why)
        return None

    def choose(self, size, count, pause_s):
        """The depths with the best medians. Returns [(what, depth, GB/s)] of all of them."""
        tried = []
        seconds = {(what, depth): [] for what in ("write", "read") for depth in DEPTHS}
        for _, depths in harness.rounds(count, DEPTHS):
            for depth in depths:
                harness.settle(pause_s)
                seconds["write", depth].append(self._run(self._file, "write", size, depth))
                harness.settle(pause_s)
                seconds["read", depth].append(self._run(self._file, "read", size, depth))
                self._file.unlink()
        for (what, depth), found in seconds.items():
            tried.append((what, depth, size / statistics.median(found) / 1e9))
        for what in ("write", "read"):
            best = max((t for t in tried if t[0] == what), key=lambda t: t[2])
            setattr(self, what + "_depth", best[1])
        return tried


def fio_is_there():
    try:
        return subprocess.run(["fio", "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
