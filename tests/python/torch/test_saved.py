# SPDX-License-Identifier: Apache-2.0
"""pawl.torch.save and load: every container and dtype comes back; what PyTorch keeps silent about is said."""

import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import pickle
import re
import subprocess
import sys
import unittest
import unittest.mock
import warnings

import support  # first: it finds the package
import numpy
import torch

import pawl
import pawl.torch
from pawl.torch import _objects, _tensors


class Saved(support.InDirectory):
    def saved(self, value):
        pawl.torch.save(value, self.run_path)
        return pawl.torch.load(self.run_path)

    def assert_comes_back(self, value):
        found = self.saved({"value": value})["value"]
        self.assertIs(type(found), type(value))
        self.assertEqual(found, value)
        return found


class Containers(Saved):
    def test_containers_and_values(self):
        values = [
            None, True, 7, -(2**63), 2**127, 1.5, -0.0, math.inf, -math.inf, "", "é", "a\0b", "\ud800", b"\0\xff",
            bytearray(b"x"), 1 + 2j, complex(math.inf, 0), (), (1, (2,)), [], [[1], "x"], {}, {"a": {"b": 1}},
            {1: 2, None: 3}, {"$": "tensor"}, {"$ref": 1}, {("a", 1): 2}, set(), {1, "a"}, frozenset({2}),
            collections.deque([1, 2], maxlen=3), collections.Counter("aab"),
            collections.OrderedDict([("b", 1), ("a", 2)]),
            collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None), torch.Size([2, 3]), torch.float16,
            torch.device("cuda:1"), pathlib.Path("/x/y"), argparse.Namespace(lr=0.1, name="x"),
        ]  # fmt: skip
        for value in values:
            with self.subTest(value=repr(value)):
                found = self.assert_comes_back(value)
                if isinstance(value, float):
                    self.assertEqual(math.copysign(1, found), math.copysign(1, value))
                if isinstance(value, collections.deque):
                    self.assertEqual(found.maxlen, value.maxlen)
                if isinstance(value, collections.defaultdict):
                    self.assertIs(found.default_factory, value.default_factory)
                if isinstance(value, dict):
                    self.assertEqual(list(found), list(value))
        self.assertTrue(math.isnan(self.saved(math.nan)))

    def test_numpy(self):
        for array in (
            numpy.arange(100, dtype=">i4"),
            numpy.zeros((0, 3)),
            numpy.asfortranarray(numpy.random.rand(5, 7)),
            numpy.array(3, dtype=numpy.uint8),
            numpy.array([1 + 2j], dtype=numpy.complex128),
            numpy.array([True, False]),
        ):
            found = self.saved({"a": array})["a"]
            self.assertEqual((found.shape, found.dtype), (array.shape, array.dtype.newbyteorder("=")))
            self.assertTrue(numpy.array_equal(found, array))
        scalar = self.saved(numpy.float32(1.5))
        self.assertEqual((type(scalar), scalar), (numpy.float32, 1.5))
        with self.assertRaisesRegex(pawl.UsageError, "object.0 is a NumPy array of object"):
            self.saved([numpy.array([{}], dtype=object)])

    def test_large_skeletons(self):
        value = {"history": [{"loss": i / 3, "text": "x" * 20} for i in range(50_000)]}
        self.assertEqual(self.saved(value), value)
        with pawl.open(self.run_path) as checkpoint:
            self.assertGreater(checkpoint["object/%skeleton"].nbytes, 1 << 20)

    def test_saving_again_replaces_it(self):
        self.saved([1])
        self.assertEqual(self.saved([2]), [2])
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [0])

    def test_a_training_run_is_not_written_over(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": 1}), 5)
        with self.assertRaisesRegex(pawl.UsageError, "checkpoints of a training job"):
            pawl.torch.save([1], self.run_path)
        with self.assertRaisesRegex(pawl.NotFound, "no object that pawl.torch.save has written"):
            pawl.torch.load(self.run_path)

    def test_the_command_and_c_read_it(self):
        pawl.torch.save({"weights": [torch.ones(2, 3)], "lr": 0.1}, self.run_path)
        shown = subprocess.run(
            [os.environ["PAWL_COMMAND"], "show", str(self.run_path)], capture_output=True, text=True, check=True
        )
        self.assertRegex(shown.stdout, r"weights/\n +0 +F32 +\[2, 3\] +24 B")
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint["object"]["lr"], 0.1)
            self.assertEqual(checkpoint["object/weights/0"].shape, (2, 3))


class Tensors(Saved):
    def test_every_dtype(self):
        for dtype in (*_tensors.DTYPES, *_tensors.IN_PARTS):
            with self.subTest(dtype=dtype):
                raw = torch.randint(0, 2, (3, 5)).to(torch.uint8)
                tensor = raw.to(dtype) if dtype != torch.float8_e8m0fnu else raw.view(dtype)
                found = self.saved([tensor])[0]
                self.assertEqual((found.dtype, found.shape), (tensor.dtype, tensor.shape))
                same = torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))
                self.assertTrue(same)

    def test_float4(self):
        """Two elements to a byte; PyTorch counts bytes."""
        raw = torch.randint(0, 256, (4, 6), dtype=torch.uint8)
        whole = raw.view(torch.float4_e2m1fn_x2)
        found = self.saved({"whole": whole, "row": whole[1:2], "turned": whole.t(), "none": whole[:0]})
        for name, tensor in {"whole": whole, "row": whole[1:2], "turned": whole.t(), "none": whole[:0]}.items():
            with self.subTest(name):
                self.assertEqual((found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape))
                self.assertTrue(torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8)))
        alone = self.saved([whole])[0]
        self.assertTrue(torch.equal(alone.view(torch.uint8), raw))

    def test_kinds_of_tensors(self):
        for name, tensor in {
            "scalar": torch.tensor(3.5),
            "empty": torch.empty(0, 4),
            "transposed": torch.randn(3, 4).t(),
            "expanded": torch.ones(2, 1).expand(2, 5),
            "conjugated": torch.randn(3, dtype=torch.complex64).conj(),
            "negated": torch.randn(3, dtype=torch.complex64).conj().imag,
            "sliced": torch.arange(20)[3:17:4],
            "nan": torch.tensor([math.nan, -0.0]),
        }.items():
            with self.subTest(name=name):
                found = self.saved(tensor)
                self.assertEqual(found.shape, tensor.shape)
                resolved = tensor.resolve_conj().resolve_neg().contiguous()
                self.assertTrue(
                    torch.equal(found.reshape(-1).view(torch.uint8), resolved.reshape(-1).view(torch.uint8))
                )

    def test_parameters_and_gradients(self):
        for tensor in (torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), False)):
            found = self.saved(tensor)
            self.assertIs(type(found), torch.nn.Parameter)
            self.assertEqual(found.requires_grad, tensor.requires_grad)
        self.assertTrue(self.saved(torch.ones(2, requires_grad=True)).requires_grad)

    def test_shared_storages_stay_shared(self):
        base = torch.arange(12.0)
        weight = torch.nn.Parameter(torch.ones(2, 2))
        value = {"base": base, "view": base[3:9].view(2, 3), "tied": [weight, weight], "apart": base.clone()}
        found = self.saved(value)
        found["base"][4] = 99
        self.assertEqual(found["view"].tolist(), [[3, 99, 5], [6, 7, 8]])
        self.assertEqual(found["apart"][4], 4)
        self.assertEqual(found["tied"][0].data_ptr(), found["tied"][1].data_ptr())

    def test_a_small_view_of_a_large_tensor_is_saved_alone(self):
        large = torch.zeros(1 << 20)
        found = self.saved([large[7:9]])[0]
        self.assertEqual(found.untyped_storage().nbytes(), 8)
        torch.save([large[7:9]], self.directory / "x.pt")
        self.assertGreater((self.directory / "x.pt").stat().st_size, 4 << 20)

    def test_tensors_that_give_no_memory_are_named(self):
        for tensor in (torch.zeros(2, dtype=torch.complex64).conj(), torch.zeros(2, requires_grad=True)):
            with self.assertRaisesRegex(pawl.UsageError, "^x: its __dlpack__ gives no tensor: ") as caught:
                pawl.State({"x": tensor})
            self.assertEqual(caught.exception.entry, "x")

    def test_complex128_that_shares_memory(self):
        base = torch.randn(6, dtype=torch.complex128)
        found = self.saved([base, base[2:4]])
        found[0][2] = 5j
        self.assertEqual(found[1][0], 5j)

    def test_map_location(self):
        pawl.torch.save([torch.ones(2)], self.run_path)
        self.assertEqual(pawl.torch.load(self.run_path, map_location="meta")[0].device.type, "meta")


class Faithful(Saved):
    """What comes back is what was saved, not something like it."""

    def test_aliases_keep_their_own_gradients_and_identities(self):
        w = torch.ones(3, requires_grad=True)
        tied = torch.nn.Parameter(torch.ones(2))
        found = self.saved({"a": w.detach(), "b": w, "c": w, "p": tied, "q": tied, "r": [tied.data]})
        self.assertEqual([found[key].requires_grad for key in "abc"], [False, True, True])
        self.assertIs(found["b"], found["c"])
        self.assertIsNot(found["a"], found["b"])
        self.assertIs(found["p"], found["q"])
        self.assertEqual({found[k].data_ptr() for k in "abc"}, {found["a"].data_ptr()})
        self.assertEqual(found["r"][0].data_ptr(), found["p"].data_ptr())

    def test_tensors_as_keys(self):
        key, other = torch.ones(2), torch.zeros(3)
        found = self.saved({(1,): 2, key: {"key": other}})
        back, inner = list(found.items())[1]
        self.assertTrue(torch.equal(back, key) and torch.equal(inner["key"], other))

    def test_versions_of_modules(self):
        state = torch.nn.BatchNorm1d(2).state_dict()
        found = self.saved(state)
        self.assertEqual(found._metadata, state._metadata)
        self.assertEqual(list(found), list(state))

    def test_numbers_paths_and_namespaces(self):
        odd = argparse.Namespace(lr=2)
        vars(odd)["self"] = 1
        bad = pathlib.Path(os.fsdecode(b"\xff"))
        for value in (2**16000, -(2**16000), pathlib.PurePosixPath("a"), bad, odd):
            with self.subTest(kind=type(value).__name__):
                found = self.saved([value])[0]
                self.assertEqual((type(found), found), (type(value), value))

    def test_long_names(self):
        key = "x" * 5000
        self.assertTrue(torch.equal(self.saved({key: torch.ones(2), key + "y": torch.zeros(1)})[key], torch.ones(2)))

    def test_only_what_save_has_written_is_replaced(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"model": 1}), 0)
        with self.assertRaisesRegex(pawl.UsageError, "checkpoints of a training job"):
            pawl.torch.save([1], self.run_path)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint["model"], 1)

    def test_a_checkpoint_of_a_device_is_loaded_without_it(self):
        """PyTorch: Attempting to deserialize object on a CUDA device; pawl has no devices in its files."""
        pawl.torch.save({"w": torch.ones(2)}, self.run_path)
        self.assertEqual(pawl.torch.load(self.run_path)["w"].device.type, "cpu")
        with self.assertRaises(TypeError):
            pawl.torch.load(self.run_path, map_location=lambda storage, place: storage)


@dataclasses.dataclass
class Settings:
    width: int = 3


class Refused(Saved):
    def refused(self, value, *texts):
        with self.assertRaises(pawl.UsageError) as caught:
            pawl.torch.save(value, self.run_path)
        for text in texts:
            self.assertIn(text, str(caught.exception))
        self.assertFalse(self.run_path.exists())

    def test_what_needs_pickle_is_named_by_its_place(self):
        @dataclasses.dataclass
        class Config:
            width: int = 3

        Point = collections.namedtuple("Point", "x y")
        self.refused(
            {"nested": {"cfg": {"net": torch.nn.Linear(1, 1)}}},
            "object.nested.cfg.net is a torch.nn.modules.linear.Linear, which cannot be saved without pickle",
            "state_dict()",
        )
        self.refused([Config()], "object.0 is a dataclass", "dataclasses.asdict")
        self.refused({"p": Point(1, 2)}, "object.p is a named tuple", "_asdict()")
        self.refused((lambda: 1,), "object.0 is a builtins.function")
        self.refused(collections.defaultdict(lambda: 1), "only built-in types")
        self.refused({"s": torch.eye(2).to_sparse()}, "object.s is a tensor of the kind sparse_coo")
        self.refused({"s": torch.nested.nested_tensor([torch.ones(2)])}, "object.s is a tensor of the kind nested")
        self.refused({"q": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}, "quantized", "int_repr()")
        self.refused([torch.ones(2, device="meta")], "meta")

    def test_packed_weights_of_a_quantized_module(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 4)))
            state = module.state_dict()
            torch.save({"model": state}, self.directory / "x.pt")
            loaded = torch.load(self.directory / "x.pt")["model"]
        packed = "0._packed_params._packed_params"
        self.assertIsInstance(state[packed], tuple)
        self.assertTrue(torch.equal(loaded[packed][0].int_repr(), state[packed][0].int_repr()))
        self.refused(
            {"model": state},
            "object.model.0._packed_params._packed_params.0 is a tensor of the kind quantized",
            "int_repr()",
        )

    def test_kinds_of_their_own(self):
        class Mine(torch.Tensor):
            pass

        masked = numpy.ma.masked_array([1, 2], mask=[True, False])
        self.refused({"m": masked}, "object.m is a numpy.ma.MaskedArray")
        self.refused({"t": torch.ones(2).as_subclass(Mine)}, "object.t is a", "Mine, a kind of tensor")
        self.refused(torch.nn.LazyLinear(2).state_dict(), "object.weight is a", "run one batch")
        self.refused({"p": pathlib.PureWindowsPath("C:/x")}, "object.p is a pathlib.PureWindowsPath")
        self.refused({"n": 2**20000}, "object.n is an integer of 20001 bits")
        self.refused({"s": numpy.str_("x")}, "object.s is")

    def test_more_values_than_can_be_meant(self):
        value = ["x"]
        for _ in range(40):
            value = [value, value]
        with unittest.mock.patch.object(_objects, "MAX_VALUES", 1000):
            self.refused(value, "one of more than 1000 values")

    def test_what_holds_itself(self):
        endless = []
        endless.append(endless)
        self.refused(endless, "nested deeper than 100 containers")


class Hostile(unittest.TestCase):
    """What is read is not trusted."""

    def test_skeletons(self):
        deep = "x"
        for _ in range(400):
            deep = [deep]
        ones = {"t": torch.ones(4), "u": torch.zeros(2, 2)}
        for skeleton in (
            {"$": "reduce", "callable": "os.system"},
            {"$": ["tuple"]},
            {"$": "tuple"},
            {"$": "tuple", "items": "ab"},
            {"$": "tensor", "at": "nowhere"},
            {"$": "tensor", "at": ["t"]},
            {"$": "tensor", "at": "t", "view": {"offset": 1, "size": [4], "stride": [1]}},
            {"$": "tensor", "at": "t", "view": {"offset": -1, "size": [1], "stride": [1]}},
            {"$": "tensor", "at": "t", "view": {"offset": 0, "size": [2], "stride": [2**62]}},
            {"$": "tensor", "at": "u", "view": {"offset": 0, "size": [2], "stride": [1]}},
            {"$": "tensor", "at": "t", "parts": True},
            {"$": "dtype", "name": "load"},
            {"$": "dtype", "name": "onnx"},
            {"$": "dtype", "name": ["float32"]},
            {"$": "dtype", "name": "nn.Module"},
            {"$": "defaultdict", "factory": "eval", "pairs": []},
            {"$": "dict", "pairs": [[1]]},
            {"$": "dict", "pairs": [[[], 1]]},
            {"$": "numpy", "dtype": "O", "shape": [1], "scalar": False, "data": "AAAA"},
            {"$": "numpy", "dtype": "<f8", "shape": [10**9, 10**9], "scalar": False, "data": "AAAA"},
            {"$": "bytes", "data": "***"},
            {"$": "int", "text": "9" * 5000},
            {"$": "float", "text": "1e5"},
            {"$": "size", "items": ["a"]},
            {"$": "Namespace", "items": [1]},
            deep,
        ):
            with self.subTest(skeleton=str(skeleton)[:80]):
                with self.assertRaises(pawl.Damaged) as caught:
                    _objects.rebuild(skeleton, ones, "place")
                self.assertEqual(caught.exception.entry, "place")
        self.assertNotIn("torch.onnx", sys.modules)  # a name of the file is looked up in a table alone

    def test_any_json(self):
        """Whatever is changed in a skeleton: it comes back as something, or as Damaged."""
        import random

        random.seed(1)
        value = {"a": (1, {2}), "b": torch.ones(3), "c": numpy.arange(3), "d": collections.deque([1], maxlen=2)}
        skeleton, tensors = _objects.flatten(value, "v")
        text = json.dumps(skeleton)
        tried = 0
        for _ in range(20_000):
            at = random.randrange(len(text))
            changed = text[:at] + random.choice('0123456789{}[]",:$-x') + text[at + random.randrange(3) :]
            try:
                parsed = json.loads(changed)
            except ValueError:
                continue
            tried += 1
            try:
                _objects.rebuild(parsed, dict(tensors))
            except pawl.Damaged:
                pass
        self.assertGreater(tried, 2000)


class BesideTorch(Saved):
    """What torch.save and torch.load do, and what pawl does, for the same failure."""

    def setUp(self):
        super().setUp()
        self.file = self.directory / "x.pt"
        self.value = {"w": torch.arange(100_000.0)}
        torch.save(self.value, self.file)
        pawl.torch.save(self.value, self.run_path)
        self.data = next(self.run_path.glob("step-*/*.safetensors"))

    def test_a_flipped_bit(self):
        for path in (self.file, self.data):
            raw = bytearray(path.read_bytes())
            raw[len(raw) // 2] ^= 4
            path.write_bytes(raw)
        self.assertFalse(torch.equal(torch.load(self.file)["w"], self.value["w"]))  # and nothing is said
        with self.assertRaises(pawl.Damaged) as caught:
            pawl.torch.load(self.run_path)
        self.assertEqual((caught.exception.entry, caught.exception.path), ("object/w", str(self.data)))
        self.assertIsNotNone(caught.exception.range)

    def test_a_truncated_file(self):
        for path in (self.file, self.data):
            os.truncate(path, path.stat().st_size // 2)
        with self.assertRaisesRegex(RuntimeError, "failed finding central directory"):
            torch.load(self.file)
        with self.assertRaises(pawl.Damaged) as caught:
            pawl.torch.load(self.run_path)
        self.assertEqual(caught.exception.path, str(self.data))

    def test_a_last_byte_cut_off(self):
        for path in (self.file, self.data):
            os.truncate(path, path.stat().st_size - 1)
        with self.assertRaisesRegex(
            RuntimeError, "PytorchStreamReader failed reading zip archive: failed finding central directory"
        ):
            torch.load(self.file)
        size = self.data.stat().st_size
        with self.assertRaisesRegex(pawl.Damaged, f"{size + 1}.*(?s:.*){size}") as caught:
            pawl.torch.load(self.run_path)
        self.assertEqual(caught.exception.path, str(self.data))

    def test_an_empty_file(self):
        for path in (self.file, self.data):
            os.truncate(path, 0)
        with self.assertRaises(EOFError) as theirs:
            torch.load(self.file)
        self.assertEqual(str(theirs.exception), "")
        with self.assertRaises(pawl.Damaged) as caught:
            pawl.torch.load(self.run_path)
        self.assertEqual(caught.exception.path, str(self.data))

    def unsupported(self, value, name):
        """torch.load refuses it by the name of a class, without its place."""
        torch.save({"v": value}, self.file)
        text = f"WeightsUnpickler error: Unsupported global: GLOBAL {name} was not an allowed global by default."
        with self.assertRaisesRegex(pickle.UnpicklingError, re.escape(text)):
            torch.load(self.file)

    def test_what_weights_only_refuses_comes_back(self):
        for value, name in (
            (numpy.float64(2.5), "numpy._core.multiarray.scalar"),
            (argparse.Namespace(lr=1), "argparse.Namespace"),
            (collections.defaultdict(list), "collections.defaultdict"),
            (numpy.random.get_state(), "numpy._core.multiarray._reconstruct"),
            (pathlib.Path("x"), "pathlib.PosixPath"),
        ):
            with self.subTest(name):
                self.unsupported(value, name)
                self.assertEqual(str(self.saved({"v": value})["v"]), str(value))

    def test_a_dataclass_and_a_whole_module(self):
        """PyTorch saves them and refuses to load them; pawl refuses to save them."""
        for value, name, text in (
            (Settings(), f"{__name__}.Settings", "object.v is a dataclass"),
            (
                torch.nn.Sequential(),
                "torch.nn.modules.container.Sequential",
                "object.v is a torch.nn.modules.container.Sequential, which cannot be saved without pickle",
            ),
        ):
            with self.subTest(name):
                self.unsupported(value, name)
                with self.assertRaisesRegex(pawl.UsageError, text):
                    pawl.torch.save({"v": value}, self.run_path)

    def test_a_checkpoint_of_a_device_that_is_not_here(self):
        with unittest.mock.patch.object(torch.serialization, "location_tag", lambda storage: "cuda:0"):
            torch.save(self.value, self.file)
            pawl.torch.save(self.value, self.run_path)
        with (
            unittest.mock.patch.object(torch.cuda, "is_available", lambda: False),
            self.assertRaisesRegex(RuntimeError, "Attempting to deserialize object on a CUDA device but torch.cuda"),
        ):
            torch.load(self.file)
        found = pawl.torch.load(self.run_path)["w"]
        self.assertEqual(found.device.type, "cpu")
        self.assertTrue(torch.equal(found, self.value["w"]))

    def test_a_lambda(self):
        with self.assertRaisesRegex(AttributeError, "Can't pickle local object"):
            torch.save({"a": [lambda: 1]}, self.file)
        with self.assertRaisesRegex(pawl.UsageError, "object.a.0 is a builtins.function"):
            pawl.torch.save({"a": [lambda: 1]}, self.run_path)
        self.assertTrue(torch.equal(pawl.torch.load(self.run_path)["w"], self.value["w"]))  # what was there is there

    def test_a_full_disk_keeps_what_was_there(self):
        import resource

        large = {"w": torch.zeros(4 << 20)}
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
        try:
            with self.assertRaises(RuntimeError):
                torch.save(large, self.file)
            with self.assertRaises(pawl.NoSpace):
                pawl.torch.save(large, self.run_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        with self.assertRaises(RuntimeError):
            torch.load(self.file)  # the file of before is lost
        self.assertTrue(torch.equal(pawl.torch.load(self.run_path)["w"], self.value["w"]))

    def test_nothing_there_and_the_other_kind(self):
        with self.assertRaisesRegex(FileNotFoundError, "No such file or directory"):
            torch.load(self.directory / "nothing")
        with self.assertRaisesRegex(pawl.NotFound, "there is no such directory"):
            pawl.torch.load(self.directory / "nothing")
        (self.directory / "empty").mkdir()
        for path in (self.run_path, self.directory / "empty"):
            with self.assertRaisesRegex(IsADirectoryError, "Is a directory"):
                torch.load(path)
        with self.assertRaisesRegex(pawl.NotFound, "(?s)there is no checkpoint here.*an empty directory"):
            pawl.torch.load(self.directory / "empty")
        with self.assertRaisesRegex(pawl.NotFound, r"(?s)another tool \(PyTorch\).*pawl.open"):
            pawl.torch.load(self.file)

    def test_code_in_a_file(self):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(EVIL),)

        global EVIL
        EVIL = self.directory / "evil"
        self.file.write_bytes(pickle.dumps(Evil()))
        with self.assertRaises(pawl.Error):
            pawl.torch.load(self.file)
        self.assertFalse(EVIL.exists())


if __name__ == "__main__":
    support.main()
