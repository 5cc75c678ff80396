# SPDX-License-Identifier: Apache-2.0
"""GGUF: the package of llama.cpp writes and pawl reads."""

import itertools

import gguf
import numpy as np
import support
from support import bits, made

import pawl

PLAIN = ("float16", "float32", "float64", "int8", "int16", "int32", "int64")
#: GGUF has at most four dimensions.
SHAPES = [(1,), (17,), (3, 5), (2, 3, 4), (2, 1, 3, 4)]
QUANTIZED = [
    gguf.GGMLQuantizationType[name]
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "TQ1_0")
]


class Gguf(support.InDirectory):
    def assert_file(self, path):
        """Every tensor that the package reads, pawl reads alike."""
        reader = gguf.GGUFReader(path)
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint.format, "GGUF")
            for tensor in reader.tensors:
                name, kind = tensor.name, gguf.GGMLQuantizationType(tensor.tensor_type).name
                shape = tuple(int(n) for n in reversed(tensor.shape))
                self.assertEqual(checkpoint[name].shape, shape)
                if kind in ("F32", "F16", "F64", "BF16") or (kind[0] == "I" and kind[1:].isdigit()):
                    self.assertEqual(checkpoint[name].dtype, kind)
                    self.assertEqual(bytes(checkpoint[name].read().buffer), bits(tensor.data))
                else:
                    self.assert_unread(checkpoint, name, kind, shape)
                    blocks = checkpoint[f"{name}/blocks"].read()
                    self.assertEqual(bytes(blocks.buffer), bits(tensor.data))
            self.assertTrue(checkpoint.verify().ok)
        self.files += 1
        return reader

    def write(self, tensors, values=(), alignment=None, path=None):
        """A file with these tensors: name, array, and how its elements are coded."""
        path = path or self.directory / f"g{self.files}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if alignment is not None:
            writer.add_custom_alignment(alignment)
        for add, key, value in values:
            getattr(writer, f"add_{add}")(key, value)
        for name, array, kind in tensors:
            writer.add_tensor(name, array, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def test_every_type_and_shape(self):
        for dtype, shape in itertools.product(PLAIN, SHAPES):
            with self.subTest(dtype=dtype, shape=shape):
                self.assert_file(self.write([("w", made(dtype, shape, self.files), None)]))
        self.enough()

    def test_quantized_types(self):
        for kind, shape in itertools.product(QUANTIZED, [(256,), (3, 512), (2, 2, 256)]):
            block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            raw = made("uint8", (*shape[:-1], shape[-1] // block * block_bytes), self.files)
            with self.subTest(kind=kind.name, shape=shape):
                self.assert_file(self.write([("a", raw, kind), ("b", made("float32", (3,)), None)]))
        self.enough()

    def test_bfloat16(self):
        raw = made("uint8", (6, 10), 1)
        path = self.write([("w", raw, gguf.GGMLQuantizationType.BF16)])
        self.assert_file(path)
        with pawl.open(path) as checkpoint:
            self.assertEqual((checkpoint["w"].dtype, checkpoint["w"].shape), ("BF16", (6, 5)))

    def test_alignments_and_many_tensors(self):
        for alignment, count in itertools.product((8, 32, 64, 256, 4096), (1, 2, 50)):
            tensors = [(f"blk.{i}.attn_q.weight", made(PLAIN[i % 7], SHAPES[i % 5], i), None) for i in range(count)]
            self.assert_file(self.write(tensors, alignment=alignment))

    def test_metadata(self):
        values = {
            "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4_000_000_000, "int32": -7,
            "uint64": 2**40, "int64": -(2**62), "float32": 0.25, "float64": 0.1, "bool": True, "string": "l\u00e4mp",
        }  # fmt: skip
        arrays = {"ints": [1, -2, 3], "floats": [0.5, 1.5], "texts": ["a", "\u00e4", ""], "flags": [True, False]}
        added = [(kind, f"x.{kind}", value) for kind, value in values.items()]
        added += [("array", f"x.{name}", value) for name, value in arrays.items()]
        path = self.write([("w", made("float32", (3,)), None)], added)
        self.assert_file(path)
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint["metadata/general.architecture"], "llama")
            for kind, value in values.items():
                self.assertEqual(checkpoint[f"metadata/x.{kind}"], value, kind)
            self.assertEqual(checkpoint["metadata/x.texts"], arrays["texts"])
            self.assert_tensor(checkpoint, "metadata/x.ints", np.array([1, -2, 3], np.int32))
            self.assert_tensor(checkpoint, "metadata/x.floats", np.array([0.5, 1.5], np.float32))
            self.assert_tensor(checkpoint, "metadata/x.flags", np.array([True, False]))

    def test_several_files(self):
        for most in (2, 3, 7):
            path = self.directory / f"s{most}.gguf"
            writer = gguf.GGUFWriter(path, "llama", split_max_tensors=most)
            arrays = {f"w{i}": made(PLAIN[i % 7], SHAPES[i % 5], i) for i in range(10)}
            for name, array in arrays.items():
                writer.add_tensor(name, array)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            parts = sorted(self.directory.glob(f"s{most}-*.gguf"))
            self.assertEqual(len(parts), -(-10 // most))
            for part in parts:
                with pawl.open(part) as checkpoint:
                    for name, array in arrays.items():
                        self.assert_tensor(checkpoint, name, array)

    def test_big_endian_is_refused(self):
        path = self.directory / "b.gguf"
        writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.BIG)
        writer.add_tensor("w", made("float32", (3,)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with self.assertRaisesRegex(pawl.Unsupported, "big-endian"):
            pawl.open(path)


if __name__ == "__main__":
    support.main()
