# SPDX-License-Identifier: Apache-2.0
"""safetensors, alone and with an index: its package writes and pawl reads, and the other way round."""

import itertools
import json

import safetensors
import safetensors.numpy
import support
from support import NAMES, SHAPES, bits, made

import pawl


def has_arrays_of(name):
    """Does the package make arrays of NumPy of that type, both ways?"""
    try:
        safetensors.numpy.load(safetensors.numpy.save({"w": made(name, (2,))}))
    except (AttributeError, KeyError, TypeError, safetensors.SafetensorError):
        return False
    return True


TYPES = list(filter(has_arrays_of, NAMES))


class Read(support.InDirectory):
    def test_every_type_and_shape(self):
        self.assertGreaterEqual(len(TYPES), 12)
        for dtype, (i, shape) in itertools.product(TYPES, enumerate(SHAPES)):
            with self.subTest(dtype=dtype, shape=shape):
                path = self.directory / f"a{self.files}.safetensors"
                array = made(dtype, shape, i)
                safetensors.numpy.save_file({"w": array, "other.weight": made("float32", (3,))}, path)
                loaded = safetensors.numpy.load_file(path)
                self.assertEqual(bits(loaded["w"]), bits(array))
                self.assert_arrays(path, loaded, "safetensors")
        self.enough()

    def test_types_that_numpy_has_not(self):
        """Serialized from bytes, since the package makes no array of them."""
        kinds = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "bfloat16": "BF16"}
        for (name, kind), shape in itertools.product(kinds.items(), SHAPES):
            path = self.directory / f"b{self.files}.safetensors"
            array = made(name, shape, self.files)
            text = json.dumps(
                {"w": {"dtype": kind, "shape": list(shape), "data_offsets": [0, array.nbytes]}}, separators=(",", ":")
            ).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + array.tobytes())
            with safetensors.safe_open(path, "numpy") as file:
                self.assertEqual(file.get_slice("w").get_dtype(), kind)
            self.assert_arrays(path, {"w": array}, "safetensors")
        self.enough()

    def test_metadata_and_many_tensors(self):
        for count in (0, 1, 10, 500):
            path = self.directory / f"m{count}.safetensors"
            arrays = {f"layers.{i}.w": made(TYPES[i % len(TYPES)], SHAPES[i % len(SHAPES)], i) for i in range(count)}
            safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
            with pawl.open(path) as checkpoint:
                for name, array in arrays.items():
                    self.assert_tensor(checkpoint, name, array)
                self.assertEqual(sum(each.kind == "tensor" for each in checkpoint.entries()), count)

    def test_with_an_index(self):
        for files, seed in itertools.product((1, 2, 5, 12), range(8)):
            directory = self.directory / f"d{self.files}"
            directory.mkdir()
            arrays, where = {}, {}
            for i in range(files):
                name = f"model-{i + 1:05}-of-{files:05}.safetensors"
                part = {f"l{i}.{dtype}": made(dtype, SHAPES[(i + seed) % 8], seed) for dtype in TYPES}
                safetensors.numpy.save_file(part, directory / name)
                arrays |= part
                where |= dict.fromkeys(part, name)
            index = {"metadata": {"total_size": sum(each.nbytes for each in arrays.values())}, "weight_map": where}
            (directory / "model.safetensors.index.json").write_text(json.dumps(index))
            for path in (directory, directory / "model.safetensors.index.json"):
                with pawl.open(path) as checkpoint:
                    self.assertEqual(checkpoint.format, "safetensors, sharded")
                    for name, array in arrays.items():
                        self.assert_tensor(checkpoint, name, array)
            self.files += 1
        self.enough()


class Written(support.InDirectory):
    """What pawl writes, the package loads."""

    def test_one_file(self):
        for i, shape in enumerate(SHAPES):
            arrays = {f"net.{i}.{dtype}": made(dtype, shape, i) for dtype in NAMES}
            path = self.directory / f"w{i}.safetensors"
            run = self.run_of(arrays, name=f"run{i}")
            types = {name for name in arrays if name.rsplit(".", 1)[1] in TYPES}
            pawl.convert(run, path, only=sorted(types))
            loaded = safetensors.numpy.load_file(path)
            self.assertEqual(set(loaded), types)
            for name, array in loaded.items():
                self.assertEqual((array.dtype, array.shape), (arrays[name].dtype, shape))
                self.assertEqual(bits(array), bits(arrays[name]), name)
            with safetensors.safe_open(path, "numpy") as file:
                self.assertEqual(file.metadata()["format"], "pt")

    def test_types_that_numpy_has_not(self):
        arrays = {name: made(name, (3, 5)) for name in NAMES if name not in TYPES}
        path = self.directory / "w.safetensors"
        pawl.convert(self.run_of(arrays), path)
        found = dict(safetensors.deserialize(path.read_bytes()))
        self.assertEqual(set(found), set(arrays))
        for name, said in found.items():
            self.assertEqual((said["dtype"], said["shape"]), (NAMES[name], [3, 5]))
            self.assertEqual(bytes(said["data"]), bits(arrays[name]), name)

    def test_several_files_with_an_index(self):
        for i, shape in enumerate(SHAPES):
            arrays = {f"net.{j}.{dtype}": made(dtype, shape, j) for dtype in TYPES for j in range(3)}
            total = sum(each.nbytes for each in arrays.values())
            directory = self.directory / f"d{i}"
            run = self.run_of(arrays, name=f"run{i}")
            pawl.convert(run, directory, to="safetensors", shard_bytes=max(total // 4, 16))
            index = json.loads((directory / "model.safetensors.index.json").read_text())
            self.assertEqual(index["metadata"]["total_size"], total)
            self.assertEqual(set(index["weight_map"]), set(arrays))
            files = {name: safetensors.numpy.load_file(directory / name) for name in set(index["weight_map"].values())}
            self.assertEqual(sum(map(len, files.values())), len(arrays))
            for name, file in index["weight_map"].items():
                self.assertEqual(bits(files[file][name]), bits(arrays[name]), name)


if __name__ == "__main__":
    support.main()
