# SPDX-License-Identifier: Apache-2.0
"""Trainings of every kind, as programs that may be killed: python jobs.py JOB RUN RESULT [KILL_AT]

RESULT gets every variable when training ends. KILL_AT: after so many batches of this process it kills itself.
"""

import argparse
import contextlib
import logging
import os
import signal

import support  # noqa: F401 (first: it finds the package, and sets the environment)
import keras
import numpy as np

import pawl
import pawl.keras

BATCHES, EPOCHS, BATCH_SIZE = 6, 3, 8


def dense():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    return model, keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True), {"metrics": ["mae"]}


def dropout():
    layers = [
        keras.layers.Dense(8),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.4),
        keras.layers.Dense(8, "relu"),
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dense(1),
    ]
    return keras.Sequential([keras.Input((6,)), *layers]), keras.optimizers.Adam(0.01), {"metrics": ["mae", "mse"]}


def embedding():
    inputs = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(40, 4)(inputs)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x)), keras.optimizers.Adafactor(0.1), {}


def lstm():
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((6, 1))(inputs)
    x = keras.layers.LSTM(4, dropout=0.2)(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x)), keras.optimizers.Nadam(0.01), {"metrics": ["mae"]}


MODELS = {"dense": dense, "dropout": dropout, "embedding": embedding, "lstm": lstm}


def arrays(rows=BATCHES * BATCH_SIZE, kind="dense"):
    generator = np.random.default_rng(7)
    x = generator.integers(0, 40, (rows, 6)).astype("i4")
    x = x if kind == "embedding" else (x / 40).astype("f4")
    return x, generator.random((rows, 1)).astype("f4")


def dataset(kind="dense"):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays(kind=kind)).batch(BATCH_SIZE)


class Kill(keras.callbacks.Callback):
    """Kills the process after so many batches, as a machine does that is lost."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def saved(path):
    """Is there a checkpoint to continue from?"""
    try:
        return any(info.status == "committed" for info in pawl.ls(path))
    except pawl.NotFound:
        return False


def value_of(variable):
    """All replicas of a value."""
    replicas = getattr(variable.value, "values", None)
    if replicas is None or callable(replicas):
        return np.asarray(keras.ops.convert_to_numpy(variable.value))
    return np.stack([one.numpy() for one in replicas])


def everything(model):
    """All that a training has, by Keras's own paths, each with a number since these are not unique."""
    found = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    values = {f"{i} {v.path}": value_of(v) for i, v in enumerate(found)}
    seeds = keras.src.backend.common.global_state.get_global_attribute("global_seed_generator")
    if seeds is not None:
        values["global"] = value_of(seeds.state)
    return values


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("run")
    parser.add_argument("result")
    parser.add_argument("kill_at", nargs="?", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--mirrored", action="store_true")
    parser.add_argument("--at-a-time", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    scope = contextlib.nullcontext()
    if given.mirrored:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope()
    if given.again and saved(given.run):  # other names than before, and other values
        keras.layers.Dense(1), keras.layers.Dropout(0.5)
        keras.utils.set_random_seed(99)
    else:
        keras.utils.set_random_seed(5)
    if given.mixed:
        keras.mixed_precision.set_dtype_policy("mixed_float16")
    with scope:
        model, optimizer, more = MODELS[given.kind]()
        model.compile(
            optimizer, "mse", run_eagerly=given.eager, steps_per_execution=given.at_a_time,
            jit_compile=given.jit, **more,
        )  # fmt: skip
    data = dataset(given.kind) if keras.backend.backend() == "tensorflow" else arrays(kind=given.kind)
    checkpoint = pawl.keras.Checkpoint(given.run, every=given.every, save_freq="epoch")
    callbacks = [checkpoint] + ([Kill(given.kill_at)] if given.kill_at else [])
    history = pawl.keras.resume(
        model,
        data,
        EPOCHS,
        callbacks=callbacks,
        verbose=0,
        batch_size=BATCH_SIZE,
        validation_data=arrays(16, given.kind),
    )
    checkpoint.close()
    values = everything(model)
    values.update({f"history {name}": np.array(one[-1:]) for name, one in history.history.items()})
    np.savez(given.result, **values)
    print("ended", checkpoint.step, None if checkpoint.report is None else checkpoint.report.step)


if __name__ == "__main__":
    main()
