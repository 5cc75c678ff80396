# SPDX-License-Identifier: Apache-2.0
"""What the benches of training loops share: a job in processes of its own, contenders in turns, tables of medians."""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STOP_S = 45  # torchrun gives its ranks 30 seconds to end


class Failed(Exception):
    """A job that has no result."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- jobs ----------------------------------------------------------------------------------------


def end(process):
    """Ends a job and its ranks, which torchrun keeps in groups of their own."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def why_of(log):
    """The end of what a job said; of several ranks what the first that failed said, not torchrun."""
    said = [line for line in log.splitlines() if line.startswith("[rank")]
    if said:
        said = [line for line in said if line.split(":")[0] == said[0].split(":")[0]]
    return "\n".join(said or log.splitlines())[-3000:]


def run(directory, command, variables, limit_s):
    """What a job found, which gets the directory for its files and the path of its result as options."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "data").mkdir(parents=True)
    result, log = directory / "result.json", directory / "log"
    command = [*command, f"--directory={directory / 'data'}", f"--result={result}"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "PAWL_LIBRARY": str(ROOT / "build" / "release" / "src" / "libpawl.so"),
        **variables,
    }
    try:
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = f"none within {limit_s} s"
            finally:
                end(process)
        if code != 0 or not result.exists():
            raise Failed(f"exit code {code}\n{why_of(log.read_text(errors='replace'))}")
        return json.loads(result.read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def given(options, *names):
    """Options of a bench as those of its job."""
    return [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]


def measure(options, job, what=""):
    """{contender: [what a round found]}; those that fail are named, and left out from then on. Ctrl-C ends it.

    Args:
        options: rounds, only, and failed, a list that gets what failed.
        job: runs the job of a contender, and gives what it found.
        what: to be said behind a contender's name.
    """
    found = {contender: [] for contender in options.only}
    turns = [name for i in range(options.rounds) for name in rotated(options.only, i)]
    try:
        for contender in turns:
            if contender in found:
                take_turn(options, contender, job, what, found)
    except KeyboardInterrupt:
        say("stopped; what there is was measured before")
    return {contender: rounds for contender, rounds in found.items() if rounds}


def rotated(things, by):
    first = by % len(things)
    return things[first:] + things[:first]


def take_turn(options, contender, job, what, found):
    begin = time.perf_counter()
    try:
        found[contender].append(job(contender))
    except Failed as why:
        del found[contender]
        options.failed.append(f"{contender}{what}")
        say(f"{contender}{what} failed: {why}")
    else:
        took = time.perf_counter() - begin
        say(f"{contender}{what}, round {len(found[contender])} of {options.rounds}: {took:.0f} s")


# ---- tables --------------------------------------------------------------------------------------


def spread(values):
    if len(values) < 2:
        return "".join(f"{value:.4f}" for value in values) or "-"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.4f} ({low:.4f}..{high:.4f})"


def values_of(turns, column):
    return [value for one in turns for value in one[column]]


def ratio(value, other):
    return f"{value / other:.4f}" if other > 0 else "-"


# ---- options -------------------------------------------------------------------------------------


def numbers(text):
    return [int(one) for one in text.split(",") if one]


def names_of(known):
    """A type of option: names, separated by commas, each of which is known."""

    def parse(text):
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(known)}")
        return names

    return parse
