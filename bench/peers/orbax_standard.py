# SPDX-License-Identifier: Apache-2.0
"""Orbax's StandardCheckpointer, which writes through TensorStore and saves asynchronously; the tree is
nested as the names are."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy
import orbax.checkpoint as ocp


def prepare():
    return ocp.StandardCheckpointer()


def _nested(leaves):
    tree = {}
    for name, leaf in leaves.items():
        *path, last = name.split("/")
        at = tree
        for part in path:
            at = at.setdefault(part, {})
        at[last] = leaf
    return tree


def _flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def adopt(_context, tensors, arrays):
    leaves = {}
    for tensor, array in zip(tensors, arrays):
        if tensor.dtype == "BF16":
            array = array.view(ml_dtypes.bfloat16)
        leaves[tensor.name] = jnp.array(array)
    return jax.block_until_ready(_nested(leaves))


def scramble(_state):
    """Arrays of JAX do not change; a restore makes new ones."""


def save(checkpointer, state, directory):
    checkpointer.save(directory / "checkpoint", state)
    return checkpointer.wait_until_finished


def load(checkpointer, state, directory):
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
    return jax.block_until_ready(checkpointer.restore(directory / "checkpoint", target))


def arrays_of(_state, loaded):
    return {name: numpy.asarray(value).reshape(-1).view(numpy.uint8)
            for name, value in _flat(loaded)}
