# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Keras 2 (tf_keras) in programs of Keras 3: TensorFlow's own answer first, then pawl's."""

import support
from support import InDirectory, np, tf

import keras
import pawl
import pawl.keras
import pawl.tf
import tf_keras

X, Y = np.linspace(0, 1, 32, dtype="f4").reshape(8, 4), np.ones((8, 2), "f4")


class Subclassed(tf_keras.Model):
    def __init__(self):
        super().__init__(name="own")
        self.one, self.two = tf_keras.layers.Dense(3, name="one"), tf_keras.layers.Dense(2, name="two")

    def call(self, x):
        return self.two(self.one(x))


def of(library, optimizer=None, names=("a", "n", "b")):
    one, norm, two = names
    layers = library.layers
    model = library.Sequential(
        [
            library.Input((4,)),
            layers.Dense(3, name=one),
            layers.BatchNormalization(name=norm),
            layers.Dense(2, name=two),
        ]
    )
    model.compile(optimizer or "sgd", "mse")
    return model


def trained(model):
    model.fit(X, Y, verbose=0)
    return model


class OfKeras2(InDirectory):
    def save(self, model, name="ckpt"):
        objects = {"model": model, "optimizer": model.optimizer}
        return tf.train.Checkpoint(**objects).save(str(self.directory / name))

    def assert_same(self, model, other):
        for one, two in zip(model.layers, other.layers, strict=True):
            for mine, its in zip(one.get_weights(), two.get_weights(), strict=True):
                self.assert_bits(mine, its)

    def test_r06_a_legacy_optimizer_and_a_new_one_L5(self):
        saved = trained(of(tf_keras, tf_keras.optimizers.legacy.Adam()))
        path = self.save(saved)
        other = trained(of(tf_keras, tf_keras.optimizers.Adam()))
        with self.assertRaises(ValueError) as caught:
            tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
        self.assertIn("a checkpoint from a legacy TF-Keras optimizer into a v2.11+ Optimizer", str(caught.exception))

        model = of(keras, "adam")
        before = [value.copy() for value in model.get_weights()]
        checkpoint = pawl.tf.Checkpoint(model=model, optimizer=model.optimizer)
        with self.assertRaises(pawl.Mismatch) as refused:
            checkpoint.restore(path)
        self.assertIn("an optimizer of Keras 2 (tf_keras) was saved, this one is of Keras 3", str(refused.exception))
        for one, two in zip(model.get_weights(), before, strict=True):
            self.assert_bits(one, two)
        checkpoint.restore(path, model_only=True)  # the advice
        self.assert_same(model, saved)

    def test_r03_a_model_of_keras_3_finds_its_layers_by_name(self):
        """tf.train goes by the graph of objects, in which Keras 3 has other names: nothing is restored, silently."""
        saved = trained(of(tf_keras, tf_keras.optimizers.Adam()))
        path = self.save(saved)
        model = of(keras, "adam")
        before = [value.copy() for value in model.get_weights()]
        tf.train.Checkpoint(model=model).restore(path).expect_partial()
        for one, two in zip(model.get_weights(), before, strict=True):
            self.assert_bits(one, two)

        pawl.tf.Checkpoint(model=model, optimizer=model.optimizer).restore(path, model_only=True)
        self.assert_same(model, saved)
        exchanged = of(keras, names=("b2", "n", "a"))  # shapes that differ are told, whatever the names are
        with self.assertRaises(pawl.Mismatch):
            pawl.tf.Checkpoint(model=exchanged).restore(path, model_only=True)

    def test_a_run_that_it_was_converted_into(self):
        saved = trained(of(tf_keras))
        pawl.convert(self.save(saved), self.directory / "run", to="pawl")
        model = of(keras)
        with pawl.keras.Checkpoint(self.directory / "run") as checkpoint:
            checkpoint.restore(model, model_only=True)
        self.assert_same(model, saved)

    def test_a_model_in_a_model(self):
        def nested(library):
            inner = library.Sequential([library.Input((4,)), library.layers.Dense(3, name="d")], name="inner")
            return library.Sequential([library.Input((4,)), inner, library.layers.Dense(2, name="e")])

        saved = nested(tf_keras)
        path = tf.train.Checkpoint(model=saved).save(str(self.directory / "ckpt"))
        model = nested(keras)
        pawl.tf.Checkpoint(model=model).restore(path)
        for one, two in zip(model.get_weights(), saved.get_weights(), strict=True):
            self.assert_bits(one, two)

    def test_a_subclassed_model(self):
        saved = Subclassed()
        saved(X)
        path = tf.train.Checkpoint(model=saved).save(str(self.directory / "ckpt"))

        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.one, self.two = keras.layers.Dense(3, name="one"), keras.layers.Dense(2, name="two")

            def call(self, x):
                return self.two(self.one(x))

        model = Own()
        model(X)
        pawl.tf.Checkpoint(model=model).restore(path)
        for one, two in zip(model.get_weights(), saved.get_weights(), strict=True):
            self.assert_bits(one, two)

    def test_names_that_two_layers_have_are_not_guessed(self):
        def twice(library):
            def part(name):
                layer = library.layers.Dense(4, name="d")
                return library.Sequential([library.Input((4,)), layer], name=name)

            return library.Sequential([library.Input((4,)), part("one"), part("two")])

        path = tf.train.Checkpoint(model=twice(tf_keras)).save(str(self.directory / "ckpt"))
        model = twice(keras)
        before = [value.copy() for value in model.get_weights()]
        with self.assertRaises(pawl.Mismatch):
            pawl.tf.Checkpoint(model=model).restore(path)
        for one, two in zip(model.get_weights(), before, strict=True):
            self.assert_bits(one, two)


if __name__ == "__main__":
    support.main()
