# SPDX-License-Identifier: Apache-2.0
"""Runs that a program in C, tests/python/exchange.c, has written are read in Python, and the other way round."""

import os
import subprocess
import unittest

import support  # first: it finds the package

import pawl
from pawl._abi import Dtype

SHAPE = (4, 6)
F6 = {"F6_E2M3", "F6_E3M2"}  # for which Python has no array
VALUES = {
    "bool": True,
    "int": -(2**63),
    "float": 0.1,
    "str": "na\u00efve \U0001f600",
    "bytes": b"\0\xff\n",
    "json": {"a": [1, 2.5, None, {"b": "c"}]},
}
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BF16": 16}


def byte_of(dtype, i):
    return i % 2 if dtype == "BOOL" else (31 * i + 7 * Dtype[dtype]) % 256


def bytes_of(dtype, shape=SHAPE):
    """What the program in C has in a tensor of that type."""
    bits = BITS.get(dtype) or int(dtype.split("_")[0][1:])
    count = bits // 8 if not shape else shape[0] * shape[1] * bits // 8
    return bytes(byte_of(dtype, i) for i in range(count))


def made(dtype, shape=SHAPE, data=None):
    """An array with these bytes, or as the program has them."""
    data = bytes_of(dtype, shape) if data is None else data
    array = pawl.Array(Dtype[dtype], shape, len(data))
    array.buffer[:] = data
    return array


def state_of(values, rank, array):
    """A state with the names, types and shapes of the program's, but for F6."""
    state = pawl.State({f"dtypes/{dtype.name}": array(dtype.name) for dtype in Dtype if dtype.name not in F6})
    whole = bytes(array("I32").buffer)
    halves = [made("I32", (2, 6), whole[:48]), made("I32", (2, 6), whole[48:])]
    state["scalar"] = array("F64", ())
    state["empty"] = array("F32", (0, 3))
    state["boxes"] = pawl.Tensor([pawl.Box((0, 0), halves[0]), pawl.Box((2, 0), halves[1])], shape=SHAPE)
    state["optimizer/m"] = pawl.Tensor(array("F32"), slot_of="dtypes/F32", slot="adam/m")
    state.update(values)
    state.set("rng", rank, role="rng", per_rank=True)
    return state, halves


class Exchange(support.InDirectory):
    def exchange(self, what):
        program = os.environ.get("PAWL_EXCHANGE")
        if program is None:
            raise unittest.SkipTest("PAWL_EXCHANGE does not say where the program of the tests in C is")
        done = subprocess.run(
            [program, what, str(self.run_path)], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_what_c_has_written_is_read(self):
        self.exchange("write")
        self.assertTrue(pawl.verify(self.run_path).ok)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual((checkpoint.step, checkpoint.framework), (7, "exchange 1"))
            self.assertEqual(checkpoint.metrics, {"loss": 0.5})
            for dtype in Dtype:
                with self.subTest(dtype.name):
                    stored = checkpoint[f"dtypes/{dtype.name}"]
                    self.assertEqual((stored.dtype, stored.shape), (dtype.name, SHAPE))
                    data = bytes_of(dtype.name)
                    self.assertEqual(bytes(stored.read().buffer), data)
                    if dtype.name not in F6:
                        row = len(data) // SHAPE[0]
                        self.assertEqual(bytes(stored[1:3].buffer), data[row : 3 * row])
            self.assertEqual(bytes(checkpoint["scalar"].read().buffer), bytes_of("F64", ()))
            self.assertEqual(checkpoint["scalar"].shape, ())
            self.assertEqual(checkpoint["empty"].shape, (0, 3))
            self.assertEqual(bytes(checkpoint["boxes"].read().buffer), bytes_of("I32"))
            self.assertEqual(checkpoint.entry("boxes").pieces, 2)
            slot = checkpoint.entry("optimizer/m")
            self.assertEqual((slot.role, slot.slot_of, slot.slot), ("slot", "dtypes/F32", "adam/m"))
            for name, value in VALUES.items():
                self.assertEqual((checkpoint[name], type(checkpoint[name])), (value, type(value)))
            self.assertEqual(checkpoint.entry("int").role, "step")
            self.assertEqual(checkpoint.read_rank("rng", 0), b"rank 0")
            self.assertEqual(len(checkpoint), len(Dtype) + 4 + len(VALUES) + 1)

    def test_what_c_has_written_is_restored(self):
        self.exchange("write")
        arrays = {}

        def zeros(dtype, shape=SHAPE):
            return arrays.setdefault((dtype, shape), made(dtype, shape, bytes(len(bytes_of(dtype, shape)))))

        others = {"bool": False, "int": 0, "float": 0.0, "str": "", "bytes": b"", "json": {}}
        state, halves = state_of(others, b"", zeros)
        moments = made("F32")
        moments.buffer[:] = bytes(moments.nbytes)
        state["optimizer/m"] = moments
        with pawl.Run(self.run_path) as run:
            with self.assertRaises(pawl.Mismatch) as caught:
                run.restore(state)
            self.assertEqual({item.name for item in caught.exception.report.items}, {f"dtypes/{name}" for name in F6})
            report = run.restore(state, unexpected="allow")
        self.assertEqual((report.step, report.restored, report.ignored), (7, len(state), len(F6)))
        for (dtype, shape), array in arrays.items():
            with self.subTest(dtype, shape=shape):
                self.assertEqual(bytes(array.buffer), bytes_of(dtype, shape))
        self.assertEqual(b"".join(bytes(half.buffer) for half in halves), bytes_of("I32"))
        self.assertEqual(bytes(moments.buffer), bytes_of("F32"))
        self.assertEqual({name: state[name] for name in VALUES}, VALUES)
        self.assertEqual(state["rng"], b"rank 0")

    def test_what_python_has_written_is_read_by_c(self):
        state, _halves = state_of(VALUES, b"rank 0", made)
        with pawl.Run(self.run_path, framework="exchange 1") as run:
            run.save(state, 7, metrics={"loss": 0.5})
        tensors = len(Dtype) - len(F6) + 4
        self.assertEqual(self.exchange("read"), f"{tensors} tensors and 7 values of step 7\n")

    def test_what_python_has_changed_is_found_by_c(self):
        for name, changed in (("dtypes/BF16", made("BF16", data=bytes(48))), ("str", "naive")):
            state, _halves = state_of(VALUES, b"rank 0", made)
            state[name] = changed
            with pawl.Run(self.run_path, framework="exchange 1") as run:
                run.save(state, 7, metrics={"loss": 0.5})
            with self.subTest(name), self.assertRaisesRegex(AssertionError, f"exchange: {name}: not as it was saved"):
                self.exchange("read")


if __name__ == "__main__":
    unittest.main(verbosity=2)
