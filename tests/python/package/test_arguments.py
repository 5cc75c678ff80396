# SPDX-License-Identifier: Apache-2.0
"""Arguments that cannot be meant: of the wrong type, out of range; each is named, with what is wanted."""

import fractions
import math
import signal
import unittest

import support  # first: it finds the package

import pawl


def states(size=64):
    return pawl.State({"x": bytearray(size), "step": 0})


class Arguments(support.InDirectory):
    def test_numbers_that_have_no_place_are_refused(self):
        state = states(64)
        for options in (
            {"keep_last": 2**64 + 1},
            {"save_every_steps": 2**64 + 2},
            {"deadline_s": 1.0, "keep_last": -1},
        ):
            with self.subTest(options=options), self.assertRaises(pawl.UsageError):
                pawl.Run(self.run_path, **options).close()
        with pawl.Run(self.run_path) as run:
            for step in (2**64 + 5, 2**63, -(2**63) - 1, 1.5, "3", None):
                for call in (
                    lambda step=step: run.save(state, step),
                    lambda step=step: run.save_final(state, step, 1.0),
                    lambda step=step: run.due(step),
                    lambda step=step: run.pin(step),
                    lambda step=step: run.remove(step),
                    lambda step=step: run.rebuild(step),
                ):
                    with self.subTest(step=step), self.assertRaisesRegex(pawl.UsageError, "step="):
                        call()
            run.save(state, 5)
            run.wait()
            with self.assertRaisesRegex(pawl.UsageError, "step=18446744073709551621 is out of range"):
                run.restore(state, step=2**64 + 5)
        with pawl.open(self.run_path) as checkpoint:
            for refused in (
                lambda: pawl.open(self.run_path, step=2**64 + 5),
                lambda: checkpoint.read_rank("step", 2**32),
                lambda: pawl.doctor(self.run_path, need_bytes=2**64 + 1),
                lambda: pawl.doctor(self.run_path, need_bytes=-1),
                lambda: pawl.watch_preemption(2**32 + signal.SIGTERM),
                lambda: pawl.check_data_position(state, "step", 2**64),
                lambda: pawl.State({"x": pawl.Tensor(bytearray(4), replica=2**32, replica_count=2)}),
                lambda: pawl.State({"x": pawl.Tensor([pawl.Box((2**64,), bytearray(4))], shape=(4,))}),
                lambda: pawl.State({"x": pawl.Tensor([pawl.Box((0,), bytearray(4))], shape=(2**64 + 4,))}),
            ):
                with self.assertRaisesRegex(pawl.UsageError, "out of range"):
                    refused()

    def test_negative_steps_are_refused(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(), 1)
            with self.assertRaisesRegex(pawl.UsageError, "step is negative"):
                run.restore(states(), step=-1)
        with self.assertRaisesRegex(pawl.UsageError, "step is negative"):
            pawl.open(self.run_path, step=-1)

    def test_arguments_that_there_are_not(self):
        with pawl.Run(self.run_path) as run:
            with self.assertRaisesRegex(pawl.UsageError, "missing='maybe': it is 'error', 'allow'"):
                run.restore(states(4), missing="maybe")
        with self.assertRaisesRegex(pawl.UsageError, "io='fast': it is one of 'auto', 'uring'"):
            pawl.Run(self.run_path, io="fast")

    def test_wrong_types_are_named(self):
        with pawl.Run(self.run_path) as run:
            for call, words in (
                (lambda: run.save(None, 1), "a pawl.State is saved and restored, not NoneType"),
                (lambda: run.save({"a": 1}, 1), "not dict"),
                (lambda: run.restore(bytearray(3)), "not bytearray"),
                (lambda: pawl.State({5: 1}), "the name is a str, not int: 5"),
                (lambda: pawl.State([1, 2]), "a mapping of names to entries, not list"),
                (lambda: pawl.Run(self.directory / "b", keep_last="3"), "keep_last='3' is of the wrong type: str"),
                (lambda: run.save(pawl.State(), 1, metrics={1: 2.0}), "the metric is a str, not int"),
            ):
                with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                    call()
            with self.assertRaisesRegex(pawl.UsageError, "a step is 0 or more"):
                run.save(pawl.State(), -1)
        with self.assertRaises(pawl.NotFound):
            pawl.ls(self.run_path)  # nothing of this was saved

    def test_arguments_that_are_no_numbers_functions_or_mappings(self):
        state = states(4)
        with pawl.Run(self.run_path) as run:
            for call, words in (
                (lambda: run.save(state, 1, metrics={"acc": "0.5"}), r"metrics\['acc'\] is a number, not str: '0.5'"),
                (lambda: run.save(state, 1, metrics={"acc": None}), r"metrics\['acc'\] is a number, not NoneType"),
                (lambda: run.save(state, 1, metrics=["acc"]), "metrics is a mapping of names to numbers, not list"),
                (lambda: run.save_final(state, 1, 9, metrics={"a": ""}), r"metrics\['a'\] is a number, not str: ''"),
                (lambda: run.save_final(state, 1, None), "grace_s is a number of seconds, not NoneType: None"),
                (lambda: run.save_final(state, 1, "30"), "grace_s is a number of seconds, not str: '30'"),
                (
                    lambda: pawl.Run(self.directory / "b", deadline_s=None),
                    "deadline_s is a number of seconds, not None",
                ),
                (lambda: pawl.Run(self.directory / "b", group=2), "group is a pawl.Group, not int: 2"),
                (lambda: pawl.Run(self.directory / "b", cpus=2), "cpus is numbers of processors, .* not int: 2"),
                (lambda: run.restore(state, renames=["a"]), "renames is a mapping of prefixes to prefixes, not list"),
                (lambda: run.restore(state, supply={}), "supply is a function of an entry, not dict"),
                (lambda: run.restore(state, progress="yes"), "progress is True, False or a function, not str: 'yes'"),
                (lambda: pawl.check_gradients({}, None), "gradients is a mapping of names to arrays, not NoneType"),
                (lambda: pawl.check_data_position({}, "x", 1), "a pawl.State is .* not dict"),
            ):
                with self.subTest(words), self.assertRaisesRegex(TypeError, "^" + words):
                    call()
            with self.assertRaisesRegex(pawl.UsageError, r"metrics\['acc'\] is out of range"):
                run.save(state, 1, metrics={"acc": 10**400})
            for value, error in (("1", TypeError), (math.nan, pawl.UsageError), (10**400, pawl.UsageError)):
                for call in (run.fence, run.wait, run.cancel, run.meet, run.close):
                    with self.subTest(call.__name__, value=value), self.assertRaisesRegex(error, "^timeout is "):
                        call(value)
                with self.assertRaisesRegex(error, "^timeout is "):
                    run.save(state, 1, timeout=value)
            self.assertFalse(run.closed)
        with self.assertRaises(pawl.NotFound):
            pawl.ls(self.run_path)

    def test_each_argument_of_a_wrong_type_is_named_with_what_it_should_be(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(4), 1)
            run.wait()
        path, new = self.run_path, self.directory / "new"
        of_path = "the path is a str, bytes or os.PathLike, not "
        with pawl.Run(self.directory / "other") as run, pawl.open(path) as checkpoint:
            for call, words in (
                (lambda: pawl.Run(None), of_path + "NoneType: None"),
                (lambda: pawl.Run(["a"]), of_path + "list"),
                (lambda: pawl.open(5), of_path + "int: 5"),
                (lambda: pawl.ls(None), of_path + "NoneType"),
                (lambda: next(pawl.events(None)), of_path + "NoneType"),
                (lambda: pawl.survey(None), of_path + "NoneType"),
                (lambda: pawl.doctor(None), of_path + "NoneType"),
                (lambda: pawl.doctor(path, model=5), of_path + "int"),
                (lambda: pawl.diff(None, path), of_path + "NoneType"),
                (lambda: pawl.convert(None, new), of_path + "NoneType"),
                (lambda: pawl.convert(path, None), of_path + "NoneType"),
                (lambda: pawl.Run(new, keep_last={}), "keep_last={} is of the wrong type: dict, not a whole number"),
                (lambda: pawl.Run(new, budget_bytes="1GB"), "budget_bytes='1GB' is of the wrong type: str"),
                (lambda: pawl.Run(new, lease_s="x"), "lease_s='x' is of the wrong type: str, not a number"),
                (lambda: pawl.Run(new, must_exist="no"), "must_exist is True or False, not str: 'no'"),
                (lambda: run.restore(states(), model_only="yes"), "model_only is True or False, not str: 'yes'"),
                (lambda: checkpoint.restore(states(), model_only=None), "model_only is True or False, not NoneType"),
                (lambda: checkpoint.restore(states(), group=5), "group is a pawl.Group, not int: 5"),
                (lambda: pawl.convert(path, new, to=["npz"]), "to is a str, not list"),
                (lambda: pawl.convert(path, new, only=5), "only is a list of names, not int: 5"),
                (lambda: pawl.convert(path, new, only=None), "only is a list of names, not NoneType"),
                (lambda: pawl.convert(path, new, only=[5]), "a name of only is a str, not int: 5"),
                (lambda: pawl.convert(path, new, rename="a=b"), "rename is a mapping of names to names, not str"),
                (lambda: pawl.convert(path, new, rename={"a": 5}), "a name of rename is a str, not int: 5"),
                (lambda: pawl.convert(path, new, drop="x"), "drop is True or False, not str: 'x'"),
                (lambda: pawl.convert(path, new, dry_run=None), "dry_run is True or False, not NoneType"),
                (lambda: pawl.diff(path, path, transpose=5), "transpose is a list of names, not int: 5"),
                (lambda: pawl.diff(path, path, structure_only="x"), "structure_only is True or False, not str"),
                (
                    lambda: pawl.State({"a": pawl.Tensor(bytearray(4), role=["model"])}),
                    "the role is a str, not list",
                ),
                (
                    lambda: pawl.State({"a": pawl.Tensor(bytearray(4), replicated="x")}),
                    "replicated is True or False, not str: 'x'",
                ),
            ):
                with self.subTest(words), self.assertRaisesRegex(TypeError, "^" + words):
                    call()
            for call, words in (
                (lambda: pawl.convert(path, new, shard_bytes=-5), "shard_bytes=-5 is negative"),
                (lambda: pawl.convert(path, f"{new}\0.npz"), "has a NUL character in it"),
                (lambda: pawl.convert(path, new, only=["a\0"]), "has a NUL character in it"),
            ):
                with self.subTest(words), self.assertRaisesRegex(pawl.UsageError, words):
                    call()
        self.assertFalse(new.exists())

    def test_numbers_of_other_kinds(self):
        class Loss:
            def __float__(self):
                return 0.25

        with pawl.Run(self.run_path) as run:
            run.save_final(states(4), 1, fractions.Fraction(60, 2), metrics={"loss": Loss(), "count": 3, "best": True})
        self.assertEqual(pawl.ls(self.run_path)[0].metrics, {"loss": 0.25, "count": 3, "best": 1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
