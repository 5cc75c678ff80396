#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pawl ls, on what is no run of pawl: says what is there, and what to do next."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SAMPLES = os.environ.get("PAWL_SAMPLES_DIR", "")

# Below the folder of samples.
SEVERAL = ["orbax/v0-direct", "orbax/v1-composite"]
ONE = [
    "orbax/v1-composite/pytree_checkpointable_has_metadata", "orbax-0.12/ocdbt_zarr3", "orbax-0.12/zarr2_no_ocdbt",
    "tf-2.21/manager", "tf-2.21/manager/ckpt-3", "tf/savedmodel-half-plus-three", "torch/bool.pt", "keras/a.keras",
]


def ls(path):
    done = subprocess.run([args.pawl, "ls", path], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stderr


class WhatIsThere(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pawl-22-")
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, *names):
        """Empty files, where names alone decide."""
        for name in names:
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb"):
                pass

    def says(self, path, what, after):
        code, err = ls(path)
        self.assertIn(code, (2, 4), err)
        self.assertIn(what, err)
        following = [line for line in err.splitlines() if line.startswith("  next: ")]
        self.assertEqual(len(following), 1, err)
        self.assertIn(after, following[0])

    def test_samples_of_other_systems(self):
        if not os.path.isdir(SAMPLES):
            self.skipTest("there are no samples of other systems here")
        for path in SEVERAL:
            with self.subTest(path):
                self.says(os.path.join(SAMPLES, path), "below it a checkpoint of Orbax", "pawl show")
        for path in ONE:
            with self.subTest(path):
                self.assertEqual(ls(os.path.join(SAMPLES, path)), (0, ""))

    def test_weights_are_listed(self):
        path = os.path.join(self.folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write((2).to_bytes(8, "little") + b"{}")
        self.assertEqual(ls(path), (0, ""))

    def test_a_run_of_orbax_is_told_by_its_steps(self):
        self.make("run/1000/_CHECKPOINT_METADATA", "run/2000/_CHECKPOINT_METADATA",
                  "run/2000/default/manifest.ocdbt")
        self.says(f"{self.folder}/run", "below it a checkpoint of Orbax", "pawl show")
        self.assertIn("2 such directories: 1000, 2000", ls(f"{self.folder}/run")[1])

    def test_a_prefix_of_tensorflow_is_no_missing_directory(self):
        self.make("tf/checkpoint", "tf/ckpt-1.index", "tf/ckpt-1.data-00000-of-00001")
        code, err = ls(f"{self.folder}/tf/ckpt-1")
        self.assertEqual(code, 3)
        self.assertIn(f"{self.folder}/tf/ckpt-1.index", err)
        code, err = ls(f"{self.folder}/tf/ckpt-2")
        self.assertEqual(code, 4)
        self.assertIn("there is no ckpt-2 in it", err)

    def test_a_distributed_checkpoint_of_pytorch(self):
        self.make("dcp/.metadata", "dcp/__0_0.distcp", "parts/actor/.metadata", "unfinished/__0_0.distcp")
        code, err = ls(f"{self.folder}/dcp")
        self.assertEqual(code, 3)
        self.assertIn(f"{self.folder}/dcp/.metadata", err)
        self.says(f"{self.folder}/parts", "below it a PyTorch distributed checkpoint", "pawl show")
        self.says(f"{self.folder}/unfinished", "its .metadata is missing", "take another one")

    def test_a_directory_of_runs_lists_them(self):
        for name in ("a", "b", "c"):
            subprocess.run([args.make_run, f"{self.folder}/runs/{name}"], check=True)
        self.make("runs/notes.txt", "runs/other/x")
        self.says(f"{self.folder}/runs", "3 runs below it: a, b, c", f"pawl ls {self.folder}/runs/a")

    def test_of_many_runs_some_are_listed(self):
        subprocess.run([args.make_run, f"{self.folder}/runs/run-00"], check=True)
        for n in range(1, 90):
            os.makedirs(f"{self.folder}/runs/run-{n:02}/step-00001000")
        self.says(f"{self.folder}/runs", "90 runs below it: run-00, run-01, ", "run-00")
        self.assertLess(max(map(len, ls(f"{self.folder}/runs")[1].splitlines())), 250)

    def test_files_that_are_anywhere_say_nothing_of_the_directory_above(self):
        self.make("project/data/numbers.npy", "project/weights/model.pt")
        code, err = ls(f"{self.folder}/project")
        self.assertEqual(code, 4)
        self.assertIn("there is no checkpoint here", err)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1], verbosity=2)
