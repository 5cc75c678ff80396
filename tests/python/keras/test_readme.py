# SPDX-License-Identifier: Apache-2.0
"""The Python of README.md that is of Keras, as it stands: begun, killed, and begun again, it goes on."""

import os
import signal
import subprocess
import sys

import support


class Readme(support.InDirectory):
    def run_readme(self, *arguments):
        command = [sys.executable, str(support.HERE / "readme.py"), str(support.SOURCE / "README.md"), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE)}
        return subprocess.run(
            command, env=environment, cwd=self.directory, capture_output=True, text=True, timeout=600, check=False
        )

    def test_it_goes_on_where_it_was_killed(self):
        done = self.run_readme("700")
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        done = self.run_readme()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "500 500 1000")


if __name__ == "__main__":
    support.main()
