# SPDX-License-Identifier: Apache-2.0
"""What the tests with Keras share: the package, a directory for each test, programs of their own."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = SOURCE / "python"
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(PACKAGE)]

#: For this process and those that it starts.
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": os.environ.get("KERAS_BACKEND", "tensorflow"),
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
}
os.environ.update(ENVIRONMENT)


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, and the path of a run in it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-keras-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_path = self.directory / "run"

    def start(self, text, *arguments, python=sys.executable, **variables):
        """Starts Python text in a process of its own."""
        program = self.directory / f"program{len(list(self.directory.glob('program*.py')))}.py"
        program.write_text(text, encoding="utf-8")
        paths = os.pathsep.join([str(PACKAGE), str(HERE)])
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": paths, **variables}
        command = [python, str(program), *map(str, arguments)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def program(self, text, *arguments, **more):
        """Runs Python text in a process of its own; what it prints on its standard output."""
        process = self.start(text, *arguments, **more)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, out + err)
        return out

    def assert_same(self, model, other):
        """Two models have the same variables, those of their optimizers, too."""
        found = [*model.variables, *model.optimizer.variables]
        expected = [*other.variables, *other.optimizer.variables]
        self.assertEqual(len(found), len(expected))
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), two.numpy(), err_msg=one.path)


def main():
    """Runs the tests of the program."""
    unittest.main(verbosity=2)
