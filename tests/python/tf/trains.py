# SPDX-License-Identifier: Apache-2.0
"""A job with a loop of its own, of several kinds, that may kill itself after a step; what its variables are at the end.

Usage: trains.py RUN KIND STEPS KILLED_AFTER   (0: not at all)
"""

import hashlib
import os
import signal
import sys

import support  # first: it finds the package

import keras
import numpy as np
import tensorflow as tf

import pawl.tf

EVERY = 3


def made(kind):
    keras.utils.set_random_seed(1)
    layers = keras.layers
    if kind == "embedding":
        model = keras.Sequential([keras.Input((5,)), layers.Embedding(50, 4), layers.Flatten(), layers.Dense(2)])
        data = tf.data.Dataset.from_tensor_slices(np.random.default_rng(1).integers(0, 50, (64, 5)))
    elif kind == "lstm":
        model = keras.Sequential([keras.Input((5, 3)), layers.LSTM(4, dropout=0.3), layers.Dense(2)])
        data = tf.data.Dataset.from_tensor_slices(np.random.default_rng(1).random((64, 5, 3), "f4"))
    else:
        mixed = "mixed_bfloat16" if kind == "mixed" else None
        middle = [layers.BatchNormalization(dtype=mixed), layers.Dropout(0.5, dtype=mixed)]
        model = keras.Sequential([keras.Input((4,)), layers.Dense(8, dtype=mixed), *middle, layers.Dense(2)])
        data = tf.data.Dataset.from_tensor_slices(np.random.default_rng(1).random((64, 4), "f4"))
    return model, keras.optimizers.Adam(0.01), data.shuffle(64, seed=7).repeat().batch(8)


def main():
    run, kind, steps, killed_after = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    strategy = tf.distribute.get_strategy()
    if kind == "mirrored":
        support.two_devices()
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model, optimizer, data = made(kind)
        generator = tf.random.Generator.from_seed(3)
        optimizer.build(model.trainable_variables)
    iterator = iter(data)
    checkpoint = pawl.tf.Checkpoint(
        model=model, optimizer=optimizer, data=iterator, generator=generator, step=tf.Variable(0, dtype=tf.int64)
    )

    @tf.function(jit_compile=kind == "xla")
    def on_replica(inputs, noise):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.cast(model(inputs, training=True), tf.float32) + noise) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    with pawl.tf.CheckpointManager(
        checkpoint, run, 2, step_counter=checkpoint.step, checkpoint_interval=EVERY
    ) as manager:
        manager.restore_or_initialize()
        while int(checkpoint.step) < steps:
            inputs, noise = next(iterator), generator.normal(())
            if kind == "mirrored":
                strategy.run(on_replica, args=(inputs, noise))
            else:
                on_replica(inputs, noise)
            checkpoint.step.assign_add(1)
            manager.save()
            if int(checkpoint.step) == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
    digest = hashlib.sha256()
    for variable in [*model.variables, *optimizer.variables, generator.state]:
        digest.update(np.asarray(variable.numpy()).tobytes())
    print("END", int(checkpoint.step), digest.hexdigest())


main()
