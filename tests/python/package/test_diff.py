# SPDX-License-Identifier: Apache-2.0
"""Comparing checkpoints whose names and axes are others."""

import array
import json
import struct
import unittest

import support

import pawl

#: Larger than a tile on both axes, and no multiple of one.
ROWS, COLUMNS = 2300, 1100


def write(path, tensors):
    """A safetensors file: {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def transposed(numbers, rows, columns):
    turned = array.array(numbers.typecode)
    for column in range(columns):
        turned += numbers[column : rows * columns : columns]
    return turned


class Renamed(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.a, self.b = self.directory / "a.safetensors", self.directory / "b.safetensors"

    def write(self, typecode, dtype, rows, columns, changed=()):
        """A kernel and a bias; in b under another name, transposed, with other numbers at some places of b."""
        kernel = array.array(typecode, (i % 251 for i in range(rows * columns)))
        turned = transposed(kernel, rows, columns)
        for at in changed:
            turned[at] += 2
        bias = ("U8", [3], b"\1\2\3")
        write(self.a, {"dense/kernel": (dtype, [rows, columns], kernel.tobytes()), "dense/bias": bias})
        write(self.b, {"fc/kernel": (dtype, [columns, rows], turned.tobytes()), "fc/bias": bias})

    def compare(self, **options):
        return pawl.diff(self.a, self.b, renames={"dense": "fc"}, transpose=["dense"], **options)

    def test_a_large_transposed_tensor_is_the_same(self):
        self.write("f", "F32", ROWS, COLUMNS)
        self.assertTrue(self.compare().identical)
        other = pawl.diff(self.a, self.b, renames={"dense": "fc"})
        self.assertEqual([(d.kind, d.name, d.transposed) for d in other.differences], [("shape", "fc/kernel", False)])

    def test_each_number_that_differs_in_a_large_one_is_counted(self):
        last = ROWS * COLUMNS - 1
        self.write("f", "F32", ROWS, COLUMNS, changed=[0, ROWS, ROWS * 1024 + 1024, last])
        found = self.compare()
        (difference,) = found.differences
        self.assertEqual((difference.kind, difference.name, difference.transposed), ("numbers", "fc/kernel", True))
        self.assertEqual((difference.a.name, difference.b.name), ("dense/kernel", "fc/kernel"))
        self.assertEqual((difference.distances.elements, difference.distances.differing), (last + 1, 4))
        self.assertEqual(difference.distances.max_abs, 2.0)

    def test_any_shape_and_size_of_elements(self):
        for typecode, dtype in (("B", "U8"), ("h", "I16"), ("f", "F32"), ("d", "F64")):
            for rows, columns in ((1, 1), (1, 7), (17, 33), (3, 100_000), (100_000, 3)):
                with self.subTest(dtype, shape=(rows, columns)):
                    self.write(typecode, dtype, rows, columns)
                    self.assertTrue(self.compare().identical)
        write(self.a, {"dense/kernel": ("F32", [0, 3], b"")})
        write(self.b, {"fc/kernel": ("F32", [3, 0], b"")})
        self.assertTrue(self.compare().identical)

    def test_one_checkpoint_is_compared_with_itself(self):
        self.write("B", "U8", 2, 3)
        with pawl.open(self.a) as a:
            self.assertTrue(pawl.diff(a, a, renames={"dense/bias": "dense/bias"}).identical)
            found = pawl.diff(a, a, renames={"dense/bias": "dense/kernel2"})
            self.assertEqual([d.kind for d in found.differences], ["only_b", "only_a"])

    def test_the_variable_of_a_slot_is_renamed_too(self):
        for name, prefix in (("a", "m"), ("b", "n")):
            numbers = array.array("f", [1.0, 2.0])
            tensor = pawl.Tensor(numbers)
            slot = pawl.Tensor(numbers, role="slot", slot_of=f"{prefix}/w", slot="adam/m")
            with pawl.Run(self.directory / name) as run:
                run.save(pawl.State({f"{prefix}/w": tensor, "o/w": slot}), step=1)
                run.wait()
        a, b = self.directory / "a", self.directory / "b"
        self.assertTrue(pawl.diff(a, b, renames={"m": "n"}).identical)
        self.assertEqual([d.kind for d in pawl.diff(a, b).differences], ["only_a", "only_b", "role"])

    def test_arguments_that_cannot_be_meant_are_refused(self):
        self.write("B", "U8", 2, 3)
        with self.assertRaisesRegex(pawl.UsageError, "two entries would have one name"):
            pawl.diff(self.a, self.b, renames={"dense/kernel": "x", "dense/bias": "x"})
        with self.assertRaisesRegex(pawl.UsageError, "a list of names"):
            pawl.diff(self.a, self.b, transpose="dense")

    def test_names_that_fit_nothing_are_refused_with_the_nearest(self):
        self.write("B", "U8", 2, 3)
        for arguments, what in (
            ({"renames": {"dnese": "fc"}}, 'the rename rule {"dnese", "fc"} fits no entry'),
            ({"transpose": ["dnese/"]}, 'transpose: there is no entry "dnese/"'),
        ):
            with self.subTest(arguments), self.assertRaises(pawl.UsageError) as caught:
                pawl.diff(self.a, self.b, **arguments)
            self.assertIn(what, caught.exception.attempt)
            self.assertEqual(caught.exception.next, "did you mean dense?")


if __name__ == "__main__":
    unittest.main()
