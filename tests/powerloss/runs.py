# SPDX-License-Identifier: Apache-2.0
"""Trainers at work on a disk that records, and what is found of their runs after a power cut."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import re
import subprocess
import threading
import time

import images
import model
import system

JOB_S = 120  # no job of trainers lasts longer
RESUMED = re.compile(r"^RESUMED (-?\d+) (\d+)$", re.MULTILINE)
NOTE = re.compile(r"^NOTE .*", re.MULTILINE | re.DOTALL)
VERIFIED = (0, 4)  # exit codes of `pawl verify`: good, and nothing to verify
AUTO, THREADS, BUFFERED = 0, 2, 3  # pawl_io


@dataclasses.dataclass(frozen=True)
class Programs:
    folder: pathlib.Path
    pawl: pathlib.Path

    def trainer(self, sabotage: str = "") -> pathlib.Path:
        return self.folder / ("powerloss_trainer" + (f"_no_{sabotage}" if sabotage else ""))

    def disk(self) -> pathlib.Path:
        return self.folder / "powerloss_disk"


@dataclasses.dataclass(frozen=True)
class RunPlan:
    name: str
    below: str  # folder of the filesystem, made by the first trainer
    world: int
    columns: int
    keep: int
    io: int

    def path(self, root: pathlib.Path) -> pathlib.Path:
        return root / self.below / self.name


ALONE = (RunPlan("A", "", 1, 12000, 2, AUTO), RunPlan("B", "new/deep", 1, 3, 0, AUTO),
         RunPlan("C", "", 1, 1500, 3, THREADS), RunPlan("D", "new/deep", 1, 500, 2, BUFFERED))
FOUR_RANKS = (RunPlan("E", "", 4, 4000, 2, AUTO), RunPlan("F", "new/deep", 4, 100, 3, THREADS))


def plans(world: int) -> tuple[RunPlan, ...]:
    return ALONE if world == 1 else FOUR_RANKS


# ---- trainers at work ------------------------------------------------------------------------


@dataclasses.dataclass
class Job:
    """The processes of one trainer, and when which of them are killed."""

    processes: list[subprocess.Popen]
    kills: list[tuple[float, subprocess.Popen]]
    outputs: list[pathlib.Path]

    def notes(self) -> list[str]:
        """What should not have failed. Where somebody was killed, the others may complain."""
        if self.kills:
            return []
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in self.outputs]
        bad = [f"exit code {p.returncode}" for p in self.processes if p.returncode != 0]
        return bad + [found[0] for text in texts for found in NOTE.finditer(text)]


class Recorder:
    """Lets trainers work, several runs at once, round by round."""

    def __init__(self, programs: Programs, work: pathlib.Path, dice: random.Random,
                 stop: threading.Event) -> None:
        self.programs = programs
        self.stop = stop
        self.work = work
        self.dice = dice
        self.notes: list[str] = []
        self.refused: list[str] = []  # ranks hear of things at different times: told, and no loss
        self.jobs = self.killed = 0
        self._versions = 1

    def record(self, filesystem: system.Filesystem, world: int, rounds: int,
               sabotage: str) -> images.Log:
        image, log = self.work / "disk.img", self.work / "log"
        point, disk = self.work / "mnt", self.work / "blk"
        filesystem.make(image)
        system.must("cp", "--sparse=auto", image, self.work / "base.img")
        with system.recording(self.programs.disk(), image, disk, log), \
                system.mounted(filesystem, disk / "disk", filesystem.mount, point):
            marks = disk / "marks"
            system.must("sync", "-f", point)
            marks.write_bytes(b"- START\n")
            with self._noise(point) if not sabotage else contextlib.nullcontext():
                for number in range(rounds):
                    if self.stop.is_set():
                        break
                    self._round(point, marks, world, number, sabotage)
            marks.write_bytes(b"- END\n")
        image.unlink()
        return images.Log(log)

    @contextlib.contextmanager
    def _noise(self, point: pathlib.Path):
        with subprocess.Popen([self.programs.trainer(), "noise", f"run={point}",
                               f"seed={self.dice.getrandbits(30)}"]) as noise:
            try:
                yield
            finally:
                noise.kill()

    def _round(self, point: pathlib.Path, marks: pathlib.Path, world: int, number: int,
               sabotage: str) -> None:
        jobs = [self._start(plan, point, marks, number, sabotage) for plan in plans(world)]
        try:
            self._attend(jobs)
        finally:
            for process in (p for job in jobs for p in job.processes):
                if process.poll() is None:
                    process.kill()
                    process.wait(timeout=system.COMMAND_S)
        for job in jobs:
            if len(job.processes) > 1:
                self.refused += job.notes()
            else:
                self.notes += job.notes()
            self.jobs += 1
            self.killed += bool(job.kills)
        if number % 2 == 1:
            for plan in plans(world):
                code, output = system.output_of(self.programs.pawl, "gc", plan.path(point))
                if code not in VERIFIED:
                    self.notes.append(f"pawl gc {plan.name}: exit code {code}: {output}")

    def _start(self, plan: RunPlan, point: pathlib.Path, marks: pathlib.Path, number: int,
               sabotage: str) -> Job:
        end = self.dice.choice(("close", "exit", "save"))
        words = [self.programs.trainer(sabotage), "work", f"run={plan.path(point)}", f"marks={marks}",
                 f"seed={self.dice.getrandbits(30)}", f"version={self._versions}",
                 f"operations={self.dice.randint(5, 12)}", f"columns={plan.columns}",
                 f"keep={plan.keep}", f"io={BUFFERED if sabotage else plan.io}", f"end={end}",
                 f"world={plan.world}", f"launch={plan.name}-{number}"]
        self._versions += 100
        job = Job([], [], [])
        for rank in range(plan.world):
            output = self.work / f"out-{plan.name}-{number}-{rank}"
            with output.open("wb") as file:
                job.processes.append(subprocess.Popen(
                    [*map(str, words), f"rank={rank}"], stdin=subprocess.DEVNULL, stdout=file, stderr=file))
            job.outputs.append(output)
        if not sabotage and self.dice.random() < 0.35:
            when = time.monotonic() + self.dice.uniform(0.02, 0.6)
            victims = job.processes if self.dice.random() < 0.5 else [self.dice.choice(job.processes)]
            job.kills = [(when, victim) for victim in victims]
        return job

    def _attend(self, jobs: list[Job]) -> None:
        """Until all have ended."""
        deadline = time.monotonic() + JOB_S
        while any(p.poll() is None for job in jobs for p in job.processes):
            now = time.monotonic()
            if now > deadline:
                raise system.RigError("trainers did not end in time")
            for when, victim in (kill for job in jobs for kill in job.kills):
                if now >= when and victim.poll() is None:
                    victim.kill()
            time.sleep(0.005)


# ---- after a power cut -----------------------------------------------------------------------


class Judge:
    """Knows what had been told by a point of a recording, and looks at what is there."""

    def __init__(self, log: images.Log, programs: Programs, world: int) -> None:
        self._log = log
        self._programs = programs
        self._plans = plans(world)
        self._runs = {plan.name: model.Run(plan.keep) for plan in self._plans}
        self._heard = 0
        self.steps = self.resumed = 0

    def hear(self, point: int) -> None:
        """What trainers wrote before this point; points only grow."""
        for record in self._log.records[self._heard:point]:
            if record.kind == images.Kind.MARK and not record.text().startswith("-"):
                name, rank, what, *numbers = record.text().split()
                self._runs[name].take(int(rank), what, [int(n) for n in numbers])
        self._heard = max(self._heard, point)

    def judge(self, root: pathlib.Path, resume: bool) -> list[str]:
        return [f"run {plan.name}: {problem}" for plan in self._plans
                for problem in self._judge_run(plan, root, resume)]

    def _look(self, plan: RunPlan, path: pathlib.Path) -> tuple[model.Seen | None, str]:
        _, text = system.output_of(self._programs.trainer(), "look", f"run={path}",
                                   f"columns={plan.columns}")
        return model.Seen.parse(text), text

    def _judge_run(self, plan: RunPlan, root: pathlib.Path, resume: bool):
        path, run = plan.path(root), self._runs[plan.name]
        if not path.is_dir():
            if run.must_exist():
                yield f"its directory is gone, with steps {run.must_exist()}"
            return
        seen, text = self._look(plan, path)
        if seen is None:
            yield f"looking at it failed: {text}"
            return
        self.steps += len(seen.steps)
        for problem in run.problems(seen):
            yield f"{problem}\n{text}"
        code, output = system.output_of(self._programs.pawl, "verify", "--all", path)
        if code not in VERIFIED:
            yield f"pawl verify --all: exit code {code}: {output}"
        if resume:
            self.resumed += 1
            yield from self._resume(plan, path, seen)

    def _resume(self, plan: RunPlan, path: pathlib.Path, before: model.Seen):
        """The next job finds the newest, saves one more, and leaves the others as they were."""
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(subprocess.Popen(
                [self._programs.trainer(), "resume", f"run={path}", f"columns={plan.columns}",
                 "version=7777777", f"rank={rank}", f"world={plan.world}", "launch=resumed"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True)) for rank in range(plan.world)]
            try:
                outputs = [process.communicate(timeout=JOB_S)[0] for process in processes]
            except subprocess.TimeoutExpired as expired:
                raise system.RigError("a resumed trainer did not end in time") from expired
            finally:
                for process in processes:
                    process.kill()
        newest = max(before.committed(), default=-1)
        for output in outputs:
            found = RESUMED.search(output)
            if not found or int(found[1]) != newest:
                yield f"resuming from step {newest}: {output}"
                return
        after, text = self._look(plan, path)
        expected = {**before.committed(), newest + 1: 7777777}
        if after is None or after.committed() != expected or any(
                found.status == "damaged" for found in after.steps.values()):
            yield f"after a resumed trainer has saved there should be {expected}: {text}"
