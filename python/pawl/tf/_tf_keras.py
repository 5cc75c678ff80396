# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Keras 2 (``tf_keras``), whose graph of objects names layers by their number.

``model/layer_with_weights-0/kernel`` says nothing of the layer; the graph also has the full name of each
variable (``dense/kernel``), by which a model of Keras 3 finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tensorflow.core.protobuf import trackable_object_graph_pb2

from .._checkpoint import Checkpoint as Opened

#: The entry that has the graph, and how the key of a variable's value ends.
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_LAYER = "layer_with_weights-"


def _graph_of(checkpoint: Opened) -> trackable_object_graph_pb2.TrackableObjectGraph | None:
    if GRAPH not in checkpoint:
        return None
    found = checkpoint[GRAPH]
    data = found if isinstance(found, bytes) else found.read().tobytes()
    return trackable_object_graph_pb2.TrackableObjectGraph.FromString(data)


def variables_of_tf_keras(checkpoint: Opened) -> dict[str, str]:
    """The entries of variables, by their full names; none where Keras 2 did not save it.

    Args:
        checkpoint: a bundle of TensorFlow, or a run that one was converted into.

    Returns:
        Of each full name (``dense/kernel``) that is there once: the entry.
    """
    graph = _graph_of(checkpoint)
    if graph is None or not any(c.local_name.startswith(_LAYER) for node in graph.nodes for c in node.children):
        return {}
    slots = {slot.slot_variable_node_id for node in graph.nodes for slot in node.slot_variables}
    pairs = [
        (attribute.full_name, attribute.checkpoint_key.removesuffix(_VALUE))
        for i, node in enumerate(graph.nodes)
        for attribute in node.attributes
        if i not in slots and attribute.full_name and attribute.checkpoint_key.endswith(_VALUE)
    ]
    often = Counter(full for full, _ in pairs)
    return {full: entry for full, entry in pairs if often[full] == 1 and entry in checkpoint}


def _full_names(name: str) -> list[str]:
    """What Keras 2 may call ``model/inner/dense/kernel``: its functional models leave out the names of models."""
    parts = name.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts) - 1)]


def without_underscore(way: str) -> str:
    """The way to a variable in Keras 2: ``model/one/kernel`` of what is ``model/one/_kernel`` in Keras 3."""
    parts = way.split("/")
    return "/".join([*parts[:-1], parts[-1].removeprefix("_")])


def entries_for(names: Iterable[str], variables: dict[str, str]) -> dict[str, str]:
    """The entries that variables of a model of Keras 3 have in a checkpoint of Keras 2.

    A variable takes an entry whose full name ends its own, or is its own below the name of the model. An entry that
    several would take is nobody's.

    Args:
        names: of the variables, as pawl names them.
        variables: what `variables_of_tf_keras` found.
    """
    below = {full.split("/", 1)[1]: entry for full, entry in variables.items() if "/" in full}
    below_often = Counter(full.split("/", 1)[1] for full in variables if "/" in full)
    found = {}
    for name in names:
        fulls = _full_names(name)
        entry = next((variables[full] for full in fulls if full in variables), None)
        own = fulls[1] if len(fulls) > 1 else ""
        if entry is None and below_often[own] == 1:
            entry = below[own]
        if entry is not None:
            found[name] = entry
    taken = Counter(found.values())
    return {name: entry for name, entry in found.items() if taken[entry] == 1}
