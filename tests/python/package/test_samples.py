# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that other people's software wrote, compared with what that software reads in them."""

import hashlib
import json
import os
import pathlib
import unittest

import support
from tensorflow_names import name_of

import pawl

SAMPLES = pathlib.Path(os.environ.get("PAWL_SAMPLES_DIR", support.SOURCE.parent / "shared/samples"))
#: Types that pawl lists, and does not read.
UNREAD = {"C128", "INT4", "UINT4", "INT2", "UINT2", "F4_E2M1", "F8_E4M3B11FNUZ", "VARIANT", "RESOURCE"}


@unittest.skipUnless(SAMPLES.is_dir(), f"there are no samples at {SAMPLES}")
class TensorFlow(unittest.TestCase):
    def compare(self, checkpoint, key, said):
        name = name_of(key)
        if said["dtype"] == "string":
            self.compare_texts(checkpoint, name, said)
            return
        entry = checkpoint.entry(name)
        self.assertEqual((entry.kind, list(entry.shape)), ("tensor", said["shape"]))
        if entry.dtype in UNREAD:
            with self.assertRaisesRegex(pawl.UsageError, "cannot be read"):
                checkpoint[name].read()
            return
        tensor = checkpoint[name].read()
        self.assertEqual(hashlib.sha256(bytes(tensor.buffer)).hexdigest(), said["sha256"])
        self.read += 1

    def compare_texts(self, checkpoint, name, said):
        if checkpoint.entry(name).dtype == "STRING":  # some are no UTF-8
            return
        value = checkpoint[name]
        values = [value] if not said["shape"] else value
        sums = [hashlib.sha256(each if isinstance(each, bytes) else each.encode()).hexdigest() for each in values]
        self.assertEqual(sums, said["sha256_of_elements"])
        self.read += 1

    def test_every_key(self):
        self.read = 0
        for description in sorted((SAMPLES / "tf-2.21").glob("*.json")):
            for prefix, keys in json.loads(description.read_text())["checkpoints"].items():
                with pawl.open(description.with_suffix("") / prefix) as checkpoint:
                    self.assertEqual(checkpoint.format, "TensorFlow")
                    for key, said in keys.items():
                        with self.subTest(sample=description.stem, key=key):
                            if "error" not in said:
                                self.compare(checkpoint, key, said)
                    self.assertIsNone(checkpoint.verify().unverified)
        self.assertGreater(self.read, 150)


if __name__ == "__main__":
    unittest.main()
