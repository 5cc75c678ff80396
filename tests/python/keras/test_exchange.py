# SPDX-License-Identifier: Apache-2.0
"""Runs of pawl.keras read by pawl.tf, and the other way round: taken as they are, or refused with what leads on."""

import support  # first: it finds the package
import keras
import numpy as np
import tensorflow as tf

import pawl
import pawl.keras
import pawl.tf

X, Y = np.linspace(0, 1, 64, dtype="f4").reshape(16, 4), np.ones((16, 1), "f4")
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
}
ON_JAX = """
import sys
import support
import keras
import numpy as np
import pawl
import pawl.keras

layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("adam", "mse")
try:
    with pawl.keras.Checkpoint(sys.argv[1]) as checkpoint:
        checkpoint.restore(model)
except pawl.Mismatch as why:
    assert "not made by pawl.keras: give restore={'model_only': True, 'unexpected': 'allow'}" in why.next, why
else:
    raise SystemExit("it was not refused")
with pawl.keras.Checkpoint(sys.argv[1]) as checkpoint:
    checkpoint.restore(model, model_only=True, unexpected="allow")
with pawl.open(sys.argv[1]) as saved:
    np.testing.assert_array_equal(np.asarray(model.layers[0].kernel), np.asarray(saved["model/dense/kernel"]))
print("DONE")
"""


def model_of(optimizer, seed):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    model.compile(OPTIMIZERS[optimizer](), "mse")
    return model


class Exchange(support.InDirectory):
    def test_pawl_tf_takes_model_and_optimizer_of_a_run_of_pawl_keras(self):
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                path = self.directory / optimizer
                saved = model_of(optimizer, 1)
                with pawl.keras.Checkpoint(path, save_freq="epoch") as checkpoint:
                    saved.fit(X, Y, verbose=0, callbacks=[checkpoint])
                again = model_of(optimizer, 2)
                objects = pawl.tf.Checkpoint(model=again, optimizer=again.optimizer)
                before = [np.array(one.numpy()) for one in again.variables]
                with pawl.tf.CheckpointManager(objects, path, None) as manager:
                    for restore in (lambda: objects.restore(path), manager.restore_or_initialize):  # noqa: B023
                        with self.assertRaises(pawl.Mismatch) as raised:
                            restore()
                        self.assertIn("made by pawl.keras: to continue its training", raised.exception.next)
                        self.assertIn("pass unexpected='allow'", raised.exception.next)
                for one, two in zip(again.variables, before, strict=True):
                    np.testing.assert_array_equal(one.numpy(), two)
                report = objects.restore(path, unexpected="allow")
                self.assertEqual(report.kept, 0)
                self.assert_same(again, saved)

    def test_pawl_keras_begins_with_model_and_optimizer_of_a_run_of_pawl_tf(self):
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                saved = model_of(optimizer, 1)
                saved.fit(X, Y, verbose=0)
                objects = {"model": saved, "optimizer": saved.optimizer}
                pawl.tf.Checkpoint(**objects).save(self.directory / optimizer / "alone")
                pawl.tf.Checkpoint(**objects, step=tf.Variable(7)).save(self.directory / optimizer / "more")
                again = model_of(optimizer, 2)
                with pawl.keras.Checkpoint(self.directory / optimizer / "alone") as checkpoint:
                    checkpoint.restore(again)
                    self.assertEqual((checkpoint.step, checkpoint.epoch), (0, 0))
                self.assert_same(again, saved)
                again = model_of(optimizer, 3)
                with pawl.keras.Checkpoint(self.directory / optimizer / "more") as checkpoint:
                    with self.assertRaises(pawl.Mismatch) as raised:
                        checkpoint.restore(again)
                    self.assertIn("made by pawl.tf or tf.train", raised.exception.next)
                    self.assertIn("pass unexpected='allow'", raised.exception.next)
                    checkpoint.restore(again, unexpected="allow")
                self.assert_same(again, saved)

    def test_other_names_of_pawl_tf_are_refused_with_the_way_out(self):
        saved = model_of("adam", 1)
        pawl.tf.Checkpoint(net=saved).save(self.run_path)
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            with self.assertRaisesRegex(pawl.UsageError, r"its model is none of \['net'\]") as raised:
                checkpoint.restore(model_of("adam", 2))
        self.assertIn("pawl.tf.Checkpoint(NAME=model", raised.exception.next)

    def test_on_another_backend_the_model_alone_is_taken(self):
        saved = model_of("adam", 1)
        saved.fit(X, Y, verbose=0)
        pawl.tf.Checkpoint(model=saved, optimizer=saved.optimizer, step=tf.Variable(1)).save(self.run_path)
        self.assertIn("DONE", self.program(ON_JAX, self.run_path, KERAS_BACKEND="jax"))


if __name__ == "__main__":
    support.main()
