#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains without interruption, trains again while killing the trainer with SIGKILL at random moments,
and compares the two final checkpoints bit for bit.

Half of the kills are aimed at a save: they wait for one to begin and strike a random moment later.
The others strike at any moment: while the trainer starts, restores, trains or saves.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

POLL_S = 0.0005
START_DEADLINE_S = 60.0   # from the trainer's start to its first word about a checkpoint
LIFE_DEADLINE_S = 120.0   # of one trainer that is going to be killed
TRAIN_DEADLINE_S = 600.0  # of a trainer that may finish
TOOL_DEADLINE_S = 120.0   # of one pawl command
EXTRA_KILLS = 8           # at most, when too few of the planned ones hit a save


class Failure(Exception):
    """Ends the demonstration with a message."""


class Trainer:
    """One process of the trainer, and what it told about itself."""

    def __init__(self, options, run, save_every):
        self.run = run
        self.events_path = run + ".events"
        self.output_path = run + ".output"
        self.seen = os.path.getsize(self.events_path) if os.path.exists(self.events_path) else 0
        self.rest = b""
        self.events = []  # [seconds, name, step, further numbers]
        command = [options.charlm, "--run", run, "--events", self.events_path,
                   "--steps", options.steps, "--save-every", save_every, "--hidden", options.hidden,
                   "--context", options.context, "--batch", options.batch]
        self.started = time.monotonic()
        with open(self.output_path, "ab") as output:
            self.process = subprocess.Popen([str(word) for word in command],
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def look(self):
        """Reads the events that came since the last look."""
        try:
            with open(self.events_path, "rb") as file:
                file.seek(self.seen)
                added = file.read()
        except FileNotFoundError:
            return
        self.seen += len(added)
        lines = (self.rest + added).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            seconds, name, *numbers = line.decode().split()
            self.events.append([float(seconds), name, int(numbers[0]),
                                *[float(number) for number in numbers[1:]]])

    def named(self, name):
        return [event for event in self.events if event[1] == name]

    def last_step(self, name, otherwise=None):
        found = self.named(name)
        return found[-1][2] if found else otherwise

    def story(self):
        with open(self.output_path, "rb") as output:
            lines = output.read().decode(errors="replace").splitlines()
        return "its last lines were:\n    " + "\n    ".join(lines[-15:])

    def wait_until(self, happened, deadline_s, what):
        """Returns when `happened()` is true; fails when the trainer ends before, or in time."""
        limit = time.monotonic() + deadline_s
        while True:
            ended = self.process.poll()
            self.look()
            if happened():
                return
            if ended is not None:
                raise Failure(f"the trainer ended with code {ended} before {what}; {self.story()}")
            if time.monotonic() > limit:
                self.kill()
                raise Failure(f"waited {deadline_s:.0f} s for {what}, in vain; {self.story()}")
            time.sleep(POLL_S)

    def wait_for_end(self):
        """Returns when the trainer has ended by itself; fails unless it succeeded."""
        try:
            code = self.process.wait(TRAIN_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"the trainer was not finished after {TRAIN_DEADLINE_S:.0f} s; "
                          f"{self.story()}") from None
        self.look()
        if code != 0:
            raise Failure(f"the trainer ended with code {code}; {self.story()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.look()


def step_directory(run, step):
    return os.path.join(run, f"step-{step:08d}")


def step_unfinished(trainer):
    """The step whose save was under way when the trainer was killed, or None.

    The trainer says that a save began once pawl_save has returned. Whether it was committed does not
    depend on anybody's word: a checkpoint exists if and only if its manifest does.
    """
    step = trainer.last_step("save-begun")
    if step is None or os.path.exists(os.path.join(step_directory(trainer.run, step),
                                                   "manifest.json")):
        return None
    return step


class Plan:
    """When to strike. Every kill has its share of the training, so that all of them take place."""

    def __init__(self, options, dice, uninterrupted):
        steps = uninterrupted.named("step")
        commit = uninterrupted.named("save-committed")[-1]
        self.dice = dice
        self.steps = options.steps
        self.kills = options.kills
        self.aimed = [i % 2 == 0 for i in range(options.kills)]
        dice.shuffle(self.aimed)
        self.save_s = commit[3]  # how long a save takes
        self.share_s = (steps[-1][0] - steps[0][0]) / (options.kills + 1)

    def strike(self, trainer, kill, aimed):
        """Waits for kill number `kill` (from 1), and kills. `aimed`: inside of a save."""
        cap = min(kill, self.kills) * self.steps // (self.kills + 1)
        moment = trainer.started + self.dice.uniform(0, self.share_s * (1.0 if aimed else 1.5))
        trainer.wait_until(lambda: time.monotonic() >= moment
                           or trainer.last_step("step", 0) >= cap,
                           LIFE_DEADLINE_S, f"step {cap}")
        if aimed:
            begun = len(trainer.named("save-begun"))
            trainer.wait_until(lambda: len(trainer.named("save-begun")) > begun,
                               LIFE_DEADLINE_S, "the beginning of the next save")
            # A save that an earlier kill cut short has not told how long it takes.
            took = [event[3] for event in trainer.named("save-committed")] or [self.save_s]
            self.save_s = min(self.save_s, statistics.median(took))
            spread = 0.8 if kill <= self.kills else 0.2
            time.sleep(self.dice.uniform(0, spread * self.save_s))
        if trainer.process.poll() is not None:
            raise Failure(f"the trainer ended before kill {kill}; {trainer.story()}")
        trainer.kill()


HEADER = "kill  aimed at    during save?   resumed from step  steps lost  stall per save"


def print_row(kill, aimed, killed, unfinished, resumed_from):
    reached = killed.last_step("step", killed.last_step("resumed", resumed_from))
    stalls = [event[4] for event in killed.named("save-committed")]
    print(f"{kill:4}  {'a save' if aimed else 'any time':9}  "
          f"{'no' if unfinished is None else f'yes, step {unfinished}':14} {resumed_from:17} "
          f"{max(reached - resumed_from, 0):11}  "
          + (f"{statistics.median(stalls) * 1e3:11.1f} ms" if stalls else f"{'-':>14}"), flush=True)


def train_under_fire(options, plan, run):
    """The interrupted run. Returns the number of kills and of those inside of a save."""
    kill = inside = 0
    trainer = Trainer(options, run, options.save_every)
    print(HEADER, flush=True)
    while kill < plan.kills or (inside < options.inside and kill < plan.kills + EXTRA_KILLS):
        aimed = plan.aimed[kill] if kill < plan.kills else True
        kill += 1
        plan.strike(trainer, kill, aimed)
        killed, unfinished = trainer, step_unfinished(trainer)
        inside += unfinished is not None
        trainer = Trainer(options, run, options.save_every)
        trainer.wait_until(lambda: trainer.named("resumed"), START_DEADLINE_S,
                           "it said from which step it resumes")
        print_row(kill, aimed, killed, unfinished, trainer.last_step("resumed"))
    trainer.wait_for_end()
    if inside < options.inside:
        raise Failure(f"only {inside} of {kill} kills hit a save, {options.inside} are needed: saves "
                      "are too quick here; make them larger with --hidden")
    return kill, inside


def run_tool(options, *words):
    """Runs one pawl command that has to succeed; returns what it printed."""
    command = [options.pawl, *words]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_DEADLINE_S,
                                check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: not finished after {TOOL_DEADLINE_S:.0f} s") from None
    if result.returncode != 0:
        said = (result.stdout + result.stderr).splitlines()
        raise Failure(f"{' '.join(command)}: exit code {result.returncode}\n" + "\n".join(said[:30])
                      + ("\n..." if len(said) > 30 else ""))
    return result.stdout


def read_entries(directory):
    """Digest of each entry of a checkpoint, and the names of those that are tensors; read without
    pawl: its data files are safetensors, in which values have a kind of their own."""
    with open(os.path.join(directory, "manifest.json"), "rb") as file:
        manifest = json.load(file)
    digests, tensors = {}, set()
    for entry in manifest["files"]:
        with open(os.path.join(directory, entry["name"]), "rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_size))
            about = json.loads(header.pop("__metadata__")["pawl"])["entries"]
            for name, tensor in header.items():
                begin, end = tensor["data_offsets"]
                file.seek(8 + header_size + begin)
                digest = hashlib.sha256(file.read(end - begin)).hexdigest()
                digests[name] = (tensor["dtype"], tuple(tensor["shape"]), digest)
                if "kind" not in about.get(name, {}):
                    tensors.add(name)
    return digests, tensors


def compare(options, run, other):
    """Compares the final checkpoints twice: by pawl diff, and by reading the files without pawl."""
    for each in (run, other):
        run_tool(options, "verify", each)
    ends = [f"{each}@{options.steps}" for each in (run, other)]
    run_tool(options, "diff", *ends)  # exit code 3 and a table when they differ
    found = json.loads(run_tool(options, "diff", "--json", *ends))
    entries, tensors = read_entries(step_directory(run, options.steps))
    others, _ = read_entries(step_directory(other, options.steps))
    different = sorted(name for name in entries.keys() | others.keys()
                       if entries.get(name) != others.get(name))
    if different or not tensors or not found["identical"] or found["same"] != len(entries):
        raise Failure(f"{len(different)} of {len(entries)} entries differ ({', '.join(different)}); "
                      f"pawl diff found {found['same']} equal")
    print(f"pawl verify and pawl diff are content; {len(entries)} entries compared without pawl, too")
    return len(tensors)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--charlm", required=True, help="the trainer")
    parser.add_argument("--pawl", required=True, help="the command")
    parser.add_argument("--directory", required=True, help="where the two runs go; emptied first")
    parser.add_argument("--seed", type=int, help="of the moments of the kills [another every time]")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--inside", type=int, default=3, help="kills that must hit a save [3]")
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--save-every", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    return parser.parse_args()


def empty(directory):
    """Removes what an earlier demonstration left, and nothing else."""
    for name in ("uninterrupted", "killed"):
        for suffix in (".events", ".output"):
            if os.path.exists(os.path.join(directory, name + suffix)):
                os.remove(os.path.join(directory, name + suffix))
        shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
    os.makedirs(directory, exist_ok=True)


def demonstrate(options):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    directory = os.path.abspath(options.directory)
    run, other = (os.path.join(directory, name) for name in ("uninterrupted", "killed"))
    empty(directory)

    print(f"training {options.steps} steps without interruption in {run}", flush=True)
    uninterrupted = Trainer(options, run, 0)
    uninterrupted.wait_for_end()
    plan = Plan(options, random.Random(seed), uninterrupted)
    took_s = uninterrupted.events[-1][0] - uninterrupted.started
    print(f"took {took_s:.1f} s, its only save {plan.save_s:.2f} s\n\n"
          f"training again in {other}, with a save every {options.save_every} steps and "
          f"{options.kills} kills\n(--seed {seed} repeats their moments as far as the machine lets it)",
          flush=True)

    began = time.monotonic()
    kills, inside = train_under_fire(options, plan, other)
    print(f"took {time.monotonic() - began:.1f} s, with {kills} kills, {inside} of them inside a "
          "save\n", flush=True)
    count = compare(options, run, other)
    print(f"demo: {count} tensors identical bit for bit to the uninterrupted run")


def main():
    options = read_options()
    try:
        demonstrate(options)
    except Failure as failure:
        print(f"demo: failed: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
