# SPDX-License-Identifier: Apache-2.0
"""Private copies of the base run, and what the programs of a build say of them."""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from case import Scene

SANITIZED_SCALE = 20  # a sanitizer's build gets inputs that are so many times smaller
SKIPPED = 77
DEADLINE_S = 120  # of one program that looks at one run
SANITIZED_SLOWNESS = 5  # a sanitizer's build gets so many times longer


@dataclass(frozen=True)
class Programs:
    """Of one build."""

    pawl: Path
    make_base: Path
    judge: Path
    sanitizer: str  # as CMake has it: "", "address,undefined", "thread"

    @property
    def scale(self) -> int:
        return SANITIZED_SCALE if self.sanitizer else 1

    @property
    def deadline_s(self) -> int:
        return DEADLINE_S * (SANITIZED_SLOWNESS if self.sanitizer else 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pawl", type=Path, required=True)
    parser.add_argument("--make-base", type=Path, required=True)
    parser.add_argument("--judge", type=Path, required=True)
    parser.add_argument("--sanitizer", default="")
    parser.add_argument("--part", default="1/1", help="the n-th of m parts: n/m")


def programs_of(arguments: argparse.Namespace) -> Programs:
    return Programs(arguments.pawl.resolve(), arguments.make_base.resolve(),
                    arguments.judge.resolve(), arguments.sanitizer)


def part_of(names: list[str], part: str) -> list[str]:
    """Every m-th name, from the n-th on."""
    n, m = (int(number) for number in part.split("/"))
    return names[n - 1::m]


def missing_for_devices() -> str:
    """Why no device can be made here, which some cases put in a file's place; empty: it can."""
    with tempfile.TemporaryDirectory() as place:
        try:
            os.mknod(Path(place) / "null", 0o20600, os.makedev(1, 3))
        except OSError as error:
            return f"no device can be made to stand in a file's place: {error.strerror}"
    return ""


class Workshop:
    """The base run, and a place for copies of it."""

    def __init__(self, programs: Programs) -> None:
        memory = Path("/dev/shm")
        where = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
        self.programs = programs
        self.root = Path(tempfile.mkdtemp(prefix="pawl-hostile-", dir=where))
        self.base = self.root / "base"
        subprocess.run([programs.make_base, self.base], check=True)

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @contextmanager
    def scene(self, name: str = "scene") -> Iterator[Scene]:
        """A copy that is gone afterwards."""
        place = self.root / name
        scene = Scene(place / "run", place / "victims", self.programs.scale)
        scene.victims.mkdir(parents=True)
        shutil.copytree(self.base, scene.run, symlinks=True)
        try:
            yield scene
        finally:
            shutil.rmtree(place, ignore_errors=True)


class Judge:
    """The program that judges runs; it is started anew when it has ended."""

    def __init__(self, programs: Programs, like: int | None = None) -> None:
        self.deadline_s = programs.deadline_s
        more = [] if like is None else ["--run", str(like)]
        self.command = [str(programs.judge), *more]
        self.errors: IO[bytes] = tempfile.TemporaryFile()
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, run: Path, step: int) -> dict[str, Any]:
        """Its verdict. A dead judge is one, too: "died", with what it left on stderr."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.errors)
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(f"{run} {step}\n".encode())
            self.process.stdin.flush()
            line = self._answer(self.process.stdout)
        except BrokenPipeError:
            line = b""
        if line.endswith(b"}\n"):
            return json.loads(line.decode("ascii"))
        self.process.kill()  # it hangs, or is dead anyway
        code = self.process.wait()
        self.process = None
        self.errors.seek(0)
        story = self.errors.read().decode("utf-8", "replace")
        self.errors.seek(0)
        self.errors.truncate()
        return {"died": f"exit code {code}: {story}"}

    def _answer(self, out: IO[bytes]) -> bytes:
        """A line; nothing when there is none for long. Judges write whole lines."""
        ready, _, _ = select.select([out], [], [], self.deadline_s)
        return out.readline() if ready else b""

    def close(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()
        self.errors.close()
