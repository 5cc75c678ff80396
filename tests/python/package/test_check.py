# SPDX-License-Identifier: Apache-2.0
"""Batches, gradients and the position in the data, looked at while training goes on."""

import array
import unittest

import support  # first: it finds the package

import pawl


def floats(*shape, fill=0.0):
    count = 1
    for extent in shape:
        count *= extent
    return memoryview(array.array("f", [fill] * count)).cast("B").cast("f", shape or (1,))


class Batches(support.InDirectory):
    def test_a_remainder_is_named_j01(self):
        check = pawl.BatchCheck()
        self.assertIsNone(check.signature)
        for _ in range(2):
            check.next({"images": floats(64, 3), "labels": floats(64)})
        with self.assertRaises(pawl.Mismatch) as caught:
            check.next({"images": floats(37, 3), "labels": floats(37)})
        for text in ("images", "37", "64", "2"):
            self.assertIn(text, str(caught.exception))
        self.assertIn("images", str(check.signature))

    def test_another_entry_and_type_j02(self):
        check = pawl.BatchCheck()
        check.next({"x": floats(4)})
        for batch in ({"x": array.array("i", [1, 2, 3, 4])}, {"y": floats(4)}, {"x": floats(4), "y": floats(4)}):
            with self.assertRaises(pawl.Mismatch):
                check.next(batch)
        with self.assertRaises(pawl.UsageError):
            check.next({"x": "text"})

    def test_a_restore_compares_the_signature_j06(self):
        def state(size):
            check = pawl.BatchCheck()
            check.next({"x": floats(size)})
            made = pawl.State({"step": 1})
            made.set_json("batch", check.signature, role="batch_signature")
            return made

        with pawl.Run(self.run_path) as run:
            run.save(state(4), 1)
            run.wait()
            report = run.restore(state(8))
            self.assertEqual([item.difference.name for item in report.items], ["BATCH"])
            with self.assertRaises(pawl.Mismatch):
                run.restore(state(8), batch="error")

    def test_the_position_in_the_data_j06(self):
        state = pawl.State({"data/position": 640})
        pawl.check_data_position(state, "data/position", 640)
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.check_data_position(state, "data/position", 0)
        self.assertIn("640", str(caught.exception))
        with self.assertRaises(pawl.NotFound):
            pawl.check_data_position(state, "data/place", 0)


class Gradients(unittest.TestCase):
    def test_gradients_that_fit(self):
        pawl.check_gradients({"w": floats(2, 3), "b": array.array("f")}, {"w": floats(2, 3), "b": array.array("f")})

    def test_what_does_not_fit_is_named_j05(self):
        w = {"w": floats(2, 3)}
        for gradients in (
            {},
            {"w": floats(3, 2)},
            {"w": None},
            {"v": floats(2, 3)},
            {"w": floats(2, 3, fill=float("nan"))},
            {"w": array.array("i", range(6))},
        ):
            with self.subTest(gradients=gradients), self.assertRaises(pawl.Mismatch) as caught:
                pawl.check_gradients(w, gradients)
            if gradients:
                self.assertIn("w", str(caught.exception))

    def test_gradients_that_are_not_dense(self):
        numpy = support.numpy_or_skip()
        gradient = numpy.zeros((3, 2), dtype="f4").T
        with self.assertRaisesRegex(pawl.UsageError, "w: its elements are not dense"):
            pawl.check_gradients({"w": gradient}, {"w": gradient})


if __name__ == "__main__":
    unittest.main(verbosity=2)
