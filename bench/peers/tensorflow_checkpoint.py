# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's tf.train.Checkpoint: save and restore of variables, as the guide "Training checkpoints"
has it."""

import numpy
import tensorflow as tf


class State:
    def __init__(self, variables):
        self.variables = variables
        self.checkpoint = tf.train.Checkpoint(variables=variables)


def prepare():
    return None


def adopt(_context, tensors, arrays):
    variables = {}
    for tensor, array in zip(tensors, arrays):
        value = tf.convert_to_tensor(array)
        if tensor.dtype == "BF16":
            value = tf.bitcast(value, tf.bfloat16)
        variables[tensor.name.replace("/", ".")] = tf.Variable(value)
    return State(variables)


def scramble(state):
    for variable in state.variables.values():
        variable.assign(tf.zeros_like(variable))


def save(_context, state, directory):
    state.checkpoint.save(str(directory / "checkpoint"))


def load(_context, state, directory):
    """In place."""
    state.checkpoint.restore(tf.train.latest_checkpoint(str(directory))).assert_consumed()
    return state


def arrays_of(_state, loaded):
    return {name.replace(".", "/"): numpy.asarray(variable).reshape(-1).view(numpy.uint8)
            for name, variable in loaded.variables.items()}
