# SPDX-License-Identifier: Apache-2.0
"""Values that a save holds are let go when they are written, although training makes no step meanwhile."""

import gc
import time
import weakref

import support  # first: it finds the package
import keras

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


if __name__ == "__main__":
    support.main()
