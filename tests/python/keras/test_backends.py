# SPDX-License-Identifier: Apache-2.0
"""On JAX and on PyTorch, too, a training that is killed ends as one that was not."""

import pathlib
import sys
import unittest

import support  # first: it finds the package
import numpy as np

#: PyTorch is in an environment of its own, whose packages come after those of this one.
TORCH = sorted((support.SOURCE / "build/torch/lib").glob("python3*/site-packages"))
JOB = """
import runpy, sys
sys.path += sys.argv.pop(1).split(":")
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = sys.path[0] + "/jobs.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Backends(support.InDirectory):
    def job(self, backend, *arguments, killed=False):
        packages = ":".join(map(str, TORCH)) if backend == "torch" else ""
        process = self.start(JOB, packages, support.HERE, *arguments, KERAS_BACKEND=backend)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, -9 if killed else 0, out + err)
        return out

    def continues(self, backend, kind, kills, *arguments):
        whole, found = self.directory / f"{kind}.npz", self.directory / f"{kind}-killed.npz"
        self.job(backend, kind, self.directory / f"{kind}-whole", whole, *arguments)
        for at in kills:
            self.job(backend, kind, self.directory / kind, found, at, "--again", *arguments, killed=True)
        out = self.job(backend, kind, self.directory / kind, found, "--again", *arguments)
        self.assertNotIn("None", out)
        with np.load(whole) as one, np.load(found) as other:
            self.assertEqual(len(one.files), len(other.files))
            for a, b in zip(one.files, other.files, strict=True):
                np.testing.assert_array_equal(one[a], other[b], err_msg=f"{backend} {kind}: {a}")

    def test_jax(self):
        self.continues("jax", "dropout", [4, 6])
        self.continues("jax", "lstm", [9], "--jit")

    @unittest.skipUnless(
        TORCH and pathlib.Path(TORCH[0]).match(f"*/python3.{sys.version_info.minor}/site-packages"),
        "SKIP: PyTorch is not in build/torch: tools/setup torch installs it, from PyPI",
    )
    def test_torch(self):
        self.continues("torch", "dropout", [4, 6])
        self.continues("torch", "embedding", [9])


if __name__ == "__main__":
    support.main()
