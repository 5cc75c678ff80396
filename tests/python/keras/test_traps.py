# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of continuing a training exactly: handled, or refused by name."""

import gc
import os
import signal
import threading
import time
import unittest
import weakref

import support  # first: it finds the package
import keras
import numpy as np
import tensorflow as tf

import pawl
import pawl.keras
from pawl.keras._data import Fit, fits_of

BATCHES = 5
X = np.random.default_rng(1).random((BATCHES * 4, 3)).astype("f4")
Y = np.random.default_rng(2).random((BATCHES * 4, 1)).astype("f4")


class Interrupt(keras.callbacks.Callback):
    """Ends training after so many batches, by an exception or what else is called."""

    def __init__(self, after, how=None):
        super().__init__()
        self.left, self.how = after, how

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            if self.how is None:
                raise InterruptedError
            self.how()


def model_of(optimizer=None, **more):
    keras.utils.set_random_seed(4)
    layers = [keras.layers.Dense(4), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    optimizer = keras.optimizers.Adam(0.01) if optimizer is None else optimizer()
    model.compile(optimizer, "mse", metrics=["mae"], **more)
    return model


def values(model):
    found = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [np.asarray(keras.ops.convert_to_numpy(variable.value)) for variable in found]


def dataset():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


def generator():
    for i in range(BATCHES):
        yield X[4 * i : 4 * i + 4], Y[4 * i : 4 * i + 4]


def generated():
    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 1)))
    return tf.data.Dataset.from_generator(generator, output_signature=signature)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return BATCHES

    def __getitem__(self, i):
        return X[4 * i : 4 * i + 4], Y[4 * i : 4 * i + 4]


class Continuing(support.InDirectory):
    def train(self, data, after=None, epochs=3, path=None, callbacks=(), model=None, how=None, options=None, **more):
        """Trains a model, from the beginning or the newest checkpoint, and may be interrupted."""
        model = model_of() if model is None else model
        listed = [*callbacks, *([Interrupt(after, how)] if after else [])]
        with pawl.keras.Checkpoint(path or self.run_path, every=1, **(options or {})) as checkpoint:
            self.checkpoint = checkpoint
            try:
                self.history = pawl.keras.resume(
                    model, data, epochs, callbacks=[checkpoint, *listed], verbose=0, **more
                )
            except InterruptedError:
                pass
        return model

    def continues(self, data, afters, callbacks=list, model=model_of, **more):
        """A training that is interrupted ends with the same bits as one that is not."""
        self.count = getattr(self, "count", 0) + 1
        whole_path = self.directory / f"whole{self.count}"
        whole = self.train(data, path=whole_path, callbacks=callbacks(), model=model(), **more)
        expected = values(whole)
        self.assertEqual(self.checkpoint.epoch, 3)
        for after in afters:
            path = self.directory / f"after{after}-{self.count}"
            self.train(data, after, path=path, callbacks=callbacks(), model=model(), **more)
            again = self.train(data, path=path, callbacks=callbacks(), model=model(), **more)
            self.assertGreater(self.checkpoint.report.step, 0)
            for one, other in zip(values(again), expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"after {after} batches")
        return whole

    # ---- data ----

    def test_plan(self):
        self.assertEqual(fits_of(1, 3, 4, 5, None), [Fit(3, 3, 1, 2, None), Fit(0, 0, 2, 4, None)])
        self.assertEqual(fits_of(3, 3, 4, 5, None), [Fit(3, 3, 3, 4, None)])
        self.assertEqual(fits_of(4, 0, 4, 5, None), [])
        self.assertEqual(fits_of(1, 3, 4, None, 5), [Fit(8, 3, 1, 2, 2), Fit(10, 0, 2, 4, 5)])
        # 5 batches in epochs of 2: 2, 2, 1, and again
        self.assertEqual(
            fits_of(0, 1, 6, 5, 2), [Fit(1, 1, 0, 1, 1), Fit(2, 0, 1, 2, 2), Fit(4, 0, 2, 3, 1), Fit(0, 0, 3, 6, 2)]
        )
        self.assertEqual(fits_of(1, 2, 3, 5, None, each=True), [Fit(2, 2, 1, 2, None), Fit(0, 0, 2, 3, None)])

    def test_a_dataset(self):
        self.continues(dataset(), [2, 6, 10])

    def test_arrays_and_batches_of_python(self):
        self.continues((X, Y), [7], batch_size=4)
        whole = self.continues(Batches(), [8])
        for one, other in zip(values(whole), values(self.train(dataset(), path=self.directory / "ds")), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_dataset_without_end(self):
        self.continues(dataset().repeat(), [4, 9], steps_per_epoch=3)

    def test_epochs_that_are_shorter_than_the_data(self):
        self.continues(dataset(), [2, 4, 5], steps_per_epoch=2)

    def test_a_dataset_of_unknown_length(self):
        model = model_of()
        model.fit(generated(), epochs=3, verbose=0)
        self.assertEqual(int(model.optimizer.iterations.numpy()), 3 * (BATCHES + 1))  # one too many in each epoch
        with self.assertRaisesRegex(pawl.UsageError, "does not know how many batches it has.*\n.*assert_cardinality"):
            self.train(generated())

    def test_a_generator_whose_length_is_said(self):
        self.continues(generated().apply(tf.data.experimental.assert_cardinality(BATCHES)), [3, 8])

    def test_a_generator_itself(self):
        with self.assertRaisesRegex(pawl.UsageError, "the data is a builtins.generator"):
            self.train(generator())
        with self.assertRaisesRegex(pawl.UsageError, "has no end"):
            self.train(dataset().repeat())

    def test_an_order_that_begins_anew_in_each_process_J06(self):
        shuffled = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(20, seed=1).batch(4)
        order = [[batch[0].numpy().tolist() for batch in shuffled] for _ in range(2)]
        self.assertNotEqual(order[0], order[1])  # Keras: another process begins with the first again
        self.train(shuffled, 7)
        with self.assertLogs("pawl.keras", "WARNING") as logs:
            self.train(tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(20, seed=1).batch(4))
        self.assertIn("J06", logs.output[0])

    def test_an_order_that_is_the_epochs(self):
        def of(epoch):
            data = tf.data.Dataset.from_tensor_slices((X, Y))
            return data.shuffle(20, seed=epoch, reshuffle_each_iteration=False).batch(4)

        self.assertNotEqual(next(iter(of(0)))[0].numpy().tolist(), next(iter(of(1)))[0].numpy().tolist())
        with self.assertNoLogs("pawl.keras", "WARNING"):
            self.continues(of, [3, 8])

    def test_other_data_than_before(self):
        self.train(dataset(), 7)
        with self.assertRaisesRegex(pawl.UsageError, "batches: 5 then, 4 now"):
            self.train(dataset().take(4))

    # ---- steps ----

    def test_several_steps_at_a_time(self):
        def model():
            return model_of(steps_per_execution=2)

        self.continues(dataset(), [2, 3, 5], model=model)
        self.assertEqual(self.checkpoint.step, 15)  # the batch numbers of Keras pass the end: 18
        with self.assertRaisesRegex(
            pawl.UsageError, "steps_per_epoch=3 is no multiple of steps_per_execution=2.*\n.*give steps_per_epoch=4"
        ):
            self.train(dataset().repeat(), steps_per_epoch=3, model=model())

    def test_saves_are_due_where_a_multiple_is_passed(self):
        with pawl.keras.Checkpoint(self.run_path, every=4) as checkpoint:
            pawl.keras.resume(model_of(steps_per_execution=3), dataset(), 3, callbacks=[checkpoint], verbose=0)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [5, 8, 13, 15])

    # ---- callbacks ----

    def test_callbacks_that_change_the_training(self):
        def callbacks():
            plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=10, factor=0.5)
            return [plateau, keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)]

        whole = self.continues(dataset(), [3, 7, 11], callbacks=callbacks)
        self.assertLess(float(whole.optimizer.learning_rate.numpy()), 0.01 * 0.9**2)

    def test_an_average_in_place_of_the_weights(self):
        def model():
            return model_of(lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5))

        whole = self.continues(dataset(), [3, 12], model=model)
        over = self.train(dataset(), path=self.directory / "whole1", model=model())  # nothing is left to train
        for one, other in zip(whole.trainable_variables, over.trainable_variables, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_fit_alone(self):
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            model_of().fit(dataset(), epochs=2, verbose=0, callbacks=[checkpoint])
        again = model_of()
        with pawl.keras.Checkpoint(self.run_path) as checkpoint:
            history = again.fit(dataset(), epochs=3, verbose=0, callbacks=[checkpoint])
        self.assertEqual(history.epoch, [2])
        whole = model_of()
        whole.fit(dataset(), epochs=3, verbose=0)
        for one, other in zip(whole.variables, again.variables, strict=True):
            np.testing.assert_array_equal(one, other)
        self.train(dataset(), 12, path=self.directory / "within")
        with (
            pawl.keras.Checkpoint(self.directory / "within") as checkpoint,
            self.assertRaisesRegex(pawl.UsageError, "is of batch 1 of epoch 2, and fit.*\n(.*\n)*.*pawl.keras.resume"),
        ):
            model_of().fit(dataset(), epochs=3, verbose=0, callbacks=[checkpoint])

    def test_fits_for_a_loop_of_ones_own(self):
        self.train(dataset(), 7)
        again = model_of()
        made = []
        with pawl.keras.Checkpoint(self.run_path, every=1) as checkpoint:
            for arguments in pawl.keras.fits(checkpoint, again, dataset(), 3):
                made.append((arguments["initial_epoch"], arguments["epochs"]))
                again.fit(**arguments, verbose=0, callbacks=[checkpoint])
        self.assertEqual(made, [(1, 2), (2, 3)])
        whole = self.train(dataset(), path=self.directory / "whole")
        for one, other in zip(values(whole), values(again), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_signal(self):
        before = signal.getsignal(signal.SIGTERM)
        options = {"monitor": "val_loss", "keep_last": 2}
        for after in (7, 10):
            path = self.directory / f"signal{after}"

            def tell():
                os.kill(os.getpid(), signal.SIGTERM)

            signalled = []
            signal.signal(signal.SIGTERM, lambda *_, told=signalled: told.append(1))
            self.addCleanup(signal.signal, signal.SIGTERM, before)
            with self.assertLogs("pawl.keras", "WARNING"):
                self.train(dataset(), after, path=path, how=tell, options=options, validation_data=dataset())
            self.assertTrue(self.checkpoint.preempted)
            self.assertEqual(pawl.ls(path)[-1].step, after)
            again = self.train(dataset(), path=path, options=options, validation_data=dataset())
            self.assertEqual(self.checkpoint.report.step, after)
            whole = self.train(dataset(), path=self.directory / "whole", options=options, validation_data=dataset())
            for one, other in zip(whole.variables, again.variables, strict=True):
                np.testing.assert_array_equal(one, other)

    def test_the_best_is_kept(self):
        options = {"monitor": "loss", "mode": "max"}
        with pawl.keras.Checkpoint(self.run_path, keep_last=1, **options) as checkpoint:
            model_of().fit(dataset(), epochs=4, verbose=0, callbacks=[checkpoint])
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [5, 20])  # the loss becomes smaller
        with pawl.keras.Checkpoint(self.run_path, save_best_only=True, **options) as again:
            again.restore(model_of())
            self.assertEqual(again.best, checkpoint.best)
            again._policies = None
            model_of().fit(dataset(), epochs=1, verbose=0, callbacks=[again])  # no better
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [5, 20])
        with self.assertRaisesRegex(pawl.UsageError, "mode='min' or 'max'"):
            pawl.keras.Checkpoint(self.directory / "other", monitor="something")

    # ---- strategies ----

    def test_an_optimizer_that_was_made_outside_of_the_scope_C2_J04(self):
        out = self.program(SCOPE, self.run_path)
        self.assertIn("Keras counts 2", out)
        self.assertIn("pawl: the model was made inside of strategy.scope(), and the optimizer outside", out)

    # ---- the cut ----

    def test_what_is_saved_is_of_one_step_while_training_goes_on(self):
        slow = {"bandwidth_bytes_per_s": 1 << 20, "budget_bytes": 8 << 20, "in_flight_bytes": 1 << 20}
        kept = {}

        class Keep(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                kept[int(self.model.optimizer.iterations.numpy())] = [v.copy() for v in values(self.model)[:-4]]

        def model():
            keras.utils.set_random_seed(1)
            layers = [keras.layers.Dense(512), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
            made = keras.Sequential([keras.Input((3,)), *layers])
            made.add(keras.layers.Dense(600))
            made.add(keras.layers.Dense(600))
            made.compile(keras.optimizers.Adam(), "mse")
            return made

        trained = model()
        with pawl.keras.Checkpoint(self.run_path, every=7, save_freq=False, **slow) as checkpoint:
            pawl.keras.resume(trained, dataset(), 2, callbacks=[Keep(), checkpoint], verbose=0)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [7, 10])
        again = model()
        with pawl.keras.Checkpoint(self.run_path, restore={"step": 7}) as checkpoint:
            checkpoint.restore(again, step=7)
        found = values(again)
        for one, other in zip(kept[7], found, strict=False):
            np.testing.assert_array_equal(one, other)

    def test_values_are_let_go_when_they_are_written_although_nobody_calls(self):
        model = model_of()
        held, may_let_go = [], threading.Event()
        with pawl.keras.Checkpoint(self.run_path, every=1) as checkpoint:
            state_of, fenced = checkpoint._state, checkpoint.run.fenced

            def state(*arguments):
                made = state_of(*arguments)
                held.append(weakref.ref(made))
                return made

            checkpoint._state = state
            checkpoint.run.fenced = lambda: may_let_go.is_set() and fenced()
            checkpoint.begin(model)
            checkpoint.save()
            self.assertIsNotNone(held[0](), "nothing held the values while they were written")
            may_let_go.set()
            deadline = time.monotonic() + 60
            while held[0]() is not None and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.01)
            self.assertIsNone(held[0](), "nobody has let go, although nothing was called")


SCOPE = """
import sys
import support
import keras
import numpy as np
import tensorflow as tf
import pawl
import pawl.keras
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x, y = np.ones((8, 3), "f4"), np.ones((8, 1), "f4")
def job(optimizer):
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
    return model
outside = keras.optimizers.SGD(0.1)
model = job(outside)
model.fit(x, y, batch_size=8, verbose=0)
print("Keras counts", int(outside.iterations.numpy()))
try:
    with pawl.keras.Checkpoint(sys.argv[1]) as checkpoint:
        job(keras.optimizers.SGD(0.1)).fit(x, y, verbose=0, callbacks=[checkpoint])
except pawl.UsageError as why:
    print("pawl:", why)
"""


if __name__ == "__main__":
    assert unittest
    support.main()
