# SPDX-License-Identifier: Apache-2.0
"""Trainings that are killed at random batches end as those that were not: all variables, seeds, slots, metrics."""

import os
import random
import sys
import traceback

import support  # first: it finds the package
import jobs
import numpy as np
import tensorflow  # noqa: F401 (imported once, for all jobs; they begin to use it)

#: Kind of model, arguments of jobs.py, how often it is killed.
COMBINATIONS = [
    ("dense", ["--jit"], 3),
    ("dense", ["--mixed"], 2),
    ("dense", ["--at-a-time", "4"], 1),
    ("dropout", [], 3),
    ("dropout", ["--mirrored"], 3),
    ("embedding", [], 2),
    ("embedding", ["--eager"], 1),
    ("embedding", ["--mirrored"], 1),
    ("lstm", [], 2),
    ("lstm", ["--jit", "--mixed"], 2),
]
AT_A_TIME = 2
KILLED, ENDED = -9, 0


def start(arguments, output):
    """A job in a process of its own, which has imported TensorFlow already; the process."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with open(output, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            jobs.main(list(map(str, arguments)))
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Killed(support.InDirectory):
    def combination(self, number, kind, arguments, kills):
        """Yields the jobs of a combination, each with how it ends; then what differs."""
        whole, run = self.directory / f"whole{number}", self.directory / f"run{number}"
        expected, found = self.directory / f"expected{number}.npz", self.directory / f"found{number}.npz"
        yield [kind, whole, expected, "--every", "100", *arguments], ENDED
        most = 1 if "--at-a-time" in arguments else 5
        batches = [random.randint(1, most) for _ in range(kills)]
        for at in batches:
            yield [kind, run, found, at, "--again", *arguments], KILLED
        yield [kind, run, found, "--again", *arguments], ENDED
        with np.load(expected) as one, np.load(found) as other:
            self.assertEqual(len(one.files), len(other.files))
            pairs = list(zip(one.files, other.files, strict=True))
            differing = [f"{a} is not {b}" for a, b in pairs if not np.array_equal(one[a], other[b])]
        self.assertEqual(differing, [], f"{kind} {arguments}, killed after {batches}")

    def test_twenty_kills(self):
        self.assertEqual(sum(kills for _, _, kills in COMBINATIONS), 20)
        seed = random.randrange(2**32)
        random.seed(seed)
        print(f"seed {seed}", file=sys.stderr)
        waiting = [self.combination(i, *one) for i, one in enumerate(COMBINATIONS)]
        running = {}
        started = killed = 0
        while waiting or running:
            while waiting and len(running) < AT_A_TIME:
                combination = waiting.pop(0)
                job = next(combination, None)
                if job is not None:
                    output = self.directory / f"output{started}"
                    started += 1
                    running[start(job[0], output)] = combination, job, output
            if not running:
                break
            pid, status = os.wait()
            combination, job, output = running.pop(pid)
            self.assertEqual(os.waitstatus_to_exitcode(status), job[1], f"{job[0]}\n{output.read_text()}")
            killed += job[1] == KILLED
            waiting.insert(0, combination)
        self.assertEqual(killed, 20)


if __name__ == "__main__":
    support.main()
