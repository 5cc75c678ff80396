# SPDX-License-Identifier: Apache-2.0
"""What a ``TPUStrategy`` has beyond other strategies: logical cores, variables that are initialised late, tables.

With it one program runs everything, on however many hosts the TPUs are. Tables of ``TPUEmbedding`` are in the
memory of the TPUs; the variables of the program get their values when they are retrieved, as TensorFlow does it
before it saves.
"""

from __future__ import annotations

from typing import Any

import tensorflow

from .._abi import Status
from .._error import Mismatch, Unsupported, UsageError

#: The string with which tables of SparseCores say where their rows are.
_LAYOUTS = "SparseCoreLayoutsTrackable"


def _is_a(found: Any, *names: str) -> bool:
    """Of TensorFlow's classes of these names, which have no public one?"""
    return any(kind.__name__ in names and kind.__module__.startswith("tensorflow.") for kind in type(found).__mro__)


def is_tpu_strategy(strategy: Any) -> bool:
    """Is it a strategy for TPUs? One program then runs all of them."""
    return isinstance(strategy, (tensorflow.distribute.TPUStrategy, tensorflow.distribute.experimental.TPUStrategy))


def on_first_core(variable: Any) -> Any:
    """Of a variable that each logical core of a replica has, the first core's; all have the same value."""
    return variable.variables[0] if _is_a(variable, "TPUReplicatedVariable") else variable


def initialize(variable: Any) -> None:
    """Gives variables that TensorFlow initialises all at a time, later, their first values."""
    scope = getattr(on_first_core(variable), "_lazy_scope", None)
    if scope is not None:
        scope.initialize_all()


# ---- tables of embeddings ----


def is_in_parts(found: Any) -> bool:
    """Is it a table of a TPU embedding in parts: one for each host, or one for each TPU?"""
    return _is_a(found, "TPUEmbeddingVariable", "TPUEmbeddingShardedVariable")


def is_embedding(found: Any) -> bool:
    """Is it one of TensorFlow's objects that have tables of TPU embeddings?"""
    return _is_a(found, "TPUEmbedding", "TPUEmbeddingBase")


def require_built(way: str, embedding: Any) -> None:
    """Refuses an embedding that has not made its tables yet.

    Raises:
        UsageError: it is not built.
    """
    if hasattr(embedding, "_variables"):
        return
    error = UsageError(
        f"{way or 'the root'}: the {type(embedding).__name__} is not built: its tables are not made yet; what is "
        "restored into it now would be lost when they are"
    )
    error.entry = way
    error.next = "call its build() first"
    raise error


def _moved(way: str, embedding: Any, how: str, attempt: str) -> None:
    move = getattr(embedding, how, None)
    if move is None:  # tables of SparseCores are variables on the TPUs
        return
    try:
        move()
    except tensorflow.errors.OpError as why:
        text = str(why.message).split("\n", 1)[0]
        error = Unsupported(f"{way or 'the root'}: its tables could not be {attempt}: {text}")
        error.entry = way
        error.found = "a TPUEmbedding whose tables are in the memory of the TPUs"
        error.next = "save and restore where the TPUs of its strategy can be reached"
        raise error from why


def retrieve(way: str, embedding: Any) -> None:
    """Gives the variables of an embedding the values that its tables have on the TPUs.

    Raises:
        Unsupported: TensorFlow cannot, and says why.
    """
    _moved(way, embedding, "_retrieve_variables", "retrieved from the TPUs")


def load(way: str, embedding: Any) -> None:
    """Gives the tables on the TPUs the values of the variables.

    Raises:
        Unsupported: TensorFlow cannot, and says why.
    """
    _moved(way, embedding, "_load_variables", "loaded onto the TPUs")


def is_layouts(found: Any) -> bool:
    """Is it what says where the rows of tables of SparseCores are?"""
    return _is_a(found, _LAYOUTS)


def require_layouts(name: str, found: Any, tensors: dict[str, Any]) -> None:
    """Refuses tables of SparseCores whose rows are in another order: TensorFlow alone knows how to sort them.

    Args:
        name: of the entry.
        found: the layouts of the program.
        tensors: those of the checkpoint.

    Raises:
        Mismatch: they differ.
    """
    saved = next(iter(tensors.values()), None)
    if saved is None or saved.numpy() == found.value.numpy():
        return
    error = Mismatch(f"{name}: the tables were saved by other SparseCores, or stacked in another way")
    error.status = Status.EMISMATCH
    error.entry = name
    error.expected = "the layout of the tables of this program"
    error.found = "another layout, so that rows of the same tables are in other places"
    error.safe = "nothing was restored"
    error.next = (
        "restore with as many TPUs and the same tables, or save with tf.train.Checkpoint, which sorts rows anew"
    )
    raise error
