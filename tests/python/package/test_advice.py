# SPDX-License-Identifier: Apache-2.0
"""What a refused restore advises is passed to the restore, and what was said comes of it."""

import functools
import unittest

import support
import pawl
from pawl._error import in_python


def arguments_of(remedies):
    """The arguments of a restore that remedies name, as a caller writes them."""
    arguments = {}
    for remedy in remedies:
        if remedy.rename is not None:
            arguments.setdefault("renames", {})[remedy.rename[0]] = remedy.rename[1]
        else:
            arguments[remedy.option] = True if remedy.value == "1" else remedy.value
    return arguments


def model(layers, optimizer="Adam", extra=(), slots=True):
    """Layers `{name: bytes}` of a model, with a slot each, and an optimizer's class."""
    state = pawl.State()
    for name, size in layers.items():
        state[f"model/{name}"] = bytearray(size)
        if slots:
            state[f"opt/{name}"] = pawl.Tensor(bytearray(size), slot_of=f"model/{name}", slot="m")
    state.set("optimizer/class", optimizer, role="hyperparameter")
    for name in extra:
        state[name] = bytearray(3)
    return state


CASES = {
    "a layer more": ({"a": 2, "b": 3}, {"a": 2, "b": 3, "c": 4}, {}),
    "a layer less": ({"a": 2, "b": 3}, {"a": 2}, {}),
    "a layer of another shape": ({"a": 2, "b": 3}, {"a": 2, "b": 5}, {}),
    "another shape, and a layer more": ({"a": 2, "b": 3}, {"a": 2, "b": 5, "c": 4}, {}),
    "renamed": ({"enc/a": 2, "enc/b": 3}, {"encoder/a": 2, "encoder/b": 3}, {}),
    "renamed, and a layer more": ({"enc/a": 2, "enc/b": 3}, {"encoder/a": 2, "encoder/b": 3, "c": 4}, {}),
    "numbered anew": ({"dense": 4, "dense_1": 4}, {"dense_1": 4, "dense_2": 4}, {}),
    "another optimizer": ({"a": 2, "b": 3}, {"a": 2, "b": 3}, {"optimizer": "SGD", "slots": False}),
    "another optimizer and shape": ({"a": 2, "b": 3}, {"a": 2, "b": 5}, {"optimizer": "SGD", "slots": False}),
    "something else": ({"a": 2}, {"a": 2}, {"extra": ("x",)}),
}


class Advice(support.InDirectory):
    def tried(self, run, wanted, arguments):
        """How many errors a restore into a new state has, 0: it restores; and what it raised."""
        try:
            run.restore(wanted(), **arguments)
        except pawl.Mismatch as error:
            return sum(item.severity.name == "ERROR" for item in error.report.items), error
        return 0, None

    def test_numbered_anew_is_a_question_with_two_answers(self):
        with pawl.Run(self.directory / "numbers") as run:
            run.save(model({"dense": 4, "dense_1": 4}, slots=False), step=1)
            run.wait()
            _, error = self.tried(run, lambda: model({"dense_1": 4, "dense_2": 4}, slots=False), {})
        (question,) = [item for item in error.report.items if item.severity.name == "WARNING"]
        anew = "renames={'model/dense': 'model/dense_1', 'model/dense_1': 'model/dense_2'}"
        self.assertEqual(question.next, f"compare the two models, and if their entries were renumbered, pass {anew}")
        allow = "pass unexpected='allow' to leave it out, and pass missing='allow' to keep the state's value"
        self.assertIn(f"pass {anew}; if they were not, {allow}; with these it restores", error.next)

    def test_each_advice_comes_true(self):
        for name, (saved, wanted, more) in CASES.items():
            with self.subTest(name), pawl.Run(self.directory / name.replace(" ", "-")) as run:
                run.save(model(saved), 1)
                run.wait()
                made = functools.partial(model, wanted, **more)
                found, error = self.tried(run, made, {})
                self.assertGreater(found, 0)
                self.follow(run, error, made)

    def follow(self, run, error, wanted):
        advice = error.report.advice
        left, now = self.tried(run, wanted, arguments_of(advice.remedies))
        self.assertEqual(left, advice.remain, error.next)
        self.assertEqual(left == 0 and bool(advice.remedies), " it restores" in error.next, error.next)
        self.assertEqual(left > 0 and bool(advice.remedies), " remain" in error.next, error.next)
        still = {
            (item.difference, item.saved_as or item.name)
            for item in (now.report.items if now else ())
            if item.severity.name == "ERROR"
        }
        for item in error.report.items:
            if item.severity.name == "ERROR":
                self.assertEqual(item.remains, (item.difference, item.saved_as or item.name) in still)
            together = item.difference.name == "RENAMED"
            for remedies in [item.remedies] if together else [(remedy,) for remedy in item.remedies]:
                if remedies and remedies[0].before is None:
                    left, _ = self.tried(run, wanted, arguments_of(remedies))
                    self.assertEqual(left, remedies[0].remain, str(item))

    def test_what_remains_is_said_in_the_words_of_python(self):
        with pawl.Run(self.run_path) as run:
            run.save(model({"a": 2, "b": 3}, slots=False), 1)
            run.wait()
            _, error = self.tried(run, lambda: model({"a": 2, "b": 5, "c": 4}, slots=False), {})
            self.assertEqual(
                error.next,
                "pass missing='allow' to keep the state's value; then 1 difference remains, that of 'model/b': build "
                "the model with the checkpoint's shape, or take the entry out of the state and pass "
                "unexpected='allow' to leave it out",
            )
            _, error = self.tried(run, lambda: model({"a": 2}, slots=False, extra=["x"]), {})
            self.assertEqual(
                error.next,
                "pass unexpected='allow' to leave it out, and pass missing='allow' to keep the state's value; with "
                "these it restores",
            )

    def test_model_only_is_not_offered_for_a_model_of_another_shape_r01(self):
        with pawl.Run(self.run_path) as run:
            run.save(model({"a": 2, "b": 3}), 1)
            run.wait()
            _, error = self.tried(run, lambda: model({"a": 2, "b": 5}, "SGD", slots=False), {})
            offered = {remedy.option for item in error.report.items for remedy in item.remedies}
            self.assertNotIn("model_only", offered)
            _, error = self.tried(run, lambda: model({"a": 2, "b": 3}, "SGD", slots=False), {})
            self.assertEqual(error.next, "pass model_only=True to restore the model alone; with this it restores")

    def test_the_doctor_advises_in_the_words_of_python(self):
        for name, (saved, wanted, more) in CASES.items():
            with self.subTest(name):
                path = self.directory / name.replace(" ", "-")
                with pawl.Run(path) as run:
                    run.save(model(saved), 1)
                    run.wait()
                found = pawl.doctor(path, model=model(wanted, **more), probe=False)
                advice = [one.next for one in found if one.part == "restore" and one.next]
                self.assertTrue(advice)
                for one in advice:
                    self.assertNotRegex(one, r"options\.|pawl_|PAWL_")
                for item in found.report.items:
                    for remedy in item.remedies:
                        wanted_words = remedy.argument.removeprefix("renames={").removesuffix("}")
                        self.assertTrue(any(wanted_words in one for one in advice), item)

    def test_words_of_c_become_those_of_python(self):
        said = {
            "set options.missing = PAWL_POLICY_ALLOW to keep the state's value, or set options.model_only = 1 to x": (
                "pass missing='allow' to keep the state's value, or pass model_only=True to x"
            ),
            'add {"a", "b c"}, {"d", ""} to options.renames, all of them': (
                "pass renames={'a': 'b c', 'd': ''}, all of them"
            ),
            "see pawl_run_options in pawl/run.h; nothing was written": (
                "see the arguments of pawl.Run; nothing was written"
            ),
            "call pawl_wait first, save less often, or choose PAWL_ON_BUSY_WAIT": (
                "call Run.wait() first, save less often, or choose on_busy='wait'"
            ),
            "give the new one a step of its own (runs/options.step@STEP, options.step)": (
                "give the new one a step of its own (runs/options.step@STEP, step)"
            ),
        }
        for text, expected in said.items():
            self.assertEqual(in_python(text), expected)
        of_users = 'look at runs/pawl_wait, and at "options.missing"'
        self.assertEqual(in_python(of_users), of_users)

    def test_nothing_is_advised_where_nothing_was_refused(self):
        with pawl.Run(self.run_path) as run:
            run.save(model({"a": 2}), 1)
            run.wait()
            self.assertIsNone(run.restore(model({"a": 2})).advice)


if __name__ == "__main__":
    unittest.main()
