# SPDX-License-Identifier: Apache-2.0
"""Files of Keras: zips without weights, configurations that are code, shards that lead out."""

from __future__ import annotations

import json
from pathlib import Path

from case import Scene, case
from made_hdf5 import File
from made_zip import DEFLATED, Member, zip_of

CONFIG = Member("config.json", b"{}")


def put(scene: Scene, *members: Member) -> Path:
    return scene.put("model.keras", zip_of([CONFIG, *members]))


def weights() -> bytes:
    file = File()
    return file.finish(file.group({"w": file.dataset([4], bytes(16))}))


def shards(scene: Scene, names: dict[str, list[str]]) -> Path:
    scene.put("model_00000.weights.h5", weights())
    return scene.put("model.weights.json",
                     json.dumps({"metadata": {"total_size": 1}, "weight_map": names}).encode())


@case
def without_weights(scene: Scene) -> Path:
    """A configuration, and no weights."""
    return put(scene)


@case
def weights_that_are_pickles(scene: Scene) -> Path:
    """Weights of NumPy's, which Keras reads by allow_pickle."""
    return put(scene, Member("model.weights.npz", b"PK"))


@case
def weights_that_are_cut_off(scene: Scene) -> Path:
    """Half of the weights."""
    return put(scene, Member("model.weights.h5", weights()[:300]))


@case
def weights_that_are_no_hdf5(scene: Scene) -> Path:
    """Something else for weights."""
    return put(scene, Member("model.weights.h5", b"#!/bin/sh\n" * 100))


@case
def bomb_for_weights(scene: Scene) -> Path:
    """Weights of 256 MiB, deflated 1000:1."""
    return put(scene, Member("model.weights.h5", weights() + bytes(1 << 28), DEFLATED))


@case
def configuration_that_is_code(scene: Scene) -> Path:
    """A Lambda layer, whose code Keras would unmarshal: a value, and nothing else."""
    code = json.dumps({"class_name": "Lambda", "config": {"function": {
        "class_name": "__lambda__", "config": {"code": "4wAAAAAAAAAA"}}}}).encode()
    return scene.put("model.keras", zip_of([Member("config.json", code),
                                            Member("model.weights.h5", weights())]))


@case
def configuration_that_is_nested(scene: Scene) -> Path:
    """A configuration of lists, 10^6 deep."""
    return scene.put("model.keras", zip_of([
        Member("config.json", b"[" * 1_000_000, DEFLATED), Member("model.weights.h5", weights())]))


@case
def bomb_beside_the_weights(scene: Scene) -> Path:
    """An asset of 64 MiB, deflated 1000:1."""
    return put(scene, Member("model.weights.h5", weights()),
               Member("assets/x", bytes(1 << 26), DEFLATED))


@case
def shard_above(scene: Scene) -> Path:
    """A shard in the directory above."""
    return shards(scene, {"/w": ["../model_00000.weights.h5"]})


@case
def shard_with_an_absolute_path(scene: Scene) -> Path:
    """A shard that is /etc/passwd."""
    return shards(scene, {"/w": ["/etc/passwd"]})


@case
def shard_that_is_missing(scene: Scene) -> Path:
    """A shard that is not there."""
    return shards(scene, {"/w": ["model_00001.weights.h5"]})


@case
def shard_without_the_path(scene: Scene) -> Path:
    """A path of which no shard has anything."""
    return shards(scene, {"/x": ["model_00000.weights.h5"]})
