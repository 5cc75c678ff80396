# SPDX-License-Identifier: Apache-2.0
"""Writing a checkpoint in other formats, and reading it back."""

import base64
import json
import os
import pathlib
import signal
import struct
import threading
import unittest
import zipfile

import support

import pawl

#: Formats that are read back in what follows: name, and what a path of it ends in.
READ_BACK = [("safetensors", ".safetensors"), ("pawl", ""), ("torch", ".pt"), ("dcp", ""), ("tensorflow", "")]
#: Those whose values come back as what they were.
KEEPS_VALUES = ["safetensors", "pawl"]
WRITTEN = [*READ_BACK, ("npz", ".npz"), ("npy", ".npy")]
VALUES = {
    "flag": True,
    "epoch": -7,
    "least": -(2**63),
    "lr": 0.25,
    "name": "l\u00e4mp",
    "bytes": b"\0\xff\x80z",
    "cfg": {"a": [1, 2.5, None, True, "x", {"k": []}], "big": 2**40, "e": {}},
}


BITS = {"F64": 64, "F32": 32, "I64": 64, "U32": 32, "U16": 16, "BF16": 16, "F16": 16, "U8": 8, "BOOL": 8}


def pattern(dtype, shape, seed):
    count = 1
    for n in shape:
        count *= n
    return bytes((i * 7 + seed) % (2 if dtype == "BOOL" else 61) for i in range(count * BITS[dtype] // 8))


def write_weights(path, tensors, values=None):
    """A safetensors file by hand: names, and (dtype, shape, bytes)."""
    header, data = {}, b"".join(raw for _, _, raw in tensors.values())
    if values is not None:
        header["__metadata__"] = {"pawl.values": json.dumps(values)}
    at = 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def kind_of(value):
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "bytes"}
    kind = kinds.get(type(value), "json")
    return {"kind": kind, "value": base64.b64encode(value).decode() if kind == "bytes" else value}


def text(word):
    return b"X" + struct.pack("<I", len(word)) + word.encode()


STORAGE = b"(" + text("storage") + b"ctorch\nComplexFloatStorage\n" + text("0") + text("cpu") + b"K\x02tQ"


def pickled_tensor(*notes):
    """A tensor of two complex64 with that metadata."""
    metadata = b"}" + b"".join(text(each) + b"\x88s" for each in notes)
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\0K\x02\x85K\x01\x85\x89}" + metadata + b"tR"


def write_torch(path, pickled):
    """A file of torch.save by hand: {"c": what is pickled}."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02}" + text("c") + pickled + b"s.")
        file.writestr("a/data/0", bytes(16))
        file.writestr("a/version", "3\n")


class Converting(support.InDirectory):
    def make(self, tensors, values=None, name="run", step=3):
        """A run with one step."""
        weights = self.directory / "made"
        write_weights(weights, tensors, values and {key: kind_of(value) for key, value in values.items()})
        pawl.convert(weights, self.directory / name, to="pawl", step=step)
        weights.unlink()
        return self.directory / name

    def save(self):
        tensors = {}
        for i, dtype in enumerate(BITS):
            tensors[f"model/{dtype}"] = (dtype, (i + 1, 5), pattern(dtype, (i + 1, 5), i))
        tensors["empty"] = ("F32", (0, 3), b"")
        tensors["scalar"] = ("I64", (), pattern("I64", (), 9))
        return self.make(tensors, VALUES)

    def left(self):
        return sorted(os.listdir(self.directory))

    def test_there_and_back(self):
        run = self.save()
        for to, ending in READ_BACK:
            with self.subTest(to=to):
                there, back = self.directory / f"there-{to}{ending}", self.directory / f"back-{to}"
                found = pawl.convert(run, there, to=to)
                self.assertEqual((found.format, found.tensors, found.values), (to, 11, len(VALUES)))
                self.assertEqual((found.renamed, found.cast, found.left_out, found.dropped), (0, 0, 0, 0))
                self.assertIsNone(found.unverified)
                pawl.convert(there, back, step=9)
                if to in KEEPS_VALUES:
                    self.assertTrue(pawl.diff(run, back).identical)
                    continue
                with pawl.open(run) as one, pawl.open(back) as other:
                    for name in one:
                        if hasattr(one[name], "shape"):
                            self.assertEqual(
                                other[name].read().buffer.tobytes(), one[name].read().buffer.tobytes(), name
                            )

    def test_every_ordered_pair(self):
        """Of the formats that are written: each into each other, and back."""
        run = self.save()
        tensors = ["model/F64", "model/F32", "model/U8", "model/BOOL", "empty", "scalar"]
        made = {}
        for to, ending in WRITTEN:
            made[to] = self.directory / f"of-{to}{ending}"
            pawl.convert(run, made[to], to=to, only=["model/F64"] if to == "npy" else tensors)
        for first, first_ending in WRITTEN:
            for then, ending in WRITTEN:
                with self.subTest(first=first, then=then):
                    there = self.directory / f"{first}-{then}{ending}"
                    back = self.directory / f"{first}-{then}-back{first_ending}"
                    only = ["model/F64"] if then == "npy" and first != "npy" else ()
                    pawl.convert(made[first], there, to=then, only=only)
                    pawl.convert(there, back, to=first)
                    with pawl.open(made[first]) as one, pawl.open(back) as other:
                        names = [only[0]] if only else list(one)
                        if "npy" in (first, then):
                            self.assertEqual([len(names), len(list(other))], [1, 1])
                        else:
                            self.assertEqual(sorted(other), sorted(one))
                        for name in names:
                            mine, its = one[name], other[next(iter(other)) if "npy" in (first, then) else name]
                            self.assertEqual((its.dtype, its.shape), (mine.dtype, mine.shape))
                            self.assertEqual(its.read().buffer.tobytes(), mine.read().buffer.tobytes())

    def test_an_ending_says_the_format(self):
        run = self.save()
        for ending, to in [(".safetensors", "safetensors"), (".pt", "torch"), (".ckpt", "torch"), ("", "pawl")]:
            self.assertEqual(pawl.convert(run, self.directory / f"x{ending}").format, to)
        with self.assertRaisesRegex(pawl.UsageError, "a format that is not written"):
            pawl.convert(run, self.directory / "x.h5")
        self.assertEqual(set(pawl.formats()), {"pawl", "safetensors", "torch", "dcp", "tensorflow", "npz", "npy"})

    def test_names_types_and_what_is_left_out(self):
        run = self.save()
        path = self.directory / "x.safetensors"
        found = pawl.convert(run, path, only=["model", "lr"], rename={"model/F64": "a", "model": ""}, cast="bf16")
        self.assertEqual((found.tensors, found.values, found.renamed, found.cast), (9, 1, 9, 3))
        self.assertEqual(found.left_out, 8)
        fates = {each.entry.name: (each.fate, each.name, each.dtype) for each in found.entries}
        self.assertEqual(fates["model/F64"], ("converted", "a", "BF16"))
        self.assertEqual(fates["model/U16"], ("converted", "U16", "U16"))
        self.assertEqual(fates["lr"], ("converted", "lr", None))
        self.assertEqual(fates["epoch"], ("left_out", None, None))
        with pawl.open(path) as there:
            self.assertEqual(sorted(there), ["BF16", "BOOL", "F16", "F32", "I64", "U16", "U32", "U8", "a", "lr"])
            self.assertEqual(there["a"].shape, (1, 5))

    def test_numbers_that_become_infinite_are_counted(self):
        self.make({"w": ("F32", (4,), struct.pack("<4f", 1, 1e30, -1e30, 65504))})
        for path in ("x.safetensors", "other"):
            self.assertEqual(pawl.convert(self.directory / "run", self.directory / path, cast="F16").overflows, 2)
            with pawl.open(self.directory / path) as there:
                self.assertEqual(
                    bytes(there["w"].read().buffer), struct.pack("<4e", 1, float("inf"), float("-inf"), 65504)
                )

    def test_several_files(self):
        run = self.save()
        found = pawl.convert(run, self.directory / "hf", to="safetensors", shard_bytes=100)
        files = os.listdir(self.directory / "hf")
        index = json.loads((self.directory / "hf/model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], found.bytes)
        self.assertEqual(
            sorted(set(index["weight_map"].values())), sorted(set(files) - {"model.safetensors.index.json"})
        )
        self.assertGreater(len(files), 3)
        self.assertTrue(pawl.diff(run, self.directory / "hf").identical)

    def test_what_has_no_place(self):
        run = self.save()
        with self.assertRaisesRegex(pawl.Unsupported, "npz has no place for an entry: NumPy has no BF16") as caught:
            pawl.convert(run, self.directory / "x.npz")
        self.assertEqual(caught.exception.entry, "model/BF16")
        self.assertEqual(self.left(), ["run"])
        found = pawl.convert(run, self.directory / "x.npz", drop=True)
        self.assertEqual([each.entry.name for each in found.entries if each.fate == "dropped"], ["model/BF16"])
        with zipfile.ZipFile(self.directory / "x.npz") as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(len(archive.namelist()), 10 + 1)

    def test_what_is_refused(self):
        run = self.save()
        taken = self.directory / "taken.safetensors"
        taken.write_bytes(b"mine")
        cases = [
            (pawl.UsageError, "two entries would have one name", {"rename": {"model/F64": "x", "model/F32": "x"}}),
            (pawl.UsageError, "only: there is no entry .*next:.*pawl show", {"only": ["nothing"]}),
            (pawl.UsageError, "no entry .modle/., .*next:.*did you mean model.", {"only": ["lr", "modle/"]}),
            (pawl.UsageError, "did you mean model/F64.", {"only": ["F64"]}),
            (pawl.UsageError, '"modle", "m"} fits no entry.*did you mean model.', {"rename": {"modle": "m"}}),
            (pawl.UsageError, '"model/F64", "a"} is never used', {"rename": {"model": "m", "model/F64": "a"}}),
            (pawl.UsageError, "nothing to convert", {"to": "npz", "only": ["model/BF16"], "drop": True}),
            (pawl.UsageError, "no format of that name", {"to": "foo"}),
            (pawl.UsageError, "cast is", {"cast": "I64"}),
            (pawl.UsageError, "not written in several files", {"to": "torch", "shard_bytes": 5}),
            (pawl.UsageError, "has one array", {"to": "npy", "only": ["model/F64", "model/F32"]}),
            (pawl.UsageError, "not a string", {"only": "model"}),
            (pawl.UsageError, "safetensors has no steps", {"step": 3}),
        ]
        for error, text, options in cases:
            with self.subTest(text), self.assertRaisesRegex(error, f"(?s){text}"):
                pawl.convert(run, self.directory / "x.safetensors", **options)
        with self.assertRaisesRegex(pawl.UsageError, "there already"):
            pawl.convert(run, taken)
        self.assertEqual(taken.read_bytes(), b"mine")
        with self.assertRaises(pawl.NotFound):
            pawl.convert(run, self.directory / "nowhere/x.safetensors")
        with self.assertRaises(pawl.NotFound):
            pawl.convert(self.directory / "nothing", self.directory / "x.safetensors")
        self.assertEqual(self.left(), ["run", "taken.safetensors"])

    def test_odd_names_come_back(self):
        """What no entry of pawl can be called has its own name again in what is written."""
        keys = ["50%", "x%2Fy", "x%252Fy", "%41", "e\n", ".", "%"]
        head = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }".ljust(117).encode() + b"\n"
        path = self.directory / "odd.npz"
        with zipfile.ZipFile(path, "w") as made:
            for i, key in enumerate(keys):
                made.writestr(key + ".npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes([i]))
        for to in ("npz", "pawl", "tensorflow", "safetensors"):
            with self.subTest(to=to):
                pawl.convert(path, self.directory / to, to=to)
                pawl.convert(self.directory / to, self.directory / f"{to}.npz")
                with zipfile.ZipFile(self.directory / f"{to}.npz") as found:
                    back = {name[:-4]: found.read(name)[-1] for name in found.namelist()}
                self.assertEqual(back, {key: i for i, key in enumerate(keys)})

    def test_names_that_become_one(self):
        def one(*names):
            run = self.make({name: ("U8", (1,), bytes([i])) for i, name in enumerate(names)}, name="-".join(names)[:4])
            for to in ("torch", "npz"):
                try:
                    pawl.convert(run, self.directory / f"there.{to}", to=to)
                except pawl.Error as error:
                    yield type(error)
                    continue
                with pawl.open(self.directory / f"there.{to}") as there:
                    yield len(there)
                os.unlink(self.directory / f"there.{to}")

        self.assertEqual(list(one("A", "%41")), [pawl.UsageError, pawl.UsageError])
        self.assertEqual(list(one("b", "b/c", "b%2Fc")), [pawl.UsageError, 3])
        self.assertEqual(list(one("d/c", "d%2Fc")), [2, 2])
        self.assertEqual(list(one("e", "e.npy")), [2, pawl.UsageError])
        self.assertEqual(list(one("w:0", "x:0/y")), [2, 2])
        for i, name in enumerate(("C:/x", "y\\..\\z", "\\v")):
            self.assertEqual(list(one(f"{i}", name)), [2, pawl.Unsupported])

    def test_a_directory_of_something_else(self):
        write_weights(self.directory / "w", {"a": ("U8", (1,), b"x")})
        (self.directory / "hf").mkdir()
        (self.directory / "empty").mkdir()
        pawl.convert(self.directory / "w", self.directory / "hf/model.safetensors")
        with self.assertRaisesRegex(pawl.UsageError, "is no run"):
            pawl.convert(self.directory / "w", self.directory / "hf")
        self.assertEqual(os.listdir(self.directory / "hf"), ["model.safetensors"])
        for step in (3, 4):
            pawl.convert(self.directory / "w", self.directory / "empty", step=step)
        with self.assertRaisesRegex(pawl.UsageError, "has step 4 already"):
            pawl.convert(self.directory / "w", self.directory / "empty", step=4)
        self.assertEqual(len(pawl.ls(self.directory / "empty")), 2)

    def test_a_text_that_is_there_once_and_used_often(self):
        much = b"X" + struct.pack("<I", 1 << 20) + b"." * (1 << 20)
        keys = b"".join(text(f"{i:04}") + b"h\0" for i in range(1000))
        with zipfile.ZipFile(self.directory / "x.pt", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a/data.pkl", b"\x80\x02" + much + b"q\x000}(" + keys + b"u.")
            file.writestr("a/version", "3\n")
        with self.assertRaisesRegex(pawl.Error, "far more than it is"):
            pawl.open(self.directory / "x.pt")

    def test_numbers_that_torch_only_notes_as_others(self):
        for notes, dtype in (([], "C64"), (["conj"], "C64"), (["neg", "conj"], "C64_CONJ")):
            write_torch(self.directory / "x.pt", pickled_tensor(*notes))
            with pawl.open(self.directory / "x.pt") as there:
                self.assertEqual(there["c"].dtype, dtype)

    def test_many_tensors_of_dcp(self):
        write_weights(self.directory / "w", {f"{i:05}": ("U8", (), b"x") for i in range(60000)})
        pawl.convert(self.directory / "w", self.directory / "dcp", to="dcp")
        with pawl.open(self.directory / "dcp") as there:
            self.assertEqual(len(there), 60000)

    def test_json_of_all_kinds_becomes_pickles(self):
        value = [2**64 - 1, -(2**100), 10**300, -(2**63) - 1, 2**2031, 1.5, 1e300, "a\0b", {"\0": 128, "x": -128}]
        run = self.make({"a": ("U8", (1,), b"x")}, {"j": value})
        for to in ("torch", "dcp", "safetensors", "npz"):
            pawl.convert(run, self.directory / to, to=to)
            with pawl.open(self.directory / to) as there:
                self.assertEqual(there["j"], value)

    def test_nothing_of_an_object_is_lost(self):
        def read(pickled):
            write_torch(self.directory / "x.pt", pickled)
            with pawl.open(self.directory / "x.pt") as there:
                return {name: getattr(there[name], "shape", there[name]) for name in there}

        tensor, named = pickled_tensor(), {"$": "object", "class": "m.C"}
        made = {"c/__class__": named}
        self.assertEqual(read(STORAGE), {"c": (2,)})
        self.assertEqual(
            read(b"cm\nC\n(K\x01" + tensor + b"t\x81"),
            made | {"c/__arguments__/0": 1, "c/__arguments__/1": (2,), "__sequences__": {"tuple": ["c/__arguments__"]}},
        )
        self.assertEqual(read(b"cm\nC\n)\x81" + text("a") + tensor + b"s"), made | {"c/a": (2,)})
        self.assertEqual(read(b"cm\nC\n)\x81" + tensor + b"a"), made | {"c/0": (2,)})
        slots = read(b"cm\nC\n)\x81N}" + text("a") + tensor + b"s\x86b")
        self.assertIn((2,), slots.values())
        self.assertEqual(
            read(b"cm\nC\n)\x81" + text("a") + b"K\x01s" + b"}" + text("b") + b"Nsb"),
            {"c": named | {"items": {"a": 1}, "state": {"b": None}}},
        )
        layout = b"ctorch.serialization\n_get_layout\n" + text("torch.sparse_csr") + b"\x85R"
        self.assertEqual(
            read(b"ctorch._utils\n_rebuild_sparse_tensor\n" + layout + b"(" + 3 * tensor + b"K\x02K\x02\x86t\x86R"),
            {f"c/{part}": (2,) for part in ("crow_indices", "col_indices", "values")}
            | {"c/size": [2, 2], "c/layout": "torch.sparse_csr"},
        )
        for integer in (2**63, -(2**63) - 1, 2**64, -(2**100), 10**27, 2**999):
            long = integer.to_bytes(126, "little", signed=True)
            self.assertEqual(read(b"\x8a" + bytes([len(long)]) + long), {"c": integer})
        self.assertEqual(read(b"]C\x02\x00\xffa"), {"c": [{"$": "bytes", "data": "AP8="}]})

    def test_a_dry_run_writes_nothing(self):
        run = self.save()
        found = pawl.convert(run, self.directory / "x.safetensors", dry_run=True)
        self.assertEqual((found.tensors, len(found.entries)), (11, 18))
        self.assertEqual(self.left(), ["run"])

    def test_damage_leaves_nothing_behind(self):
        run = self.save()
        data = next(path for path in pathlib.Path(run).glob("step-*/*.safetensors"))
        raw = bytearray(data.read_bytes())
        raw[-9] ^= 1
        data.write_bytes(raw)
        for to in ("safetensors", "torch", "dcp", "tensorflow"):
            with self.subTest(to=to), self.assertRaises(pawl.Damaged):
                pawl.convert(run, self.directory / "x", to=to)
        self.assertEqual(self.left(), ["run"])

    def test_checksums_of_other_tools_are_compared(self):
        """A byte of a tensor differs in what other tools wrote: nothing is written."""
        run = self.save()
        for to, ending in [("torch", ".pt"), ("npz", ".npz"), ("dcp", ""), ("tensorflow", "")]:
            there = self.directory / f"there-{to}{ending}"
            pawl.convert(run, there, to=to, only=["model/F64", "model/F32"])
            files = {"dcp": there / "__0_0.distcp", "tensorflow": pathlib.Path(f"{there}.data-00000-of-00001")}
            data = files.get(to, there)
            raw = bytearray(data.read_bytes())
            at = raw.index(pattern("F32", (2, 5), 1))
            raw[at + 3] ^= 4
            data.write_bytes(raw)
            with self.subTest(to=to), self.assertRaises(pawl.Damaged) as caught:
                pawl.convert(there, self.directory / "x.safetensors")
            self.assertEqual(caught.exception.path, str(data))
            if to != "dcp":
                self.assertEqual(caught.exception.entry, "model/F32")
            with self.subTest(to=to, into="a run"), self.assertRaises(pawl.Damaged) as caught:
                pawl.convert(there, self.directory / "made")
            self.assertEqual(caught.exception.path, str(data))
            with self.assertRaises(pawl.NotFound):
                pawl.ls(self.directory / "made")
        self.assertFalse((self.directory / "x.safetensors").exists())

    def test_checksums_are_compared_by_a_restore(self):
        """Of what it reads."""
        run, names = self.save(), ["model/F64", "model/F32"]
        for to, ending in [("torch", ".pt"), ("npz", ".npz"), ("dcp", ""), ("tensorflow", "")]:
            there = self.directory / f"there-{to}{ending}"
            pawl.convert(run, there, to=to, only=names)
            files = {"dcp": there / "__0_0.distcp", "tensorflow": pathlib.Path(f"{there}.data-00000-of-00001")}
            data = files.get(to, there)
            raw = bytearray(data.read_bytes())
            raw[raw.index(pattern("F32", (2, 5), 1)) + 3] ^= 4
            data.write_bytes(raw)
            wanted = [memoryview(bytearray(40)).cast("B").cast(*of) for of in (("d", (1, 5)), ("f", (2, 5)))]
            with self.subTest(to=to), pawl.open(there) as checkpoint:
                with self.assertRaises(pawl.Damaged) as caught:
                    checkpoint.restore(pawl.State(dict(zip(names, wanted, strict=True))))
                self.assertEqual(caught.exception.path, str(data))
                self.assertIn("tensors may hold damaged bytes", caught.exception.safe)
                checkpoint.restore(pawl.State({names[0]: wanted[0]}), unexpected="allow")
                self.assertEqual(wanted[0].tobytes(), pattern("F64", (1, 5), 0))

    def test_checksums_are_compared_of_what_lies_in_another_order(self):
        """Column by column, or the high bytes first: pawl reads it in pieces, here and there."""
        numbers = bytes(range(48))
        for how, head in (
            ("columns", "{'descr': '<u2', 'fortran_order': True, 'shape': (4, 6), }"),
            ("high bytes first", "{'descr': '>u2', 'fortran_order': False, 'shape': (4, 6), }"),
        ):
            path = self.directory / f"{how}.npz"
            with zipfile.ZipFile(path, "w") as made:
                header = head.ljust(117).encode() + b"\n"
                made.writestr("w.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + numbers)
                made.writestr("whole.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + numbers[::-1])
            wanted = memoryview(bytearray(48)).cast("B").cast("H", (4, 6))
            with pawl.open(path) as checkpoint:
                checkpoint.restore(pawl.State({"w": wanted}), unexpected="allow")
            raw = bytearray(path.read_bytes())
            raw[raw.index(numbers) + 20] ^= 1
            path.write_bytes(raw)
            with self.subTest(how), pawl.open(path) as checkpoint:
                with self.assertRaises(pawl.Damaged):
                    checkpoint.restore(pawl.State({"w": wanted}), unexpected="allow")
                checkpoint.restore(pawl.State({"whole": wanted}), unexpected="allow")
            with self.subTest(how), self.assertRaises(pawl.Damaged):
                pawl.convert(path, self.directory / "x.safetensors")
            self.assertFalse((self.directory / "x.safetensors").exists())

    def test_the_checksum_of_a_compressed_member_is_compared_when_it_is_read(self):
        numbers = struct.pack("<I", 7) * 20000
        head = "{'descr': '<u4', 'fortran_order': False, 'shape': (20000,), }".ljust(117).encode() + b"\n"
        path = self.directory / "x.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("w.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + numbers)
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint["w"].read().buffer, numbers)
        raw = path.read_bytes()
        crc = struct.pack("<I", zipfile.ZipFile(path).getinfo("w.npy").CRC)
        self.assertEqual(raw.count(crc), 2)
        path.write_bytes(raw.replace(crc, bytes(4)))
        with pawl.open(path) as checkpoint:
            self.assertEqual(checkpoint["w"][:10000].buffer, numbers[:40000])
            with self.assertRaisesRegex(pawl.Damaged, r"checksum \(CRC32\)"):
                checkpoint["w"].read()

    def test_what_is_whole_is_saved_from_a_damaged_file(self):
        """Checksums are compared of what is converted."""
        run = self.save()
        there = self.directory / "there.pt"
        pawl.convert(run, there, only=["model/F64", "model/F32"])
        raw = bytearray(there.read_bytes())
        raw[raw.index(pattern("F32", (2, 5), 1)) + 3] ^= 4
        there.write_bytes(raw)
        with self.assertRaises(pawl.Damaged):
            pawl.convert(there, self.directory / "x.safetensors")
        self.assertFalse((self.directory / "x.safetensors").exists())
        pawl.convert(there, self.directory / "x.safetensors", only=["model/F64"])
        self.assertTrue(pawl.diff(run, self.directory / "x.safetensors").same)

    def test_a_signal_stops_it(self):
        """Ctrl-C while it reads: nothing is left."""
        self.make({"w": ("U8", (64 << 20,), bytes(64 << 20))})

        def interrupt(done, of):
            if done < of:
                os.kill(os.getpid(), signal.SIGINT)

        for to in ("safetensors", "torch", "dcp", "tensorflow"):
            with self.subTest(to=to), self.assertRaises(KeyboardInterrupt):
                pawl.convert(self.directory / "run", self.directory / "x", to=to, progress=interrupt)
            self.assertEqual(self.left(), ["run"])

    def test_a_kill_leaves_no_checkpoint(self):
        """And what it leaves says by its name what it is."""
        self.make({"w": ("U8", (64 << 20,), bytes(64 << 20))})
        program = (
            "import os, signal, sys, pawl\n"
            "pawl.convert(sys.argv[1], sys.argv[2], to=sys.argv[3],"
            " progress=lambda done, of: os.kill(os.getpid(), signal.SIGKILL))"
        )
        for to in ("safetensors", "torch", "dcp", "tensorflow"):
            ended = self.program(program, self.directory / "run", self.directory / f"x-{to}", to)
            self.assertEqual(ended.returncode, -signal.SIGKILL)
            self.assertFalse((self.directory / f"x-{to}").exists())
            self.assertFalse((self.directory / f"x-{to}.index").exists())
        for name in self.left():
            self.assertTrue(name == "run" or name.startswith(".x-"), name)

    def test_many_small_tensors(self):
        self.make({f"t{i:05}": ("U16", (i % 7,), pattern("U16", (i % 7,), i)) for i in range(12000)})
        pawl.convert(self.directory / "run", self.directory / "x.safetensors")
        self.assertTrue(pawl.diff(self.directory / "run", self.directory / "x.safetensors").identical)

    def test_large_tensors_are_cut(self):
        """Rows that do not fit a buffer, rows that fit many times, casts that halve and double them."""
        raw = os.urandom(1 << 20) * 60
        self.make(
            {
                "flat": ("U8", (60 << 20,), raw),
                "rows": ("U32", (12, 1000003), raw[: 12 * 1000003 * 4]),
                "deep": ("F16", (3, 1, 2, 4194301), (b"\1\2\3\4" * (3 * 4194301))),
            }
        )
        pawl.convert(self.directory / "run", self.directory / "x.safetensors")
        self.assertTrue(pawl.diff(self.directory / "run", self.directory / "x.safetensors").identical)
        pawl.convert(self.directory / "run", self.directory / "wide.safetensors", only=["deep"], cast="F64")
        pawl.convert(self.directory / "wide.safetensors", self.directory / "narrow.safetensors", cast="F16")
        with pawl.open(self.directory / "narrow.safetensors") as narrow:
            self.assertEqual(bytes(narrow["deep"].read().buffer), b"\1\2\3\4" * (3 * 4194301))

    def test_two_at_once(self):
        run = self.save()
        ends = []

        def convert():
            try:
                pawl.convert(run, self.directory / "x.safetensors")
                ends.append("done")
            except (pawl.Busy, pawl.UsageError):
                ends.append("there already")

        threads = [threading.Thread(target=convert) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertIn("done", ends)
        self.assertTrue(pawl.diff(run, self.directory / "x.safetensors").identical)
        self.assertEqual(self.left(), ["run", "x.safetensors"])


if __name__ == "__main__":
    unittest.main()
