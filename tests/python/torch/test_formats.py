# SPDX-License-Identifier: Apache-2.0
"""Files of PyTorch as pawl reads them, and files that pawl writes as PyTorch and others read them: bit for bit."""

import base64
import collections
import dataclasses
import io
import json
import math
import pickle
import re
import shutil
import struct
import tarfile
import warnings
import zipfile

import support  # first: it finds the package
import huggingface_hub
import numpy
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
import transformers

import pawl
import pawl.torch

warnings.filterwarnings("ignore")
transformers.utils.logging.disable_progress_bar()

#: By the names that pawl has for them; and those that came after the older format.
TYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    "C64": torch.complex64,
}  # fmt: skip
NEWER = {
    "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in (TYPES | NEWER).items()}
LISTED = {torch.quint8: "QUINT8", torch.qint8: "QINT8"}
#: Two of a type of pawl are one element, which is a last dimension.
IN_PARTS = {torch.complex32: "F16", torch.complex128: "F64"}


def numbers(dtype, *shape):
    """Any bytes that are elements of the type."""
    count = math.prod(shape) * dtype.itemsize
    found = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), dtype=torch.uint8)
    return found.view(dtype).reshape(shape)


def finite(dtype, *shape):
    """Of halves PyTorch changes signalling NaNs when it conjugates them."""
    return torch.randn(*shape, dtype=torch.complex64).to(dtype)


def layouts(dtype, numbers=numbers):
    """The ways in which a tensor may lie in its storage."""
    base, cube = numbers(dtype, 6, 4), numbers(dtype, 2, 3, 4)
    return {
        "whole": base, "same": base, "transposed": base.t(), "row": base[2], "column": base[:, 1],
        "steps": base[::2, 1:3], "scalar": base[3, 2], "empty": base[:0], "expanded": base[:1].expand(5, 4),
        "permuted": cube.permute(2, 0, 1), "channels": numbers(dtype, 2, 3, 4, 5).to(memory_format=torch.channels_last),
        "windows": numbers(dtype, 9).as_strided((3, 4), (2, 1), 1), "many": numbers(dtype, 1, 2, 1, 3, 1, 2, 1),
    }  # fmt: skip


def raw(tensor):
    """The bytes of its elements, dense and row-major."""
    dense = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
    return bytes(dense.view(torch.uint8).numpy())


def key(one):
    """A key as a component of a name."""
    if not isinstance(one, str):
        tagged = json.dumps(as_json(one), separators=(",", ":"), ensure_ascii=False)
        return escaped(tagged if type(one) is int else f"${tagged}")
    if not one:
        return "%"
    text = escaped(one)
    return f"%{ord(text[0]):02X}{text[1:]}" if re.fullmatch(r"0|-?[1-9][0-9]*|\\$(true|null)", one) else text


def escaped(text):
    return text.replace("%", "%25").replace("/", "%2F").replace("\n", "%0A")


def has_tensor(one):
    inner = one.values() if isinstance(one, dict) else one if isinstance(one, (list, tuple)) else ()
    return isinstance(one, torch.Tensor) or any(map(has_tensor, inner))


def as_json(one):
    """What JSON has not is an object that says in "$" what it is."""
    if type(one) is dict and all(isinstance(k, str) and not k.startswith("$") for k in one):
        return {k: as_json(v) for k, v in one.items()}
    if isinstance(one, dict):
        return {"$": type(one).__name__, "pairs": [[as_json(k), as_json(v)] for k, v in one.items()]}
    if isinstance(one, float) and not math.isfinite(one):
        return {"$": "float", "text": str(one)}
    if isinstance(one, bytes):
        return {"$": "bytes", "data": base64.b64encode(one).decode()}
    if isinstance(one, list):
        return [as_json(v) for v in one]
    if isinstance(one, (tuple, set)):
        return {"$": type(one).__name__, "items": [as_json(v) for v in one]}
    return one


def flat(one, name="", lists=None):
    """What pawl should find: entries by their names; in `lists` which are those of lists."""
    if isinstance(one, torch.Tensor):
        return {name or "object": one}
    if type(one) in (dict, collections.OrderedDict) and (one or not name):
        parts = [(key(k), v) for k, v in one.items()]
    elif has_tensor(one):
        parts = [(str(i), v) for i, v in enumerate(one)]
        if lists is not None:
            lists.setdefault(type(one).__name__, []).append(name)
    else:
        return {name or "object": as_json(one) if isinstance(one, (list, tuple, set, dict)) else one}
    found = {}
    for k, v in parts:
        found |= flat(v, f"{name}/{k}" if name else k, lists)
    return found


def entries(state):
    lists = {}
    found = flat(state, lists=lists)
    return found | ({"__sequences__": {k: sorted(v) for k, v in lists.items()}} if lists else {})


class Formats(support.InDirectory):
    def assert_holds(self, path, state):
        """The checkpoint has what is in a nested state, and nothing else."""
        expected = entries(state)
        with pawl.open(path) as found:
            self.assertEqual(sorted(found), sorted(expected, key=str.encode))
            for name, value in expected.items():
                with self.subTest(path=path.name, entry=name):
                    self.assert_entry(found, name, value)
        result = pawl.verify(path)
        self.assertTrue(result.ok, result)

    def assert_entry(self, found, name, value):
        if not isinstance(value, torch.Tensor):
            same = isinstance(value, float) and math.isnan(value) and math.isnan(found[name])
            self.assertTrue(same or (found[name] == value and type(found[name]) is type(value)), found[name])
            return
        entry = found.entry(name)
        listed = LISTED.get(value.dtype)
        kind, shape = listed or NAMES.get(value.dtype), tuple(value.shape)
        if value.dtype in IN_PARTS:
            kind, shape = IN_PARTS[value.dtype], (*shape, 2)
        self.assertEqual((entry.dtype, entry.shape), (kind, shape))
        if listed is None:
            self.assertEqual(bytes(found[name].read().buffer), raw(value))

    def assert_came_back(self, one, other):
        """Of the same types, in the same places; an OrderedDict is a dict again, in another order."""
        if isinstance(other, torch.Tensor):
            self.assert_loaded(one, other)
            return
        kinds = (dict, collections.OrderedDict) if isinstance(other, collections.OrderedDict) else (type(other),)
        self.assertIn(type(one), kinds, (one, other))
        if isinstance(other, dict):
            self.assertEqual({(type(k), k) for k in one}, {(type(k), k) for k in other})
            for k, v in other.items():
                self.assert_came_back(one[k], v)
        elif isinstance(other, (list, tuple)) and not isinstance(other, torch.Size):
            self.assertEqual(len(one), len(other))
            for a, b in zip(one, other, strict=True):
                self.assert_came_back(a, b)
        elif isinstance(other, float):
            self.assertEqual(struct.pack("d", one), struct.pack("d", other))
        elif isinstance(other, set) and has_tensor(list(other)):
            self.assertEqual(sorted(map(raw, one)), sorted(map(raw, other)))
        else:
            self.assertEqual(one, other)

    def assert_loaded(self, one, value):
        if isinstance(value, torch.Tensor):
            self.assertEqual((one.dtype, one.shape, raw(one)), (value.dtype, value.shape, raw(value)))
        else:
            self.assertEqual(one, value)

    def save(self, name, state, old=False):
        path = self.directory / name
        torch.save(state, path, _use_new_zipfile_serialization=not old)
        return path

    def both(self, name, state):
        """As the files of today and those before PyTorch 1.6: what torch.load finds in them."""
        for old in (False, True):
            path = self.save(f"{name}-{'old' if old else 'new'}.pt", state, old)
            self.assert_holds(path, torch.load(path, weights_only=True))


def trained(make):
    """What an optimizer has after two steps, with its model and a schedule."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.PReLU())
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(2):

        def closure():
            optimizer.zero_grad()
            loss = model(torch.randn(5, 4)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        schedule.step()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
        "epoch": 2, "loss": 0.25, "rng": torch.get_rng_state(),
    }  # fmt: skip


class TestReading(Formats):
    """What torch.save wrote."""

    def test_types_and_layouts(self):
        for name, dtype in (TYPES | {"C128": torch.complex128}).items():
            self.both(name, layouts(dtype))
        for name, dtype in (NEWER | {"C32": torch.complex32}).items():
            path = self.save(f"{name}.pt", layouts(dtype))
            self.assert_holds(path, torch.load(path, weights_only=True))

    def test_protocols_of_pickle(self):
        state = {"a": torch.arange(5.0), "n": 3, "b": torch.arange(6).reshape(2, 3).t()}
        for old in (False, True):
            for protocol in (2, 3, 4, 5):
                with self.subTest(old=old, protocol=protocol):
                    path = self.directory / f"{old}-{protocol}.pt"
                    torch.save(state, path, pickle_protocol=protocol, _use_new_zipfile_serialization=not old)
                    self.assert_holds(path, state)

    def test_types_that_are_listed(self):
        quantized = torch.quantize_per_tensor(torch.randn(3, 2), 0.1, 3, torch.quint8)
        path = self.save("listed.pt", {"q": quantized})
        self.assert_holds(path, {"q": quantized})
        with pawl.open(path) as found, self.assertRaisesRegex(pawl.UsageError, "cannot be read"):
            found["q"].read()

    def test_tensors_that_are_changed_when_they_are_read(self):
        """PyTorch saves a conjugated view as what it is of, with a note."""
        real = torch.tensor([1.0, 2.0])
        state = {
            "c": torch._neg_view(torch.zeros(2, dtype=torch.complex32).conj()),
            "n": torch._neg_view(real),
            "i": torch.tensor([1 + 2j]).conj().imag,
        }
        path = self.save("views.pt", state)
        with pawl.open(path) as found:
            self.assertEqual([found.entry(k).dtype for k in state], ["C32_CONJ", "NEGATED", "NEGATED"])
        del state["c"]
        resolved = {k: v.resolve_conj().resolve_neg().clone() for k, v in state.items()}
        path = self.save("resolved.pt", resolved)
        self.assert_holds(path, resolved)

    def test_conjugated_views(self):
        for dtype in (torch.complex32, torch.complex64, torch.complex128):
            made = layouts(dtype, finite if dtype == torch.complex32 else numbers)
            state = {name: one.conj() for name, one in made.items()}
            path = self.save("views.pt", state)
            self.assertTrue(torch.load(path)["row"].is_conj())
            self.assert_holds(path, state)

    def test_complex_types_in_parts_in_a_state(self):
        """Of every format of torch, into the same type of torch and of NumPy, whole and as a view of a larger one."""
        for dtype in IN_PARTS:
            self.into_states(dtype)

    def into_states(self, dtype):
        made = {
            "a": numbers(dtype, 3, 4),
            "t": numbers(dtype, 4, 3).t(),
            "c": finite(dtype, 5).conj(),
            "s": numbers(dtype),
        }
        parts = self.directory / f"dcp-{dtype.itemsize}"
        sources = [self.save("new.pt", made), self.save("old.pt", made, old=True), parts]
        dcp.save({k: v.resolve_conj() for k, v in made.items()}, checkpoint_id=parts)
        for source in sources:
            with self.subTest(source=source.name, dtype=dtype), pawl.open(source) as checkpoint:
                into = {k: torch.zeros_like(v) for k, v in made.items()}
                into["a"] = torch.zeros(3, 8, dtype=dtype)[:, ::2]
                checkpoint.restore(pawl.State(into))
                arrays = {}
                if dtype == torch.complex128:  # NumPy has no complex32
                    arrays = {k: numpy.zeros(tuple(v.shape), numpy.complex128) for k, v in made.items()}
                    checkpoint.restore(pawl.State(arrays))
                for name, value in made.items():
                    self.assertEqual(raw(into[name]), raw(value), name)
                for name, array in arrays.items():
                    self.assertEqual(array.tobytes(), raw(made[name]), name)

    def test_optimizers_and_schedules(self):
        kinds = {
            "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
            "adam": lambda p: torch.optim.Adam(p, amsgrad=True),
            "adamw": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), weight_decay=0.1),
            "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
            "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta, "adamax": torch.optim.Adamax,
            "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam, "rprop": torch.optim.Rprop,
            "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3),
        }  # fmt: skip
        for name, make in kinds.items():
            self.both(name, trained(make))

    def test_modules_and_what_is_around_them(self):
        torch.manual_seed(2)
        for module in (torch.nn.LSTM(3, 4, 2), torch.nn.MultiheadAttention(8, 2), torch.nn.Embedding(5, 3),
                       torch.nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)):  # fmt: skip
            self.both(type(module).__name__, module.state_dict())
        values = {
            "none": None, "yes": True, "big": 2**64 - 1, "bigger": -(2**70), "small": -5, "nan": math.nan,
            "inf": math.inf, "text": "l\xe4mp\n/%", "bytes": b"\0\xff", "list": [1, [2.5, None], {"a": (1, math.inf)}],
            "empty": {}, "nothing": [], "a/b%2F": {3: {"x.y": 1}, True: 0, None: 1}, "long": list(range(300)),
            "mixed": [torch.ones(2), {"t": torch.zeros(1), "n": 1}, "x"], "p": torch.nn.Parameter(torch.ones(2)),
        }  # fmt: skip
        for protocol in (2, 3, 4, 5):
            path = self.directory / f"values-{protocol}.pt"
            torch.save(values, path, pickle_protocol=protocol)
            self.assert_holds(path, values)
        self.both("tensor", torch.arange(4))
        self.both("list", [torch.arange(4), 5])

    def test_sparse_tensors(self):
        dense = torch.tensor([[0.0, 2, 0, 0], [3, 0, 0, 4]])
        state = {"coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(),
                 "bsr": dense.to_sparse_bsr((2, 2))}  # fmt: skip
        with pawl.open(self.save("sparse.pt", state)) as found:
            parts = {
                "coo/indices": state["coo"].indices(), "coo/values": state["coo"].values(), "coo/is_coalesced": True,
                "csr/crow_indices": state["csr"].crow_indices(), "csr/col_indices": state["csr"].col_indices(),
                "csr/values": state["csr"].values(), "csc/ccol_indices": state["csc"].ccol_indices(),
                "csc/row_indices": state["csc"].row_indices(), "bsr/values": state["bsr"].values(),
                **{f"{k}/size": [2, 4] for k in state}, **{f"{k}/layout": f"torch.sparse_{k}" for k in state},
            }  # fmt: skip
            for name, value in parts.items():
                self.assert_entry(found, name, value)

    def test_objects_with_tensors(self):
        """torch.load wants to execute such a file; pawl shows what is in it."""
        pair = collections.namedtuple("pair", "a b")
        globals()["pair"] = pair
        pair.__module__ = __name__
        module = torch.nn.Linear(2, 1)
        state = {"pair": pair(torch.ones(2), 3), "net": module, "order": collections.OrderedDict(w=torch.zeros(1)),
                 "queue": collections.deque([1, 2]), "counts": collections.Counter("aab"),
                 "default": collections.defaultdict(list, k=torch.ones(1)), "device": torch.device("cpu"),
                 "dtype": torch.float16, "size": torch.Size([2, 3])}  # fmt: skip
        with pawl.open(self.save("objects.pt", state)) as found:
            self.assert_entry(found, "pair/__arguments__/0", torch.ones(2))
            self.assertEqual(found["pair/__arguments__/1"], 3)
            self.assert_entry(found, "net/_parameters/weight", module.weight)
            self.assertEqual(found["net/__class__"], {"$": "object", "class": "torch.nn.modules.linear.Linear"})
            self.assertEqual(found["net/in_features"], 2)
            self.assert_entry(found, "order/w", torch.zeros(1))
            self.assert_entry(found, "default/k", torch.ones(1))
            self.assertEqual(found["queue"], {"$": "deque", "items": [1, 2], "maxlen": None})
            self.assertEqual(found["counts"], {"$": "Counter", "pairs": [["a", 2], ["b", 1]]})
            self.assertEqual(found["device"], {"$": "device", "text": "cpu"})
            self.assertEqual(found["size"], {"$": "size", "items": [2, 3]})
            self.assertEqual(found["dtype"], {"$": "dtype", "name": "float16"})

    def test_a_hostile_file(self):
        class Evil:
            def __reduce__(self):
                return print, ("executed",)

        path = self.save("evil.pt", {"w": torch.ones(1), "x": Evil()})
        with self.assertRaisesRegex(pawl.Unsupported, r"byte \d+: calls __builtin__.print; nothing was executed"):
            pawl.open(path)

    def test_zips_that_were_packed_again(self):
        state = layouts(torch.int32)
        path, packed = self.save("stored.pt", state), self.directory / "packed.pt"
        with zipfile.ZipFile(path) as zipped, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
            for name in zipped.namelist():
                out.writestr(name, zipped.read(name))
        self.assert_holds(packed, state)

    def test_shards_of_hugging_face(self):
        """As transformers wrote them before safetensors: pytorch_model-00001-of-0000N.bin, and their index."""
        base = torch.randn(8, 6)
        state = {"tied.weight": base, "head.weight": base, "half": numbers(torch.bfloat16, 40, 3), "a/b": torch.ones(9),
                 "turned": torch.randn(4, 7).t(), "n": torch.tensor(3), "none": torch.zeros(0, 2)}  # fmt: skip
        path = self.directory / "hf"
        path.mkdir()
        with self.assertLogs(level="WARNING"):  # that pickles are unsafe
            huggingface_hub.save_torch_state_dict(state, path, max_shard_size=200, safe_serialization=False)
        (path / "config.json").write_text("{}")
        torch.save({"state": {}}, path / "optimizer.pt")  # as the Trainer leaves it beside them
        index = path / "pytorch_model.bin.index.json"
        files = set(json.loads(index.read_text())["weight_map"].values())
        self.assertGreater(len(files), 2)
        for one in (path, index):
            self.assert_holds(one, state)
            with pawl.open(one) as found:
                self.assertEqual(found.format, "PyTorch, sharded")
        self.assertIn(index.name, [one.path for one in pawl.survey(path).found])
        pawl.convert(path, self.directory / "whole.pt")
        self.assert_holds(self.directory / "whole.pt", torch.load(self.directory / "whole.pt", weights_only=True))
        (path / max(files)).unlink()
        with self.assertRaisesRegex(pawl.Damaged, "a file that the index of the weights names is missing"):
            pawl.open(path)

    def test_the_first_format(self):
        """A tar, as PyTorch 0.1 wrote it and torch.load reads it."""
        values = torch.arange(6.0)
        ids = {"w": 10, "t": 11, "part": 12}
        storages = pickled(1) + pickled((4, "cpu", torch.FloatStorage)) + struct.pack("<q", 6) + raw(values)
        storages += pickled([(5, 4, 2, 3)])
        tensors = pickled(3)
        for number, storage, size, stride, offset in ((10, 4, (2, 3), (3, 1), 0), (11, 4, (3, 2), (1, 3), 0),
                                                      (12, 5, (2,), (1,), 1)):  # fmt: skip
            tensors += pickled((number, storage, torch.FloatTensor)) + struct.pack("<i4x", len(size))
            tensors += struct.pack(f"<{2 * len(size) + 1}q", *size, *stride, offset)
        path = self.directory / "first.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, data in (("sys_info", pickled({"little_endian": True})), ("storages", storages),
                               ("tensors", tensors), ("pickle", pickled(ids, outside=set(ids.values())))):  # fmt: skip
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        loaded = torch.load(path, weights_only=False)
        self.assertEqual(loaded["part"].tolist(), [3.0, 4.0])
        self.assert_holds(path, loaded)


def pickled(what, outside=()):
    """As protocol 2; numbers that are outside become persistent ids."""

    class Pickler(pickle._Pickler):
        def persistent_id(self, one):
            return one if isinstance(one, int) and one in outside else None

    out = io.BytesIO()
    Pickler(out, 2).dump(what)
    return out.getvalue()


class TestWriting(Formats):
    """What pawl wrote."""

    def convert(self, state, name, **options):
        path = self.directory / name
        pawl.convert(self.save("source.pt", state), path, **options)
        return path

    def test_torch_load(self):
        state = {"types": {name: numbers(dtype, 3, 2) for name, dtype in (TYPES | NEWER).items()},
                 "views": layouts(torch.float32), "training": trained(torch.optim.AdamW),
                 "a.b": {"c/d": 1, "e": [1, None, "x"], "f": {"g": 2.5}}, "b": b"\0\1", "t": True}  # fmt: skip
        path = self.convert(state, "m.pt", to="torch")
        found = [torch.load(path, weights_only=True, mmap=mmap) for mmap in (False, True)]
        self.assert_same(found[0], found[1])
        self.assert_came_back(found[0], state)
        self.assert_holds(path, found[0])

    def test_safetensors(self):
        state = {name: numbers(dtype, 3, 2) for name, dtype in (TYPES | NEWER).items() if "FNUZ" not in name}
        found = safetensors.torch.load_file(self.convert(state, "m.safetensors"))
        self.assertEqual(found.keys(), state.keys())
        for name, value in state.items():
            self.assert_loaded(found[name], value)
        self.assert_holds(self.directory / "m.safetensors", state)

    def test_transformers(self):
        """One file of safetensors, and several with an index, as from_pretrained loads them."""
        size = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2}
        for config in (transformers.GPT2Config(n_positions=16, n_embd=32, n_layer=2, n_head=2, **size),
                       transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                                num_attention_heads=4, dtype=torch.bfloat16, **size)):  # fmt: skip
            model = transformers.AutoModelForCausalLM.from_config(config)
            kind = self.directory / config.model_type
            model.save_pretrained(kind / "own")
            self.save(f"{kind.name}/state.pt", model.state_dict())  # with weights that GPT-2 ties, twice
            pawl.convert(kind / "own", kind / "run")
            for source in ("own", "state.pt", "run"):
                for files in ("one", "several"):
                    with self.subTest(model=kind.name, source=source, files=files):
                        self.assert_pretrained(kind, source, kind / f"{files}-{source}", files == "several", model)

    def assert_pretrained(self, kind, source, path, several, model):
        if several:
            pawl.convert(kind / source, path, to="safetensors", shard_bytes=10_000)
            index = json.loads((path / "model.safetensors.index.json").read_text())
            self.assertGreater(len(set(index["weight_map"].values())), 3)
        else:
            path.mkdir()
            pawl.convert(kind / source, path / "model.safetensors")
        shutil.copy(kind / "own/config.json", path)
        found, told = transformers.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
        self.assertFalse(any(told.values()), told)
        self.assert_same(dict(found.state_dict()), dict(model.state_dict()))

    def test_numpy(self):
        state = {k: numbers(v, 3, 2) for k, v in (TYPES | NEWER).items() if not k.startswith(("BF", "F8"))}
        with numpy.load(self.convert({"a": state, "n": 3}, "m.npz")) as found:
            for name, value in state.items():
                self.assertEqual((found[f"a/{name}"].tobytes(), found[f"a/{name}"].shape), (raw(value), (3, 2)))
                self.assertEqual(found[f"a/{name}"].dtype, value.numpy().dtype)
        self.assert_holds(self.directory / "m.npz", {"a": state, "n": 3})
        value = numbers(torch.int16, 2, 3, 4)
        found = numpy.load(self.convert({"w": value.permute(1, 2, 0)}, "w.npy"))
        self.assertEqual((found.tobytes(), found.shape), (raw(value.permute(1, 2, 0)), (3, 4, 2)))

    def test_dcp_load(self):
        state = {"model": {"a.b": numbers(torch.bfloat16, 3, 2), "s": torch.tensor(3)}, "views": layouts(torch.int16),
                 "lr": 0.5, "step": 7, "name": "x", "none": None}  # fmt: skip
        path = self.convert(state, "d", to="dcp")
        blank = {
            "model": {k: torch.zeros_like(v) for k, v in state["model"].items()},
            "lr": 0.0,
            "step": 0,
            "name": "",
            "views": {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in state["views"].items()},
            "none": 1,
        }
        dcp.load(blank, checkpoint_id=path, no_dist=True)
        for name, value in flat(state).items():
            self.assert_loaded(flat(blank)[name], value)
        self.assert_holds(path, state)


RANKS = """
import pathlib, sys
import support, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
import pawl

directory = pathlib.Path(sys.argv[1])
dist.init_process_group("gloo")
torch.manual_seed(0)

def job():
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(2, 6)).sum().backward()
    optimizer.step()
    parts = get_state_dict(model, optimizer)
    return {"model": parts[0], "optimizer": parts[1], "step": 3}

def whole(one):
    if isinstance(one, dict):
        return {k: whole(v) for k, v in one.items()}
    if isinstance(one, list):
        return [whole(v) for v in one]
    return one.full_tensor() if hasattr(one, "full_tensor") else one

state = job()
expected = whole(state)
dcp.save(state, checkpoint_id=directory / "saved")
if dist.get_rank() == 0:
    torch.save(expected, directory / "expected.pt")
    pawl.convert(directory / "expected.pt", directory / "written", to="dcp")
dist.barrier()
for name in ("saved", "written"):
    torch.manual_seed(1)
    other = job()
    dcp.load(other, checkpoint_id=directory / name)
    found = whole(other)
    for key, value in expected["model"].items():
        assert torch.equal(found["model"][key], value), (name, key)
    for key, slots in expected["optimizer"]["state"].items():
        for slot, value in slots.items():
            assert torch.equal(found["optimizer"]["state"][key][slot], value), (name, key, slot)
    assert found["step"] == 3
support.end_rank()
"""


SHARDS = """
import sys
import support, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
dcp.save({"w": distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])}, checkpoint_id=sys.argv[1])
support.end_rank()
"""


RESHARDED = """
import pathlib, sys
import support, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

directory = pathlib.Path(sys.argv[1])
dist.init_process_group("gloo")
source = torch.load(directory / "source.pt", weights_only=True)
values = ("step", "lr", "name")

def part(value, placement, ranks):
    if placement == Replicate():
        return value
    parts = value.chunk(ranks, placement.dim)
    return parts[dist.get_rank()] if dist.get_rank() < len(parts) else value.narrow(placement.dim, 0, 0)

def load(mesh, group, placement):
    parts = {name: part(value, placement, mesh.size()) for name, value in source["w"].items()}
    blank = {name: DTensor.from_local(torch.zeros_like(one), mesh, [placement], run_check=False,
                                      shape=source["w"][name].shape, stride=source["w"][name].stride())
             for name, one in parts.items()}
    state = {"w": blank, "plain": torch.zeros_like(source["plain"]), "step": 0, "lr": 0.0, "name": ""}
    dcp.load(state, checkpoint_id=directory / "written", process_group=group)
    for name, one in parts.items():
        found = state["w"][name].to_local()
        same = found.dtype == one.dtype and found.shape == one.shape
        same = same and torch.equal(found.contiguous().view(torch.uint8), one.contiguous().view(torch.uint8))
        assert same, (mesh, placement, name)
    assert torch.equal(state["plain"], source["plain"])
    assert [(type(state[key]), state[key]) for key in values] == [(type(source[key]), source[key]) for key in values]

for ranks in map(int, sys.argv[2:]):
    group, mesh = dist.new_group(range(ranks)), DeviceMesh("cpu", list(range(ranks)))
    if dist.get_rank() < ranks:
        for placement in (Shard(0), Shard(1), Replicate()):
            load(mesh, group, placement)
            print("loaded", ranks, placement)
support.end_rank()
"""


def blank(one):
    """The same, without what it has."""
    if isinstance(one, dict):
        return {k: blank(v) for k, v in one.items()}
    if isinstance(one, (list, tuple)):
        return type(one)(map(blank, one))
    return torch.zeros_like(one) if isinstance(one, torch.Tensor) else type(one)()


class TestNames(Formats):
    """Names of PyTorch have dots where those of pawl.torch have "/"."""

    def test_a_model_of_a_run_and_back(self):
        def model():
            return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))

        saved, run = model(), self.directory / "run"
        saved(torch.randn(5, 4))
        with pawl.torch.Checkpointer(run, model=saved) as checkpointer:
            checkpointer.save()
        for name in ("m.pt", "m.safetensors"):
            path, loaded, restored = self.directory / name, model(), model()
            pawl.convert(run, path, only=["model"], rename={"model": "", "/": "."})
            found = torch.load(path) if name == "m.pt" else safetensors.torch.load_file(path)
            loaded.load_state_dict(found)
            self.assert_same(dict(loaded.state_dict()), dict(saved.state_dict()))
            tensors = {f"model/{key.replace('.', '/')}": value for key, value in restored.state_dict().items()}
            with pawl.open(path) as checkpoint:
                checkpoint.restore(pawl.State(tensors), renames={"": "model", ".": "/"})
            self.assert_same(dict(restored.state_dict()), dict(saved.state_dict()))
        with self.assertRaisesRegex(pawl.UsageError, "makes a name that"):
            torch.save({"a..b": torch.ones(1)}, self.directory / "odd.pt")
            pawl.convert(self.directory / "odd.pt", self.directory / "x.npz", rename={".": "/"})


class TestDcp(Formats):
    """Directories of torch.distributed.checkpoint."""

    def test_what_one_process_saved(self):
        state = {
            "model": {"a.b": torch.randn(4, 3), "half": numbers(torch.bfloat16, 5)},
            "step": 3,
            "lr": 0.5,
            "list": [1, torch.ones(2), {"k": torch.zeros(1)}],
            "text": "x",
            "none": None,
            "empty": torch.zeros(0, 3),
            "scalar": torch.tensor(2.0),
            "view": torch.arange(12).reshape(3, 4).t(),
            "a/b": torch.ones(1),
        }
        dcp.save(state, checkpoint_id=self.directory / "d", no_dist=True)
        self.assert_holds(self.directory / "d", state)

    def test_what_was_converted_is_found(self):
        """By the FQNs that the state has, whatever its keys are."""
        one = torch.arange(3.0)
        states = [
            {"n": {"a/b": one}}, {"layer/kernel": one}, {"m": {"x": [one, {"y": one}]}}, {"t": (one, 2, one)},
            {"l": [(one, 1)]}, {"o": {"state": {0: {"exp": one}}}}, {"a.b": one, "a": {"c": one}}, {"e": {}, "w": one},
            {"d": {"k": [1, {"z": 2}]}, "w": one}, {"s": "x", "w": one, "f": 0.5, "b": True},
        ]  # fmt: skip
        for number, state in enumerate(states):
            with self.subTest(state=state):
                for of in ("dcp", "torch"):
                    source = self.directory / f"{number}-{of}"
                    torch.save(state, source) if of == "torch" else dcp.save(state, checkpoint_id=source, no_dist=True)
                    path = self.directory / f"{number}-{of}-to"
                    pawl.convert(source, path, to="dcp")
                    names = dcp.FileSystemReader(path).read_metadata().planner_data
                    found = blank(state)
                    dcp.load(found, checkpoint_id=path, no_dist=True)
                    self.assert_came_back(found, state)
                    if of == "dcp":
                        self.assertEqual(names, dcp.FileSystemReader(source).read_metadata().planner_data)

    def test_chunks_that_do_not_make_up_a_tensor(self):
        path = self.directory / "d"
        self.program(SHARDS, path, ranks=2)
        whole = (path / ".metadata").read_bytes()
        for change in ("missing", "moved"):
            metadata = pickle.loads(whole)
            index = next(one for one in metadata.storage_data if one.fqn == "w" and one.offset[0] > 0)
            place = metadata.storage_data.pop(index)
            if change == "moved":
                metadata.storage_data[dataclasses.replace(index, offset=torch.Size([index.offset[0] - 1, 0]))] = place
            (path / ".metadata").write_bytes(pickle.dumps(metadata, 2))
            with pawl.open(path) as found, self.assertRaisesRegex(pawl.Damaged, "pieces of a tensor"):
                found["w"].read()
        (path / ".metadata").write_bytes(whole)
        self.assert_holds(path, {"w": torch.arange(12.0).reshape(6, 2)})
        (path / "__1_0.distcp").unlink()
        with self.assertRaisesRegex(pawl.Damaged, "a file that the metadata names is missing"):
            pawl.open(path)

    def test_shards_of_several_ranks(self):
        """Saved by two ranks that shard all of it, and resharded from what pawl wrote."""
        self.program(RANKS, self.directory, ranks=2)
        expected = torch.load(self.directory / "expected.pt", weights_only=True)
        with pawl.open(self.directory / "saved") as found:
            self.assertGreater(found.entry("model/0.weight").pieces, 1)
            for name, value in flat({k: expected[k] for k in ("model", "step")}).items():
                self.assert_entry(found, name, value)
            for name, value in flat(expected["optimizer"]["state"]).items():
                self.assert_entry(found, f"optimizer/state/{name}", value)
        self.assertTrue(pawl.verify(self.directory / "saved").ok)
        self.assertTrue(pawl.verify(self.directory / "written").ok)
        pawl.convert(self.directory / "written", self.directory / "back.pt")
        self.assert_came_back(torch.load(self.directory / "back.pt", weights_only=True), expected)

    def test_what_pawl_wrote_on_any_number_of_ranks(self):
        """One chunk of each tensor becomes shards of 1, 2 and 4 ranks, also uneven and empty ones, or replicas."""
        types = {"F32": torch.float32, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn}
        w = {name: numbers(dtype, 7, 3) for name, dtype in types.items()}
        state = {"w": w, "plain": torch.randn(7, 3), "step": 7, "lr": 0.1, "name": "x/%"}
        pawl.convert(self.save("source.pt", state), self.directory / "written", to="dcp")
        done = self.program(RESHARDED, self.directory, 1, 2, 4, ranks=4)
        self.assertEqual(done.stdout.count("loaded"), 3 * (1 + 2 + 4), done.stdout)


if __name__ == "__main__":
    support.main()
