# SPDX-License-Identifier: Apache-2.0
"""Values that a save holds are let go when they are written, although training makes no step meanwhile."""

import gc
import threading
import time
import weakref

import support  # first: it finds the package
import keras
import numpy as np

import pawl
import pawl.keras


class LetGo(support.InDirectory):
    def test_without_a_batch_that_follows(self):
        model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(512)])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        slow = {"bandwidth_bytes_per_s": 8 << 20, "in_flight_bytes": 1 << 20}  # as during a long evaluation
        with pawl.keras.Checkpoint(self.run_path, **slow) as checkpoint:
            checkpoint.set_model(model)
            checkpoint.step = 1
            checkpoint.save()
            (held,) = map(weakref.ref, checkpoint.run._reading)
            deadline = time.monotonic() + 60
            while held() is not None and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.01)
            self.assertIsNone(held(), "nobody has let go, although nothing was called")
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved["model/dense/kernel"].shape, (512, 512))

    def test_values_go_one_by_one_while_others_are_written(self):
        layers = [keras.layers.Dense(512, use_bias=False) for _ in range(8)]
        model = keras.Sequential([keras.Input((512,)), *layers])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        before = [weights.copy() for weights in model.get_weights()]
        slow = {"bandwidth_bytes_per_s": 8 << 20, "in_flight_bytes": 1 << 20}
        with pawl.keras.Checkpoint(self.run_path, **slow) as checkpoint:
            checkpoint.set_model(model)
            checkpoint.step = 1
            checkpoint.save()
            (state,) = checkpoint.run._reading
            held = {
                name: weakref.ref(state[name])
                for name in state
                if name.endswith(("/kernel", "/momentums", "/velocities"))
            }
            del state
            model.set_weights([weights + 1 for weights in before])  # into memory of their own, as a step does
            early = set()
            while not checkpoint.run.fenced():
                early.update(name for name, reference in held.items() if reference() is None)
                time.sleep(0.002)
            self.assertIn(len(early), range(1, len(held)))
            self.assertEqual({name.split("/")[0] for name in early}, {"model", "optimizer"})
        with pawl.open(self.run_path) as saved:
            for i, weights in enumerate(before):  # numbered within the model
                name = f"model/dense_{i}/kernel" if i else "model/dense/kernel"
                np.testing.assert_array_equal(np.asarray(saved[name]), weights)

    def trainable(self):
        model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(512)])
        model.compile("adam", "mse")
        return model, np.zeros((12, 512), np.float32), np.zeros((12, 512), np.float32)

    def test_another_thread_cannot_save_what_fit_trains(self):
        """What is trained meanwhile would be of several steps."""
        model, x, y = self.trainable()
        told = []

        class Elsewhere(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                thread = threading.Thread(target=save)
                thread.start()
                thread.join()

        def save():
            try:
                checkpoint.save()
            except pawl.UsageError as why:
                told.append(str(why))

        with pawl.keras.Checkpoint(self.run_path, every=1000) as checkpoint:
            model.fit(x, y, batch_size=4, verbose=0, callbacks=[checkpoint, Elsewhere()])
            self.assertEqual(len(told), 3)
            self.assertIn("fit() trains in the thread 'MainThread', and would change what is saved here", told[0])
            self.assertEqual([step.step for step in pawl.ls(self.run_path)], [3])  # of the end
            save()  # fit has ended
        self.assertEqual(len(told), 3)

    def busy(self, **options):
        """A callback whose saves take seconds, each of them begun while the one before is being written."""
        slow = {"bandwidth_bytes_per_s": 1 << 20, "in_flight_bytes": 1 << 20}
        return pawl.keras.Checkpoint(self.run_path, on_busy="skip", keep_last=9, **slow, **options)

    def steps(self):
        return [step.step for step in pawl.ls(self.run_path)]

    def test_the_last_save_is_not_skipped(self):
        """All others that are skipped are told, and no save is called one that was not."""
        model, x, y = self.trainable()
        with self.busy(every=1) as checkpoint, self.assertLogs("pawl", "INFO") as logged:
            model.fit(x, y, batch_size=2, verbose=0, callbacks=[checkpoint])
            self.assertFalse(checkpoint.wait().skipped)
        said = "\n".join(logged.output)
        skipped = [step for step in range(1, 7) if f"step {step} is skipped" in said]
        saving = [step for step in range(1, 7) if f"saving step {step}," in said]
        self.assertEqual((saving, saving[-1]), (self.steps(), 6))
        self.assertGreater(len(skipped), 0)
        self.assertEqual(sorted(saving + skipped), [1, 2, 3, 4, 5, 6])

    def test_a_skipped_save_is_not_taken_for_one(self):
        """Neither in the statistics, nor as what a final save need not save again, nor as the best."""
        model, _, _ = self.trainable()
        model.optimizer.build(model.trainable_variables)
        with self.busy(monitor="loss", save_best_only=True) as checkpoint:
            checkpoint.set_model(model)
            checkpoint.set_params({"epochs": 9, "steps": 1})
            for epoch, loss in enumerate((3.0, 2.0)):
                checkpoint.epoch, checkpoint.batch, checkpoint.step = epoch, 1, epoch + 1
                checkpoint.on_epoch_end(epoch, {"loss": loss})
            self.assertEqual(checkpoint._saved_at, (1, 0, 1))
            self.assertEqual(checkpoint.best, 3.0)
            self.assertTrue(checkpoint.wait().skipped)
            checkpoint.step = 3
            checkpoint.on_epoch_end(2, {"loss": 2.0})
        self.assertEqual(self.steps(), [1, 3])


if __name__ == "__main__":
    support.main()
