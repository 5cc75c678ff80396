# SPDX-License-Identifier: Apache-2.0
"""What the tests with TensorFlow share: the package, a directory for each test, programs of their own."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = SOURCE / "python"
sys.path.insert(0, str(PACKAGE))

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def two_devices():
    """Makes two devices of this machine's processor; before anything else is done with TensorFlow."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


def address(array):
    """Where the elements are."""
    return array.__array_interface__["data"][0]


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, and the path of a run in it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-tf-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_path = self.directory / "run"
        tf.keras.utils.set_random_seed(1)

    def program(self, text, *arguments, timeout=240, check=True, variables=None):
        """Runs Python text in a process of its own; what it has printed, and how it ended."""
        program = self.directory / "program.py"
        program.write_text(text, encoding="utf-8")
        paths = [str(PACKAGE), str(pathlib.Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(variables or {})}
        command = [sys.executable, str(program), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def assert_bits(self, found, expected):
        """Two arrays have the same type, shape and bytes."""
        found, expected = np.asarray(found), np.asarray(expected)
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
        self.assertEqual(found.tobytes(), expected.tobytes())


def main():
    """Runs the tests of the program."""
    unittest.main(verbosity=2)
