# SPDX-License-Identifier: Apache-2.0
"""Batches, gradients and the position in the data, looked at while training goes on."""

import array
import math
import unittest

import support  # first: it finds the package

import pawl


def floats(*shape, fill=0.0):
    count = 1
    for extent in shape:
        count *= extent
    return memoryview(array.array("f", [fill] * count)).cast("B").cast("f", shape or (1,))


def integers(*shape):
    return memoryview(array.array("i", range(math.prod(shape)))).cast("B").cast("i", shape)


# Of batches of 4 and of 8.
CHANGED = (
    'the batches changed: "batch" is {"x":{"dtype":"F32","shape":[4]}} in the checkpoint and '
    '{"x":{"dtype":"F32","shape":[8]}} in the state'
)


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

    def test_what_is_no_array_is_named_j02(self):
        for value, word in (
            ("a", "text"),
            (["a", "b"], "text"),
            ([[1, 2], [3]], "ragged"),
            ([1, 2], "a list, no array"),
            (None, "None, no array"),
        ):
            with self.subTest(word), self.assertRaises(pawl.UsageError) as caught:
                pawl.BatchCheck().next({"x": floats(2), "words": value})
            self.assertEqual(
                (caught.exception.attempt, caught.exception.entry), (f"batch 0 `words` is {word}", "words")
            )
            self.assertIn("turn text into numbers", caught.exception.next)

    def test_entries_of_nested_batches_have_names(self):
        check = pawl.BatchCheck()
        check.next(({"a": floats(2), "b": [floats(2), floats(3)]}, floats(2)))
        self.assertEqual(sorted(check.signature), ["0/a", "0/b/0", "0/b/1", "1"])
        check = pawl.BatchCheck()
        check.next(floats(2))
        self.assertEqual(list(check.signature), ["batch"])

    def test_each_batch_of_an_iterator_j01(self):
        check, seen = pawl.BatchCheck(), 0
        with self.assertRaises(pawl.Mismatch) as caught:
            for _ in check.over(floats(rows, 3) for rows in (4, 4, 2, 4)):
                seen += 1
        self.assertEqual(seen, 2)
        self.assertIn("batch 2 `batch` has shape [2,3], the first had [4,3]", caught.exception.attempt)

    def state_of_batches(self, size):
        check = pawl.BatchCheck()
        check.next({"x": floats(size)})
        state = pawl.State({"step": 1})
        state.set_json("batch", check.signature, role="batch_signature")
        return state

    def test_other_batches_are_refused_when_asked_j06(self):
        with pawl.Run(self.run_path) as run:
            run.save(self.state_of_batches(4), 1)
            run.wait()
            state = self.state_of_batches(8)
            state["step"] = 7
            with self.assertRaises(pawl.Mismatch) as caught:
                run.restore(state, batch="error")
        error = caught.exception
        self.assertEqual(error.attempt, f"restoring: checkpoint step 1 and the state differ in 1 place: {CHANGED}")
        self.assertEqual(error.safe, "nothing was restored: the state is as it was")
        self.assertEqual(
            error.next,
            "feed the batches that the checkpoint was trained with, or pass batch='allow' to go on with other batches; "
            "with this it restores",
        )
        self.assertEqual([(item.name, item.severity.name) for item in error.report.items], [("batch", "ERROR")])
        self.assertEqual(state["step"], 7)

    def test_other_batches_are_told_otherwise_j06(self):
        with pawl.Run(self.run_path) as run:
            run.save(self.state_of_batches(4), 1)
            run.wait()
            for arguments in ({}, {"batch": "allow"}):
                state = self.state_of_batches(8)
                state["step"] = 7
                with self.subTest(arguments), self.assertLogs("pawl", "WARNING") as logged:
                    report = run.restore(state, **arguments)
                (item,) = report.items
                self.assertEqual((item.difference.name, item.severity.name), ("BATCH", "WARNING"))
                self.assertEqual(str(item), f"{CHANGED}: the state's value is used")
                self.assertIn(CHANGED, logged.output[0])
                self.assertEqual((state["step"], state["batch"]["x"]["shape"]), (1, [8]))

    def test_the_same_batches_are_restored_silently_j06(self):
        with pawl.Run(self.run_path) as run:
            run.save(self.state_of_batches(4), 1)
            run.wait()
            with self.assertNoLogs("pawl", "WARNING"):
                report = run.restore(self.state_of_batches(4), batch="error")
        self.assertEqual(report.items, ())

    def test_the_position_in_the_data_j06(self):
        state = pawl.State({"data/position": 640})
        self.assertIsNone(pawl.check_data_position(state, "data/position", 640))
        for position, lost in ((0, "examples are seen twice"), (704, "examples are left out")):
            with self.subTest(position), self.assertRaises(pawl.Mismatch) as caught:
                pawl.check_data_position(state, "data/position", position)
            error = caught.exception
            self.assertEqual(
                error.attempt,
                f"the checkpoint was saved at data position 640, the loader stands at {position}",
            )
            self.assertEqual(
                (error.entry, error.expected, error.found), ("data/position", "640, as restored", str(position))
            )
            self.assertIn(lost, error.next)
        with self.assertRaises(pawl.NotFound):
            pawl.check_data_position(state, "data/place", 0)


class Datasets(unittest.TestCase):
    """Before a job runs; with datasets of frameworks: tests/python/tf and tests/python/torch."""

    def found(self, dataset, **options):
        return [(one.id, one.severity, one.text) for one in pawl.check_dataset(dataset, **options)]

    def test_a_list_of_batches_j01(self):
        batches = [{"x": floats(4, 3)}, {"x": floats(4, 3)}, {"x": floats(1, 3)}]
        rest = ("J01", "warning", "batch 2, the last one, has 1 example, the others have 4")
        self.assertEqual(self.found(batches), [rest])
        self.assertEqual(
            self.found(batches, replicas=2),
            [("J01", "error", f"{rest[2]}; of 2 replicas 1 gets none, and a mean over nothing is NaN")],
        )
        self.assertEqual([one[0] for one in self.found(batches[:2])], ["ok"])
        self.assertIn(
            ("J01", "warning", "batches of 4 are not divided evenly by 3 replicas"),
            self.found(batches[:2], replicas=3),
        )
        self.assertEqual(self.found([]), [("J01", "error", "there is no batch")])

    def test_a_list_of_batches_is_read_where_that_is_asked_for_j01(self):
        batches = [{"x": floats(4, 3)}, {"x": floats(2, 3)}, {"x": floats(4, 3)}]
        self.assertEqual([one[0] for one in self.found(batches)], ["ok"])
        short = ("J01", "warning", "batch 1 `x` has shape [2,3], the first had [4,3]; drop or pad the remainder")
        self.assertEqual(self.found(batches, read="all"), [short])
        self.assertEqual(self.found(batches, read=2), [short])
        self.assertEqual([one[0] for one in self.found(batches, read=1)], ["ok"])

    def test_entries_of_the_last_batch_have_other_lengths_j01(self):
        batches = [(floats(4, 3), integers(4)), (floats(4, 3), integers(2))]
        ((identity, severity, text),) = self.found(batches)
        self.assertEqual((identity, severity), ("J01", "warning"))
        self.assertEqual(text, "batch 1, the last one, has another number of examples: `1` 2, in the first 4")

    def test_what_is_no_number_of_batches_is_refused(self):
        arrays = {"x": floats(10, 3)}
        for options in (
            {"batch_size": 0},
            {"batch_size": -1},
            {"batch_size": 2.5},
            {"batch_size": 5, "replicas": 0},
            {"read": 0},
            {"read": "some"},
        ):
            with self.subTest(**options), self.assertRaises(pawl.UsageError):
                pawl.check_dataset(arrays, **options)
        for nothing in (None, 5):
            with self.subTest(nothing), self.assertRaisesRegex(pawl.UsageError, "is no dataset"):
                pawl.check_dataset(nothing)
        self.assertEqual([one[:2] for one in self.found({}, batch_size=2)], [("J01", "error")])

    def test_first_and_last_batch_are_of_other_entries_j02(self):
        batches = [{"x": floats(4, 3)}, {"x": floats(4, 3), "y": floats(4)}]
        self.assertEqual(self.found(batches), [("J02", "warning", "`y` is in the last batch, not in the first")])
        batches = [{"x": floats(4, 3)}, {"x": integers(4, 3)}]
        self.assertEqual(
            self.found(batches),
            [("J02", "warning", "`x`: an example is F32 [3] in the first batch, I32 [3] in the last")],
        )

    def test_anything_that_can_be_iterated_j01(self):
        class Batches:
            def __iter__(self):
                return iter([floats(4), floats(4), floats(3)])

        ((identity, severity, text),) = self.found(Batches())
        self.assertEqual((identity, severity), ("J01", "note"))
        self.assertIn("read='all'", text)
        self.assertEqual(
            self.found(Batches(), read="all"),
            [("J01", "warning", "batch 2 `batch` has shape [3], the first had [4]; drop or pad the remainder")],
        )

    def test_an_iterator_is_not_taken_from_the_run(self):
        batches = iter([floats(4), floats(4)])
        with self.assertRaisesRegex(pawl.UsageError, "an iterator gives its batches once"):
            pawl.check_dataset(batches)
        self.assertEqual(len(list(batches)), 2)
        self.assertEqual([one[0] for one in self.found(iter([floats(4)]), read="all")], ["ok"])

    def test_arrays_of_other_kinds_j02(self):
        numpy = support.numpy_or_skip()
        arrays = {
            "words": numpy.array(["a", "b"]),
            "objects": numpy.array([[1], [2, 3]], dtype=object),
            "when": numpy.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"),
            "x": numpy.zeros(2),
        }
        self.assertEqual(
            [text for _, _, text in self.found(arrays, batch_size=2)],
            [
                "`words` is text",
                "`objects` is ragged",
                "`when` is of type datetime64[D]",
                "`x` has dtype F64; accelerators compute it slowly or not at all",
            ],
        )


class Gradients(unittest.TestCase):
    def test_gradients_that_fit_j05(self):
        variables = {"w": floats(2, 3), "b": array.array("f"), "n": array.array("i", [1])}
        gradients = {"w": floats(2, 3, fill=3e38), "b": array.array("f"), "n": array.array("i", [2])}
        self.assertIsNone(pawl.check_gradients(variables, gradients))
        self.assertIsNone(pawl.check_gradients({}, {}))

    def test_what_does_not_fit_is_named_j05(self):
        variables = {"w": floats(2, 3)}
        with_nan, with_infinity = floats(6), floats(6)
        with_nan[2], with_infinity[5] = math.nan, -math.inf
        wanted = "F32 [2, 3], as the variable"
        for gradient, attempt, expected, found, advice in (
            (floats(3, 2), "has shape [3, 2], the variable [2, 3]", wanted, "F32 [3, 2]", "reduced over a wrong"),
            (integers(2, 3), "has dtype I32, the variable F32", wanted, "I32 [2, 3]", "convert the gradient"),
            (None, "is missing: it is None", wanted, "None", "give it a gradient of zeros"),
            (
                with_nan.cast("B").cast("f", (2, 3)),
                "is not finite: NaN at element 2",
                "6 finite elements",
                "1 NaN, 0 infinite",
                "leave out this step",
            ),
            (
                with_infinity.cast("B").cast("f", (2, 3)),
                "is not finite: infinity at element 5",
                "6 finite elements",
                "0 NaN, 1 infinite",
                "leave out this step",
            ),
        ):
            with self.subTest(attempt), self.assertRaises(pawl.Mismatch) as caught:
                pawl.check_gradients(variables, {"w": gradient})
            error = caught.exception
            self.assertEqual(error.attempt, f"the gradient of `w` {attempt}")
            self.assertEqual((error.entry, error.expected, error.found), ("w", expected, found))
            self.assertIn(advice, error.next)

    def test_another_number_of_gradients_j05(self):
        w, v = floats(2, 3), floats(2, 3)
        for variables, gradients, entry, attempt in (
            ({"w": w}, {}, "w", "the variable `w` has no gradient"),
            ({"w": w, "v": v}, {"w": w}, "v", "the variable `v` has no gradient"),
            ({"w": w}, {"w": w, "v": v}, "v", "the gradient of `v` has no variable"),
            ({"w": w}, {"v": v}, "w", "the variable `w` has no gradient"),
        ):
            with self.subTest(attempt), self.assertRaises(pawl.Mismatch) as caught:
                pawl.check_gradients(variables, gradients)
            error = caught.exception
            self.assertEqual((error.entry, error.attempt), (entry, attempt))
            wanted = "1 gradient for 1 variable" if len(variables) == 1 else "2 gradients for 2 variables"
            self.assertEqual(error.expected, wanted)

    def test_lists_in_the_order_of_the_variables_j05(self):
        variables = [floats(2, 3), floats(4)]
        self.assertIsNone(pawl.check_gradients(variables, [floats(2, 3), floats(4)]))
        for gradients, attempt in (
            ([floats(2, 3)], "the variable `variable 1` has no gradient"),
            ([floats(2, 3), None], "the gradient of `variable 1` is missing: it is None"),
            ([floats(4), floats(4)], "the gradient of `variable 0` has shape [4], the variable [2, 3]"),
            ([floats(2, 3), floats(4), floats(1)], "3 gradients for 2 variables: gradient 2 has no variable"),
        ):
            with self.subTest(attempt), self.assertRaises(pawl.Mismatch) as caught:
                pawl.check_gradients(variables, gradients)
            self.assertEqual(caught.exception.attempt, attempt)

    def test_gradients_that_are_not_dense(self):
        numpy = support.numpy_or_skip()
        gradient = numpy.zeros((3, 2), dtype="f4").T
        with self.assertRaisesRegex(pawl.UsageError, "w: its elements are not dense"):
            pawl.check_gradients({"w": gradient}, {"w": gradient})


if __name__ == "__main__":
    unittest.main(verbosity=2)
