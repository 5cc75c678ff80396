# SPDX-License-Identifier: Apache-2.0
"""Makes `arrays`, `files`, `merged` and `processes`, which test_orbax.c reads, with tensorstore and orbax-checkpoint; `composite`
is one of Orbax's own (Apache-2.0), as its compatibility tests have it."""

import pathlib
import shutil
import subprocess
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

HERE = pathlib.Path(__file__).parent
SHAPE = (5, 6, 3)


def bytes_codec(order):
    return {"name": "bytes", "configuration": {"endian": order}}


def made(name, driver, metadata, dtype=np.float32, fill=False):
    """Elements are 0, 1, 2, ... in an array of SHAPE; of one with fill only those from [2, 3, 0] on up to [3, 4, 3]."""
    array = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(dtype)
    store = {"driver": "ocdbt", "base": f"file://{HERE}/arrays/", "path": f"{name}/", "config": CONFIG}
    spec = {"driver": driver, "kvstore": store, "metadata": metadata | {"shape": SHAPE}}
    opened = ts.open(spec, create=True, dtype=ts.dtype(dtype), shape=SHAPE).result()
    place = np.s_[2:3, 3:4, :] if fill else np.s_[:]
    with ts.Transaction() as change:
        opened.with_transaction(change)[place].write(array[place]).result()


CONFIG = {"manifest_kind": "numbered", "max_decoded_node_bytes": 1500, "max_inline_value_bytes": 60}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": (2, 2, 3),
        "codecs": [bytes_codec("little"), {"name": "zstd", "configuration": {"level": 3}}],
        "index_codecs": [bytes_codec("little"), {"name": "crc32c"}],
    },
}


def regular(*shape):
    return {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}}




def save_together(rank):
    """One of two processes: an array that they share, larger than what is kept in a node, and a smaller one."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize("127.0.0.1:23456", 2, rank)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    tree = {"n": np.int32(7)}
    for name, array in {"w": HASHES, "few": np.arange(4, dtype=np.int32)}.items():
        tree[name] = jax.make_array_from_callback(array.shape, sharding, lambda at, array=array: array[at])
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(HERE / "processes", args=ocp.args.PyTreeSave(tree))


HASHES = (np.arange(1000, dtype=np.uint64) * 2654435761 % 2**32).astype(np.uint32)
if len(sys.argv) > 1:
    save_together(int(sys.argv[1]))
    sys.exit()

# As it is before it is put together.
shutil.rmtree(HERE / "processes", ignore_errors=True)
both = [subprocess.Popen([sys.executable, __file__, rank]) for rank in ("0", "1")]
if any(process.wait() for process in both):
    sys.exit("a process failed")
shutil.rmtree(HERE / "processes/d")
shutil.rmtree(HERE / "processes/array_metadatas")
for name in ("manifest.ocdbt", "commit_success.txt", "_CHECKPOINT_METADATA", "_sharding"):
    (HERE / "processes" / name).unlink(missing_ok=True)

shutil.rmtree(HERE / "arrays", ignore_errors=True)
made("zstd", "zarr", {"dtype": "<f4", "compressor": {"id": "zstd", "level": 1}, "chunks": (2, 4, 3)})
made("fortran", "zarr", {"dtype": ">f4", "compressor": {"id": "gzip", "level": 9}, "chunks": (2, 4, 3), "order": "F"})
made("zlib", "zarr", {"dtype": ">i2", "compressor": {"id": "zlib", "level": 9}, "chunks": (5, 6, 3)}, np.int16)
made("blosc", "zarr", {"dtype": "<f4", "compressor": {"id": "blosc"}, "chunks": (5, 6, 3)})
made("filled", "zarr", {"dtype": "<f4", "compressor": None, "chunks": (2, 2, 3), "fill_value": 2.5}, fill=True)
made("shards", "zarr3", regular(4, 4, 3) | {"data_type": "float32", "codecs": [SHARDS]})
TRANSPOSED = [{"name": "transpose", "configuration": {"order": (1, 2, 0)}}, bytes_codec("big"), {"name": "crc32c"}]
made("transposed", "zarr3", regular(2, 4, 3) | {"data_type": "float32", "codecs": TRANSPOSED})
newest = max((HERE / "arrays").glob("manifest.0*"))
for old in (HERE / "arrays").glob("manifest.0*"):
    if old != newest:
        old.unlink()

tree = {"%": np.arange(6, dtype=np.int16).reshape(2, 3), "x.y": [np.int32(7), {}, "text", None]}
shutil.rmtree(HERE / "files", ignore_errors=True)
with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=True)) as checkpointer:
    checkpointer.save(HERE / "files", ocp.args.PyTreeSave(tree))
(HERE / "files/commit_success.txt").unlink(missing_ok=True)  # it names the directory

# Larger than what is kept in a node: the merged database names a file of the process.
shutil.rmtree(HERE / "merged", ignore_errors=True)
with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
    checkpointer.save(HERE / "merged", ocp.args.PyTreeSave({"w": HASHES[:500]}))
for name in ("commit_success.txt", "_CHECKPOINT_METADATA"):
    (HERE / "merged" / name).unlink(missing_ok=True)
