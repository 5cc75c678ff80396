# SPDX-License-Identifier: Apache-2.0
"""Small models, optimizers and objects for the tests, the same each time that they are made."""

import keras
import numpy as np
import tensorflow as tf

ROWS, COLUMNS = 8, 4
OPTIMIZERS = {
    "SGD": keras.optimizers.SGD,
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adam": keras.optimizers.Adam,
    "amsgrad": lambda: keras.optimizers.Adam(amsgrad=True),
    "AdamW": keras.optimizers.AdamW,
    "RMSprop": lambda: keras.optimizers.RMSprop(momentum=0.9),
    "Adafactor": keras.optimizers.Adafactor,
    "Nadam": keras.optimizers.Nadam,
    "Ftrl": keras.optimizers.Ftrl,
    "Lion": keras.optimizers.Lion,
    "LossScale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
    "averaged": lambda: keras.optimizers.Adam(use_ema=True, gradient_accumulation_steps=2),
    "schedule": lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100)),
}


def dense(units=(3, 2), optimizer=keras.optimizers.Adam, dropout=0.5):
    """A compiled Sequential of dense layers, one Dropout after the first."""
    layers = [keras.Input((COLUMNS,))]
    for number, width in enumerate(units):
        layers.append(keras.layers.Dense(width))
        if number == 0 and dropout:
            layers.append(keras.layers.Dropout(dropout))
    model = keras.Sequential(layers)
    model.compile(optimizer(), "mse", run_eagerly=True)
    return model


def data(model, rows=ROWS, seed=0):
    """Inputs and targets."""
    some = np.random.default_rng(seed)
    return some.random((rows, COLUMNS), "f4"), some.random((rows, *model.output_shape[1:]), "f4")


def train(model, epochs=1, seed=0):
    """Some steps."""
    model.fit(*data(model, seed=seed), batch_size=4, epochs=epochs, verbose=0, shuffle=False)
    return model


def values(*objects):
    """What their variables are now."""
    return [np.array(variable.numpy()) for one in objects for variable in one.variables]


class Block(tf.Module):
    """Variables in attributes, lists, dictionaries and other modules."""

    def __init__(self, start=0.0, deep=True):
        super().__init__()
        self.w = tf.Variable(tf.fill((2, 3), start + 1))
        self.parts = [tf.Variable(start + 2), {"z": tf.Variable(start + 3)}]
        if deep:
            self.inner = Block(start + 10, deep=False)


class Text(tf.train.experimental.PythonState):
    """Bytes that Python keeps."""

    def __init__(self, data):
        self.data = data

    def serialize(self):
        return self.data

    def deserialize(self, string_value):
        self.data = string_value
