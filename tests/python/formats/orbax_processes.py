# SPDX-License-Identifier: Apache-2.0
"""One of the processes of test_orbax_processes.py, which save a tree together: each what its devices have of it."""

import functools
import itertools
import os
import pathlib
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import support
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_enable_x64", True)

#: Of all processes together.
DEVICES = 8
TYPES = [name for name in (*support.NAMES, "complex128") if hasattr(jnp, name) or name == "bool"]
#: What the arrays are sharded by, on 4 x 2 devices, and their shapes, which must be multiples of the devices.
PLACES = {
    "both": ((12, 6), ("x", "y")),
    "turned": ((6, 4, 3), ("y", "x")),
    "rows": ((20, 7), ("x", None)),
    "columns": ((5, 3, 14), (None, None, "y")),
    "together": ((40,), (("x", "y"),)),
    "copies": ((5, 7), ()),
    "one_of_each": ((8, 1), (("y", "x"),)),
    "number": ((), ()),
    "large": ((64, 96), ("x", "y")),
}
#: Of NumPy, and Python's own: one process saves them.
PLAIN = {"numpy": np.arange(15, dtype=np.int64).reshape(3, 5), "integer": 7, "real": 0.25}
OTHERS = {"text": "abc", "none": None, "empty": {}}
#: With OCDBT, with zarr 3, bytes of a chunk.
WAYS = list(itertools.product((True, False), (True, False), (None, 40)))


def way_name(ocdbt, zarr3, chunk_bytes):
    return f"{'ocdbt' if ocdbt else 'files'}-{3 if zarr3 else 2}-{chunk_bytes or 'whole'}"


def expected():
    """All arrays, by the names that pawl gives them."""
    arrays = {f"places/{name}": support.made("float32", shape, 1) for name, (shape, _) in PLACES.items()}
    arrays |= {f"types/{name}": support.made(name, (8, 3), 2) for name in TYPES}
    return arrays


def tree(mesh):
    arrays = expected()
    placed = {f"places/{name}": axes for name, (_, axes) in PLACES.items()}
    placed |= {f"types/{name}": ("x", None) if i % 2 else (("y", "x"), None) for i, name in enumerate(TYPES)}
    made = {"places": {}, "types": {}, **PLAIN, **OTHERS}
    for name, array in arrays.items():
        group, leaf = name.split("/")
        sharding = NamedSharding(mesh, PartitionSpec(*placed[name]))
        made[group][leaf] = jax.make_array_from_callback(array.shape, sharding, lambda i, a=array: a[i])
    return made


def save_args(chunk_bytes, _leaf):
    return ocp.SaveArgs(chunk_byte_size=chunk_bytes)


def save_in_ways(directory, state, ways):
    for ocdbt, zarr3, chunk_bytes in ways:
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
        options = jax.tree.map(functools.partial(save_args, chunk_bytes), state)
        with ocp.Checkpointer(handler) as checkpointer:
            path = directory / way_name(ocdbt, zarr3, chunk_bytes)
            checkpointer.save(path, args=ocp.args.PyTreeSave(state, save_args=options))


def save_as_others_do(directory, state):
    """Without compression, and by what calls the same handler."""
    handler = ocp.PyTreeCheckpointHandler(use_compression=False)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(directory / "plain", args=ocp.args.PyTreeSave(state))
    arrays = {key: state[key] for key in ("places", "types", *PLAIN)}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(directory / "standard", arrays)
    with ocp.CheckpointManager(directory / "run") as manager:
        items = ocp.args.Composite(state=ocp.args.StandardSave(arrays), extra=ocp.args.JsonSave({"lr": 0.5}))
        manager.save(3, args=items)


def save_with_folders_of_replicas(directory, state):
    """Arrays of which all processes have copies are in folders of their own."""
    handler = ocp.type_handlers.ArrayHandler(enable_replica_parallel_separate_folder=True)
    ocp.type_handlers.register_type_handler(jax.Array, handler, override=True)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(directory / "replicas", args=ocp.args.PyTreeSave(state))
    ocp.type_handlers.register_type_handler(jax.Array, ocp.type_handlers.ArrayHandler(), override=True)


def save_and_stop(directory, state):
    """The process that would put together what all have saved is killed at that moment; the others wait for it."""
    handler = ocp.PyTreeCheckpointHandler()
    handler.finalize = lambda _directory: os.kill(os.getpid(), signal.SIGKILL)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(directory / "stopped", args=ocp.args.PyTreeSave(state))


def main():
    rank, count, address, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
    jax.config.update("jax_num_cpu_devices", DEVICES // count)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, count, rank)
    assert (jax.device_count(), jax.local_device_count()) == (DEVICES, DEVICES // count)
    state = tree(Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y")))
    save_in_ways(directory, state, WAYS if len(sys.argv) < 6 else WAYS[::2])
    if len(sys.argv) < 6:
        save_as_others_do(directory, state)
    save_with_folders_of_replicas(directory, state)
    save_and_stop(directory, state)


if __name__ == "__main__":
    main()
