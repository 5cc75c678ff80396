# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that other people's software wrote, compared with what that software reads in them."""

import hashlib
import json
import os
import pathlib
import unittest

import support

import pawl

SAMPLES = pathlib.Path(os.environ.get("PAWL_SAMPLES_DIR", support.SOURCE.parent / "shared/samples"))
#: Types that pawl lists, and does not read.
UNREAD = {"C128", "INT4", "UINT4", "INT2", "UINT2", "F4_E2M1", "F8_E4M3B11FNUZ", "VARIANT", "RESOURCE"}
ATTRIBUTES, VALUE, SLOT = "/.ATTRIBUTES/", "VARIABLE_VALUE", "/.OPTIMIZER_SLOT/"


def component(text):
    """As it was before TensorFlow escaped it, and as pawl escapes it."""
    plain, at = "", 0
    while at < len(text):
        two = text[at] == "." and text[at + 1 : at + 2] in (".", "S")
        plain += ("." if text[at + 1] == "." else "/") if two else text[at]
        at += 2 if two else 1
    escaped = "".join(c if ord(c) >= 32 and c not in "%/\x7f" else f"%{ord(c):02X}" for c in plain)
    return "%2E" + escaped[1:] if plain in (".", "..") else escaped


def path(text):
    return "/".join(component(part) for part in text.split("/"))


def name_of(key):
    """The name that an entry has whose key in TensorFlow is that."""
    before, found, attribute = key.partition(ATTRIBUTES)
    if not found:
        return key.replace("%", "%25")
    variable, slot, rest = before.partition(SLOT)
    if slot and attribute == VALUE:
        optimizer, _, last = rest.rpartition("/")
        return f"{path(optimizer)}/{path(variable)}/{component(last)}"
    name = path(before) if before else ""
    return (name if attribute == VALUE else f"{name}/{component(attribute)}") or "value"


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
