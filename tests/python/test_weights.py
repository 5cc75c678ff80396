#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that the safetensors package wrote, alone and sharded as transformers does it, are read by
pawl value for value; so are pawl's own data files; hostile ones are refused as the package refuses
them; and the program in docs/sources.md restores a state from a sharded directory."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import test_safetensors_package as package

SHARD = "model-{:05}-of-{:05}.safetensors"
INDEX = "model.safetensors.index.json"
# The program of the docs prints these of the values below.
EMBEDDING, BIAS = "model.embed_tokens.weight", "model.layers.0.bias"


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--read-weights", required=True)
    parser.add_argument("--example", required=True)
    parser.add_argument("--write-sample", required=True)
    parser.add_argument("--environment", required=True, help="where to make a virtual environment")
    parser.add_argument("--in-environment", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def pawl_opens(paths):
    """One answer for each path; see read_weights.c."""
    done = subprocess.run([ARGUMENTS.read_weights], input="".join(f"{path}\n" for path in paths),
                          capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(paths), done.stderr
    return answers


def shard(folder, files, total_size=None, extra=None):
    """Writes {name: {tensor: array}} as transformers does; the names may be any."""
    from safetensors.numpy import save_file
    sizes, weight_map = 0, {}
    for name, arrays in files.items():
        save_file(arrays, pathlib.Path(folder, name), {"format": "pt"})
        for tensor, array in arrays.items():
            weight_map[tensor] = name
            sizes += array.nbytes
    index = {"metadata": {"total_size": sizes if total_size is None else total_size},
             "weight_map": weight_map | (extra or {})}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    pathlib.Path(folder, INDEX).write_text(text, encoding="utf-8")
    return {tensor: array for arrays in files.values() for tensor, array in arrays.items()}


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def opened(self, path):
        (answer,) = pawl_opens([path])
        self.assertEqual((answer["status"], answer.get("read"), answer.get("verified")),
                         ("ok", "ok", "ok"), answer)
        return {t["name"]: (t["dtype"], t["shape"], bytes.fromhex(t["data"]))
                for t in answer["tensors"]}

    def check_arrays(self, path, arrays):
        self.assertEqual({name: (shape, data) for name, (_, shape, data) in self.opened(path).items()},
                         {name: (list(array.shape), array.tobytes())
                          for name, array in arrays.items()})


class OneFile(Folder):
    def test_every_dtype_and_shape_of_numpy(self):
        import numpy
        from safetensors.numpy import save_file
        source = numpy.random.default_rng(3)
        kinds = ("bool", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8", "u8")
        shapes = ((), (0,), (1,), (3, 2), (7, 1, 5), (2, 0, 4), (129, 257))
        for i, shape in enumerate(shapes):
            arrays = {f"layer.{i}.{kind}": source.integers(0, 2, shape).astype(kind)
                      for kind in kinds}
            path = self.folder / f"{i}.safetensors"
            save_file(arrays, path, {"format": "pt", "odd": "\u00e4\n"} if i % 2 else None)
            self.check_arrays(path, arrays)
            with open(path, "rb") as file:
                self.assertEqual(self.opened(path), package.package_reads(file.read()))

    def test_every_dtype_of_the_format(self):
        for file in (*range(len(package.DTYPES)),):
            dtype = list(package.DTYPES)[file]
            size = package.DTYPES[dtype]
            header = json.dumps({"w.0": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]}})
            content = package.data_file(header, bytes(range(1, size + 1)))
            path = self.folder / f"{file}.safetensors"
            path.write_bytes(content)
            with self.subTest(dtype):
                expected = {"w.0": (dtype, [8], bytes(range(1, size + 1)))}
                self.assertEqual(self.opened(path), expected)
                self.assertIn(package.package_reads(content), (None, expected))

    def test_what_pawl_wrote_itself(self):
        subprocess.run([ARGUMENTS.write_sample, self.folder], check=True, capture_output=True)
        for name in ("empty", "many", "dtypes"):
            path = self.folder / f"{name}.safetensors"
            theirs = package.package_reads(path.read_bytes())
            if theirs is not None:
                with self.subTest(name):
                    self.assertEqual(self.opened(path), theirs)

    def test_r14_hostile_and_mutated_files(self):
        files = list(package.hostile_files()) + list(package.mutated_files(600))
        paths = []
        for i, content in enumerate(files):
            paths.append(self.folder / f"{i}.safetensors")
            paths[-1].write_bytes(content)
        stricter = package.STRICTER + ("a name that no entry of pawl can have",)
        refused = 0
        for content, answer in zip(files, pawl_opens(paths)):
            theirs = package.package_reads(content)
            if answer["status"] != "ok":
                refused += 1
                self.assertTrue(theirs is None or any(why in answer["text"] for why in stricter),
                                f"only pawl refuses {content!r}: {answer['text']}")
                continue
            others = any(t["data"] is None for t in answer["tensors"])
            if theirs is None:
                self.assertTrue(others, f"only pawl accepts {content!r}")
            elif not others:
                self.assertEqual({t["name"]: (t["dtype"], t["shape"], bytes.fromhex(t["data"]))
                                  for t in answer["tensors"]}, theirs)
        self.assertGreater(refused, len(files) // 4)


class Sharded(Folder):
    def test_as_transformers_does_it(self):
        import numpy
        files = {SHARD.format(i + 1, 3): {f"model.layers.{i}.{k}.weight":
                                          numpy.full((i + 2, k + 1), 10 * i + k, "f4")
                                          for k in range(40)} for i in range(3)}
        arrays = shard(self.folder, files)
        self.check_arrays(self.folder, arrays)
        self.check_arrays(self.folder / INDEX, arrays)
        self.assertEqual(len(list(self.folder.iterdir())), 4)  # nothing was written beside them

    def test_the_cache_of_huggingface_hub(self):
        import numpy
        cache = self.folder
        blobs, self.folder = cache / "blobs", cache / "snapshots" / "0123abcd"
        blobs.mkdir()
        self.folder.mkdir(parents=True)
        arrays = shard(self.folder, {SHARD.format(i + 1, 2): {f"w.{i}": numpy.full(3, i, "f4")}
                                     for i in range(2)})
        for i, file in enumerate(list(self.folder.iterdir())):
            file.rename(blobs / str(i))
            file.symlink_to(f"../../blobs/{i}")
        self.check_arrays(self.folder, arrays)
        self.check_arrays(self.folder / INDEX, arrays)
        self.check_arrays(self.folder / SHARD.format(1, 2), {"w.0": arrays["w.0"]})

    def test_a_total_size_that_is_wrong_does_not_verify(self):
        import numpy
        shard(self.folder, {"a.safetensors": {"a": numpy.ones(3, "f4")}}, total_size=11)
        (answer,) = pawl_opens([self.folder])
        self.assertEqual((answer["read"], answer["verified"]), ("ok", "damaged"))

    def refused(self, why, files, extra=None, spoil=None):
        shard(self.folder, files, extra=extra)
        if spoil is not None:
            spoil()
        (answer,) = pawl_opens([self.folder])
        self.assertIn(why, answer.get("text", "it was opened"))

    def test_r14_what_is_refused(self):
        import numpy
        one = numpy.ones(3, "f4")
        files = {"1.safetensors": {"a": one}, "2.safetensors": {"b": one}}
        self.refused("is missing", files, extra={"c": "3.safetensors"})
        self.refused("is not in that file", files, extra={"c": "2.safetensors"})
        self.refused("is not in that file", files, extra={"a": "2.safetensors"})
        self.refused("outside of the directory", files, extra={"c": "../1.safetensors"})
        self.refused("outside of the directory", files, extra={"c": "/tmp/1.safetensors"})
        self.refused("it is in 1.safetensors and in 2.safetensors", {"1.safetensors": {"a": one, "c": one},
                                      "2.safetensors": {"a": one, "b": one}})
        second = self.folder / "2.safetensors"
        def make_link():
            second.unlink()
            second.symlink_to("elsewhere")
        self.refused("is missing", files, spoil=make_link)
        second.unlink()
        self.refused("shorter than its tensors", files,
                     spoil=lambda: os.truncate(second, second.stat().st_size - 4))

    def test_the_program_of_the_docs(self):
        import numpy
        embedding = numpy.arange(32, dtype="f4").reshape(8, 4)
        bias = numpy.array([0.5, 1.5, -2, 8], "f4")
        header = json.dumps({BIAS: {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}})
        shard(self.folder, {"1.safetensors": {EMBEDDING: embedding, "lm_head.weight": embedding}},
              total_size=264, extra={BIAS: "2.safetensors"})
        (self.folder / "2.safetensors").write_bytes(
            package.data_file(header, (bias.view("u4") >> 16).astype("<u2").tobytes()))
        done = subprocess.run([ARGUMENTS.example, self.folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "embedding[7][3] = 31, bias[1] = 1.5\n", ""))
        (self.folder / INDEX).unlink()
        done = subprocess.run([ARGUMENTS.example, self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("several files of weights", done.stderr)


if __name__ == "__main__":
    ARGUMENTS = parse_arguments()
    if not ARGUMENTS.in_environment:
        PYTHON = package.find_python(ARGUMENTS.environment)
        sys.exit(subprocess.run([PYTHON, *sys.argv, "--in-environment"]).returncode)
    unittest.main(argv=sys.argv[:1], verbosity=2)
