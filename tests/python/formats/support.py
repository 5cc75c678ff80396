# SPDX-License-Identifier: Apache-2.0
"""What the tests with other tools share: the package, a directory for each test, values bit for bit."""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "tests/python")]

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import pawl  # noqa: E402

#: What pawl calls the elements of an array, by the name of its dtype.
NAMES = {
    "bool": "BOOL",
    **{f"{kind}{bits}": f"{short}{bits}" for kind, short in (("int", "I"), ("uint", "U")) for bits in (8, 16, 32, 64)},
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
#: Those that NumPy has without ml_dtypes.
PLAIN = [name for name in NAMES if name not in ("bfloat16",) and not name.startswith("float8")]
#: What is read: complex128, too, as F64 with a last dimension of 2.
READ = [*PLAIN, "complex128"]
#: None, a scalar; without elements; 1 to 5 dimensions.
SHAPES = [(), (0,), (3, 0, 2), (1,), (17,), (3, 5), (2, 3, 4), (2, 1, 3, 2, 4)]


def made(name, shape, seed=0):
    """An array of that type: any bits, so NaN and the greatest numbers, too."""
    dtype = np.dtype(getattr(ml_dtypes, name)) if not hasattr(np, name) and name != "bool" else np.dtype(name)
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if name == "bool":
        raw &= 1
    return raw.view(dtype).reshape(shape)


def bits(array):
    """The elements of an array in order of rows, each little-endian."""
    array = np.asarray(array.numpy() if hasattr(array, "numpy") else array)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()


class InDirectory(unittest.TestCase):
    """Each test has a directory of its own, and counts the files that it has compared."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pawl-formats-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.files = 0

    def assert_tensor(self, checkpoint, name, array):
        """The tensor of that name is the array: type, shape, every bit."""
        array = np.asarray(array.numpy() if hasattr(array, "numpy") else array)
        found = checkpoint[name]
        kind, shape = array.dtype.newbyteorder("=").name, array.shape
        expected = ("F64", (*shape, 2)) if kind == "complex128" else (NAMES[kind], shape)
        self.assertEqual((found.dtype, found.shape), expected, f"{name} differs")
        self.assertEqual(bytes(found.read().buffer), bits(array), f"{name}: the elements differ")

    def assert_arrays(self, path, arrays, format_name):
        """The file has these arrays, and nothing else."""
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, format_name)
            self.assertEqual(sorted(checkpoint), sorted(arrays))
            for name, array in arrays.items():
                self.assert_tensor(checkpoint, name, array)
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1

    def assert_unread(self, checkpoint, name, dtype, shape):
        """The tensor is named and shown, and not read."""
        found = checkpoint[name]
        self.assertEqual((found.dtype, found.shape), (dtype, shape))
        with self.assertRaisesRegex(pawl.UsageError, re.escape(f"elements of type {dtype} cannot be read")):
            found.read()

    def enough(self, least=30):
        """As many files were compared."""
        self.assertGreaterEqual(self.files, least)

    def run_of(self, arrays, values=None, name="run"):
        """A run of pawl with one step that has these arrays, and values."""
        state = pawl.State({**{key: np.asarray(array) for key, array in arrays.items()}, **(values or {})})
        with pawl.Run(self.directory / name) as run:
            run.save(state, step=1)
            run.wait()
        return self.directory / name


def main():
    """Runs the tests of the program."""
    unittest.main(verbosity=2)
