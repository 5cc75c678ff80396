# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: a directory for each, and programs that end on their own terms."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "python"
SOURCE = PACKAGE.parent
sys.path[:0] = [str(PACKAGE), str(SOURCE / "tests/python")]


def numpy_or_skip():
    """NumPy, or a skipped test."""
    try:
        import numpy
    except ImportError:
        raise unittest.SkipTest("there is no NumPy in this Python") from None
    return numpy


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, and the path of a run in it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-python-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_path = self.directory / "run"

    def program(self, text, *arguments, timeout=60, **options):
        """Runs Python text in a process of its own; returns it when it has ended."""
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", text, *map(str, arguments)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False, **options
        )
