#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb of the command on every hostile case, and what nobody may do to it.

An exit code that its help names, no signal and no sanitizer's report, bounded time and memory, no raw
control characters, nothing outside of the run changed, and the good steps as good as before.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from case import NEWEST, Case, Scene
from cases import CASES
from restores import faults_of
from scratch import (SKIPPED, Judge, Programs, Workshop, add_arguments, missing_for_devices,
                     part_of, programs_of)

CPU_S = 2.0
MIB = 64
SANITIZED_FACTOR = 10  # of processor time; memory is not judged there
SANITIZER_EXIT = 86
GOOD = (10, 20)
CHUNK = 1 << 20
ENTRY = "model/dense1/kernel"
# C0 but for line feed and tab, DEL, C1, and in UTF-8 what separates lines (U+2028, U+2029) or turns
# the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c"
                      rb"|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
REPORTS = re.compile(rb"runtime error:|ERROR: (Address|Leak)Sanitizer|SUMMARY: ")


@dataclass
class Told:
    """How one call ended."""

    code: int
    cpu_s: float
    mib: float
    controls: bool
    report: bytes  # a sanitizer's


@dataclass
class Waiting:
    """A call that watches an owner, begun before the others."""

    case: Case
    words: list[str]
    scene: Scene
    before: dict[str, str]  # what lay outside of the run
    told: Future[Told]


def environment() -> dict[str, str]:
    options = f"exitcode={SANITIZER_EXIT}:halt_on_error=1:print_stacktrace=1"
    return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/nonexistent",
            "ASAN_OPTIONS": options + ":detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": options}


def look_through(out: IO[bytes]) -> tuple[bool, bytes]:
    """Controls, and the beginning of a sanitizer's report; a little at a time."""
    controls = False
    report = b""
    end = b""
    out.seek(0)
    while data := out.read(CHUNK):
        controls = controls or CONTROLS.search(end + data) is not None
        found = REPORTS.search(end + data)
        if found and not report:
            report = (end + data)[max(0, found.start() - 200):found.start() + 2000]
        end = data[-64:]
    return controls, report


def call(pawl: str, words: list[str], deadline_s: int) -> Told:
    """A verb, and what it used. The system counts the memory of whoever starts a program as the
    program's: this runs in a small process of the pool."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([pawl, *words], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=environment())
        timer = threading.Timer(deadline_s, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        controls, report = look_through(output)
    return Told(process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024,
                controls, report)


def documented_codes(programs: Programs, verb: str) -> set[int]:
    """The exit codes that the help of a verb names."""
    text = subprocess.run([programs.pawl, "help", verb], capture_output=True, text=True,
                          check=True).stdout
    return {int(code) for code in re.findall(r"(?m)^ +(\d+)  ", text.split("EXIT STATUS")[1])}


def digest(directory: Path) -> dict[str, str]:
    """What lies in a directory that nobody may touch: names, types, bytes."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = (path.read_bytes() if stat.S_ISREG(status.st_mode)
                   else os.readlink(path).encode() if stat.S_ISLNK(status.st_mode) else b"")
        found[str(path.relative_to(directory))] = (f"{stat.S_IFMT(status.st_mode):o} "
                                                   f"{hashlib.sha256(content).hexdigest()}")
    return found


class Check:
    """What was called, and what was wrong."""

    def __init__(self, workshop: Workshop, pool: ProcessPoolExecutor) -> None:
        self.workshop = workshop
        self.pool = pool
        self.programs = workshop.programs
        self.judge = Judge(self.programs)
        verbs = ("ls", "show", "verify", "diff", "gc", "top", "doctor", "rm", "rebuild")
        self.codes = {verb: documented_codes(self.programs, verb) for verb in verbs}
        self.calls = 0
        self.calls_left_out = 0
        self.slowest = (0.0, "")
        self.largest = (0.0, "")
        self.faults: list[str] = []

    def fault(self, case: str, what: str, story: str) -> None:
        self.faults.append(f"{case}: {what}: {story}")
        print(self.faults[-1], flush=True)

    def told(self, case: Case, words: list[str], told: Told) -> None:
        what = " ".join(word for word in words if not word.startswith("/"))
        factor = SANITIZED_FACTOR if self.programs.sanitizer else 1
        self.calls += 1
        self.slowest = max(self.slowest, (told.cpu_s, f"{case.name}: {what}"))
        self.largest = max(self.largest, (told.mib, f"{case.name}: {what}"))
        if told.report or told.code == SANITIZER_EXIT:
            self.fault(case.name, what, told.report.decode("utf-8", "replace"))
        elif told.code not in self.codes[words[0]]:
            self.fault(case.name, what, f"exit code {told.code}, which its help does not name")
        if told.cpu_s > (CPU_S + case.cpu_s) * factor:
            self.fault(case.name, what, f"{told.cpu_s:.1f} s of processor time")
        if told.mib > MIB + case.mib and not self.programs.sanitizer:
            self.fault(case.name, what, f"{told.mib:.0f} MiB of memory")
        if told.controls:
            self.fault(case.name, what, "raw control characters")

    def begin(self, words: list[str]) -> Future[Told]:
        return self.pool.submit(call, str(self.programs.pawl), words, self.programs.deadline_s)

    def call(self, case: Case, words: list[str]) -> None:
        self.told(case, words, self.begin(words).result())

    def good_steps(self, case: Case, what: str, scene: Scene) -> None:
        for step in GOOD:
            verdict = self.judge.ask(scene.run, step)
            faults = faults_of(verdict, scene.run / f"step-{step:08d}")
            if verdict.get("verify") != "ok":
                faults.append(f"{verdict}"[:500])
            for fault in faults:
                self.fault(case.name, what, f"step {step} afterwards: {fault}")

    # ---- a case ----

    def left_out(self, case: Case, words: list[str]) -> bool:
        """Starting a program takes a sanitizer's build most of the time: what can be printed in two
        ways is printed in one there, which depends on the case."""
        two_ways = words[0] not in ("verify", "doctor")
        json = sum(case.name.encode()) % 2 == 0
        return bool(self.programs.sanitizer) and two_ways and ("--json" in words) != json

    def reading(self, case: Case, scene: Scene) -> None:
        run, base = str(scene.run), str(self.workshop.base)
        step = f"{run}@{NEWEST}"
        for words in (["ls", run], ["ls", "--json", run], ["show", step], ["show", "--json", step],
                      ["show", step, ENTRY], ["show", "--json", step, ENTRY], ["verify", step],
                      ["verify", "--all", "--json", run], ["diff", base, step],
                      ["diff", "--json", base, step], ["top", "--once", run],
                      ["top", "--json", run], ["doctor", "--alone", run],
                      ["gc", "--dry-run", run], ["gc", "--dry-run", "--json", run]):
            if words[0] == "gc" and case.waits:
                continue
            if self.left_out(case, words):
                self.calls_left_out += 1
            else:
                self.call(case, words)

    def changing(self, case: Case) -> Iterator[list[str]]:
        """Verbs that change the run, each for a copy of its own. Where they would watch an owner for a
        lease all of them do so alike: `begin_waiting` calls one."""
        if not case.waits:
            yield ["gc"]
            yield ["rm"]
        if not case.waits and not case.holes:
            yield ["rebuild"]

    def case(self, case: Case) -> None:
        for verb in [None, *self.changing(case)]:
            with self.workshop.scene() as scene:
                make(case, scene)
                before = digest(scene.victims)
                if verb is None:
                    self.reading(case, scene)
                else:
                    run = str(scene.run)
                    self.call(case, [*verb, run if verb == ["gc"] else f"{run}@{NEWEST}"])
                    self.good_steps(case, verb[0], scene)
                self.victims(case, verb[0] if verb else "reading", scene, before)

    def victims(self, case: Case, what: str, scene: Scene, before: dict[str, str]) -> None:
        after = digest(scene.victims)
        if after != before:
            self.fault(case.name, what, f"changed outside of the run: {before} {after}")

    def begin_waiting(self, cases: list[Case], stack: ExitStack) -> list[Waiting]:
        """All at once: each sleeps for a lease, while others are called. The stack keeps the scenes."""
        begun = []
        for case, option in [(c, o) for c in cases for o in ([], ["--dry-run"])]:
            scene = stack.enter_context(self.workshop.scene(f"{case.name}{len(begun)}"))
            make(case, scene)
            words = ["gc", *option, str(scene.run)]
            begun.append(Waiting(case, words, scene, digest(scene.victims), self.begin(words)))
        return begun

    def end_waiting(self, w: Waiting) -> None:
        self.told(w.case, w.words, w.told.result())
        self.good_steps(w.case, "gc", w.scene)
        self.victims(w.case, "gc", w.scene, w.before)


def make(case: Case, scene: Scene) -> None:
    """In a process of its own: what a program may use at most is counted from what we use."""
    process = multiprocessing.get_context("fork").Process(target=case.make, args=(scene,))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"{case.name} cannot be made")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--only", nargs="*", default=[], help="these cases alone")
    arguments = parser.parse_args()
    if arguments.sanitizer == "thread":
        print("SKIP: each verb is one thread's work; ThreadSanitizer has nothing to see")
        return SKIPPED
    if missing := missing_for_devices():
        print(f"SKIP: {missing}")
        return SKIPPED
    names = arguments.only or part_of(list(CASES), arguments.part)
    workshop = Workshop(programs_of(arguments))
    base = digest(workshop.base)
    pool = ProcessPoolExecutor(2 * len(names), multiprocessing.get_context("forkserver"))
    check = Check(workshop, pool)
    scenes = ExitStack()
    try:
        begun = check.begin_waiting([CASES[name] for name in names if CASES[name].waits], scenes)
        for name in names:
            check.case(CASES[name])
        for waiting in begun:
            check.end_waiting(waiting)
        for name in sorted(set(base) ^ set(digest(workshop.base))):
            check.fault("the base run", "afterwards", f"changed: {name}")
    finally:
        pool.shutdown()
        scenes.close()
        check.judge.close()
        workshop.close()
    print(f"{len(names)} cases, {check.calls} calls, {check.calls_left_out} left out, "
          f"{len(check.faults)} faults; the most: {check.slowest[0]:.2f} s ({check.slowest[1]}), "
          f"{check.largest[0]:.0f} MiB ({check.largest[1]})")
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main())
