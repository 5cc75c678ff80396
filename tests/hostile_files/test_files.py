# SPDX-License-Identifier: Apache-2.0
"""R14: hostile files of other tools, as `pawl show` and `pawl verify` tell of them.

Each case has its exact words in said/<format>.txt, and is told of in bounded time and memory; nothing
is executed, and nothing is written beside it. `test_files.py --update` takes what is said now.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

from case import CASES, Case, Scene

HERE = Path(__file__).resolve().parent
PAWL = os.environ["PAWL_COMMAND"]
MEASURE = os.environ["PAWL_MEASURE"]
SANITIZED = bool(os.environ.get("PAWL_SANITIZED"))
LIMIT_S = 60 if SANITIZED else 10  # then it is killed
MOST_S = 50.0 if SANITIZED else 5.0
MOST_MIB = 64  # beyond what the command takes to start
SHOWN_LINES = 12
MOST_COLUMNS = 160
FORMATS = sorted(path.stem.removeprefix("cases_") for path in HERE.glob("cases_*.py"))
for format_name in FORMATS:
    importlib.import_module(f"cases_{format_name}")


@dataclass(frozen=True)
class Told:
    code: int
    seconds: float
    mib: float
    text: str


def call(directory: Path, *words: str) -> Told:
    with tempfile.NamedTemporaryFile("r") as figures:
        done = subprocess.run([MEASURE, figures.name, str(LIMIT_S), PAWL, *words], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=directory, check=True,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"})
        code, seconds, kib = figures.read().split()
    return Told(int(code), float(seconds), int(kib) / 1024, done.stdout)


def plain(told: Told, scene: Scene) -> str:
    """Without what differs from call to call; of long listings the beginning."""
    text = told.text.replace(str(scene.directory), "DIR")
    text = re.sub(r"(?m)^(changed +)[0-9: -]+$", r"\1WHEN", text)
    lines = [line[:MOST_COLUMNS] for line in text.splitlines()]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"({len(lines) - SHOWN_LINES} more lines)"]
    return "\n".join([f"exit {told.code}", *lines])


def digest(directory: Path) -> dict[str, str]:
    return {str(path): "link" if path.is_symlink() else
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
            for path in directory.rglob("*")}


def said_file(format_name: str) -> Path:
    return HERE / "said" / f"{format_name}.txt"


def read_said(format_name: str) -> dict[str, str]:
    """What each case is told as: == NAME, and both calls."""
    path = said_file(format_name)
    parts = path.read_text().split("== ")[1:] if path.exists() else []
    return {name: text.strip("\n") for name, _, text in (part.partition("\n") for part in parts)}


class Files(unittest.TestCase):
    maxDiff = None
    said: dict[str, str] = {}
    update = False
    most = {"s": (0.0, ""), "mib": (0.0, "")}

    @classmethod
    def setUpClass(cls) -> None:
        cls.start_mib = call(HERE, "version").mib
        cls.told: dict[str, str] = {}
        for name in FORMATS:
            cls.said |= read_said(name)

    @classmethod
    def tearDownClass(cls) -> None:
        print(f"{len(cls.told)} cases; the most: {cls.most['s'][0]:.2f} s ({cls.most['s'][1]}), "
              f"{cls.most['mib'][0]:.1f} MiB beyond {cls.start_mib:.1f} ({cls.most['mib'][1]})")
        if cls.update:
            for name in FORMATS:
                said = {case: text for case, text in sorted((cls.said | cls.told).items())
                        if case.startswith(name + "_") and case in CASES}
                said_file(name).parent.mkdir(exist_ok=True)
                said_file(name).write_text("\n".join(
                    f"== {case}\n{text}\n" for case, text in said.items()))

    def judge(self, case: Case, what: str, told: Told) -> None:
        where = f"{what} {case.name}"
        beyond = told.mib - self.start_mib
        self.most["s"] = max(self.most["s"], (told.seconds, where))
        self.most["mib"] = max(self.most["mib"], (beyond, where))
        self.assertGreaterEqual(told.code, 0, f"{where}: ended by a signal")
        self.assertLess(told.seconds, MOST_S, where)
        if not SANITIZED:
            self.assertLess(beyond, MOST_MIB, where)

    def run_case(self, case: Case) -> None:
        with tempfile.TemporaryDirectory(prefix="pawl-r14-") as place:
            scene = Scene(Path(place))
            path = str(case.make(scene).relative_to(scene.directory))
            before = digest(scene.directory)
            told = {what: call(scene.directory, what, path) for what in ("show", "verify")}
            self.assertFalse((scene.directory / scene.marker).exists(), "it was executed")
            self.assertEqual(digest(scene.directory), before)
            for what, each in told.items():
                self.judge(case, what, each)
        text = "\n".join(f"$ pawl {what} {path}\n{plain(each, scene)}"
                         for what, each in told.items())
        self.told[case.name] = text
        if not self.update:
            self.assertEqual(text, self.said.get(case.name, ""))

    def test_r14_every_word_is_of_a_case(self) -> None:
        if not self.update:
            self.assertEqual(set(self.said) - set(CASES), set())
        self.assertGreater(len(CASES), 64)


def add_tests() -> None:
    for case in CASES.values():
        def run(self: Files, case: Case = case) -> None:
            self.run_case(case)
        run.__doc__ = f"{case.name}: {case.make.__doc__}"
        setattr(Files, f"test_r14_{case.name}", run)


add_tests()
if __name__ == "__main__":
    Files.update = "--update" in sys.argv
    unittest.main(argv=[word for word in sys.argv if word != "--update"])
