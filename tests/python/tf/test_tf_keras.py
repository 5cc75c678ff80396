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

    def numbered(self, library, count, backwards=False):
        """Layers of one shape that Keras numbers; made in the order of the model, or the other way round."""
        layers = [library.layers.Dense(4) for _ in range(count)]
        inputs = library.Input((4,))
        outputs = inputs
        for layer in reversed(layers) if backwards else layers:
            outputs = layer(outputs)
        return library.Model(inputs, outputs)

    def restore_numbered(self, saved, model, **policies):
        path = tf.train.Checkpoint(model=saved).save(str(self.directory / f"ckpt{saved.layers[1].name}"))
        return pawl.tf.Checkpoint(model=model).restore(path, **policies)

    def test_r05_layers_that_keras_has_numbered(self):
        tf_keras.backend.reset_uids()
        saved, model = self.numbered(tf_keras, 3), self.numbered(keras, 3)
        self.restore_numbered(saved, model)
        self.assert_same(model, saved)

        only = self.numbered(tf_keras, 1)  # dense_3
        self.assertEqual(only.layers[1].name, "dense_3")
        model = self.numbered(keras, 1)
        self.restore_numbered(only, model)
        self.assert_same(model, only)

    def test_r05_which_of_the_numbered_layers_is_which_is_not_guessed(self):
        tf_keras.backend.reset_uids()
        tf_keras.layers.Dense(1)  # the model's are dense_1, dense_2
        moved = self.numbered(tf_keras, 2)
        tf_keras.backend.reset_uids()
        for saved, model in (
            (moved, self.numbered(keras, 2)),
            (self.numbered(tf_keras, 2, backwards=True), self.numbered(keras, 2)),
            (self.numbered(tf_keras, 2), self.numbered(keras, 3)),
        ):
            before = [value.copy() for value in model.get_weights()]
            with self.subTest(saved.layers[1].name), self.assertRaises(pawl.Mismatch):
                self.restore_numbered(saved, model)
            self.restore_numbered(saved, model, missing="allow", unexpected="allow")
            for one, two in zip(model.get_weights(), before, strict=True):
                self.assert_bits(one, two)
            tf_keras.backend.reset_uids()

    def test_r08_a_graph_that_is_none(self):
        with pawl.Run(self.run_path) as run:
            state = pawl.State({"model/a/kernel": np.ones((4, 3), "f4")})
            state.set("_CHECKPOINTABLE_OBJECT_GRAPH", b"\xff\xff\xff")
            run.save(state, 1)
            run.wait()
        with self.assertRaisesRegex(pawl.Damaged, "is no graph of objects"):
            pawl.tf.Checkpoint(model=of(keras)).restore(self.run_path)

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
