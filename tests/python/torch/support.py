# SPDX-License-Identifier: Apache-2.0
"""What the tests with PyTorch share: the package, a directory for each test, jobs of several ranks."""

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

import torch  # noqa: E402

torch.set_num_threads(1)

#: Slow enough that a save is still being written when the optimizer makes its next step.
SLOW = {"bandwidth_bytes_per_s": 24 << 20, "budget_bytes": 8 << 20, "in_flight_bytes": 1 << 20}
#: So slow that a save of 2 MB is still being written after a machine has stalled for more than a second.
SLOWER = {**SLOW, "bandwidth_bytes_per_s": 1 << 20}


def end_rank():
    """Ends a program of several ranks at once: torch 2.13 aborts now and then while it takes FSDP2 down."""
    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, and the path of a run in it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-torch-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.run_path = self.directory / "run"
        torch.manual_seed(1)

    def program(self, text, *arguments, ranks=None, timeout=240, check=True, variables=None):
        """Runs Python text in a process of its own, or on `ranks` processes under torchrun; its output."""
        program = self.directory / "program.py"
        program.write_text(text, encoding="utf-8")
        paths = [str(PACKAGE), str(pathlib.Path(__file__).parent)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **(variables or {})}
        command = [sys.executable, str(program), *map(str, arguments)]
        if ranks is not None:
            launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
            command[1:1] = launcher
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def assert_same(self, found, expected):
        """Nested dictionaries of tensors and values are equal, bit for bit."""
        self.assertEqual(type(found), type(expected))
        if isinstance(expected, dict):
            self.assertEqual(list(map(str, found)), list(map(str, expected)))
            for key in expected:
                with self.subTest(key=key):
                    self.assert_same(found[key], expected[key])
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(len(found), len(expected))
            for one, other in zip(found, expected, strict=True):
                self.assert_same(one, other)
        elif isinstance(expected, torch.Tensor):
            self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
            self.assertTrue(torch.equal(found, expected), "the elements differ")
        else:
            self.assertEqual(found, expected)


def main():
    """Runs the tests of the program."""
    unittest.main(verbosity=2)
