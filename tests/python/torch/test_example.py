# SPDX-License-Identifier: Apache-2.0
"""The GPT example under SIGKILL ends with the bits of the uninterrupted training; `make demo-torch` takes longer."""

import os
import subprocess
import sys

import support  # first: it finds the package

EXAMPLE = support.SOURCE / "examples" / "gpt_torch"


class Example(support.InDirectory):
    def demo(self, *options):
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(EXAMPLE / "demo.py"), "--directory", str(self.directory / "demo"), *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_plain(self):
        out = self.demo("--kills", "4", "--steps", "120", "--ranks", "1", "--seed", "5")
        self.assertIn("  equal\n", out)
        self.assertIn("kill  1", out)

    def test_on_two_ranks_in_shards(self):
        out = self.demo("--kills", "2", "--steps", "60", "--ranks", "2", "--shard", "--seed", "6")
        self.assertIn("  equal\n", out)


if __name__ == "__main__":
    support.main()
