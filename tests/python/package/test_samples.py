# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that other people's software wrote, compared with what that software reads in them."""

import hashlib
import json
import os
import pathlib
import unittest

import support
from tensorflow_names import GRAPH, name_of, names_of_graph

import pawl

SAMPLES = pathlib.Path(os.environ.get("PAWL_SAMPLES_DIR", support.SOURCE.parent / "shared/samples"))
#: Types that pawl lists, and does not read.
UNREAD = {"INT4", "UINT4", "INT2", "UINT2", "F4_E2M1", "F8_E4M3B11FNUZ", "VARIANT", "RESOURCE"}


@unittest.skipUnless(SAMPLES.is_dir(), f"there are no samples at {SAMPLES}")
class TensorFlow(support.InDirectory):
    def compare(self, checkpoint, name, said):
        if said["dtype"] == "string":
            self.compare_texts(checkpoint, name, said)
            return
        entry = checkpoint.entry(name)
        parts = [2] if said["dtype"] == "complex128" else []  # as F64
        self.assertEqual((entry.kind, list(entry.shape)), ("tensor", said["shape"] + parts))
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
                    graph = names_of_graph(checkpoint[GRAPH]) if GRAPH in keys else {}
                    names = [name_of(key, graph) for key in keys]
                    self.assertEqual(len(set(names)), len(names))
                    for key, said in keys.items():
                        with self.subTest(sample=description.stem, key=key):
                            if "error" not in said:
                                self.compare(checkpoint, name_of(key, graph), said)
                    self.assertIsNone(checkpoint.verify().unverified)
        self.assertGreater(self.read, 150)

    def test_objects_through_a_run_and_back(self):
        source = SAMPLES / "tf-2.21/keras3_sequential_adam/ck-1"
        pawl.convert(source, self.run_path)
        pawl.convert(self.run_path, self.directory / "back", to="tensorflow")
        index = (self.directory / "back.index").read_bytes()
        self.assertIn(b"trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE", index)
        self.assertNotIn(b"_momentums", index)
        with pawl.open(source) as saved, pawl.open(self.directory / "back") as back:
            self.assertEqual(list(back), list(saved))
            self.assertEqual(back[GRAPH], saved[GRAPH])
            for name in saved:
                self.assertEqual(back.entry(name).slot_of, saved.entry(name).slot_of)
                if saved.entry(name).kind == "tensor":
                    self.assertEqual(bytes(back[name].read().buffer), bytes(saved[name].read().buffer))

    def test_slots_without_their_variables(self):
        pawl.convert(SAMPLES / "tf-2.21/keras3_sequential_adam/ck-1", self.run_path, only=["optimizer"])
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.entry("optimizer/_momentums/0").role, "other")

    def test_other_names_do_not_fit_a_graph(self):
        source, to = SAMPLES / "tf-2.21/keras3_sequential_adam/ck-1", self.directory / "renamed"
        with self.assertRaisesRegex(pawl.Unsupported, "it has entries under other names") as caught:
            pawl.convert(source, to, to="tensorflow", rename={"model": "net"})
        self.assertEqual(caught.exception.entry, GRAPH)
        pawl.convert(source, to, to="tensorflow", rename={"model": "net"}, drop=True)
        with pawl.open(to) as checkpoint:
            self.assertNotIn(GRAPH, list(checkpoint))
            self.assertIn("net/_functional/_operations/1/_kernel", list(checkpoint))


if __name__ == "__main__":
    unittest.main()
