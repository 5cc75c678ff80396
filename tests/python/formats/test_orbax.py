# SPDX-License-Identifier: Apache-2.0
"""Orbax: checkpoints in databases and in files, and arrays of zarr, written by Orbax and tensorstore."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import support
import tensorstore as ts
from support import NAMES, made

import pawl

jax.config.update("jax_enable_x64", True)

#: Orbax refuses arrays without elements.
SHAPES = [shape for shape in support.SHAPES if 0 not in shape]
#: Those of pawl's types that Orbax can save.
TYPES = [name for name in (*NAMES, "complex128") if hasattr(jnp, name) or name == "bool"]


def tree_of(i, shape):
    """A tree with arrays of every type, and its leaves by the names that pawl gives them."""
    leaves = {name: made(name, shape, i) for name in TYPES}
    tree = {
        "params": {f"layer{j}": {name: jnp.asarray(leaves[name]) for name in TYPES[j::3]} for j in range(3)},
        "list": [jnp.arange(3, dtype=jnp.int32) + i, (jnp.float32(i), jnp.ones((2, 2)))],
        "step": jnp.int32(i),
    }
    names = {f"params/layer{j}/{name}": leaves[name] for j in range(3) for name in TYPES[j::3]}
    names |= {"list/0": tree["list"][0], "list/1/0": tree["list"][1][0], "list/1/1": tree["list"][1][1]}
    return tree, {**names, "step": tree["step"]}


def save_args(chunk_bytes, _leaf):
    """How a leaf is saved."""
    return ocp.SaveArgs(chunk_byte_size=chunk_bytes)


class WithOrbax(support.InDirectory):
    def assert_step(self, path, arrays, prefix=""):
        """These arrays are in it, by these names, and no other tensor."""
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, "Orbax")
            for name, array in arrays.items():
                self.assert_tensor(checkpoint, prefix + name, np.asarray(array))
            found = sorted(each.name for each in checkpoint.entries() if each.kind == "tensor")
            self.assertEqual(found, sorted(prefix + name for name in arrays))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1


class Checkpoints(WithOrbax):
    def test_every_way_to_store(self):
        """Databases and files, zarr 2 and 3, whole and in chunks."""
        ways = itertools.product((True, False), (True, False), (None, 64))
        for ocdbt, zarr3, chunk_bytes in ways:
            handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
            with ocp.Checkpointer(handler) as checkpointer:
                for i, shape in enumerate(SHAPES):
                    tree, names = tree_of(i, shape)
                    path = self.directory / f"o{self.files}"
                    options = jax.tree.map(functools.partial(save_args, chunk_bytes), tree)
                    checkpointer.save(path, args=ocp.args.PyTreeSave(tree, save_args=options))
                    with self.subTest(ocdbt=ocdbt, zarr3=zarr3, chunk_bytes=chunk_bytes, shape=shape):
                        restored = checkpointer.restore(path)
                        self.assertEqual(len(jax.tree.leaves(restored)), len(names))
                        self.assert_step(path, names)
        self.enough(8 * len(SHAPES))

    def test_standard_checkpointer(self):
        with ocp.StandardCheckpointer() as checkpointer:
            for i, shape in enumerate(SHAPES):
                tree, names = tree_of(i, shape)
                checkpointer.save(self.directory / f"s{i}", tree)
                checkpointer.wait_until_finished()
                self.assert_step(self.directory / f"s{i}", names)

    def test_manager(self):
        options = ocp.CheckpointManagerOptions(max_to_keep=8, enable_async_checkpointing=False)
        with ocp.CheckpointManager(self.directory / "run", options=options) as manager:
            for i, shape in enumerate(SHAPES):
                tree, names = tree_of(i, shape)
                extra = {"lr": 0.5, "list": [1, "a", None]}
                items = ocp.args.Composite(state=ocp.args.StandardSave(tree), extra=ocp.args.JsonSave(extra))
                manager.save(i, args=items)
                self.assert_step(self.directory / f"run/{i}", names, "state/")
                self.assert_step(self.directory / f"run/{i}/state", names)
                with pawl.open(self.directory / f"run/{i}") as checkpoint:
                    self.assertEqual(checkpoint["extra"], extra)

    def test_a_manager_of_one_item(self):
        with ocp.CheckpointManager(self.directory / "run") as manager:
            for i, shape in enumerate(SHAPES):
                tree, names = tree_of(i, shape)
                manager.save(i, args=ocp.args.StandardSave(tree))
                manager.wait_until_finished()
                self.assert_step(self.directory / f"run/{i}", names, "default/")

    def test_leaves_that_are_no_arrays(self):
        tree = {"n": 5, "x": 0.25, "none": None, "empty": {}, "nothing": [], "text": "abc", "a.b": {"c/d": jnp.ones(2)}}
        for ocdbt, zarr3 in itertools.product((True, False), (True, False)):
            path = self.directory / f"l{ocdbt}{zarr3}"
            handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
            with ocp.Checkpointer(handler) as checkpointer:
                kept = {key: value for key, value in tree.items() if ocdbt or key != "a.b"}
                checkpointer.save(path, args=ocp.args.PyTreeSave(kept))
            with self.subTest(ocdbt=ocdbt, zarr3=zarr3), pawl.open(path) as checkpoint:
                self.assertEqual(np.asarray(checkpoint["n"]), 5)
                self.assertEqual(np.asarray(checkpoint["x"]), 0.25)
                self.assertIsNone(checkpoint["none"])
                self.assertEqual((checkpoint["empty"], checkpoint["nothing"]), ({}, []))
                self.assertEqual(checkpoint["text"], "abc")
                if ocdbt:
                    self.assert_tensor(checkpoint, "a.b/c%2Fd", np.ones(2))
            self.files += 1

    def test_many_arrays_in_one_database(self):
        for count in (1, 300, 3000):
            tree = {f"group{i % 7}": {} for i in range(min(count, 7))}
            names = {}
            for i in range(count):
                names[f"group{i % 7}/w{i}"] = tree[f"group{i % 7}"][f"w{i}"] = np.full((1 + i % 5, 3), i, np.int32)
            path = self.directory / f"m{count}"
            with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
                checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
            self.assert_step(path, names)


class Arrays(WithOrbax):
    """What tensorstore writes, without Orbax."""

    def write(self, path, driver, array, **options):
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, **options}
        dtype = ts.dtype(array.dtype.newbyteorder("=").name)
        store = ts.open(spec, create=True, dtype=dtype, shape=array.shape).result()
        if array.size:
            store.write(array).result()
        return store.read().result()

    def test_zarr_2(self):
        compressors = [None, {"id": "zlib", "level": 6}, {"id": "gzip", "level": 1}, {"id": "zstd", "level": 1}]
        for compressor, order, dtype in itertools.product(
            compressors, "CF", ("<f4", ">f4", "|b1", ">i8", "<u2", "<c8", "<c16", ">c16")
        ):
            for shape in [(3, 5), (4, 6, 5)]:
                array = made(np.dtype(dtype).name, shape, self.files)
                path = self.directory / f"a{self.files}"
                metadata = {
                    "compressor": compressor,
                    "order": order,
                    "dtype": dtype,
                    "chunks": [2] * len(shape),
                    "shape": shape,
                }
                read = self.write(path, "zarr", array, metadata=metadata)
                with self.subTest(compressor=compressor, order=order, dtype=dtype, shape=shape):
                    self.assert_step(path, {"array": read})
        self.enough()

    def test_zarr_3(self):
        little, big = ({"name": "bytes", "configuration": {"endian": endian}} for endian in ("little", "big"))
        packed = [
            [],
            [{"name": "gzip", "configuration": {"level": 5}}],
            [{"name": "zstd", "configuration": {"level": 1}}],
            [{"name": "crc32c"}],
            [{"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}],
        ]
        for codec, endian, turned, sharded, dtype in itertools.product(
            packed, (little, big), (False, True), (False, True), ("float32", "complex128")
        ):
            array = made(dtype, (6, 8, 5), self.files)
            codecs = [endian, *codec]
            if turned:
                codecs.insert(0, {"name": "transpose", "configuration": {"order": [2, 0, 1]}})
            grid = [2, 4, 3]
            if sharded:
                inner = {"chunk_shape": [2, 2, 3], "codecs": codecs, "index_codecs": [little, {"name": "crc32c"}]}
                codecs = [{"name": "sharding_indexed", "configuration": {**inner, "index_location": "end"}}]
            metadata = {
                "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
                "shape": array.shape,
                "data_type": dtype,
            }
            path = self.directory / f"a{self.files}"
            read = self.write(path, "zarr3", array, metadata=metadata)
            with self.subTest(codec=codec, endian=endian, turned=turned, sharded=sharded, dtype=dtype):
                self.assert_step(path, {"array": read})
        self.enough()

    def test_chunks_that_are_missing_have_the_fill_value(self):
        for driver, fill in itertools.product(("zarr", "zarr3"), (0.0, 7.5, None)):
            metadata = {
                "zarr": {"chunks": [2, 3], "dtype": "<f4", "compressor": None},
                "zarr3": {"data_type": "float32"},
            }[driver]
            if driver == "zarr3":
                metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}
            if fill is not None:
                metadata["fill_value"] = fill
            path = self.directory / f"f{self.files}"
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
            store = ts.open(spec, create=True, dtype=ts.float32, shape=(7, 8)).result()
            store[2:5, 1:4].write(np.ones((3, 3), np.float32)).result()
            self.assert_step(path, {"array": store.read().result()})

    def test_complex128_with_chunks_that_are_missing(self):
        for driver, fill in itertools.product(("zarr", "zarr3"), ([0.5, "-Infinity"], None)):
            metadata = {
                "zarr": {"chunks": [2, 3], "dtype": ">c16", "order": "F", "compressor": None},
                "zarr3": {
                    "data_type": "complex128",
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
                },
            }[driver]
            if fill is not None:
                metadata["fill_value"] = fill
            path = self.directory / f"c{self.files}"
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
            store = ts.open(spec, create=True, dtype=ts.complex128, shape=(7, 8)).result()
            store[2:5, 1:4].write(made("complex128", (3, 3))).result()
            expected = store.read().result()
            self.assert_step(path, {"array": expected})
            restored = np.zeros((7, 8), np.complex128)
            with pawl.open(path) as checkpoint:
                checkpoint.restore(pawl.State({"array": restored}), unexpected="allow")
            self.assertEqual(restored.tobytes(), expected.tobytes())

    def test_other_encodings_are_named(self):
        path = self.directory / "b"
        blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
        path.mkdir()
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        self.write(path / "w", "zarr", made("float32", (4, 4)), metadata={"compressor": blosc})
        with pawl.open(path) as checkpoint:
            self.assert_unread(checkpoint, "w", "F32, blosc", (4, 4))


if __name__ == "__main__":
    support.main()
