# SPDX-License-Identifier: Apache-2.0
"""What one worker of a MultiWorkerMirroredStrategy does in the tests: trains, saves, restores, or something else."""

import json
import os
import sys

import support  # noqa: F401 (first: it finds the package)
import keras
import numpy as np
import tensorflow as tf

import pawl
import pawl.tf


def made(strategy):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        )
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        read = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
            trainable=False,
        )
    return pawl.tf.Checkpoint(model=model, optimizer=optimizer, step=step, read=read)


def train(strategy, checkpoint, steps, rank):
    model, optimizer = checkpoint.model, checkpoint.optimizer

    @tf.function
    def one(inputs):
        def on_replica(inputs):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(inputs, training=True) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            checkpoint.step.assign_add(1)
            checkpoint.read.assign_add(1.0)

        strategy.run(on_replica, args=(inputs,))

    for _ in range(steps):
        one(tf.reshape(tf.range(8.0), (2, 4)) * (rank + 1))


def values(checkpoint):
    return {name: np.array(array).tolist() for name, array in sorted(held(checkpoint).items())}


def held(checkpoint):
    state = checkpoint.state()
    return {name: state[name] for name in state if hasattr(state[name], "shape")}


def averages(checkpoint):
    return checkpoint.model.layers[1].moving_mean.value.values[0].numpy().tolist()


def main():
    run, what = sys.argv[1], sys.argv[2]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    checkpoint = made(strategy)
    if what == "differ" and rank == 1:
        checkpoint.model.layers[0].kernel.value.values[0].assign_add(tf.ones((4, 3)))
    with pawl.tf.CheckpointManager(checkpoint, run, 2, step_counter=checkpoint.step, group_deadline_s=60) as manager:
        found = manager.restore_or_initialize()
        restored = averages(checkpoint)
        train(strategy, checkpoint, 2 if what != "differ" else 0, rank)
        try:
            manager.save()
            manager.sync()
        except pawl.Error as why:
            print("FAILED", json.dumps(str(why)))
    print("RESULT", json.dumps([rank, found, pawl.discover().rank, values(checkpoint), restored, averages(checkpoint)]))


main()
