#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verifies can be restored, found and shown: over all cases, and over random mutations."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from case import NEWEST, Scene
from cases import CASES
from mutate import mutate
from restores import faults_of, independent_crcs, newest_faults
from scratch import (SKIPPED, Judge, Workshop, add_arguments, missing_for_devices, part_of,
                     programs_of)

SAVED = (10, 20, NEWEST)
LIKE = 20
# What nobody but pawl's verbs may be asked to bear: looking alone takes long, and is looked at there.
NOT_JUDGED = {"man_60m_obj", "man_60m_list", "man_files_1m", "sf_100mb_10m_keys", "sf_100mb_tensors",
              "ev_1gb_nl", "step_many", "marks_100k", "tab_many_entries"}


class Check:
    """Counts what was judged, and what was wrong."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.judge = Judge(workshop.programs, LIKE)
        self.saved = {step: independent_crcs(workshop.base / f"step-{step:08d}")
                      for step in SAVED}
        self.judged = self.verified = self.damaged = self.rebuilt = 0
        self.faults: list[str] = []

    def look(self, what: str, scene: Scene) -> None:
        """The newest step, and a job that restores whatever it is offered."""
        verdict = self.judge.ask(scene.run, NEWEST)
        faults = faults_of(verdict, scene.directory)
        if "died" not in verdict:
            faults += newest_faults(verdict, self.saved, scene.directory)
        self.judged += 1
        verified = verdict.get("verify") == "ok"
        self.verified += verified
        self.damaged += not verified and verdict.get("newest_step") == NEWEST \
            and verdict.get("newest") == "ok"
        self.faults += [f"{what}: {fault}" for fault in faults]

    def rebuild(self, what: str, scene: Scene) -> None:
        """What a rebuild publishes is a checkpoint as good as any."""
        try:
            told = subprocess.run([self.workshop.programs.pawl, "rebuild", f"{scene.run}@{NEWEST}"],
                                  capture_output=True, check=False,
                                  timeout=self.workshop.programs.deadline_s)
        except subprocess.TimeoutExpired:
            self.faults.append(f"{what}: rebuild does not end")
            return
        if told.returncode not in (0, 1, 3, 4, 75):
            self.faults.append(f"{what}: rebuild ended with {told.returncode}: "
                               f"{told.stderr.decode('utf-8', 'replace')[:2000]}")
        if told.returncode != 0:
            return
        self.rebuilt += 1
        verdict = self.judge.ask(scene.run, NEWEST)
        if verdict.get("verify") != "ok":
            self.faults.append(f"{what}: a rebuild made what does not verify: {verdict}"[:2000])
        self.faults += [f"{what}, rebuilt: {fault}" for fault in
                        faults_of(verdict, scene.directory)]


def check_cases(check: Check, part: str) -> None:
    for name in part_of([name for name in CASES if name not in NOT_JUDGED], part):
        with check.workshop.scene() as scene:
            CASES[name].make(scene)
            check.look(name, scene)
            if not (CASES[name].holes or CASES[name].waits):
                check.rebuild(name, scene)


def check_mutations(check: Check, count: int, part: str) -> None:
    n, m = (int(number) for number in part.split("/"))
    for seed in range(n - 1, count, m):
        with check.workshop.scene() as scene:
            lost = mutate(scene, seed)
            check.look(f"mutation {seed}", scene)
            if lost or seed % 16 < m:
                check.rebuild(f"mutation {seed}", scene)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--mutations", type=int, default=0, help="that many instead of the cases")
    parser.add_argument("--proof", action="store_true", help="tell the result as a proof program does")
    arguments = parser.parse_args()
    if arguments.sanitizer == "thread":
        print("SKIP: one thread at a time is judged; ThreadSanitizer has nothing to see")
        return SKIPPED
    if arguments.mutations == 0 and (missing := missing_for_devices()):
        print(f"SKIP: {missing}")
        return SKIPPED
    workshop = Workshop(programs_of(arguments))
    check = Check(workshop)
    try:
        if arguments.mutations > 0:
            check_mutations(check, arguments.mutations, arguments.part)
        else:
            check_cases(check, arguments.part)
    finally:
        check.judge.close()
        workshop.close()
    counted = (f"{check.verified} verified, {check.damaged} restored in spite of damage elsewhere, "
               f"{check.rebuilt} rebuilt")
    if arguments.proof:
        print(json.dumps({"name": "what verifies restores: mutations", "tried": check.judged,
                          "lost": len(check.faults), "note": counted}))
    else:
        print(f"{check.judged} judged: {counted}, {len(check.faults)} faults")
    for fault in check.faults:
        print(fault, file=sys.stderr if arguments.proof else sys.stdout)
    return 1 if check.faults else 0


if __name__ == "__main__":
    sys.exit(main())
