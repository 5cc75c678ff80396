# SPDX-License-Identifier: Apache-2.0
"""Runs the Python of README.md that is of Keras, as it stands, in a program that has what it names.

Usage: readme.py README.md [KILL_AT]     KILL_AT: after so many batches it kills itself, once the save before is durable
"""

import os
import pathlib
import re
import signal
import sys

import support  # noqa: F401 (first: it finds the package, and sets the environment)
import keras
import numpy as np
import tensorflow as tf

import pawl.keras

KILL_AT = int(sys.argv[2]) if len(sys.argv) > 2 else None
here = {"pawl": pawl}


class Model(keras.Sequential):
    """Counts its batches."""

    batches = 0

    def make_train_function(self, force=False):
        before = self.train_function
        super().make_train_function(force)
        if self.train_function is not before:
            self.train_function = self.counted(self.train_function)

    def counted(self, train):
        def one(iterator):
            if self.batches == KILL_AT:
                here["checkpoint"].wait()
                os.kill(os.getpid(), signal.SIGKILL)
            self.batches += 1
            return train(iterator)

        return one


keras.utils.set_random_seed(1)
model = Model([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("adam", "mse")
numbers = np.linspace(0, 1, 800, dtype="f4")
dataset = tf.data.Dataset.from_tensor_slices((numbers.reshape(200, 4), numbers[:400].reshape(200, 2))).batch(2)
here.update(model=model, dataset=dataset)

blocks = re.findall(r"^```python\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), re.M | re.S)
blocks = [block for block in blocks if "pawl.keras" in block]
assert blocks, "README.md has no Python of Keras"
for block in blocks:
    exec(block, here)
print(model.batches, *(info.step for info in pawl.ls("runs/a")))
