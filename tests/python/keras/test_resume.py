# SPDX-License-Identifier: Apache-2.0
"""Trainings that are killed at random batches end as those that were not: all variables, seeds, slots, metrics."""

import concurrent.futures
import random

import support  # first: it finds the package
import numpy as np

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
JOB = "import runpy, sys; sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')"


class Killed(support.InDirectory):
    def job(self, *arguments, killed=False):
        process = self.start(JOB, support.HERE / "jobs.py", *arguments)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, -9 if killed else 0, out + err)
        return out

    def combination(self, number, kind, arguments, kills):
        """What differs after the kills, and where they were."""
        run, expected, found = (self.directory / f"{what}{number}" for what in ("run", "expected.npz", "found.npz"))
        self.job(kind, self.directory / f"whole{number}", expected, "--every", "100", *arguments)
        most = 1 if "--at-a-time" in arguments else 5
        batches = [random.randint(1, most) for _ in range(kills)]
        for at in batches:
            self.job(kind, run, found, at, "--again", *arguments, killed=True)
        out = self.job(kind, run, found, "--again", *arguments)
        with np.load(expected) as one, np.load(found) as other:
            self.assertEqual(len(one.files), len(other.files))
            pairs = list(zip(one.files, other.files, strict=True))
            differing = [f"{a} is not {b}" for a, b in pairs if not np.array_equal(one[a], other[b])]
            if "--mirrored" in arguments:  # what replicas have counted is kept as a sum: its last bits may differ
                inexact = ("total", "count", "history")
                differing = [text for text in differing if not any(name in text for name in inexact)]
        return batches, out.split(), differing

    def test_twenty_kills(self):
        self.assertEqual(sum(kills for _, _, kills in COMBINATIONS), 20)
        seed = random.randrange(2**32)
        random.seed(seed)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(self.combination, i, *one) for i, one in enumerate(COMBINATIONS)]
        for (kind, arguments, _), future in zip(COMBINATIONS, futures, strict=True):
            with self.subTest(kind=kind, arguments=arguments, seed=seed):
                batches, out, differing = future.result()
                self.assertEqual(differing, [], f"killed after {batches}: {out}")
                self.assertEqual(out[:2], ["ended", "18"])


if __name__ == "__main__":
    support.main()
