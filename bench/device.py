# SPDX-License-Identifier: Apache-2.0
"""What the disk gives, by fio: direct, in several ways, the best of which is the device's line."""

import dataclasses
import json
import os
import statistics
import subprocess

import harness

KIB = 1 << 10


@dataclasses.dataclass(frozen=True)
class Way:
    """How fio moves the bytes of a file: by how many jobs, each with a stretch of its own."""

    engine: str
    jobs: int
    request: int       # bytes
    depth: int         # requests in flight, of each job
    fixed: bool = False  # buffers and file registered with the ring

    def __str__(self):
        jobs = f"{self.jobs} job{'s' if self.jobs > 1 else ''}"
        requests = f"{self.request // harness.MIB} MiB × {self.depth}"
        return f"{self.engine}, {jobs}, {requests}{', registered' if self.fixed else ''}"


WAYS = (
    Way("io_uring", 1, 4 << 20, 8), Way("io_uring", 1, 1 << 20, 32, True),
    Way("io_uring", 1, 4 << 20, 16, True), Way("io_uring", 2, 4 << 20, 4, True),
    Way("io_uring", 2, 4 << 20, 8, True), Way("io_uring", 4, 1 << 20, 8, True),
    Way("io_uring", 4, 4 << 20, 4, True), Way("libaio", 1, 4 << 20, 8),
    Way("psync", 2, 4 << 20, 1), Way("psync", 4, 4 << 20, 1), Way("psync", 8, 4 << 20, 1),
)
# Buffers on huge pages, as pawl's are: one piece of memory for the disk, not a thousand.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
HUGE_PAGE = 2 * harness.MIB


class Fio:
    def __init__(self, directory):
        self._file = directory / "fio.bin"
        # The best two for each, from `choose`.
        self.ways = {"write": WAYS[:2], "read": WAYS[:2]}

    def _run(self, path, what, size, way):
        """Seconds to move `size` bytes, by the slowest job. All jobs move whole requests alike; what
        that leaves out is counted as if it went at the same speed."""
        request = min(way.request, size // way.jobs // (4 * KIB) * (4 * KIB))
        each = size // way.jobs // request * request
        command = ["fio", "--name=device", f"--filename={path}", f"--rw={what}", "--direct=1",
                   f"--ioengine={way.engine}", f"--bs={request}", f"--iodepth={way.depth}",
                   f"--numjobs={way.jobs}", "--thread", f"--size={each}", f"--offset_increment={each}",
                   f"--iomem_align={HUGE_PAGE}", "--fallocate=none", "--output-format=json"]
        command += ["--end_fsync=1"] if what == "write" else ["--readonly"]
        command += ["--fixedbufs", "--registerfiles"] if way.fixed else []
        found = subprocess.run(command, capture_output=True, text=True, check=False,
                               env={**os.environ, **HUGE_PAGES})
        if found.returncode != 0:
            raise harness.Failed("fio: " + (found.stderr or found.stdout).strip()[-300:])
        sides = [job[what] for job in json.loads(found.stdout[found.stdout.index("{"):])["jobs"]]
        moved = sum(side["io_bytes"] for side in sides)
        if moved != each * way.jobs:
            raise harness.Failed(f"fio moved {moved} bytes instead of {each * way.jobs}")
        return max(1, *(side["runtime"] for side in sides)) / 1e3 * size / moved

    def _write_new(self, size, way):
        with open(self._file, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            os.fsync(file.fileno())
        return self._run(self._file, "write", size, way)

    def write_s(self, size, way):
        """Into a new file, its room reserved, and synced."""
        try:
            return self._write_new(size, way)
        finally:
            self._file.unlink(missing_ok=True)

    def read_s(self, path, way):
        return self._run(path, "read", path.stat().st_size, way)

    def _try_way(self, way, size, pause_s, seconds):
        try:
            harness.settle(pause_s)
            seconds["write", way].append(self._write_new(size, way))
            harness.settle(pause_s)
            seconds["read", way].append(self.read_s(self._file, way))
        finally:
            self._file.unlink(missing_ok=True)

    def choose(self, size, count, pause_s):
        """Measures every way `count` times, and keeps the best two for writing and for reading.
        Returns [(what, way, GB/s)] of all of them, and a line for each way that does not work."""
        seconds = {(what, way): [] for what in ("write", "read") for way in WAYS}
        failed = {}
        for _, ways in harness.rounds(count, WAYS):
            for way in ways:
                if way in failed:
                    continue
                try:
                    self._try_way(way, size, pause_s, seconds)
                except harness.Failed as why:
                    failed[way] = f"{way}: {why}"
        tried = [(what, way, size / statistics.median(found) / 1e9)
                 for (what, way), found in seconds.items() if way not in failed]
        if len(failed) == len(WAYS):
            raise harness.Failed(failed[WAYS[0]])
        for what in self.ways:
            of_it = sorted((t for t in tried if t[0] == what), key=lambda t: t[2], reverse=True)
            self.ways[what] = tuple(way for _, way, _ in of_it[:2])
        return tried, list(failed.values())


def fio_is_there():
    try:
        return subprocess.run(["fio", "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
