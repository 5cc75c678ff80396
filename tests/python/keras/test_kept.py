# SPDX-License-Identifier: Apache-2.0
"""What a training has beside the model that Keras lists, and what stands beside the callback of pawl."""

import support  # first: it finds the package
import keras
import numpy as np
import tensorflow as tf

import pawl
import pawl.keras
import test_traps
from test_traps import BATCHES, X, Y, dataset, model_of, values

SEQUENCES = np.random.default_rng(3).random((BATCHES * 4, 5, 3)).astype("f4")


class TwoOptimizers(keras.Model):
    """A training step of its own, with an optimizer for each half, and a number that Keras does not list."""

    def __init__(self):
        super().__init__()
        self.one, self.other = keras.layers.Dense(3, name="one"), keras.layers.Dense(1, name="other")
        self.seen = tf.Variable(0.0)
        self.one.build((None, 3))
        self.other.build((None, 3))
        self.built = True

    def compile(self, one_optimizer, other_optimizer):
        super().compile()
        self.one_optimizer, self.other_optimizer = one_optimizer, other_optimizer

    def call(self, x):
        return self.other(self.one(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self(x) - y) ** 2)
        for optimizer, half in ((self.one_optimizer, self.one), (self.other_optimizer, self.other)):
            optimizer.apply_gradients(
                zip(tape.gradient(loss, half.trainable_variables), half.trainable_variables, strict=True)
            )
        self.seen.assign_add(1.0)
        return {"loss": loss}


def two_optimizers(other=keras.optimizers.RMSprop):
    keras.utils.set_random_seed(4)
    model = TwoOptimizers()
    model.compile(keras.optimizers.Adam(0.01), other(0.01))
    return model


def all_of(model):
    found = [*model.variables, *model.one_optimizer.variables, *model.other_optimizer.variables, model.seen]
    return [np.asarray(keras.ops.convert_to_numpy(variable)) for variable in found]


class BesideTheModel(support.InDirectory):
    train = test_traps.Continuing.train

    def assert_same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected, strict=True):
            self.assertEqual(one.tobytes(), other.tobytes())

    def test_optimizers_and_variables_of_a_training_step_of_ones_own(self):
        expected = all_of(self.train(dataset(), model=two_optimizers(), path=self.directory / "whole"))
        self.train(dataset(), after=7, model=two_optimizers())
        self.assert_same(all_of(self.train(dataset(), model=two_optimizers())), expected)

    def test_another_class_of_such_an_optimizer_is_refused(self):
        self.train(dataset(), after=7, model=two_optimizers())
        with self.assertRaises(pawl.Mismatch) as caught:
            self.train(dataset(), model=two_optimizers(keras.optimizers.Adam))
        self.assertIn('the optimizer changed from "RMSprop" in the checkpoint to "Adam"', str(caught.exception))

    def test_states_of_a_stateful_layer(self):
        def model():
            keras.utils.set_random_seed(4)
            layers = [keras.layers.LSTM(3, stateful=True), keras.layers.Dense(1)]
            made = keras.Sequential([keras.Input(batch_shape=(4, 5, 3)), *layers])
            made.compile("adam", "mse")
            return made

        def states(made):
            return [*values(made), *(np.asarray(keras.ops.convert_to_numpy(one)) for one in made.layers[0].states)]

        data = tf.data.Dataset.from_tensor_slices((SEQUENCES, Y)).batch(4)
        expected = states(self.train(data, model=model(), path=self.directory / "whole"))
        self.train(data, after=7, model=model())
        self.assert_same(states(self.train(data, model=model())), expected)

    def test_the_best_weights_of_early_stopping(self):
        def stops():
            return keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True)

        against = (X[:8], -10 * Y[:8])  # it gets worse from the first epoch on
        more = {"epochs": 8, "validation_data": against}
        expected = self.train(dataset(), callbacks=[stops()], path=self.directory / "whole", **more)
        self.train(dataset(), after=2 * BATCHES + 2, callbacks=[stops()], **more)
        found = self.train(dataset(), callbacks=[stops()], **more)
        self.assert_same(found.get_weights(), expected.get_weights())


class BesideTheCallback(support.InDirectory):
    def test_backup_and_restore_is_refused(self):
        beside = keras.callbacks.BackupAndRestore(self.directory / "backup")
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            with self.assertRaisesRegex(pawl.UsageError, "BackupAndRestore"):
                pawl.keras.resume(model_of(), dataset(), callbacks=[beside, checkpoint])

    def test_a_bar_of_progress(self):
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            history = pawl.keras.resume(model_of(), dataset(), epochs=2, callbacks=[checkpoint])
        self.assertEqual(history.epoch, [0, 1])

    def test_the_history_of_a_training_that_has_ended(self):
        for expected in ([0, 1], []):
            with pawl.keras.Checkpoint(self.run_path) as checkpoint:
                history = pawl.keras.resume(model_of(), dataset(), epochs=2, callbacks=[checkpoint], verbose=0)
            self.assertEqual(history.epoch, expected)

    def test_steps_per_execution_that_is_no_number(self):
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            with self.assertRaisesRegex(pawl.UsageError, "steps_per_execution='auto'"):
                pawl.keras.resume(model_of(steps_per_execution="auto"), dataset(), callbacks=[checkpoint])

    def test_what_is_monitored_removes_nothing(self):
        with pawl.keras.Checkpoint(self.run_path, monitor="loss") as checkpoint:
            pawl.keras.resume(model_of(), dataset(), epochs=4, callbacks=[checkpoint], verbose=0)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [BATCHES * n for n in (1, 2, 3, 4)])

    def test_checkpoints_of_others_in_the_directory_are_told(self):
        tf.train.Checkpoint(model=model_of()).save(self.run_path / "ckpt")
        with pawl.keras.Checkpoint(self.run_path) as checkpoint, self.assertLogs("pawl.keras", "WARNING") as said:
            pawl.keras.resume(model_of(), dataset(), callbacks=[checkpoint], verbose=0)
        self.assertIn("ckpt-1.index", "\n".join(said.output))


if __name__ == "__main__":
    support.main()
