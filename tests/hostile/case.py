# SPDX-License-Identifier: Apache-2.0
"""What a case is: a name, a sentence, and a function that damages a private copy of the base run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pawlformat import Record, Step, make_record

NEWEST = 30
KERNEL = b"emodel/dense1/kernel"  # F32 [512, 16], whole, in file 0
SPLIT = b"emodel/split/kernel"  # F32 [64, 32] in four boxes, in four files
EPOCH = b"edata/epoch"  # int64
SIGNATURE = b"edata/batch_signature"  # JSON
OPTIMIZER = b"eoptimizer/class"  # string
RANDOM = b"erandom/state"  # 32 bytes per rank
STRANGER = "a" * 12  # the attempt of a save that nobody knows


@dataclass
class Scene:
    """A private copy of the base run, and a directory beside it that nobody may touch."""

    run: Path
    victims: Path
    scale: int = 1  # a sanitizer's build gets inputs that are so many times smaller

    @property
    def directory(self) -> Path:
        return self.run / f"step-{NEWEST:08d}"

    @property
    def manifest(self) -> Path:
        return self.directory / "manifest.json"

    def step(self, number: int = NEWEST) -> Step:
        return Step(self.run / f"step-{number:08d}")

    def many(self, n: int) -> int:
        return max(1, n // self.scale)

    def victim(self, name: str, text: str = "precious") -> Path:
        """A file outside of the run."""
        path = self.victims / name
        path.write_text(text)
        return path


@dataclass(frozen=True)
class Case:
    """`cpu_s` and `mib` are what its input needs of a verb beyond the common bound."""

    name: str
    purpose: str
    make: Callable[[Scene], None]
    cpu_s: float = 0
    mib: int = 0
    holes: bool = False  # a rebuild, as asked, would read terabytes of them: it is not asked
    waits: bool = False  # who wants to own the run watches an owner for a lease, as promised


CASES: dict[str, Case] = {}


def add(name: str, purpose: str, make: Callable[[Scene], Any], cpu_s: float = 0, mib: int = 0,
        holes: bool = False, waits: bool = False) -> None:
    if name in CASES:
        raise ValueError(f"two cases are named {name}")
    CASES[name] = Case(name, purpose, make, cpu_s, mib, holes, waits)


def case(purpose: str, cpu_s: float = 0, mib: int = 0,
         holes: bool = False, waits: bool = False) -> Callable[[Callable[[Scene], Any]], Callable[[Scene], Any]]:
    """Of a function whose name is the case's."""

    def register(make: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
        add(make.__name__, purpose, make, cpu_s, mib, holes, waits)
        return make

    return register


def editing(edit: Callable[[Step], Any]) -> Callable[[Scene], None]:
    """Changes the items of the newest step's index, and seals everything anew."""

    def make(scene: Scene) -> None:
        step = scene.step()
        edit(step)
        step.put()

    return make


def record_edit(key: bytes, edit: Callable[[Record, Step], bytes | None]) -> Callable[[Scene], None]:
    """Changes one record; what the function returns, if anything, stands in its place."""

    def change(step: Step) -> None:
        record = step.record(key)
        made = edit(record, step)
        step.items[key] = make_record(record) if made is None else made

    return editing(change)


def owner_record(**members: Any) -> bytes:
    """The record of an owner or reader that is nobody."""
    record = {"counter": "0" * 19 + "1", "host": "h", "pid": 1, "boot_id": "b",
              "pid_namespace": "p", "start_ticks": 1, "attempt": STRANGER, "lease_s": 0.2}
    return json.dumps({**record, **members}).encode()
