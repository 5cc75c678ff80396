# SPDX-License-Identifier: Apache-2.0
"""What a power cut may leave of one run, by what its trainers were told before it."""

from __future__ import annotations

import dataclasses
import re

ABSENT = 0  # among versions: there is no checkpoint of that step
STEP = re.compile(r"^STEP (\d+) (\w+) ([01]) (-?\d+)$", re.MULTILINE)
NEWEST = re.compile(r"^NEWEST (-?\d+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Found:
    """What a trainer saw of one step."""

    status: str
    pinned: int
    version: int


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a trainer saw of a run."""

    steps: dict[int, Found]
    newest: int
    text: str

    @staticmethod
    def parse(text: str) -> Seen | None:
        """None: the trainer did not get to its end."""
        newest = NEWEST.search(text)
        steps = {int(m[1]): Found(m[2], int(m[3]), int(m[4])) for m in STEP.finditer(text)}
        return Seen(steps, int(newest[1]), text) if newest else None

    def committed(self) -> dict[int, int]:
        return {step: found.version for step, found in self.steps.items()
                if found.status == "committed"}


class Run:
    """For each step: the versions that may be there, ABSENT among them, and whether it is pinned."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.versions: dict[int, set[int]] = {}
        self.pins: dict[int, set[int]] = {}
        self.told: set[tuple[int, int]] = set()

    def must_exist(self) -> list[int]:
        return [step for step, may in self.versions.items() if ABSENT not in may]

    def take(self, rank: int, what: str, numbers: list[int]) -> None:
        """A line that a trainer wrote before or after a call. Ranks are told at different times: the
        first that is told of a save counts, for rank 0, which keeps house, may be ahead of others."""
        step = numbers[0]
        may = self.versions.setdefault(step, {ABSENT})
        pins = self.pins.setdefault(step, {0})
        if what == "begin":
            may.add(numbers[1])
            pins.update((0, numbers[2]))
            self._retention_may_remove(step)
        elif what == "durable" and (step, numbers[1]) not in self.told:
            self.told.add((step, numbers[1]))
            self.versions[step] = {numbers[1]}
        elif what == "cancelled" and rank == 0:
            may.discard(numbers[1])
        elif what == "remove":
            may.add(ABSENT)
            pins.add(0)
        elif what == "removed":
            self.versions[step] = {ABSENT}
            self.pins[step] = {0, 1}
        elif what == "pin":
            pins.add(numbers[1])
        elif what == "pinned":
            self.pins[step] = {numbers[1]}

    def _retention_may_remove(self, saved: int) -> None:
        """Whatever as many newer steps as are kept may stand beside."""
        if self.keep == 0:
            return
        possible = sorted(step for step, may in self.versions.items() if may != {ABSENT})
        for step in possible[:-self.keep]:
            if step != saved and 0 in self.pins[step]:
                self.versions[step].add(ABSENT)

    def problems(self, seen: Seen):
        """What should not be: one text each."""
        committed = seen.committed()
        for step, found in seen.steps.items():
            may = self.versions.get(step, {ABSENT})
            if found.status == "damaged":
                yield f"step {step} is damaged"
            elif found.status == "committed" and found.version not in may - {ABSENT}:
                yield f"step {step} holds version {found.version}, and may hold {sorted(may)}"
            elif found.status == "committed" and found.pinned not in self.pins[step]:
                yield f"step {step} is pinned: {found.pinned}, and was told {self.pins[step]}"
        for step in self.must_exist():
            if step not in committed:
                yield f"step {step} was reported durable, and is not there"
        if seen.newest != max(committed, default=-1):
            yield f"the newest is {max(committed)}, and {seen.newest} was found"
