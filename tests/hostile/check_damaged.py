#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verifies can be restored: over the damaged runs of the other tests.

Scripts of tests/cli run with a `pawl` that first keeps a copy of every run that it is shown; the
programs of tests/failures leave copies of theirs. Every step in those copies is judged.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from restores import faults_of
from scratch import SKIPPED, Judge, Programs, Workshop, add_arguments, programs_of

DAMAGES = re.compile(r"\b(dd|truncate|rm|mv|printf)\b")
KEEPER = """#!/bin/sh
# Keeps a copy of the runs that it is shown, then does what it was asked.
for word; do
    run="${{word%@*}}"
    if [ -e "$run" ] && [ -d "$run" ]; then
        cp -a "$run" "$(mktemp -d '{kept}/cli-XXXXXX')/run"
    fi
done
exec '{pawl}' "$@"
"""


def run(command: list[str | Path], deadline_s: int, **options: Any) -> list[str]:
    """A program of which the runs that it leaves matter, not what it says; a fault where it hangs."""
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False, timeout=deadline_s, **options)
    except subprocess.TimeoutExpired:
        return [f"{' '.join(map(str, command))}: does not end within {deadline_s} s"]
    return []


def run_scripts(folder: Path, programs: Programs, make_run: Path, kept: Path,
                place: Path) -> tuple[int, list[str]]:
    """The scripts of tests/cli that damage something: how many, and faults."""
    tools = place / "bin"
    tools.mkdir()
    (tools / "pawl").write_text(KEEPER.format(kept=kept, pawl=programs.pawl))
    (tools / "pawl").chmod(0o755)
    (tools / "make_run").symlink_to(make_run)
    environment = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    scripts = [path for path in sorted(folder.glob("*/cmd"))
               if DAMAGES.search(path.read_text()) and not needs_more(path)]
    faults: list[str] = []
    for number, script in enumerate(scripts):
        where = place / f"script-{number}"
        where.mkdir()
        faults += run(["sh", script], programs.deadline_s, cwd=where, env=environment)
    return len(scripts), faults


def needs_more(script: Path) -> bool:
    """Those that keep a process in the background, or another user, damage nothing."""
    return re.search(r"--hold|unprivileged|in_terminal", script.read_text()) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--make-run", type=Path, required=True)
    parser.add_argument("--cli", type=Path, required=True, help="tests/cli")
    parser.add_argument("--failures", type=Path, nargs="+", required=True,
                        help="programs of tests/failures")
    arguments = parser.parse_args()
    if arguments.sanitizer == "thread":
        print("SKIP: one thread at a time is judged; ThreadSanitizer has nothing to see")
        return SKIPPED
    workshop = Workshop(programs_of(arguments))
    judge = Judge(workshop.programs)
    kept = workshop.root / "kept"
    kept.mkdir()
    verified = 0
    try:
        scripts, faults = run_scripts(arguments.cli.resolve(), workshop.programs,
                                      arguments.make_run.resolve(), kept, workshop.root)
        for program in arguments.failures:
            faults += run([program], workshop.programs.deadline_s,
                          env={**os.environ, "PAWL_KEEP_SCRATCH": str(kept)})
        steps = sorted(path for path in kept.rglob("step-*")
                       if path.is_dir() and path.name[5:].isdecimal())
        for directory in steps:
            verdict = judge.ask(directory.parent, int(directory.name[5:]))
            verified += verdict.get("verify") == "ok"
            faults += [f"{directory.relative_to(kept)}: {fault}"
                       for fault in faults_of(verdict, directory)]
    finally:
        judge.close()
        workshop.close()
    print(f"{scripts} scripts, {len(arguments.failures)} programs; {len(steps)} steps judged, of "
          f"which {verified} verified; {len(faults)} faults")
    for fault in faults:
        print(fault)
    few = len(steps) - verified < 10
    if few:
        print("hardly anything was damaged: are the scripts found?")
    return 1 if faults or few else 0


if __name__ == "__main__":
    sys.exit(main())
