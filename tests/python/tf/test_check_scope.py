# SPDX-License-Identifier: Apache-2.0
"""Variables and optimizers made outside of the scope (J04), optimizers of other variables (R06, J05): TensorFlow's
own answer first, then pawl's."""

import support  # first: it finds the package

support.two_devices()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pawl  # noqa: E402
import pawl.tf  # noqa: E402
import tensorflow as tf  # noqa: E402

X, Y = np.ones((4, 10), "float32"), np.ones((4, 2), "float32")


def model_of(*layers, name="m"):
    return keras.Sequential([keras.Input((10,)), *(layers or [keras.layers.Dense(2, name="d")])], name=name)


class Scope(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def refused(self, **given):
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.tf.check_scope(self.strategy, **given)
        return caught.exception

    def steps(self, model, optimizer):
        """What `iterations` is after one step of a loop of one's own."""

        def on_a_replica():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(X) - Y) ** 2)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

        tf.function(lambda: self.strategy.run(on_a_replica))()
        return int(optimizer.iterations.numpy())

    def test_all_in_the_scope(self):
        with self.strategy.scope():
            model = model_of()
            model.compile("adam", "mse", metrics=["mae"])
        self.assertIsNone(pawl.tf.check_scope(self.strategy, model=model))
        model.fit(X, Y, verbose=0)
        self.assertIsNone(pawl.tf.check_scope(self.strategy, model=model))
        self.assertEqual(int(model.optimizer.iterations.numpy()), 1)

    def test_an_optimizer_made_outside_j04(self):
        """Silent: two steps are counted for one, and slots updated twice."""
        with self.strategy.scope():
            model = model_of()
        optimizer = keras.optimizers.Adam(name="adam")
        optimizer.build(model.trainable_variables)
        self.assertEqual(self.steps(model, optimizer), 2)
        with self.strategy.scope():
            model.compile(optimizer, "mse")
        model.fit(X, Y, batch_size=4, verbose=0)
        self.assertEqual(int(optimizer.iterations.numpy()), 4)  # and so in fit
        error = self.refused(model=model)
        self.assertEqual(
            error.attempt,
            "6 variables were made outside of the scope of MirroredStrategy: adam/iteration, adam/learning_rate, "
            "adam/m_d_kernel_momentum, adam/m_d_kernel_velocity, adam/m_d_bias_momentum, adam/m_d_bias_velocity",
        )
        self.assertEqual(error.entry, "adam/iteration")
        self.assertIn("make optimizer inside of `with strategy.scope():`", error.next)
        self.assertEqual(self.refused(optimizer=optimizer).attempt, error.attempt)
        with self.strategy.scope():  # the advice
            mended = keras.optimizers.Adam()
            mended.build(model.trainable_variables)
        self.assertIsNone(pawl.tf.check_scope(self.strategy, model=model, optimizer=mended))
        self.assertEqual(self.steps(model, mended), 1)

    def test_a_model_made_outside_j04(self):
        model = model_of()
        with self.strategy.scope():
            model.compile("adam", "mse")
        with self.assertRaises(RuntimeError) as caught:
            model.fit(X, Y, verbose=0)
        self.assertIn('Need to be inside "with strategy.scope()"', str(caught.exception))
        self.assertNotIn("d/kernel", str(caught.exception))  # which variables is not said
        error = self.refused(model=model)
        self.assertIn("made outside of the scope of MirroredStrategy: m/d/kernel, m/d/bias", error.attempt)

    def test_a_variable_made_outside_j04(self):
        """Silent: each replica updates the one variable."""
        counter = tf.Variable(1.0, name="counter")
        tf.function(lambda: self.strategy.run(lambda: counter.assign_add(1.0)))()
        self.assertEqual(counter.numpy(), 3.0)
        for variables in ([counter], {"counter": counter}):
            error = self.refused(variables=variables)
            self.assertEqual(error.attempt, "1 variable was made outside of the scope of MirroredStrategy: counter")

    def test_arguments_of_other_kinds(self):
        with self.assertRaisesRegex(pawl.UsageError, "strategy is a tf.distribute.Strategy, not int"):
            pawl.tf.check_scope(3)
        with self.assertRaisesRegex(pawl.UsageError, "is a ndarray, no variable of TensorFlow"):
            pawl.tf.check_scope(self.strategy, variables=[X])


class Optimizer(support.InDirectory):
    def test_a_layer_that_was_added_r06_j05(self):
        before = model_of()
        optimizer = keras.optimizers.Adam()
        optimizer.build(before.trainable_variables)
        model = keras.Sequential([before, keras.layers.Dense(2, name="new")], name="n")
        model.build((None, 10))
        gradients = [tf.ones(one.shape) for one in model.trainable_variables]
        with self.assertRaises(ValueError) as caught:
            optimizer.apply(gradients, model.trainable_variables)
        self.assertIn("Unknown variable: <Variable path=n/new/kernel", str(caught.exception))
        self.assertNotIn("n/new/bias", str(caught.exception))  # the first one only
        with self.assertRaises(pawl.Mismatch) as caught:
            pawl.tf.check_optimizer(optimizer, model)
        self.assertEqual(
            caught.exception.attempt,
            "the optimizer Adam knows 2 variables, the model trains 4: it was not built for n/new/kernel, n/new/bias",
        )
        self.assertEqual(caught.exception.entry, "n/new/kernel")
        self.assertIsNone(pawl.tf.check_optimizer(optimizer, before))
        self.assertIsNone(pawl.tf.check_optimizer(keras.optimizers.Adam(), model))  # not built yet

    def test_the_optimizer_of_another_model_r06(self):
        one, other = model_of(name="one"), model_of(name="other")
        for optimizer in (keras.optimizers.SGD(), keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD())):
            optimizer.build(one.trainable_variables)
            with self.subTest(type(optimizer).__name__), self.assertRaises(pawl.Mismatch) as caught:
                pawl.tf.check_optimizer(optimizer, other)
            self.assertEqual(
                caught.exception.attempt,
                "the optimizer SGD knows 2 variables, the model trains 2: it was not built for other/d/kernel, "
                "other/d/bias; the model has no one/d/kernel, one/d/bias",
            )

    def test_a_layer_that_was_frozen_is_fine(self):
        model = model_of(keras.layers.Dense(3, name="a"), keras.layers.Dense(2, name="b"))
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        model.layers[0].trainable = False
        optimizer.apply([tf.ones(one.shape) for one in model.trainable_variables], model.trainable_variables)
        self.assertIsNone(pawl.tf.check_optimizer(optimizer, model))


if __name__ == "__main__":
    support.main()
