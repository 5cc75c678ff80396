# SPDX-License-Identifier: Apache-2.0
"""Cuts the power below real filesystems, and looks at what pawl finds there afterwards.

The disk is a file that a program of the rig serves to a loop device; it records every write and flush.
On it trainers save, save again, cancel, pin, remove, collect garbage and rebuild, in several runs at
once, beside another user of the disk; some end without closing, or are killed in the middle. Then the
disks are made that a power cut could have left: what was flushed, and of what was not a part. Each is
mounted, and everything that pawl had reported durable must be there, bit for bit, and nothing damaged;
on every second one the trainers go on.

Then the same with trainers whose syncs do nothing: there the rig must find what is lost, else it has
failed itself.

Everything is mounted in a namespace of its own, which ends with the rig, however that ends.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import images
import runs
import system

SKIPPED = 77
SABOTAGES = ("all", "directories", "files")
SABOTAGED_CUTS = 30  # at most: one that is noticed is enough
MEMORY_MIB = 2048  # a recording, a disk and two copies of it
MOST_SHOWN = 20
MOST_KEPT = 3
LETS_GO_S = 60  # from the first signal until everything is unmounted


@dataclasses.dataclass(frozen=True)
class Part:
    """One recording, and the power cuts that are tried on it."""

    name: str
    filesystem: system.Filesystem
    world: int
    seed: int
    rounds: int
    cuts: int
    sabotage: str  # whose syncs do nothing: SABOTAGES; "": nobody's

    def title(self) -> str:
        ranks = "one process" if self.world == 1 else f"{self.world} ranks"
        return f"{self.name}, {ranks}" + (f", no syncs of {self.sabotage}" if self.sabotage else "")


@dataclasses.dataclass
class Result:
    part: Part
    images: int = 0
    steps: int = 0
    resumed: int = 0
    jobs: int = 0
    killed: int = 0
    refused: int = 0  # what ranks were told had failed, though the disk was whole
    wrong: list[str] = dataclasses.field(default_factory=list)
    broken: str = ""  # why the rig could not do it


class Rig:
    def __init__(self, programs: runs.Programs, scratch: pathlib.Path, kept: pathlib.Path) -> None:
        self.programs = programs
        self.scratch = scratch
        self.kept = kept
        self.stop = threading.Event()
        self._print = threading.Lock()
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        with self._print:
            print(f"{time.monotonic() - self._began:5.0f} s  {text}", flush=True)

    def try_part(self, part: Part) -> Result:
        """A rig that cannot go on says why in its result."""
        result = Result(part)
        if self.stop.is_set():
            return result
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            with system.memory(folder, MEMORY_MIB) as work:
                self._try(part, work, result)
        except (system.RigError, OSError, subprocess.SubprocessError) as error:
            result.broken = f"{error.__context__ or ''} {error}".strip()
            self.say(f"{part.title()}: the rig failed: {result.broken}")
        return result

    def _try(self, part: Part, work: pathlib.Path, result: Result) -> None:
        for name in ("mnt", "blk", "crash"):
            (work / name).mkdir()
        dice = random.Random(part.seed)
        recorder = runs.Recorder(self.programs, work, dice, self.stop)
        log = recorder.record(part.filesystem, part.world, part.rounds, part.sabotage)
        result.jobs, result.killed = recorder.jobs, recorder.killed
        for note in recorder.refused:
            self.say(f"{part.title()}, seed {part.seed}: refused: {note.splitlines()[0]}")
        result.refused = len(recorder.refused)
        result.wrong += [f"{part.title()}, seed {part.seed}, while the disk was whole: {note}"
                         for note in recorder.notes]
        self.say(f"{part.title()}: recorded {log.mib} MiB, {len(log.flushes)} flushes, "
                 f"{len(log.promises)} promises of {recorder.jobs} jobs, {recorder.killed} killed")
        choose = images.promised if part.sabotage else images.choose
        judge = runs.Judge(log, self.programs, part.world)
        disk = images.Disk(log, work / "base.img")
        for number, crash in enumerate(choose(log, part.cuts, dice)):
            if self.stop.is_set() or (result.wrong and part.sabotage):
                return  # one is enough to see that the rig sees it
            self._cut(part, crash, number, disk, judge, work, result)
            if not part.sabotage and result.images % 10 == 0:
                self.say(f"{part.title()}: {result.images} of {part.cuts} images, "
                         f"{len(result.wrong)} wrong")

    def _cut(self, part: Part, crash: images.Crash, number: int, disk: images.Disk,
             judge: runs.Judge, work: pathlib.Path, result: Result) -> None:
        image = work / "crash.img"
        pending = disk.cut(crash, image)
        judge.hear(crash.point)
        where = f"{part.title()}, seed {part.seed}, {crash} ({pending} writes pending)"
        with system.mounted(part.filesystem, image, part.filesystem.mount_crashed, work / "crash"):
            problems = judge.judge(work / "crash", not part.sabotage and number % 2 == 0)
        result.images += 1
        result.steps, result.resumed = judge.steps, judge.resumed
        result.wrong += [f"{where}: {problem}" for problem in problems]
        if problems and not part.sabotage:
            self.say(f"WRONG: {where}")
            self._keep(part, crash, disk)
        elif problems:
            self.say(f"{part.title()}: noticed: {problems[0].splitlines()[0]}")

    def _keep(self, part: Part, crash: images.Crash, disk: images.Disk) -> None:
        """Made anew: the other one has been mounted since."""
        if len(list(self.kept.glob("*.img"))) < MOST_KEPT:
            name = f"{part.filesystem.type}-{part.world}-{part.seed}-{crash.point}.img"
            disk.cut(crash, self.kept / name)
            self.say(f"kept as {self.kept / name}")


# ---- what is tried ---------------------------------------------------------------------------


def plan(options: argparse.Namespace, names: list[str]) -> list[Part]:
    parts = []
    for name in names:
        for world in (1, 4):
            filesystems = system.FILESYSTEMS[name][:1] if options.short else system.FILESYSTEMS[name] * 2
            for i, filesystem in enumerate(filesystems):
                parts.append(Part(name, filesystem, world, options.seed + i, 2 if options.short else 4,
                                  -(-options.images // len(filesystems)), ""))
            for sabotage in SABOTAGES:
                parts.append(Part(name, filesystems[0], world, options.seed, 1, SABOTAGED_CUTS,
                                  sabotage))
    return parts


def table(results: list[Result], skipped: dict[str, str]) -> str:
    row = "{:<6} {:<12} {:>5} {:>8} {:>7} {:>8} {:>6} {:>6}   {}"
    lines = [row.format("on", "by", "jobs", "refused", "images", "resumed", "steps", "wrong",
                        "sabotage noticed in image")]
    cells: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        cells.setdefault((result.part.name, result.part.world), []).append(result)
    for (name, world), of in cells.items():
        honest = [r for r in of if not r.part.sabotage]
        noticed = [f"{r.part.sabotage} {r.images if r.wrong else 'never'}"
                   for r in of if r.part.sabotage]
        lines.append(row.format(name, "one process" if world == 1 else f"{world} ranks",
                                sum(r.jobs for r in honest), sum(r.refused for r in honest),
                                sum(r.images for r in honest),
                                sum(r.resumed for r in honest), sum(r.steps for r in honest),
                                sum(len(r.wrong) for r in honest), ", ".join(noticed)))
    lines += [f"{name:<6} skipped: {why}" for name, why in skipped.items()]
    return "\n".join(lines)


def verdict(results: list[Result]) -> int:
    """Prints what is wrong; the exit code."""
    honest = [r for r in results if not r.part.sabotage]
    wrong = [text for r in honest for text in r.wrong]
    broken = [f"{r.part.title()}: the rig failed: {r.broken}" for r in results if r.broken]
    blind = [f"{r.part.title()}: the rig saw nothing wrong in {r.images} images"
             for r in results if r.part.sabotage and not r.wrong and not r.broken]
    for text in (wrong + broken + blind)[:MOST_SHOWN]:
        print(f"\n{text}")
    made = sum(r.images for r in honest)
    print(f"{made} images, {len(wrong)} wrong, {len(broken) + len(blind)} failures of the rig itself")
    return 1 if wrong or broken or blind else 0


# ---- inside and outside of the namespace -----------------------------------------------------


def inside(options: argparse.Namespace) -> int:
    programs = runs.Programs(options.programs, options.pawl)
    rig = Rig(programs, options.scratch, options.programs)
    wanted = ["ext4"] if options.short else list(system.FILESYSTEMS)
    skipped = {}
    for name in wanted:
        reason = system.filesystem_missing(system.FILESYSTEMS[name][0], options.scratch)
        if reason is not None:
            skipped[name] = reason
    names = [name for name in wanted if name not in skipped]
    if not names:
        print("SKIP:", "; ".join(skipped.values()))
        return SKIPPED
    threading.Thread(target=wait_for_end, args=(rig.stop,), daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        results = list(pool.map(rig.try_part, plan(options, names)))
    if rig.stop.is_set():
        print("stopped")
        return 1
    print()
    print(table(results, skipped))
    return verdict(results)


@contextlib.contextmanager
def scratch(folder: pathlib.Path):
    path = pathlib.Path(tempfile.mkdtemp(prefix="powerloss-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def wait_for_end(stop: threading.Event) -> None:
    """The other side closes its end, or is gone."""
    while os.read(0, 1):
        pass
    stop.set()


def outside(arguments: list[str], options: argparse.Namespace) -> int:
    reason = system.missing()
    if reason is None and not (options.programs / "powerloss_disk").exists():
        reason = "there was no libfuse3 when this was built"
    if reason is not None:
        print("SKIP:", reason)
        return SKIPPED
    with scratch(options.folder) as path:
        command = [*system.OWN_NAMESPACE, sys.executable, __file__, *arguments, "--scratch",
                   str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as rig:
            code = attend(rig)
        left = [line for line in system.must("losetup", "-l", "-n", "-O", "NAME,BACK-FILE").splitlines()
                if str(path) in line]
    for line in left:
        print("left behind:", line)
    return code if not left else 1


def attend(rig: subprocess.Popen) -> int:
    """Passes on the wish to end; the rig then has a while to unmount, and is killed after that."""
    def pass_on(*_):
        print("\nunmounting ...", file=sys.stderr, flush=True)
        rig.stdin.close()
        signal.signal(signal.SIGALRM, lambda *_: rig.kill())
        signal.alarm(LETS_GO_S)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    return rig.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="where they were built")
    parser.add_argument("--pawl", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--short", action="store_true", help="a few images, on ext4")
    parser.add_argument("--images", type=int, help="on each filesystem, by one process and by ranks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--folder", type=pathlib.Path, help="for mounts [$TMPDIR, or the programs']")
    parser.add_argument("--scratch", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    options.pawl = options.pawl.resolve()
    options.images = options.images or (8 if options.short else 150)
    options.folder = options.folder or pathlib.Path(os.environ.get("TMPDIR") or options.programs)
    if options.scratch is not None:
        return inside(options)
    return outside(sys.argv[1:], options)


if __name__ == "__main__":
    sys.exit(main())
