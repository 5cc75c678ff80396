# SPDX-License-Identifier: Apache-2.0
"""States: arrays of every kind of library, values of every type, and what is refused."""

import array
import ctypes
import gc
import math
import mmap
import unittest
import weakref

import support  # first: it finds the package

import pawl
from pawl import _memory
from pawl._abi import Dtype


class Exporter:
    """An array with DLPack alone: what PyTorch, CuPy or TensorFlow hand out."""

    def __init__(self, inner, device=1):
        self.inner = inner
        self.device = device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **arguments):
        return self.inner.__dlpack__(**arguments)


class Values(support.InDirectory):
    def test_each_type_comes_back(self):
        values = {
            "bool": True,
            "int": -(2**63),
            "float": math.inf,
            "str": "na\u00efve \U0001f600",
            "bytes": b"\0\xff",
            "empty": b"",
            "dict": {"a": [1, 2.5, None, {"b": "c"}]},
            "list": [],
        }
        state = pawl.State(values)
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            changed = {"bool": False, "int": 1, "float": 0.0, "str": "", "bytes": b"x", "empty": b"y", "dict": {}}
            for name, value in {**changed, "list": [1]}.items():
                state[name] = value
            run.restore(state)
        for name, value in values.items():
            with self.subTest(name):
                self.assertEqual(state[name], value)
                self.assertIs(type(state[name]), type(value))
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual({name: checkpoint[name] for name in checkpoint}, values)

    def test_what_json_cannot_say_is_refused_by_name(self):
        state = pawl.State()
        for value, why in (
            ({"a": math.nan}, "Out of range float"),
            ({"a": object()}, "not JSON serializable"),
            (["\ud800"], "surrogate"),
        ):
            with self.subTest(why), self.assertRaisesRegex(pawl.UsageError, "(?i)" + why):
                state["config"] = value
        with self.assertRaisesRegex(pawl.UsageError, "n: .* does not fit into 64 bits"):
            state["n"] = 2**63
        with self.assertRaisesRegex(pawl.UsageError, "v is a tuple, .* give a list"):
            state["v"] = (1, 2)
        self.assertEqual(len(state), 0)

    def test_a_float_takes_whole_numbers_that_it_can_hold(self):
        state = pawl.State({"x": 1.5})
        state["x"] = 2**53
        self.assertEqual(state["x"], float(2**53))
        for number in (2**53 + 1, 10**400):
            with self.assertRaisesRegex(pawl.UsageError, "is not exact as a float"):
                state["x"] = number

    def test_a_value_has_one_kind(self):
        state = pawl.State({"x": 1})
        with self.assertRaises(pawl.UsageError) as caught:
            state["x"] = "text"
        self.assertEqual(caught.exception.entry, "x")
        state["rate"] = 0.5
        state["rate"] = 1
        self.assertEqual(state["rate"], 1.0)

    def test_names(self):
        state = pawl.State()
        for name in ("", "/a", "a//b", "a/../b", "a\0b", "\ud800"):
            with self.subTest(name=name), self.assertRaises(pawl.UsageError):
                state[name] = 1
        with self.assertRaises(pawl.LimitExceeded):
            state["x" * 1025] = 1

    def test_a_mapping(self):
        state = pawl.State({"a": 1, "b": b"x"})
        self.assertEqual(list(state), ["a", "b"])
        self.assertIn("a", state)
        del state["a"]
        self.assertNotIn("a", state)
        with self.assertRaises(KeyError):
            del state["a"]
        with self.assertRaises(KeyError):
            state["a"]

    def test_per_rank_bytes(self):
        state = pawl.State()
        state.set("rng", b"mine", role="rng", per_rank=True)
        with self.assertRaisesRegex(pawl.UsageError, "is bytes, not int"):
            state.set("n", 1, per_rank=True)
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.read_rank("rng", 0), b"mine")
            self.assertTrue(checkpoint.entry("rng").per_rank)
            with self.assertRaisesRegex(pawl.UsageError, "read_rank"):
                checkpoint["rng"]
            with self.assertRaises(pawl.NotFound):
                checkpoint.read_rank("rng", 1)

    def test_per_rank_bytes_are_larger_than_values(self):
        position = bytes(range(256)) * (12 << 10)
        state = pawl.State()
        with self.assertRaisesRegex(pawl.LimitExceeded, "1048576"):
            state["loader"] = position
        state.set("loader", position, role="data_position", per_rank=True)
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            state.set("loader", b"", per_rank=True)
            run.restore(state)
        self.assertEqual(state["loader"], position)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.read_rank("loader", 0), position)

    def test_a_value_keeps_its_role(self):
        state = pawl.State()
        state.set("lr", 0.1, role="hyperparameter")
        state.set("rng", b"a", role="rng", per_rank=True)
        state["lr"] = 0.2
        state.update({"rng": b"b"})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual((checkpoint["lr"], checkpoint.entry("lr").role), (0.2, "hyperparameter"))
            self.assertEqual((checkpoint.read_rank("rng", 0), checkpoint.entry("rng").role), (b"b", "rng"))

    def test_a_role_that_there_is_not(self):
        with self.assertRaisesRegex(pawl.UsageError, "there is no role 'weights'; there are model, slot"):
            pawl.State().set("x", 1, role="weights")

    def test_keys_that_would_become_one_are_refused(self):
        with self.assertRaisesRegex(pawl.UsageError, "v: .*two keys of a dict are both '1'"):
            pawl.State({"v": {"a": [{"1": 1, 1: 2}]}})

    def test_metrics_are_numbers_whatever_they_are(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": 1}), 1, metrics={"loss": float("nan"), "gain": float("-inf")})
        (info,) = pawl.ls(self.run_path)
        with pawl.open(self.run_path) as checkpoint:
            for metrics in (info.metrics, checkpoint.metrics):
                self.assertEqual((metrics["gain"], str(metrics["loss"])), (float("-inf"), "nan"))


class Buffers(support.InDirectory):
    """Arrays without NumPy."""

    def round_trip(self, name, source, target):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({name: source}), 1)
            run.wait()
            run.restore(pawl.State({name: target}))

    def test_buffers_of_every_format(self):
        for code in "bBhHiIlLqQfd":
            source = array.array(code, [1, 2, 3])
            target = array.array(code, [0, 0, 0])
            with self.subTest(code):
                self.round_trip("x/" + str(ord(code)), source, target)
                self.assertEqual(source, target)

    def test_bytearray_mmap_ctypes(self):
        matrix = ((ctypes.c_int32 * 3) * 2)((1, 2, 3), (4, 5, 6))
        mapped = mmap.mmap(-1, 16)
        mapped[:] = bytes(range(16))
        for source, target in (
            (bytearray(b"abc"), bytearray(3)),
            (mapped, mmap.mmap(-1, 16)),
            (matrix, ((ctypes.c_int32 * 3) * 2)()),
        ):
            with self.subTest(type(source).__name__):
                self.round_trip("x/" + type(source).__name__, source, target)
                self.assertEqual(bytes(source), bytes(target))
        with pawl.open(self.run_path, 1) as checkpoint:
            self.assertEqual(checkpoint["x/c_int_Array_3_Array_2"].shape, (2, 3))

    def test_memory_stays_as_long_as_it_is_in_the_state(self):
        buffer = bytearray(8)
        state = pawl.State({"x": buffer})
        with self.assertRaises(BufferError):
            buffer.append(1)
        del state
        gc.collect()
        buffer.append(1)

    def test_an_array_interface_over_bytes(self):
        interface = {"typestr": "|u1", "shape": (1, 2), "data": b"abc", "offset": 1, "version": 3}
        image = type("Image", (), {"__array_interface__": interface})()
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": image}), 1)
            run.wait()
            with self.assertRaisesRegex(pawl.UsageError, "read-only"):
                run.restore(pawl.State({"x": image}))
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(bytes(checkpoint["x"].read().buffer), b"bc")

    def test_protocols_that_are_not_kept(self):
        for given in ({}, {"typestr": ""}, {"typestr": "|u1", "shape": 3, "data": (0, False)}, 7):
            with self.subTest(given=given), self.assertRaisesRegex(pawl.UsageError, "^x: "):
                pawl.State({"x": type("Array", (), {"__array_interface__": given})()})
        lies = {"__dlpack_device__": lambda self: (1, 0), "__dlpack__": lambda self, **_: None}
        with self.assertRaisesRegex(pawl.UsageError, "^x: its __dlpack__ gives no tensor"):
            pawl.State({"x": type("Array", (), lies)()})

    def test_what_is_no_array(self):
        for value in (object(), {1, 2}, 1j, None):
            with self.subTest(value=value), self.assertRaisesRegex(pawl.UsageError, "x: .* is no array"):
                pawl.State({"x": value})

    def test_formats_that_pawl_has_not(self):
        with self.assertRaisesRegex(pawl.UsageError, "x: elements of format"):
            pawl.State({"x": (ctypes.c_wchar * 3)()})
        with self.assertRaisesRegex(pawl.UsageError, "byte order"):
            pawl.State({"x": (ctypes.c_int32.__ctype_be__ * 3)()})

    def test_what_is_read_only_is_saved_but_not_restored(self):
        state = pawl.State({"a": bytearray(3), "x": memoryview(b"abc"), "y": memoryview(b"abc")})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            with self.assertRaisesRegex(pawl.UsageError, r"x: its memory is read-only.*\(1 more are\)") as caught:
                run.restore(state)
            self.assertEqual(caught.exception.entry, "x")

    def test_either_all_are_added_or_none(self):
        state = pawl.State()
        with self.assertRaises(pawl.UsageError):
            state.update({"a": bytearray(3), "b": pawl.Tensor(bytearray(1), slot_of="c", role="model")})
        self.assertEqual(len(state), 0)
        self.assertNotIn("a", state)

    def test_new_memory_for_a_tensor(self):
        state = pawl.State({"x": bytearray(b"abc")})
        state["x"] = bytearray(b"def")
        with self.assertRaises(pawl.UsageError) as caught:
            state["x"] = bytearray(4)
        self.assertEqual(caught.exception.entry, "x")
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(bytes(checkpoint["x"].read().buffer), b"def")

    def test_new_memory_is_of_the_same_tensor(self):
        kernel, moment = bytearray(8), bytearray(8)
        state = pawl.State({"kernel": pawl.Tensor(kernel, copied=True)})
        state["m"] = pawl.Tensor(moment, slot_of="kernel", slot="adam/m")
        again, later = bytearray(b"12345678"), bytearray(b"abcdefgh")
        state["kernel"], state["m"] = again, later
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            again[:] = bytes(8)  # it is copied, as it was before
            run.wait()
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(bytes(checkpoint["kernel"].read().buffer), b"12345678")
            self.assertEqual(checkpoint.entry("m").slot, "adam/m")

    def test_boxes(self):
        halves = [
            pawl.Box((0, 0), ((ctypes.c_int32 * 2) * 1)((1, 2))),
            pawl.Box((1, 0), ((ctypes.c_int32 * 2) * 1)((3, 4))),
        ]
        state = pawl.State({"x": pawl.Tensor(halves, shape=(2, 2))})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.entry("x").pieces, 2)
            self.assertEqual(list(checkpoint["x"].read().buffer.cast("i")), [1, 2, 3, 4])
        with self.assertRaisesRegex(pawl.UsageError, "need the shape"):
            pawl.State({"x": pawl.Tensor(halves)})

    def test_slots_know_their_variable(self):
        state = pawl.State({"w": bytearray(4), "o/w/m": pawl.Tensor(bytearray(4), slot_of="w", slot="adam/m")})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            entry = checkpoint.entry("o/w/m")
        self.assertEqual((entry.role, entry.slot_of, entry.slot), ("slot", "w", "adam/m"))


class Dtypes(support.InDirectory):
    def made(self, dtype, shape):
        """An array of our own with these elements."""
        found = pawl.Array(dtype, shape, math.prod(shape) * _memory.dtype_bits(dtype) // 8)
        found.buffer[:] = bytes((7 * i) % 2 if dtype == Dtype.BOOL else (31 * i) % 256 for i in range(found.nbytes))
        return found

    def test_every_type_by_dlpack(self):
        arrays = {dtype.name: self.made(dtype, (3, 2)) for dtype in _memory._DLPACK_OF}
        self.assertGreaterEqual(len(arrays), 19)
        zeros = {name: self.made(Dtype[name], (3, 2)) for name in arrays}
        for target in zeros.values():
            target.buffer[:] = bytes(target.nbytes)
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({name: Exporter(source) for name, source in arrays.items()}), 1)
            run.wait()
            run.restore(pawl.State({name: Exporter(target) for name, target in zeros.items()}))
        with pawl.open(self.run_path) as checkpoint:
            for name, source in arrays.items():
                with self.subTest(name):
                    self.assertEqual(checkpoint[name].dtype, name)
                    self.assertEqual(bytes(zeros[name].buffer), bytes(source.buffer))
                    self.assertEqual(bytes(checkpoint[name].read().buffer), bytes(source.buffer))

    def test_packed_elements_are_cut_between_bytes(self):
        source = self.made(Dtype.F4, (4, 6))
        rows = [bytes(source.buffer[row * 3 : row * 3 + 3]) for row in range(4)]
        parts = [self.made(Dtype.F4, (4, 2)), self.made(Dtype.F4, (4, 4))]
        boxes = [pawl.Box((0, 0), Exporter(parts[0])), pawl.Box((0, 2), Exporter(parts[1]))]
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": Exporter(source)}), 1)
            run.wait()
            run.restore(pawl.State({"x": pawl.Tensor(boxes, shape=(4, 6))}))
        self.assertEqual(bytes(parts[0].buffer), b"".join(row[:1] for row in rows))
        self.assertEqual(bytes(parts[1].buffer), b"".join(row[1:] for row in rows))
        with pawl.open(self.run_path) as checkpoint:
            stored = checkpoint["x"]
            self.assertEqual(bytes(stored[1:3].buffer), rows[1] + rows[2])
            self.assertEqual(bytes(stored[:, 2:4].buffer), b"".join(row[1:2] for row in rows))
            with self.assertRaisesRegex(pawl.Unsupported, "cannot be cut within a byte"):
                stored[:, 1:3]
        with self.assertRaisesRegex(BufferError, "end within a byte"):
            Exporter(pawl.Array(Dtype.F4, (2, 3), 3)).__dlpack__()

    def test_a_state_holds_its_arrays_until_it_goes(self):
        before = len(_memory._exported)
        source = Exporter(self.made(Dtype.F32, (4,)))
        gone = weakref.ref(source.inner)
        state = pawl.State({"x": source})
        self.assertEqual(len(_memory._exported), before + 1)
        del source
        gc.collect()
        self.assertIsNotNone(gone())
        del state
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(len(_memory._exported), before)

    def test_devices_are_named(self):
        with self.assertRaisesRegex(pawl.UsageError, "x: it is on a device .DLPack type 2"):
            pawl.State({"x": Exporter(self.made(Dtype.F32, (1,)), device=2)})


class WithNumPy(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.numpy = support.numpy_or_skip()

    def test_every_type(self):
        numpy = self.numpy
        source = {
            str(dtype): numpy.arange(12).reshape(3, 4).astype(dtype)
            for dtype in "? u1 i1 u2 i2 f2 u4 i4 f4 u8 i8 f8 c8".split()
        }
        target = {name: numpy.zeros_like(found) for name, found in source.items()}
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State(source), 1)
            run.wait()
            run.restore(pawl.State(target))
        with pawl.open(self.run_path) as checkpoint:
            for name, found in source.items():
                with self.subTest(name):
                    numpy.testing.assert_array_equal(target[name], found)
                    read = numpy.asarray(checkpoint[name])
                    self.assertEqual(read.dtype, found.dtype)
                    numpy.testing.assert_array_equal(read, found)
                    numpy.testing.assert_array_equal(numpy.from_dlpack(checkpoint[name].read()), found)

    def test_dlpack_that_is_read_only_is_not_restored_into(self):
        found = self.numpy.arange(4.0)
        found.flags.writeable = False
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": Exporter(found)}), 1)
            run.wait()
            with self.assertRaisesRegex(pawl.UsageError, "x: its memory is read-only"):
                run.restore(pawl.State({"x": Exporter(found)}))
            target = self.numpy.zeros(4)
            run.restore(pawl.State({"x": Exporter(target)}))
        self.numpy.testing.assert_array_equal(target, found)

    def test_scalars_are_numbers(self):
        numpy = self.numpy
        scalars = {f"lr{i}": numpy.float32(i + 0.5) for i in range(50)}
        scalars.update(step=numpy.int64(7), on=numpy.bool_(True), text=numpy.str_("a"))
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State(scalars), 1)
            run.wait()
            state = pawl.State({name: type(value)(0) for name, value in scalars.items()})
            run.restore(state)
        for name, value in scalars.items():
            self.assertEqual(state[name], value.item())
        for unfit in (numpy.complex64(1), numpy.datetime64(0, "s")):
            with self.assertRaisesRegex(pawl.UsageError, "^x: "):
                pawl.State({"x": unfit})

    def test_an_interface_whose_memory_is_made_for_each_look(self):
        numpy = self.numpy

        class Makes:
            @property
            def __array_interface__(self):
                made = numpy.full(1000, 7.0)
                return {**made.__array_interface__, "held": made}

        state = pawl.State({"x": Makes()})
        others = [numpy.zeros(1000) for _ in range(100)]
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            run.restore(state)
        self.assertFalse(any(other.any() for other in others))
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(set(numpy.asarray(checkpoint["x"]).tolist()), {7.0})

    def test_a_mask_is_refused(self):
        with self.assertRaisesRegex(pawl.UsageError, "^x: it has a mask"):
            pawl.State({"x": self.numpy.ma.masked_array([1.0, 2.0], mask=[0, 1])})

    def test_strides(self):
        numpy = self.numpy
        source = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
        target = numpy.zeros((4, 3, 2), dtype="f4").transpose()
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": source[:, ::-1, :]}), 1)
            run.wait()
            run.restore(pawl.State({"x": target}))
        numpy.testing.assert_array_equal(target, source[:, ::-1, :])

    def test_empty_and_without_dimensions(self):
        numpy = self.numpy
        scalar, empty = numpy.array(2.5), numpy.zeros((0, 3), dtype="f4")
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"scalar": scalar, "empty": empty}), 1)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(numpy.asarray(checkpoint["scalar"]), 2.5)
            self.assertEqual(numpy.asarray(checkpoint["scalar"][...]), 2.5)
            self.assertEqual(numpy.asarray(checkpoint["empty"]).shape, (0, 3))

    def test_types_that_pawl_has_not(self):
        numpy = self.numpy
        for found, why in (
            (numpy.zeros(2, dtype=">f4"), "byte order"),
            (numpy.array(["a"]), "<U1"),
            (numpy.zeros(2, dtype="c32"), "complex256"),
            (numpy.zeros(2, dtype="M8[s]"), "datetime64"),
            (numpy.zeros(2, dtype=object), "object"),
        ):
            with self.subTest(why), self.assertRaisesRegex(pawl.UsageError, f"x: .*{why}"):
                pawl.State({"x": found})

    def complex_numbers(self, *shape):
        """Of all kinds: NaN with a payload, infinities, zeros of both signs, what no float has."""
        numpy = self.numpy
        bits = numpy.random.default_rng(7).integers(0, 2**64, size=(*shape, 2), dtype="u8")
        bits.reshape(-1)[:4] = [0x8000000000000000, 0x7FF8000000001234, 0xFFF0000000000000, 1]
        return bits.view("c16").reshape(shape)

    def test_complex128_comes_back_bit_for_bit(self):
        numpy = self.numpy
        found = {
            "array": self.complex_numbers(3, 4),
            "strided": self.complex_numbers(6, 8)[1::2, ::-3],
            "scalar": self.complex_numbers(2)[0:1].reshape(()),
            "empty": numpy.zeros((0, 3), dtype="c16"),
            "exported": self.complex_numbers(5),
            "buffer": self.complex_numbers(5),
        }
        wanted = {name: array.copy() for name, array in found.items()}
        state = pawl.State(found)
        state["exported"] = Exporter(found["exported"])
        state["buffer"] = memoryview(found["buffer"])
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            for array in found.values():
                array[...] = 0
            run.restore(state)
        for name, array in found.items():
            with self.subTest(name):
                self.assertEqual(array.tobytes(), wanted[name].tobytes())
        with pawl.open(self.run_path) as checkpoint:
            stored = checkpoint["array"]
            self.assertEqual((stored.dtype, stored.shape), ("F64", (3, 4, 2)))
            read = numpy.asarray(stored).view("c16")[..., 0]
            self.assertEqual(read.tobytes(), wanted["array"].tobytes())

    def test_complex128_in_boxes(self):
        numpy = self.numpy
        whole = self.complex_numbers(4, 6)
        kept = whole.copy()
        boxes = [pawl.Box((0, 0), whole[:, :2]), pawl.Box((0, 2), whole[:, 2:])]
        state = pawl.State({"x": pawl.Tensor(boxes, shape=(4, 6))})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            target = numpy.zeros((4, 6), dtype="c16")
            run.restore(pawl.State({"x": target}))
        self.assertEqual(target.tobytes(), kept.tobytes())
        with self.assertRaisesRegex(pawl.UsageError, "elements of complex128 and F64"):
            mixed = [boxes[0], pawl.Box((0, 2), numpy.zeros((4, 4, 2)))]
            pawl.State({"x": pawl.Tensor(mixed, shape=(4, 6))})
        with self.assertRaisesRegex(pawl.UsageError, "1 offsets and 2 dimensions in a tensor of 1"):
            pawl.State({"x": pawl.Tensor([pawl.Box((0,), whole)], shape=(4,))})

    def test_slices(self):
        numpy = self.numpy
        source = numpy.arange(60).reshape(3, 4, 5)
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": source}), 1)
        with pawl.open(self.run_path) as checkpoint:
            stored = checkpoint["x"]
            for index in (1, -1, slice(1, 3), (0, 1, 2), (..., 2), (slice(None), 1), (1, ...), (slice(5, 1),), ()):
                with self.subTest(index=index):
                    read = numpy.asarray(stored[index])
                    numpy.testing.assert_array_equal(read, source[index])
                    self.assertEqual(read.shape, source[index].shape)
            for index in (3, -4, (0, 0, 0, 0), (..., ...)):
                with self.subTest(index=index), self.assertRaises(IndexError):
                    stored[index]
            with self.assertRaisesRegex(pawl.UsageError, "steps of 1"):
                stored[::2]

    def test_types_of_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("there is no ml_dtypes in this Python")
        numpy = self.numpy
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
            found = numpy.arange(4).astype(getattr(ml_dtypes, name))
            with self.subTest(name):
                with pawl.Run(self.run_path) as run:
                    run.save(pawl.State({"x": found}), 1)
                with pawl.open(self.run_path) as checkpoint:
                    read = numpy.asarray(checkpoint["x"])
                self.assertEqual(read.dtype, found.dtype)
                numpy.testing.assert_array_equal(read, found)

    def test_types_that_numpy_has_not(self):
        state = pawl.State({"x": Exporter(pawl.Array(Dtype.F8_E8M0, (2,), 2))})
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
        with pawl.open(self.run_path) as checkpoint:
            try:
                import ml_dtypes  # noqa: F401 (which has it)
            except ImportError:
                with self.assertRaisesRegex(TypeError, "NumPy has no type F8_E8M0; install ml_dtypes"):
                    self.numpy.asarray(checkpoint["x"])
            self.assertEqual(len(checkpoint["x"].read().buffer), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
