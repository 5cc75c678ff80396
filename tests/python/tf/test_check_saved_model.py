# SPDX-License-Identifier: Apache-2.0
"""The doctor on SavedModels that TensorFlow makes (J03, J07), beside what TensorFlow says when XLA compiles them."""

import re
import subprocess
import sys
import unittest

import support  # first: it finds the package
import keras
import pawl
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2


class Served(tf.Module):
    """Signatures, each with one thing that matters to an accelerator, or none."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.ones([4, 4]))
        words = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
        numbers = tf.lookup.KeyValueTensorInitializer(tf.constant([5, 6], tf.int64), tf.constant([1, 2], tf.int64))
        self.words = tf.lookup.StaticHashTable(words, -1)
        self.numbers = tf.lookup.StaticHashTable(numbers, -1)

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")])
    def clean(self, x):
        tf.debugging.assert_greater(x, -1.0, message="text that XLA leaves out")
        return {"y": tf.matmul(x, self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")])
    def unused(self, x):
        tf.strings.as_string(x)  # nothing needs it, and XLA compiles it
        return {"y": tf.matmul(x, self.kernel)}

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")])
    def nested(self, x):
        step = tf.constant(0)
        while tf.py_function(lambda at: at < 3, [step], tf.bool):
            x, step = tf.matmul(x, self.kernel), step + 1
        return {"y": x}

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")])
    def in_a_branch(self, x):
        return {
            "y": tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: tf.numpy_function(lambda at: at, [x], tf.float32))
        }

    @tf.function(input_signature=[tf.TensorSpec([8, None], tf.string, name="words")])
    def text(self, words):
        return {"n": tf.strings.length(words)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float64, name="x")])
    def double(self, x):
        return {"y": tf.matmul(x, tf.cast(self.kernel, tf.float64))}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def any_rank(self, x):
        return {"y": tf.abs(x)}

    @tf.function(input_signature=[tf.TensorSpec([2], tf.string, name="words")])
    def table_of_text(self, words):
        return {"n": self.words.lookup(words)}

    @tf.function(input_signature=[tf.TensorSpec([2], tf.int64, name="keys")])
    def table(self, keys):
        return {"n": self.numbers.lookup(keys)}

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.int16, name="x")])
    def of_another_type(self, x):
        return {"y": tf.cumsum(x)}

    @tf.function(input_signature=[tf.TensorSpec([6], tf.float32, name="x")])
    def loops(self, x):
        def body(at, total):
            return at + 1, tf.switch_case(at % 3, [lambda: total + x[at], lambda: total * 2.0, lambda: total])

        _, total = tf.while_loop(lambda at, _: at < 6, body, (0, 0.0))
        return {"y": total}


NAMES = (
    "clean unused nested in_a_branch text double any_rank table_of_text table of_another_type loops".split()
)  # fmt: skip


def of_job(path):
    """What the doctor finds of a SavedModel, without what it finds of this machine."""
    return [one for one in pawl.doctor(path) if one.part == "job"]


def signature_of(finding):
    return re.match(r'signature "([^"]*)"', finding.text).group(1)


class SavedModels(support.InDirectory):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()

    def saved(self, *names, of=None):
        path = self.directory / "model"
        module = of or self.served
        tf.saved_model.save(module, str(path), signatures={name: getattr(module, name) for name in names})
        return path

    def found(self, *names):
        return [(one.id, one.severity, one.text) for one in of_job(self.saved(*names))]

    def test_a_clean_model(self):
        path = self.saved("clean", "loops")
        before = sorted(path.rglob("*"))
        (finding,) = of_job(path)
        self.assertEqual((finding.id, finding.severity), ("ok", "note"))
        self.assertRegex(
            finding.text,
            r"^the SavedModel, with 2 signatures, reaches \d+ nodes: all have XLA kernels in TF 2.21, and all "
            r"inputs have static shapes$",
        )
        self.assertEqual(sorted(path.rglob("*")), before)
        self.assertEqual(of_job(path / "saved_model.pb"), [finding])

    def test_its_variables_are_compared_with_a_model(self):
        path = self.saved("clean")
        for place in (path, path / "saved_model.pb"):
            found = pawl.doctor(place, model={"kernel": self.served.kernel.numpy()}, unexpected="allow")
            self.assertTrue(found.healthy, str(found))
            self.assertEqual((found.report.restored, found.report.ignored), (1, 0))  # not the graph of objects
            self.assertIn("fits the model", str(found))
            found = pawl.doctor(place, model={"kernel": self.served.kernel.numpy()[:2]}, unexpected="allow")
            self.assertEqual([one.id for one in found.troubles], ["R01"])
        (path / "variables" / "variables.index").unlink()
        for found in (pawl.doctor(path, model={"kernel": self.served.kernel.numpy()}), pawl.doctor(path)):
            self.assertEqual([one.id for one in found.troubles], ["R08"])
            self.assertIn("the SavedModel's variables are missing", found.troubles[0].text)
        found = pawl.doctor(path / "saved_model.pb", model={"kernel": self.served.kernel.numpy()})
        self.assertEqual([one.id for one in found.troubles], ["R09"])
        self.assertIn("there is no variables/variables.index", found.troubles[0].text)
        self.assertTrue(pawl.doctor(path / "saved_model.pb").healthy)

    def test_one_that_is_text_is_named_and_what_is_advised_makes_one_that_is_read_j07(self):
        path = self.saved("clean")
        binary = path / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
        (path / "saved_model.pbtxt").write_text(text_format.MessageToString(model), encoding="utf-8")
        self.assertTrue(pawl.doctor(path).healthy)
        binary.unlink()
        for place in (path, path / "saved_model.pbtxt"):
            (finding,) = pawl.doctor(place).troubles
            self.assertEqual(finding.id, "J07")
            self.assertIn("the SavedModel is text, saved_model.pbtxt, which is not read", finding.text)
        with pawl.open(path) as variables:
            self.assertIn("kernel", variables)
        with self.assertRaisesRegex(pawl.UsageError, "the graph of a TensorFlow SavedModel") as raised:
            pawl.open(path / "saved_model.pbtxt")
        self.assertEqual(raised.exception.next, "give the directory that it is in: its variables are below that")
        advice = finding.next.split(": ", 1)[1].replace(", then ", "\n")
        exec(advice.replace("PATH", str(path)).replace("NEW", str(self.directory / "new")), {"tf": tf})
        self.assertTrue(pawl.doctor(self.directory / "new").healthy)
        for file in (path / "variables").iterdir():
            file.unlink()
        with self.assertRaisesRegex(pawl.NotFound, "but a TensorFlow SavedModel that is text"):
            pawl.open(path)

    def test_damage_of_its_variables_is_found_where_they_are_compared(self):
        path = self.saved("clean")
        file = path / "variables" / "variables.data-00000-of-00001"
        data = bytearray(file.read_bytes())
        data[0] ^= 1
        file.write_bytes(data)
        found = pawl.doctor(path, model={"kernel": self.served.kernel.numpy()}, unexpected="allow")
        self.assertIn("R08", [one.id for one in found.troubles])

    def test_of_numbered_variables_it_says_what_else_to_compare(self):
        model = keras.Sequential([keras.Input((4,), batch_size=2), keras.layers.Dense(3)])
        path = self.directory / "export"
        model.export(str(path), verbose=False)
        wanted = {f"model/dense/{one.name}": one.numpy() for one in model.variables}
        found = pawl.doctor(path, model=wanted)
        (numbered,) = [one for one in found.troubles if one.id == "R05"]
        self.assertIn('model.save("m.keras")', numbered.next)
        model.save(self.directory / "m.keras")
        self.assertNotIn("R05", [one.id for one in pawl.doctor(self.directory / "m.keras", model=wanted).troubles])

    def test_python_in_nested_functions_j07(self):
        ((identity, severity, text),) = self.found("nested")
        self.assertEqual((identity, severity), ("J07", "warning"))
        self.assertRegex(
            text,
            r'^signature "nested": op EagerPyFunc \(node while/EagerPyFunc in function while_cond_\d+\) has no XLA '
            r"kernel in TF 2.21$",
        )
        ((_, _, text),) = self.found("in_a_branch")
        self.assertRegex(text, r"op PyFunc \(node cond/PyFunc in function cond_false_\d+\) has no XLA kernel")

    def test_text_j03_j07(self):
        found = self.found("text")
        self.assertEqual(
            found[:2],
            [
                ("J03", "warning", 'signature "text": input "words": string [8, ?]: dimension 1 is unknown'),
                ("J07", "warning", 'signature "text": input "words" is string, which no accelerator takes'),
            ],
        )
        self.assertRegex(found[2][2], r"op StringLength \(node StringLength in function __inference_text_\d+\)")
        self.assertEqual(len(found), 3)

    def test_float64_is_a_note_j07(self):
        found = self.found("double")
        self.assertEqual(
            found[0],
            ("J03", "warning", 'signature "double": input "x": float64 [?, 4]: dimension 0 is unknown'),
        )
        self.assertEqual(found[1][:2], ("J07", "note"))
        self.assertRegex(
            found[1][2], r"op Cast \(node Cast in function \w+; 3 more such nodes\) computes float64, which acc"
        )

    def test_an_unknown_rank_j03(self):
        self.assertEqual(
            self.found("any_rank"),
            [("J03", "warning", 'signature "any_rank": input "x": float32: the number of its dimensions is unknown')],
        )

    def test_a_type_that_an_op_has_no_kernel_for_j07(self):
        ((identity, severity, text),) = self.found("of_another_type")
        self.assertEqual((identity, severity), ("J07", "warning"))
        self.assertRegex(text, r"op Cumsum \(node Cumsum in .*\) has no XLA kernel in TF 2.21 for T of type int16$")

    def test_tables_j07(self):
        found = [text for _, _, text in self.found("table", "table_of_text")]
        for name in ("table", "table_of_text"):
            for op in ("HashTableV2", "LookupTableFindV2"):
                self.assertTrue(
                    any(text.startswith(f'signature "{name}": op {op} (') for text in found), (name, op, found)
                )
        self.assertFalse(any("initializer" in text.lower() for text in found), found)

    def test_saving_and_restoring_in_the_graph_are_not_found(self):
        """They are in every SavedModel, and have no kernel; no signature leads there."""
        path = self.saved("clean")
        self.assertIn(b"SaveV2", (path / "saved_model.pb").read_bytes())
        self.assertEqual([one.id for one in of_job(path)], ["ok"])

    def test_a_model_without_signatures(self):
        module = tf.Module()
        module.v = tf.Variable(1.0)
        path = self.directory / "none"
        tf.saved_model.save(module, str(path))
        (finding,) = of_job(path)
        self.assertEqual((finding.id, finding.severity), ("J07", "note"))
        self.assertIn("has no signature", finding.text)

    def test_a_model_that_was_cut_off_r08(self):
        path = self.saved("clean")
        whole = (path / "saved_model.pb").read_bytes()
        (path / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
        with self.assertRaises(OSError) as caught:  # TensorFlow's own answer
            tf.saved_model.load(str(path))
        self.assertIn("Cannot parse file", str(caught.exception))
        (finding,) = of_job(path)
        self.assertEqual((finding.id, finding.severity), ("R08", "error"))
        self.assertIn("a field is longer than what it is in", finding.text)
        self.assertIn(str(path / "saved_model.pb"), finding.text)


class Agreement(support.InDirectory):
    def compiles(self, function, dtype_of_text="a"):
        """Does TensorFlow compile it by XLA, with inputs of static shapes? And what it says otherwise."""
        specs = function.input_signature
        arguments = [
            tf.fill([8 if one is None else one for one in (spec.shape.as_list() if spec.shape.rank else [2])],
                    dtype_of_text if spec.dtype == tf.string else tf.cast(1, spec.dtype))
            for spec in specs
        ]  # fmt: skip
        compiled = tf.function(function.python_function, jit_compile=True)
        try:
            compiled(*arguments)
        except (tf.errors.OpError, ValueError, NotImplementedError) as why:
            return False, str(why)
        return True, ""

    def test_what_compiles_has_no_finding_and_what_does_not_has_one_j07(self):
        """TensorFlow's own answer, signature by signature, then pawl's."""
        served = Served()
        path = self.directory / "model"
        tf.saved_model.save(served, str(path), signatures={name: getattr(served, name) for name in NAMES})
        warned = {signature_of(one): one for one in of_job(path) if one.id == "J07" and one.severity == "warning"}
        answers = {}
        for name in NAMES:
            with self.subTest(name):
                answers[name], words = self.compiles(getattr(served, name))
                self.assertEqual(answers[name], name not in warned, words)
                if name in ("nested", "in_a_branch", "table"):
                    op = re.search(r"op (\w+) ", warned[name].text).group(1)
                    self.assertTrue("unsupported operations" in words or op in words, words)
        self.assertEqual(sum(answers.values()), 4, answers)  # or it agrees because all are alike


class Advice(support.InDirectory):
    def test_the_spec_that_is_advised_leaves_nothing_to_say_j03(self):
        model = keras.Sequential([keras.Input((12, 3)), keras.layers.LSTM(8), keras.layers.Dense(3)])
        path = self.directory / "export"
        model.export(str(path), verbose=False)
        found = [one for one in of_job(path) if signature_of(one) == "serve"]
        self.assertEqual([one.id for one in found], ["J03"])
        shape, dtype = re.search(r"tf.TensorSpec\((\[[^\]]*\]), tf.(\w+)", found[0].next).groups()
        self.assertEqual(shape, "[BATCH, 12, 3]")
        spec = tf.TensorSpec(eval(shape, {"BATCH": 16}), getattr(tf, dtype))
        model.export(str(self.directory / "again"), input_signature=[spec], verbose=False)
        self.assertEqual([one.id for one in of_job(self.directory / "again")], ["ok"])


class Table(unittest.TestCase):
    def test_the_table_of_kernels_is_that_of_the_installed_tensorflow(self):
        if not tf.__version__.startswith("2.21."):
            self.skipTest(f"the table is that of TensorFlow 2.21, {tf.__version__} is installed")
        tool = support.SOURCE / "tools" / "xla_table"
        done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^\d{3} ops$")


if __name__ == "__main__":
    support.main()
