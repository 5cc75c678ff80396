# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of TensorFlow become runs that a Keras model is restored from, and the other way round."""

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


def model_of(optimizer, seed):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(OPTIMIZERS[optimizer](), "mse")
    return model


def trained(optimizer):
    model = model_of(optimizer, 1)
    model.fit(X, Y, verbose=0)
    return model


class Bundles(support.InDirectory):
    def test_a_bundle_becomes_a_run(self):
        for i, optimizer in enumerate(OPTIMIZERS):
            with self.subTest(optimizer=optimizer):
                saved = trained(optimizer)
                prefix = tf.train.Checkpoint(model=saved, optimizer=saved.optimizer).save(
                    str(self.directory / f"ck{i}")
                )
                pawl.convert(prefix, self.directory / f"run{i}", to="pawl")
                again = model_of(optimizer, 2)
                with pawl.keras.Checkpoint(self.directory / f"run{i}") as checkpoint:
                    checkpoint.restore(again)
                self.assert_same(again, saved)

    def test_a_run_becomes_a_bundle(self):
        for i, optimizer in enumerate(OPTIMIZERS):
            with self.subTest(optimizer=optimizer):
                saved = trained(optimizer)
                with pawl.keras.Checkpoint(self.directory / f"run{i}") as checkpoint:
                    checkpoint.set_model(saved)
                    checkpoint.save()
                # by names: a run has no graph of objects
                prefix = self.directory / f"names{i}"
                pawl.convert(self.directory / f"run{i}", prefix, to="tensorflow", drop=True)
                kernel = tf.train.load_checkpoint(str(prefix)).get_tensor("model/dense_1/kernel")
                np.testing.assert_array_equal(kernel, saved.layers[2].kernel.numpy())
                # of objects, through a model
                between = model_of(optimizer, 2)
                with pawl.keras.Checkpoint(self.directory / f"run{i}") as checkpoint:
                    checkpoint.restore(between)
                path = tf.train.Checkpoint(model=between, optimizer=between.optimizer).save(
                    str(self.directory / f"o{i}")
                )
                again = model_of(optimizer, 3)
                again.optimizer.build(again.trainable_variables)
                tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path).assert_consumed()
                self.assert_same(again, saved)


if __name__ == "__main__":
    support.main()
