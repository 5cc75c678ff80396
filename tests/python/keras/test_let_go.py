# SPDX-License-Identifier: Apache-2.0
"""Values that a save holds are let go when they are written, although training makes no step meanwhile."""

import gc
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
            for layer, weights in zip(layers, before, strict=True):
                np.testing.assert_array_equal(np.asarray(saved[f"model/{layer.name}/kernel"]), weights)


if __name__ == "__main__":
    support.main()
