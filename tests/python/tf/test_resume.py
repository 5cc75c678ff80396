# SPDX-License-Identifier: Apache-2.0
"""A job that is killed and started again ends with the same bits as one that was not."""

import pathlib
import random

import support
from support import InDirectory

PROGRAM = pathlib.Path(__file__).with_name("trains.py").read_text(encoding="utf-8")
STEPS = 14


class Resume(InDirectory):
    def end(self, kind, run, killed_after=0):
        """How it ended: a line with all its variables; None: it was killed."""
        done = self.program(PROGRAM, run, kind, STEPS, killed_after, check=False)
        if killed_after:
            self.assertEqual(done.returncode, -9, done.stdout + done.stderr)
            return None
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines() if line.startswith("END")]

    def resumed(self, kind):
        whole = self.end(kind, self.directory / "whole")
        first, second = sorted(random.sample(range(1, STEPS), 2))
        killed = self.directory / "killed"
        with self.subTest(kind=kind, killed_after=(first, second)):
            self.end(kind, killed, first)
            self.end(kind, killed, second)
            self.assertEqual(self.end(kind, killed), whole)
            self.assertEqual(len(whole), 1)

    def test_dropout_and_batch_normalization(self):
        self.resumed("dense")

    def test_compiled_by_xla(self):
        self.resumed("xla")

    def test_mixed_precision(self):
        self.resumed("mixed")

    def test_sparse_updates_of_an_embedding(self):
        self.resumed("embedding")

    def test_lstm(self):
        self.resumed("lstm")

    def test_two_replicas(self):
        self.resumed("mirrored")


if __name__ == "__main__":
    support.main()
