#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains without interruption, trains again while killing the trainer with SIGKILL at random moments,
and compares the two final checkpoints bit for bit.

Half of the kills are aimed at a save: they wait for one to begin and strike a random moment later.
The others strike at any moment: while the trainer starts, restores, trains or saves.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

import watch
from watch import Failure

START_TIMEOUT_S = 60.0  # from the trainer's start until it says from which step it resumes
LIFE_TIMEOUT_S = 120.0  # for a trainer that is going to be killed
TRAIN_TIMEOUT_S = 600.0  # for a trainer that may finish
EXTRA_KILLS = 8           # at most, when too few of the planned ones hit a save


class Trainer(watch.Process):
    """One process of the trainer, and what it told about itself."""

    def __init__(self, options, run, steps, save_every):
        self.run = run
        self.told = watch.EventFile(run + ".events")
        self.named, self.last_step = self.told.named, self.told.last_step
        super().__init__([options.charlm, "--run", run, "--events", self.told.path,
                          "--steps", steps, "--save-every", save_every,
                          "--hidden", options.hidden, "--context", options.context,
                          "--batch", options.batch], run + ".output")

    def look(self):
        self.told.look()


def step_unfinished(trainer):
    """The step whose save was under way when the trainer was killed, or None.

    The trainer says that a save began once pawl_save has returned; whether it was committed is seen
    in the files.
    """
    step = trainer.last_step("save-begun")
    return None if step is None or watch.is_committed(trainer.run, step) else step


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
        self.save_s = float(commit[3])  # how long a save takes
        self.share_s = (steps[-1][0] - steps[0][0]) / (options.kills + 1)

    def strike(self, trainer, kill, aimed):
        """Waits for kill number `kill` (from 1), and kills. `aimed`: inside of a save."""
        cap = min(kill, self.kills) * self.steps // (self.kills + 1)
        moment = trainer.started + self.dice.uniform(0, self.share_s * (1.0 if aimed else 1.5))
        trainer.wait_until(lambda: time.monotonic() >= moment
                           or trainer.last_step("step", 0) >= cap,
                           LIFE_TIMEOUT_S, f"step {cap}")
        if aimed:
            begun = len(trainer.named("save-begun"))
            trainer.wait_until(lambda: len(trainer.named("save-begun")) > begun,
                               LIFE_TIMEOUT_S, "the beginning of the next save")
            # A save that an earlier kill cut short has not told how long it takes.
            took = [float(event[3]) for event in trainer.named("save-committed")] or [self.save_s]
            self.save_s = min(self.save_s, statistics.median(took))
            spread = 0.8 if kill <= self.kills else 0.2
            time.sleep(self.dice.uniform(0, spread * self.save_s))
        if trainer.process.poll() is not None:
            raise Failure(f"the trainer ended before kill {kill}; {trainer.story()}")
        trainer.kill()


HEADER = "kill  aimed at    during save?   resumed from step  steps lost  stall per save"


def print_row(kill, aimed, killed, unfinished, resumed_from):
    reached = killed.last_step("step", killed.last_step("resumed", resumed_from))
    stalls = [float(event[4]) for event in killed.named("save-committed")]
    print(f"{kill:4}  {'a save' if aimed else 'any time':9}  "
          f"{'no' if unfinished is None else f'yes, step {unfinished}':14} {resumed_from:17} "
          f"{max(reached - resumed_from, 0):11}  "
          + (f"{statistics.median(stalls) * 1e3:11.1f} ms" if stalls else f"{'-':>14}"), flush=True)


def train_under_fire(options, plan, run):
    """The interrupted run. Returns the number of kills, of those inside of a save, and the last step."""
    kill = inside = 0
    end = options.steps
    more = True
    trainer = Trainer(options, run, watch.WITHOUT_END, options.save_every)
    print(HEADER, flush=True)
    while more:
        aimed = plan.aimed[kill] if kill < plan.kills else True
        kill += 1
        plan.strike(trainer, kill, aimed)
        killed, unfinished = trainer, step_unfinished(trainer)
        inside += unfinished is not None
        end = max(end, trainer.last_step("step", 0))
        more = kill < plan.kills or (inside < options.inside and kill < plan.kills + EXTRA_KILLS)
        trainer = Trainer(options, run, watch.WITHOUT_END if more else end, options.save_every)
        trainer.wait_until(lambda: trainer.named("resumed"), START_TIMEOUT_S,
                           "it said from which step it resumes")
        print_row(kill, aimed, killed, unfinished, trainer.last_step("resumed"))
    trainer.wait_for_end(TRAIN_TIMEOUT_S)
    if inside < options.inside:
        raise Failure(f"only {inside} of {kill} kills hit a save, {options.inside} are needed: saves "
                      "are too quick here; make them larger with --hidden")
    return kill, inside, end


def compare(options, run, other, step):
    """Compares the final checkpoints twice: by pawl diff, and by reading the files without pawl."""
    for each in (run, other):
        watch.run_tool(options.pawl, "verify", each)
    ends = [f"{each}@{step}" for each in (run, other)]
    watch.run_tool(options.pawl, "diff", *ends)  # exit code 3 and a table when they differ
    found = json.loads(watch.run_tool(options.pawl, "diff", "--json", *ends))
    entries = watch.read_entries(run, step)
    digests = watch.digests_of(entries)
    others = watch.digests_of(watch.read_entries(other, step))
    tensors = [name for name, entry in entries.items() if entry.is_tensor()]
    different = sorted(name for name in digests.keys() | others.keys()
                       if digests.get(name) != others.get(name))
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
    parser.add_argument("--steps", type=int, default=480,
                        help="at the end [480; more where the kills came later]")
    parser.add_argument("--save-every", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    return parser.parse_args()


def train_without_interruption(options, run, steps):
    watch.empty(os.path.dirname(run), (os.path.basename(run),))
    print(f"training {steps} steps without interruption in {run}", flush=True)
    trainer = Trainer(options, run, steps, 0)
    trainer.wait_for_end(TRAIN_TIMEOUT_S)
    return trainer


def demonstrate(options):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    directory = os.path.abspath(options.directory)
    run, other = (os.path.join(directory, name) for name in ("uninterrupted", "killed"))
    watch.empty(directory, ("uninterrupted", "killed"))
    uninterrupted = train_without_interruption(options, run, options.steps)
    plan = Plan(options, random.Random(seed), uninterrupted)
    took_s = uninterrupted.told.events[-1][0] - uninterrupted.started
    print(f"took {took_s:.1f} s, its only save {plan.save_s:.2f} s\n\n"
          f"training again in {other}, with a save every {options.save_every} steps and "
          f"{options.kills} kills\n(--seed {seed} repeats their moments as far as the machine lets it)",
          flush=True)

    began = time.monotonic()
    kills, inside, end = train_under_fire(options, plan, other)
    print(f"took {time.monotonic() - began:.1f} s, with {kills} kills, {inside} of them inside a "
          "save\n", flush=True)
    if end > options.steps:
        print(f"a kill came as late as step {end}; to compare with that, once more: ", end="")
        train_without_interruption(options, run, end)
    count = compare(options, run, other, end)
    print(f"demo: {count} tensors identical bit for bit to the uninterrupted run")


def main():
    options = read_options()
    watch.leave_when_asked()
    try:
        demonstrate(options)
    except Failure as failure:
        print(f"demo: failed: {failure}", file=sys.stderr)
        return 1
    finally:
        watch.Process.end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
