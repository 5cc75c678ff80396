# SPDX-License-Identifier: Apache-2.0
"""What many ranks cost beyond writing their data: each one's vote, the merged index, the manifest, and
opening the result. The ranks are simulated one after the other; rank 0 is a process of its own, so that
its memory can be measured."""

import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import harness

RANKS = (8, 64, 512, 1024, 2048, 4096)
ENTRIES = 1000
ON_DISK = (1000, 1000)  # ranks, entries of each: a million in all
BAR_S = 5.0
SHAPES = {"own": "each rank its own entries", "shared": "each rank a part of every entry"}
MEMORY = pathlib.Path("/dev/shm")
HEAD = ("vote ms", "vote KiB", "heads s", "merge s", "publish s", "commit s", "CPU s", "×", "index MiB",
        "memory MiB", "open ms", "find ms")


def _ask(bench, *words):
    done = subprocess.run([bench.scale, *map(str, words)], capture_output=True, text=True, timeout=600,
                          check=False)
    if done.returncode != 0:
        raise harness.Failed(done.stderr.strip() or f"{bench.scale} ended with {done.returncode}")
    return json.loads(done.stdout)


def _one(bench, parent, ranks, entries, shape):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-ranks-", dir=parent))
    try:
        made = _ask(bench, ranks, entries, shape, directory, "make")
        return {**made, **_ask(bench, ranks, entries, shape, directory, "commit")}
    finally:
        shutil.rmtree(directory)


def _row(title, found, before):
    def median(key):
        return statistics.median(one[key] for one in found)
    growth = "" if before is None else f"{median('cpu_s') / before:.2f}"
    return [title, f"{median('vote_s') * 1e3:.2f}", f"{median('vote_bytes') / 1024:.1f}",
            f"{median('heads_s'):.3f}", f"{median('merge_s'):.3f}", f"{median('publish_s'):.3f}",
            f"{median('commit_s'):.3f}", f"{median('cpu_s'):.3f}", growth,
            f"{median('index_bytes') / harness.MIB:.1f}", f"{median('peak_kib') / 1024:.0f}",
            f"{median('open_s') * 1e3:.1f}", f"{median('find_s') * 1e3:.2f}"]


def _many(bench, parent, shape):
    """The rows of one shape; figures of the largest job."""
    rows = []
    before = None
    for ranks in RANKS:
        bench.say(f"{ranks} ranks, {SHAPES[shape]}")
        found = [_one(bench, parent, ranks, ENTRIES, shape) for _ in range(bench.rounds(3))]
        rows.append(_row(f"{ranks} ranks, {SHAPES[shape]}", found, before if ranks > 512 else None))
        before = statistics.median(one["cpu_s"] for one in found)
    bench.report.figure(
        f"{BAR_S:g} s ÷ commit of {RANKS[-1]} ranks, {SHAPES[shape]}",
        [BAR_S / one["commit_s"] for one in found], 1.0,
        f"{statistics.median(one['commit_s'] for one in found):.2f} s, beyond the data")
    return rows


def measure(bench):
    in_memory = MEMORY if MEMORY.is_dir() else bench.data
    rows = [row for shape in SHAPES for row in _many(bench, in_memory, shape)]
    for shape in SHAPES:
        bench.say(f"a million entries on disk, {SHAPES[shape]}")
        found = [_one(bench, bench.data, *ON_DISK, shape) for _ in range(bench.rounds(3))]
        rows.append(_row(f"{ON_DISK[0]} ranks on disk, {SHAPES[shape]}", found, None))
    bench.report.table(
        f"many ranks, {ENTRIES} entries each, votes in {in_memory}: medians; ×: growth of the CPU time "
        "over half as many ranks", ["", *HEAD], rows)
