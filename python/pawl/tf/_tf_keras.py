# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Keras 2 (``tf_keras``), whose graph of objects names layers by their number.

``model/layer_with_weights-0/kernel`` says nothing of the layer; the graph also has the full name of each
variable (``dense/kernel``), by which a model of Keras 3 finds it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from .._checkpoint import Checkpoint as Opened
from .._error import Damaged

#: The entry that has the graph, and how the key of a variable's value ends.
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_LAYER = "layer_with_weights-"


def _graph_of(checkpoint: Opened) -> trackable_object_graph_pb2.TrackableObjectGraph | None:
    if GRAPH not in checkpoint:
        return None
    found = checkpoint[GRAPH]
    data = found.read().tobytes() if checkpoint.entry(GRAPH).kind == "tensor" else found
    try:
        return trackable_object_graph_pb2.TrackableObjectGraph.FromString(data)
    except (DecodeError, TypeError) as why:
        error = Damaged(f"{GRAPH} is no graph of objects")
        error.entry, error.path = GRAPH, checkpoint.path
        raise error from why


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


#: The number that Keras gives a layer which has no name of its own.
_NUMBER = re.compile(r"_\d+(?=/)")


def _in_order(text: str) -> list[tuple[str, int]]:
    """Sorts names with numbers: ``dense`` before ``dense_1``, and that before ``dense_10``."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(.*?)(?:[_-](\d+))?(?:/|$)", text)]


def _by_full_name(names: Iterable[str], variables: dict[str, str]) -> dict[str, str]:
    """Of each variable the full name that ends its own, or is its own below the name of a model; once each."""
    below = {full.split("/", 1)[1]: full for full in variables if "/" in full}
    below_often = Counter(full.split("/", 1)[1] for full in variables if "/" in full)
    found = {}
    for name in names:
        fulls = _full_names(name)
        own = fulls[1] if len(fulls) > 1 else ""
        full = next((full for full in fulls if full in variables), below[own] if below_often[own] == 1 else None)
        if full is not None:
            found[name] = full
    taken = Counter(found.values())
    return {name: full for name, full in found.items() if taken[full] == 1}


def entries_for(names: Iterable[str], variables: dict[str, str]) -> dict[str, str]:
    """The entries that variables of a model of Keras 3 have in a checkpoint of Keras 2.

    Keras numbers layers in the order in which a program makes them, pawl in their order in the model. So variables
    of layers that differ by their number alone are found where both have the same ones, and Keras numbered them in
    the order of the model; of others which is which is not known, and none is found. The number of a layer that is
    the only one does not matter.

    Args:
        names: of the variables, as pawl names them.
        variables: what `variables_of_tf_keras` found.
    """
    names = list(names)
    found = _by_full_name(names, variables)
    families: dict[str, list[str]] = {}
    for full in variables:
        families.setdefault(_NUMBER.sub("", full), []).append(full)
    wanted: dict[str, list[str]] = {}
    for name in names:
        for tail in _full_names(name):
            wanted.setdefault(_NUMBER.sub("", tail), []).append(name)
    for family, fulls in families.items():
        alike = wanted.get(family, [])
        if len(fulls) == 1 and len(alike) == 1:
            if alike[0].endswith(f"/{family}"):  # it has no number
                found.setdefault(alike[0], fulls[0])
            continue
        same = sorted(found[name] for name in alike if name in found) == sorted(fulls) and len(alike) == len(fulls)
        if not same or sorted(fulls, key=_in_order) != sorted(fulls, key=lambda full: _in_order(variables[full])):
            for name in alike:
                found.pop(name, None)
    return {name: variables[full] for name, full in found.items()}
