#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pawl ls and pawl show, on what is no run of pawl: list what is there, or say what to do next."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SAMPLES = os.environ.get("PAWL_SAMPLES_DIR", "")

# Below the folder of samples; what is listed of them.
SEVERAL = {
    "orbax/v0-direct": ["pytree_checkpointable_has_metadata", "pytree_checkpointable_missing_metadata"],
    "orbax/v1-composite": ["pytree_checkpointable_has_metadata", "pytree_checkpointable_missing_metadata"],
    "tf-2.21/manager": ["ckpt-3", "ckpt-4", "ckpt-1000"],
}
ONE = [
    "orbax/v1-composite/pytree_checkpointable_has_metadata", "orbax-0.12/ocdbt_zarr3", "orbax-0.12/zarr2_no_ocdbt",
    "tf-2.21/manager/ckpt-3", "tf/savedmodel-half-plus-three", "torch/bool.pt", "keras/a.keras",
]


def pawl(*words):
    return subprocess.run([args.pawl, *words], capture_output=True, text=True, timeout=60, check=False)


def ls(path):
    done = pawl("ls", path)
    return done.returncode, done.stderr


def listed(path):
    """Path, format and status of each, or None: it is one checkpoint, or a run."""
    found = json.loads(pawl("ls", "--json", path).stdout)
    return [(c["path"], c["format"], c["status"]) for c in found["checkpoints"]] if "checkpoints" in found else None


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

    def shown(self, path, what, after):
        """What pawl show says of it."""
        done = pawl("show", path)
        code, err = done.returncode, done.stderr
        self.assertIn(code, (2, 4), err)
        self.assertIn(what, err)
        following = [line for line in err.splitlines() if line.startswith("  next: ")]
        self.assertEqual(len(following), 1, err)
        self.assertIn(after, following[0])

    def test_samples_of_other_systems(self):
        if not os.path.isdir(SAMPLES):
            self.skipTest("there are no samples of other systems here")
        for path, names in SEVERAL.items():
            with self.subTest(path):
                found = listed(os.path.join(SAMPLES, path))
                self.assertEqual([(name, status) for name, _, status in found],
                                 [(name, "committed") for name in names])
        for path in ONE:
            with self.subTest(path):
                self.assertEqual(ls(os.path.join(SAMPLES, path)), (0, ""))
                self.assertIsNone(listed(os.path.join(SAMPLES, path)))

    def test_whatever_is_listed_of_samples_is_opened(self):
        if not os.path.isdir(SAMPLES):
            self.skipTest("there are no samples of other systems here")
        found = listed(SAMPLES)
        self.assertGreater(len(found), 50)
        for path, _, status in found:
            if status == "committed":
                with self.subTest(path):
                    done = pawl("show", "--structure", os.path.join(SAMPLES, path))
                    self.assertNotIn("no checkpoint", done.stderr)

    def test_weights_are_listed(self):
        path = os.path.join(self.folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write((2).to_bytes(8, "little") + b"{}")
        self.assertEqual(ls(path), (0, ""))

    def test_a_run_of_orbax_lists_its_steps(self):
        self.make("run/1000/_CHECKPOINT_METADATA", "run/2000/_CHECKPOINT_METADATA",
                  "run/2000/default/manifest.ocdbt")
        run = f"{self.folder}/run"
        self.assertEqual(listed(run), [("1000", "Orbax", "committed"), ("2000", "Orbax", "committed")])
        self.shown(run, "below it a checkpoint of Orbax", f"pawl show {run}/1000")
        self.shown(run, "2 such directories: 1000, 2000", f"pawl ls {run}")

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
        self.assertEqual(listed(f"{self.folder}/parts"), [("actor", "PyTorch DCP", "damaged")])
        self.shown(f"{self.folder}/parts", "below it a PyTorch distributed checkpoint",
                   f"pawl show {self.folder}/parts/actor")
        self.assertEqual(listed(f"{self.folder}/unfinished"), [(".", "PyTorch DCP", "unfinished")])
        self.shown(f"{self.folder}/unfinished", "its .metadata is missing", "take another one")

    def test_a_directory_of_runs_lists_them(self):
        for name in ("a", "b", "c"):
            subprocess.run([args.make_run, f"{self.folder}/runs/{name}"], check=True)
        self.make("runs/notes.txt", "runs/other/x")
        runs = f"{self.folder}/runs"
        self.assertEqual(listed(runs), [(name, "pawl", "committed") for name in ("a", "b", "c")])
        self.shown(runs, "3 runs below it: a, b, c", f"pawl ls {runs}")

    def test_of_many_runs_some_are_named(self):
        subprocess.run([args.make_run, f"{self.folder}/runs/run-00"], check=True)
        for n in range(1, 90):
            os.makedirs(f"{self.folder}/runs/run-{n:02}/step-00001000")
        self.assertEqual(len(listed(f"{self.folder}/runs")), 90)
        self.shown(f"{self.folder}/runs", "90 runs below it: run-00, run-01, ", "run-00")
        self.assertLess(max(map(len, pawl("show", f"{self.folder}/runs").stderr.splitlines())), 250)

    def test_files_that_are_no_checkpoints_are_not_listed(self):
        self.make("project/data/numbers.txt", "project/weights/words.index")
        code, err = ls(f"{self.folder}/project")
        self.assertEqual(code, 4)
        self.assertIn("there is no checkpoint here", err)

    def test_directories_without_end_are_left_out(self):
        self.make("/".join(["deep"] + ["d"] * 7 + ["model.npy"]), "deep/one/a.npy", "deep/one/b.npy")
        done = pawl("ls", f"{self.folder}/deep")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("model.npy", done.stdout)
        self.assertIn("not looked at: 1 directory below the sixth level", done.stdout)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1], verbosity=2)
