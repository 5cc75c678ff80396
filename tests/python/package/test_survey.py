# SPDX-License-Identifier: Apache-2.0
"""Finding checkpoints below a directory."""

import os
import unittest

import support

import pawl


class Survey(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.root = self.directory / "all"
        for name in ("run", "other/ckpt"):
            (self.root / name).mkdir(parents=True)
        with pawl.Run(self.root / "run") as run:
            for step in (3, 10):
                run.save(pawl.State({"x": step}), step=step)
                run.wait()
        (self.root / "other" / "ckpt" / "__0_0.distcp").write_bytes(b"")

    def test_runs_and_what_was_left_are_found(self):
        found = pawl.survey(self.root)
        self.assertIsNone(found.left_out)
        run = next(one for one in found.found if one.path == "run")
        self.assertEqual((run.format, run.status, run.step, run.steps, run.why), ("pawl", "committed", 10, 2, None))
        self.assertGreater(run.bytes, 0)
        left = next(one for one in found.found if one.path == "other/ckpt")
        self.assertEqual((left.format, left.status, left.step), ("PyTorch DCP", "unfinished", None))
        self.assertIn(".metadata is missing", left.why)

    def test_what_is_not_there_and_what_is_a_file_is_refused(self):
        with self.assertRaises(pawl.NotFound):
            pawl.survey(self.directory / "nothing")
        file = self.directory / "file"
        file.write_bytes(b"")
        with self.assertRaises(pawl.UsageError):
            pawl.survey(os.fspath(file))


if __name__ == "__main__":
    unittest.main()
