# SPDX-License-Identifier: Apache-2.0
"""What pawl reads of files of PyTorch and writes for it again, directly or through another format, is what it was."""

import argparse
import collections
import datetime
import decimal
import enum
import fractions
import functools
import math
import pathlib
import re
import tempfile
import types
import uuid

import support  # first: it finds the package
import numpy
import test_formats
import torch

import pawl

#: Through which formats a file of PyTorch goes, and comes back as it was.
WAYS = {"torch": "way.pt", "pawl": "way", "safetensors": "way.safetensors", "npz": "way.npz", "dcp": "way-dcp"}


class TestComingBack(test_formats.Formats):
    """What pawl reads of PyTorch and writes for it again, directly or through another format."""

    def through(self, state, to):
        """What torch.load finds at the end of the way."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        source, way, back = directory / "source.pt", directory / WAYS[to], directory / "back.pt"
        torch.save(state, source)
        result = pawl.convert(source, way, to=to)
        self.assertEqual((result.dropped, result.described), (0, 0))
        if to != "torch":
            pawl.convert(way, back)
        return torch.load(way if to == "torch" else back, weights_only=True)

    def test_an_optimizer_is_restored(self):
        """Its state has integer keys: as texts they would match no parameter, and nobody would be told."""
        state = test_formats.trained(torch.optim.AdamW)
        for to in WAYS:
            with self.subTest(to=to):
                found = self.through(state, to)
                self.assertEqual(list(found["optimizer"]["state"]), [0, 1, 2, 3, 4])
                model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.PReLU())
                optimizer = torch.optim.AdamW(model.parameters())
                model.load_state_dict(found["model"])
                optimizer.load_state_dict(found["optimizer"])
                self.assertEqual(len(optimizer.state), 5)
                for number, one in enumerate(model.parameters()):
                    self.assert_loaded(optimizer.state[one]["exp_avg"], state["optimizer"]["state"][number]["exp_avg"])
                self.assert_came_back(found["optimizer"], state["optimizer"])

    def test_keys(self):
        keys = [
            "",
            "%",
            ".",
            "..",
            "a/b",
            "/",
            "//a",
            "a%2Fb",
            "50%",
            "0",
            "-3",
            "007",
            "1.5",
            0,
            17,
            -3,
            2**70,
            " ",
            "$true",
            "$x",
            "${",
            "null",
            "\xe9",
            "a\nb",
            "\x85",
            "a.b",
            "__class__",
            "__sequences__",
            "object",
        ]
        for to in WAYS:
            some = [one for one in keys if to != "npz"] or ["a", 7]
            state = {"t": {one: torch.full((2,), i) for i, one in enumerate(some)}, "v": dict.fromkeys(some, 1)}
            if to == "dcp":  # which makes texts of all keys
                state = {k: {a: b for a, b in v.items() if str(a) not in ("0", "-3")} for k, v in state.items()}
            with self.subTest(to=to):
                self.assert_came_back(self.through(state, to), state)
        one = torch.ones(1)
        for root in ({"": one}, {"object": one}, {"__sequences__": one}, {"%": 1, "a/b": 2}):
            for to in ("torch", "pawl", "safetensors", "dcp"):
                with self.subTest(to=to, root=root):
                    self.assert_came_back(self.through(root, to), root)
        odd = {"v": {True: 1, None: 2, 1.5: torch.ones(1), (0, "a"): torch.zeros(1), math.inf: 3, b"x": 4}}
        for to in ("torch", "pawl", "safetensors"):
            self.assert_came_back(self.through(odd, to), odd)

    def test_lists_and_tuples_with_tensors(self):
        one = torch.arange(3)
        state = {
            "list": [one + i for i in range(12)], "tuple": (1, one, "x", None), "in": [{"a": (one, [one])}, [], {}],
            "set": {torch.ones(1), torch.zeros(1)}, "dict": {0: one, 1: one}, "hole": {0: one, 2: one},
            "a/b": [one], "%": ((one,),),
        }  # fmt: skip
        for to in WAYS:
            some = {k: v for k, v in state.items() if to != "npz" or k not in ("a/b", "%")}
            with self.subTest(to=to):
                self.assert_came_back(self.through(some, to), some)
        for root in ([one, 1], (one,), one, 5, "text", None, [1, 2], {1: one}):
            for to in ("torch", "pawl", "safetensors"):
                with self.subTest(to=to, root=root):
                    self.assert_came_back(self.through(root, to), root)

    def test_lists_that_are_renamed_or_have_holes(self):
        path = self.save("source.pt", {"l": [torch.ones(1), 5], "w": torch.zeros(1)})
        part = ["l/1", "__sequences__"]
        for options, why in (({"rename": {"l": "m"}}, "other names now"), ({"only": part}, "holes")):
            with self.assertRaisesRegex(pawl.Unsupported, why):
                pawl.convert(path, self.directory / "to.pt", **options)
            result = pawl.convert(path, self.directory / "to.pt", drop=True, **options)
            self.assertEqual(result.dropped, 1)
            (self.directory / "to.pt").unlink()
        pawl.convert(path, self.directory / "to.pt", only=["w", "__sequences__"])
        self.assertEqual(list(torch.load(self.directory / "to.pt")), ["w"])

    def test_values(self):
        values = {
            "floats": [1.0, -0.0, 1e300, 5e-324, 0.1 + 0.2, math.inf, -math.inf, math.nan, 1e16],
            "tuple": (1.0, ("a",)),
            "ints": [1, 2**63, -(2**63) - 1, 2**64], "set": {1, "a"}, "bytes": [b"\xff", b""], "none": b"",
            "bytearray": bytearray(b"\x00\xff"), "complex": 1 - 2j, "device": torch.device("cuda:1"),
            "devices": [torch.device("cpu")], "dtype": torch.bfloat16, "size": torch.Size([2, 3]),
            "counter": collections.Counter({3: 1, "a": 2}), "keys": [{1: 2, None: 3, (1, 2): [4.0], "$": 5}],
            "ordered": [collections.OrderedDict(b=1, a=2)], "dollar": {"$": "tuple", "items": [1]}, "nul": "a\0b",
            "class": {"class": "os.system", "arguments": ["x"]}, "json": '{"a": 1}', "text": "\u2028\x7f\U0001f600",
        }  # fmt: skip
        for to in WAYS:
            with self.subTest(to=to):
                found = self.through({"w": torch.ones(1), "v": [values]}, to)["v"][0]
                self.assertIs(type(found["ordered"][0]), collections.OrderedDict)
                self.assertEqual(list(found["ordered"][0]), ["b", "a"])
                self.assertEqual(repr(found), repr(values))
                self.assert_came_back(self.through(values, to), values)

    def test_values_that_torch_load_refuses(self):
        """They are written as what describes them, and that is told."""
        state = {"deque": collections.deque([1]), "path": pathlib.PurePosixPath("/a"), "n": [numpy.float32(1.5)]}
        path = self.directory / "to.pt"
        result = pawl.convert(self.save("source.pt", state), path)
        told = {one.name: one.why for one in result.entries if one.why}
        self.assertEqual((result.described, sorted(told)), (2, ["deque", "path"]))
        self.assertIn("a dict that describes it", told["path"])
        found = torch.load(path, weights_only=True)
        self.assertEqual(found["deque"], {"$": "deque", "items": [1], "maxlen": None})
        self.assertEqual(found["n"], [1.5])
        for different in ({**state, "path": pathlib.PurePosixPath("/b")}, {**state, "n": [numpy.float64(1.5)]}):
            found = pawl.diff(self.directory / "source.pt", self.save("other.pt", different))
            self.assertEqual(len(found.differences), 1)

    def test_tags_that_python_would_refuse(self):
        """A run may have any JSON: what torch.load could not make of a tag stays a dict, and the file opens."""
        values = [
            {"$": "device", "text": "cuda:abc"},
            {"$": "complex", "parts": ["a", "b"]},
            {"$": "complex", "parts": [1]},
            {"$": "complex", "parts": 3},
            {"$": "size", "items": ["x"]},
            {"$": "size", "items": [1.5]},
            {"$": "set", "items": [[1]]},
            {"$": "set", "items": [{"$": "tuple", "items": [{"a": 1}]}]},
            {"$": "dict", "pairs": [[[1], 2]]},
            {"$": "OrderedDict", "pairs": [[{"$": "bytes", "data": "?"}, 2]]},
        ]
        state = pawl.State({"w": torch.ones(1)})
        for i, value in enumerate(values):
            state.set_json(f"v/{i}", value)
        with pawl.Run(self.directory / "run") as run:
            run.save(state, 1)
        result = pawl.convert(self.directory / "run", self.directory / "x.pt")
        found = torch.load(self.directory / "x.pt", weights_only=True)
        values[7]["items"] = [({"a": 1},)]  # the tuple itself can be made
        self.assertEqual((list(found["v"].values()), result.described), (values, len(values)))

    def test_large_values(self):
        state = {"text": "\xe9" * 600000, "bytes": b"\0\xff" * 600000, "list": [i / 3 for i in range(100000)]}
        path = self.save("source.pt", state)
        with pawl.open(path) as found:
            self.assertEqual(bytes(found["text"].read().buffer), state["text"].encode())
            self.assertEqual(bytes(found["bytes"].read().buffer), state["bytes"])
            self.assertEqual(found.entry("list").dtype, "OBJECT")
        self.assertTrue(pawl.verify(path).ok)
        for to in WAYS:
            with self.assertRaisesRegex(pawl.Unsupported, "no place for an entry") as caught:
                pawl.convert(path, self.directory / WAYS[to], to=to)
            self.assertEqual(caught.exception.entry, "list")
        result = pawl.convert(path, self.directory / "to.pt", drop=True)
        self.assertEqual((result.dropped, result.tensors), (1, 2))
        other = self.save("other.pt", {**state, "list": [i / 5 for i in range(100000)]})
        self.assertEqual([one.name for one in pawl.diff(path, other).differences], ["list"])

    def test_arrays_of_numpy(self):
        state = {
            "rows": numpy.arange(6).reshape(2, 3), "columns": numpy.asfortranarray(numpy.arange(24.0).reshape(2, 3, 4)),
            "big": numpy.arange(5, dtype=">f4"), "one": numpy.array(3.0), "none": numpy.zeros((0, 3), "f4"),
            "bool": numpy.array([True, False]), "steps": numpy.arange(10, dtype="u2")[::3], "half": numpy.ones(2, "f2"),
            "complex": numpy.array([1 + 2j], "c8"), "rng": numpy.random.get_state(),
            "large": numpy.arange(500000, dtype="f4"),
        }  # fmt: skip
        scalars = {"f8": numpy.float64(0.1), "f4": numpy.float32(1.5), "i8": numpy.int64(-7), "b": numpy.bool_(True)}
        for protocol in (2, 4, 5):
            path = self.directory / f"{protocol}.pt"
            torch.save(state | scalars, path, pickle_protocol=protocol)
            to = self.directory / f"{protocol}-to.pt"
            pawl.convert(path, to)
            found = torch.load(to, weights_only=True)
            for name, value in scalars.items():
                self.assertEqual((found[name], type(found[name])), (value.item(), type(value.item())))
            for name, value in state.items():
                if name != "rng":
                    here = value.astype(value.dtype.newbyteorder("="))
                    self.assertEqual(found[name].numpy().tobytes(), here.tobytes())
                    self.assertEqual(found[name].shape, value.shape)
            self.assertIsInstance(found["rng"], tuple)
            self.assertEqual(found["rng"][1].tolist(), state["rng"][1].tolist())

    def test_objects_of_python(self):
        """Nothing of it is made, and all of it is shown."""
        color = enum.Enum("Color", "RED")
        globals()["Color"] = color
        color.__module__, color.__qualname__ = __name__, "Color"
        state = {
            "enum": color.RED, "decimal": decimal.Decimal("1.5"), "fraction": fractions.Fraction(1, 3),
            "date": datetime.date(2020, 1, 2), "time": datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
            "frozen": frozenset([1]), "range": range(3), "namespace": types.SimpleNamespace(a=1), "slice": slice(1, 2),
            "partial": functools.partial(torch.nn.GELU, approximate="tanh"), "uuid": uuid.UUID(int=5),
            "masked": numpy.ma.array([1, 2], mask=[0, 1]), "random": numpy.random.RandomState(0),
            "generator": numpy.random.default_rng(0), "path": pathlib.Path("/a"), "re": re.compile("a+"),
            "options": argparse.Namespace(lr=0.1), "w": torch.ones(1),
        }  # fmt: skip
        for protocol in (2, 4, 5):
            path = self.directory / f"{protocol}.pt"
            torch.save(state, path, pickle_protocol=protocol)
            with pawl.open(path) as found:
                self.assertEqual(found["enum"]["class"], f"{__name__}.Color")
                self.assertEqual(found["decimal"], {"$": "object", "class": "decimal.Decimal", "arguments": ["1.5"]})
                self.assertEqual(found["frozen"], {"$": "frozenset", "items": [1]})
                self.assertEqual(found["options"], {"$": "Namespace", "items": {"lr": 0.1}})
                self.assertEqual(found["path"], {"$": "path", "text": "/a"})
                self.assertEqual(set(state) - {name.split("/")[0] for name in found}, set())
            self.assertTrue(pawl.verify(path).ok)

    def test_files_without_checksums(self):
        state = {"w": torch.arange(9.0), "n": 3}
        torch.serialization.set_crc32_options(False)
        try:
            path = self.save("none.pt", state)
        finally:
            torch.serialization.set_crc32_options(True)
        self.assert_holds(path, state)
        self.assertIn("without checksums", pawl.verify(path).unverified)
        self.assertIn("without checksums", pawl.convert(path, self.directory / "to.pt").unverified)
        with torch.serialization.skip_data():
            path = self.save("skipped.pt", state)
        self.assertIn("skip_data", pawl.verify(path).unverified)
        data = path.read_bytes()
        at = data.index(b"_rebuild_tensor_v2")  # which has a checksum
        (self.directory / "damaged.pt").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with self.assertRaisesRegex(pawl.Damaged, "checksum"):
            pawl.open(self.directory / "damaged.pt")


if __name__ == "__main__":
    support.main()
