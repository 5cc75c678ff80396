# SPDX-License-Identifier: Apache-2.0
"""Object-based checkpoints of TensorFlow: what pawl converts, tf.train.Checkpoint restores, all of it."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "package"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pawl
import support

try:
    import keras
    import numpy
    import tensorflow as tf
except ImportError as missing:
    print(f"SKIP: there is no {missing.name} in this Python")
    sys.exit(77)

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Blocks(keras.Model):
    """A model that has some of its layers in a list, of which the graph knows through the optimizer alone."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
        self.drop = keras.layers.Dropout(0.5)
        self.blocks = [keras.layers.Dense(2), keras.layers.Dense(2)]

    def call(self, x, training=False):
        x = self.drop(self.dense(x), training=training)
        for block in self.blocks:
            x = block(x)
        return x


def sequential():
    layers = [keras.Input((5,)), keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    return keras.Sequential(layers)


OPTIMIZERS = {
    "Adam": lambda: keras.optimizers.Adam(0.01, amsgrad=True, use_ema=True),
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
}


def trained(model, optimizer, steps):
    """A checkpoint of a model after so many steps, and the model."""
    model.compile(optimizer, "mse")
    model(numpy.ones((1, 5), "f4"))
    optimizer.build(model.trainable_variables)
    random = numpy.random.default_rng(steps)
    for _ in range(steps):
        model.train_on_batch(random.random((4, 5), "f4"), random.random((4, 2), "f4"))
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer, step=tf.Variable(steps)), model


def variables(model):
    return [v for v in model.variables + model.optimizer.variables if "seed_generator" not in v.path]


def keys(prefix):
    return tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()


class InDirectory(support.InDirectory):
    def convert(self, source, name, to="tensorflow", **options):
        path = self.directory / name
        pawl.convert(source, path, to=to, **options)
        return path


class Objects(InDirectory):
    def check(self, case, make_model, make_optimizer):
        checkpoint, model = trained(make_model(), make_optimizer(), 3)
        saved = checkpoint.save(str(self.directory / case / "ckpt"))
        run = self.convert(saved, f"{case}-run", "pawl")
        weights = self.convert(run, f"{case}.safetensors", "safetensors")
        for name, source in {"direct": saved, "run": run, "safetensors": weights}.items():
            with self.subTest(through=name):
                written = self.convert(source, f"{case}-from-{name}")
                self.assertEqual(keys(written), keys(saved))
                self.assertIsNone(pawl.open(written).verify().unverified)
                other, restored = trained(make_model(), make_optimizer(), 1)
                other.restore(str(written)).assert_consumed()
                for was, now in zip(variables(model), variables(restored), strict=True):
                    numpy.testing.assert_array_equal(was.numpy(), now.numpy(), was.path)
                self.assertEqual(other.step.numpy(), 3)

    def test_models_of_keras(self):
        for model in (Blocks, sequential):
            for name, optimizer in OPTIMIZERS.items():
                with self.subTest(model=model.__name__, optimizer=name):
                    self.check(f"{model.__name__}-{name}", model, optimizer)

    def test_variables_lists_dicts_tables_and_texts(self):
        saved, values = self.module("k1"), tf.constant(["k1", "k2", "none"])
        saved.w.assign([[5.0, 6.0]])
        saved.list[1]["c/d"].assign([["x", "y"], ["z", ""]])
        path = tf.train.Checkpoint(module=saved, v=tf.Variable(3)).save(str(self.directory / "saved/ckpt"))
        written = self.convert(self.convert(path, "run", "pawl"), "written")
        other = self.module("other")
        checkpoint = tf.train.Checkpoint(module=other, v=tf.Variable(0))
        checkpoint.restore(str(written)).assert_consumed()
        numpy.testing.assert_array_equal(other.w.numpy(), [[5.0, 6.0]])
        numpy.testing.assert_array_equal(other.list[1]["c/d"].numpy(), [[b"x", b"y"], [b"z", b""]])
        numpy.testing.assert_array_equal(other.list[1]["a.b"].numpy(), b"k1")
        numpy.testing.assert_array_equal(other.table.lookup(values).numpy(), [1, 2, -1])
        self.assertEqual(checkpoint.v.numpy(), 3)

    @staticmethod
    def module(key):
        module = tf.Module()
        module.w = tf.Variable([[1.0, 2.0]])
        module.list = [tf.Variable(1), {"a.b": tf.Variable(key), "c/d": tf.Variable([["", ""], ["", ""]])}]
        module.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        module.table.insert([key, "k2"], [1, 2])
        module.generator = tf.random.Generator.from_seed(1)
        return module

    def test_a_graph_that_is_larger_than_a_value(self):
        many = {f"{'a long name of a variable ' * 4}{i}": tf.Variable(float(i)) for i in range(5000)}
        path = tf.train.Checkpoint(many=many).save(str(self.directory / "saved/ckpt"))
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.entry(GRAPH).dtype, "U8")
            self.assertGreater(checkpoint.entry(GRAPH).bytes, 1 << 20)
            self.assertIsNone(checkpoint.verify().unverified)
        written = self.convert(self.convert(path, "run", "pawl"), "written")
        other = {name: tf.Variable(0.0) for name in many}
        tf.train.Checkpoint(many=other).restore(str(written)).assert_consumed()
        self.assertEqual([v.numpy() for v in other.values()], [float(i) for i in range(5000)])


class Parts(InDirectory):
    """What is not all of an object-based checkpoint."""

    def setUp(self):
        super().setUp()
        checkpoint, _ = trained(sequential(), OPTIMIZERS["Adam"](), 1)
        self.saved = checkpoint.save(str(self.directory / "saved/ckpt"))

    def test_other_names_do_not_fit_the_graph(self):
        with self.assertRaisesRegex(pawl.Unsupported, "under other names") as caught:
            self.convert(self.saved, "renamed", rename={"model": "net"})
        self.assertEqual(caught.exception.entry, GRAPH)
        names = keys(self.convert(self.saved, "named", rename={"model": "net"}, drop=True))
        self.assertNotIn(GRAPH, names)
        self.assertIn("net/_functional/_operations/1/_kernel", names)

    def test_what_is_dropped_is_left_out_of_the_graph(self):
        iterator = iter(tf.data.Dataset.range(9))
        path = tf.train.Checkpoint(v=tf.Variable(7), i=iterator).save(str(self.directory / "iterator/ckpt"))
        with self.assertRaisesRegex(pawl.Unsupported, "its type") as caught:
            self.convert(path, "all")
        self.assertEqual(caught.exception.entry, "i/ITERATOR_STATE")
        written = self.convert(path, "rest", drop=True)
        other = tf.Variable(0)
        tf.train.Checkpoint(v=other).restore(str(written)).assert_consumed()
        self.assertEqual(other.numpy(), 7)

    def test_only_what_is_named_of_the_graph(self):
        written = self.convert(self.saved, "only", only=["model", GRAPH])
        model = sequential()
        checkpoint = tf.train.Checkpoint(model=model)
        checkpoint.restore(str(written)).assert_consumed()
        with pawl.open(self.saved) as saved:
            kernel = saved["model/_functional/_operations/1/_kernel"].read()
            numpy.testing.assert_array_equal(numpy.asarray(kernel), model.layers[0].kernel.numpy())

    def test_a_part_is_named_by_names(self):
        names = keys(self.convert(self.saved, "part", only=["model"]))
        self.assertTrue(names and all(name.startswith("model/") for name in names), names)

    def test_slots_without_their_variables(self):
        run = self.convert(self.saved, "run", "pawl", only=["optimizer"])
        with pawl.open(run) as checkpoint:
            self.assertEqual(checkpoint.entry("optimizer/_momentums/0").role, "other")

    def test_other_types_are_restored_into_variables_of_these(self):
        variable = tf.Variable(1.5)
        path = tf.train.Checkpoint(v=variable).save(str(self.directory / "one/ckpt"))
        written = self.convert(path, "cast", cast="F64")
        other = tf.Variable(0.0, dtype=tf.float64)
        tf.train.Checkpoint(v=other).restore(str(written)).assert_consumed()
        self.assertEqual(other.numpy(), 1.5)


class Names(InDirectory):
    def test_slots_and_hyperparameters_of_keras_3(self):
        checkpoint, model = trained(sequential(), OPTIMIZERS["Adam"](), 1)
        with pawl.open(checkpoint.save(str(self.directory / "saved/ckpt"))) as saved:
            kernel = "model/_functional/_operations/1/_kernel"
            numpy.testing.assert_array_equal(numpy.asarray(saved[kernel].read()), model.layers[0].kernel.numpy())
            slot = saved.entry("optimizer/_velocities/0")
            self.assertEqual((slot.role, slot.slot_of, slot.slot), ("slot", kernel, "velocities"))
            self.assertEqual(saved.entry("optimizer/_learning_rate").role, "hyperparameter")
            self.assertEqual(saved.entry("optimizer/_iterations").role, "step")
            self.assertEqual(saved.entry("save_counter").role, "other")
            slots = {e.slot_of for e in saved.entries() if e.role == "slot" and e.slot == "momentums"}
            self.assertEqual(len(slots), len(model.trainable_variables))


if __name__ == "__main__":
    unittest.main()
