#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT without interruption, trains it again under SIGKILL at random moments, and compares.

Plain, and on two ranks: the weights and moments at the end are equal, bit for bit.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE_S = 300.0  # for one process


class Trainer:
    """One process of the trainer, or torchrun with several, and what it has said."""

    def __init__(self, options, run, ranks):
        command = [sys.executable]
        if ranks > 1:
            command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [str(HERE / "train.py"), "--directory", str(run), "--steps", str(options.steps)]
        command += ["--save-every", str(options.save_every), "--width", "64", "--layers", "2", "--batch", "8"]
        command += ["--shard"] if ranks > 1 and options.shard else []
        self.output = pathlib.Path(f"{run}.output")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.began = time.monotonic()

    def last(self, word):
        """What follows the last `word` in the whole lines of the output, or None."""
        lines = self.output.read_text(errors="replace").rpartition("\n")[0]
        before, _, after = lines.rpartition(word + " ")
        return after.split()[0] if before or after != lines else None

    def ended(self):
        if time.monotonic() - self.began > DEADLINE_S:
            self.kill()
            sys.exit(f"demo: the trainer did not end within {DEADLINE_S:.0f} s: see {self.output}")
        return self.process.poll() is not None

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self):
        """Lets it train to its end; the digest of its weights."""
        while not self.ended():
            time.sleep(0.05)
        digest = self.last("digest")
        if self.process.returncode != 0 or digest is None:
            sys.exit(f"demo: the trainer failed:\n{self.output.read_text(errors='replace')[-3000:]}")
        return digest


def trained_under_kills(options, run, ranks, dice):
    """The digest at the end, and a line for each kill."""
    for number in range(options.kills):
        trainer = Trainer(options, run, ranks)
        goal = dice.randrange(2, 3 * options.save_every)  # more steps, so that training goes on
        at_any_moment = dice.random() < 0.3
        delay = ranks * dice.uniform(0.0, 3.0) if at_any_moment else dice.uniform(0.0, 0.1)
        while not trainer.ended() and not at_any_moment:
            begun, step = trainer.last("begins at step"), trainer.last("\nstep")
            if begun is not None and step is not None and int(step) - int(begun) >= goal:
                break
            time.sleep(0.02)
        time.sleep(delay)
        if trainer.ended():
            break
        trainer.kill()
        print(f"  kill {number + 1:2}: {'at any moment' if at_any_moment else 'while training'}, "
              f"after step {trainer.last('step') or '-'}", flush=True)
    return Trainer(options, run, ranks).finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default="build/demo-torch", type=pathlib.Path)
    parser.add_argument("--kills", default=20, type=int)
    parser.add_argument("--steps", default=400, type=int)
    parser.add_argument("--save-every", default=10, type=int)
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks, one after another [1,2]")
    parser.add_argument("--shard", action="store_true", help="several ranks: FSDP2 instead of DistributedDataParallel")
    parser.add_argument("--seed", default=None, type=int)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}")
    failed = False
    for ranks in map(int, options.ranks.split(",")):
        shutil.rmtree(options.directory, ignore_errors=True)
        options.directory.mkdir(parents=True)
        print(f"{ranks} rank{'s' if ranks > 1 else ''}: {options.steps} steps without interruption", flush=True)
        expected = Trainer(options, options.directory / "uninterrupted", ranks).finish()
        print(f"{ranks} rank{'s' if ranks > 1 else ''}: the same under SIGKILL", flush=True)
        found = trained_under_kills(options, options.directory / "killed", ranks, random.Random(seed))
        print(f"  uninterrupted {expected}\n  killed        {found}\n  {'equal' if found == expected else 'DIFFERENT'}")
        failed |= found != expected
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
