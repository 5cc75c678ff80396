# SPDX-License-Identifier: Apache-2.0
"""Held values of variables are snapshots, and memory handed over is never written to."""

import gc
import threading
import unittest
import weakref

import support
from support import InDirectory, address, np, tf

from pawl import UsageError
from pawl.tf import _values
from pawl.tf._values import aligned, assign, hold, hold_all

support.two_devices()

NUMBERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float8_e5m2", "float8_e4m3fn", "int4", "uint4", "int2", "uint2"),
]
COUNTED = ["float16", "float32", "float64", "bfloat16", "int32", "int64"]


def dtype_of(name):
    return tf.as_dtype(name)


def some(dtype, shape=(16, 16), seed=0):
    """An array of that type without two elements in sequence that are alike, as far as the type goes."""
    count = int(np.prod(shape))
    numbers = (np.arange(count) + seed) % (2 if dtype.size * 8 < 8 or "4" in dtype.name[-2:] else 7)
    return numbers.astype("f4").astype(dtype.as_numpy_dtype).reshape(shape)


def variable(dtype, shape=(16, 16), seed=0):
    return tf.Variable(tf.constant(some(dtype, shape, seed), dtype=dtype))


class Held(InDirectory):
    def test_of_every_type_it_is_the_variables_own_memory_and_read_only(self):
        for name in NUMBERS:
            with self.subTest(dtype=name):
                dtype = dtype_of(name)
                one = variable(dtype)
                held = hold(one)
                self.assertEqual(address(held), address(np.asarray(one.value())))
                self.assertEqual(held.dtype, np.dtype(dtype.as_numpy_dtype))
                self.assertFalse(held.flags.writeable)
                self.assert_bits(held, some(dtype))

    def test_scalars_and_what_has_no_elements(self):
        for shape in ((), (0,), (3, 0, 2)):
            with self.subTest(shape=shape):
                self.assertEqual(hold(tf.Variable(tf.zeros(shape))).shape, shape)

    def test_it_outlives_the_variable(self):
        for name in ("float32", "bfloat16", "float8_e5m2", "int4"):
            with self.subTest(dtype=name):
                dtype = dtype_of(name)
                held = hold(variable(dtype, (1024, 1024)))
                gc.collect()
                others = [variable(dtype, (1024, 1024), seed=1) for _ in range(8)]
                self.assert_bits(held, some(dtype, (1024, 1024)))
                del others

    def test_strings_are_copied_as_objects(self):
        one = tf.Variable(["a", "longer than what fits into a tstring by itself"])
        held = hold(one)
        one.assign(["c", "d"])
        self.assertEqual(held.tolist(), [b"a", b"longer than what fits into a tstring by itself"])

    def test_keras_variables_are_held_without_their_cast(self):
        import keras

        one = keras.Variable(np.ones((2, 2), "f4"))
        with keras.src.backend.AutocastScope("bfloat16"):
            self.assertEqual(one.value.dtype, tf.bfloat16, "Keras itself casts here")
            held = hold(one)
        self.assertEqual((held.dtype, address(held)), (np.float32, address(np.asarray(one._value.value()))))


def updates(one):
    """Every kind of update, by name: what changes the variable's value in place if anything does."""
    ones = tf.ones(one.shape, one.dtype)
    raw, rate = tf.raw_ops, tf.ones((), one.dtype)
    rows = tf.IndexedSlices(tf.fill((1, 16), tf.cast(9, one.dtype)), [0])

    @tf.function
    def compiled():
        one.assign_add(ones)

    @tf.function(jit_compile=True)
    def by_xla():
        one.assign_add(ones)

    def applied(make):
        optimizer = make(0.5)
        return lambda: optimizer.apply_gradients([(ones, one)])

    kinds = {
        "assign": lambda: one.assign(ones * 5),
        "assign_add": lambda: one.assign_add(ones),
        "assign_sub": lambda: one.assign_sub(ones),
        "slice": lambda: one[0].assign(ones[0] * 8),
        "scatter_update": lambda: one.scatter_update(rows),
        "scatter_add": lambda: one.scatter_add(rows),
        "scatter_nd": lambda: one.scatter_nd_update([[0, 0]], ones[0, :1] * 6),
        "tf.function": compiled,
        "xla": by_xla,
    }
    if one.dtype.is_floating:
        kinds["ResourceApplyGradientDescent"] = lambda: raw.ResourceApplyGradientDescent(
            var=one.handle, alpha=rate, delta=ones
        )
        moment = tf.Variable(ones)
        kinds["ResourceSparseApplyAdagrad"] = lambda: raw.ResourceSparseApplyAdagrad(
            var=one.handle, accum=moment.handle, lr=rate, grad=ones[:1], indices=[0]
        )
    if one.dtype == tf.float32:
        for make in (tf.keras.optimizers.SGD, tf.keras.optimizers.Adam, tf.keras.optimizers.RMSprop):
            kinds[f"keras {make.__name__}"] = applied(make)
    return kinds


class Snapshot(InDirectory):
    def test_no_kind_of_update_changes_what_is_held(self):
        for name in COUNTED:
            one = variable(dtype_of(name))
            for kind, update in updates(one).items():
                with self.subTest(dtype=name, update=kind):
                    update()  # once before: a variable is in another mode after sparse updates
                    held = hold(one)
                    before = held.copy()
                    update()
                    update()
                    self.assert_bits(held, before)

    def test_updates_do_change_the_variable(self):
        for name in ("float32", "bfloat16"):
            one = variable(dtype_of(name))
            for kind, update in updates(one).items():
                with self.subTest(dtype=name, update=kind):
                    one.assign(tf.zeros(one.shape, one.dtype))
                    update()
                    self.assertNotEqual(hold(one).tobytes(), bytes(len(hold(one).tobytes())))

    def test_after_a_sparse_update_tensorflow_copies_and_hold_does_not(self):
        one = variable(tf.float32)
        one.scatter_update(tf.IndexedSlices(tf.ones((1, 16)), [3]))
        self.assertNotEqual(address(np.asarray(one.value())), address(np.asarray(one.value())))
        first, second = hold(one), hold(one)
        self.assertEqual(address(first), address(second))
        before = first.copy()
        one.scatter_update(tf.IndexedSlices(tf.zeros((1, 16)), [3]))
        self.assert_bits(first, before)
        self.assertEqual(hold(one)[3].tolist(), [0.0] * 16)


class Together(InDirectory):
    def test_many_are_the_variables_own_memory_also_after_sparse_updates(self):
        many = {str(i): variable(tf.float32, seed=i) for i in range(4)}
        many["1"].scatter_update(tf.IndexedSlices(tf.ones((1, 16)), [3]))
        for held, one in zip(hold_all(list(many.items())), many.values(), strict=True):
            self.assertEqual(address(held), address(hold(one)))
            self.assertFalse(held.flags.writeable)

    def test_a_variable_that_changes_meanwhile_is_read_again_with_the_others(self):
        first, second = variable(tf.float32), variable(tf.float32)
        calls = []

        class Other:  # which another thread would be
            dtype, device = tf.float32, ""

            @property
            def handle(self):
                calls.append(1)
                if len(calls) == 1:
                    for one in (first, second):
                        one.assign_add(tf.ones((16, 16)))
                return second.handle

        _in_place, _values._in_place = _values._in_place, lambda one: one
        self.addCleanup(setattr, _values, "_in_place", _in_place)
        for held in hold_all([("first", first), ("second", Other())]):
            self.assert_bits(held, some(tf.float32) + 1)

    def test_variables_that_never_rest_are_refused_by_name(self):
        one = tf.Variable(tf.zeros((4, 4)))
        stop = threading.Event()

        @tf.function
        def train():
            for _ in tf.range(100_000):
                one.assign_add(tf.ones((4, 4)))

        def go_on():
            while not stop.is_set():
                train()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            while one.numpy()[0, 0] == 0:
                pass
            with self.assertRaisesRegex(UsageError, "model/w[0-9]+ changes while it is read") as caught:
                while True:  # on a machine with one processor a thread may rest for a while
                    hold_all([(f"model/w{i}", one) for i in range(1000)])
            self.assertIn("on the thread that trains", caught.exception.next)
        finally:
            stop.set()
            thread.join()


class Assigned(InDirectory):
    def test_every_type_comes_back_and_most_without_a_copy(self):
        copied = {"float8_e5m2", "float8_e4m3fn", "int4", "uint4", "int2", "uint2"}
        for name in NUMBERS:
            with self.subTest(dtype=name):
                dtype = dtype_of(name)
                memory = aligned((16, 16), dtype)
                memory[...] = some(dtype, seed=1)
                one = variable(dtype)
                assign(one, memory)
                self.assert_bits(hold(one), some(dtype, seed=1))
                self.assertEqual(address(hold(one)) == address(memory), name not in copied)

    def test_memory_handed_over_is_not_written_to_by_any_update(self):
        for name in COUNTED:
            dtype = dtype_of(name)
            one = variable(dtype)
            for kind, update in updates(one).items():
                with self.subTest(dtype=name, update=kind):
                    memory = aligned((16, 16), dtype)
                    memory[...] = some(dtype, seed=1)
                    assign(one, memory)
                    update()
                    update()
                    self.assert_bits(memory, some(dtype, seed=1))

    def test_memory_handed_over_is_let_go_with_the_value(self):
        memory = aligned((16, 16), tf.float32)
        alive = weakref.ref(memory)
        one = variable(tf.float32)
        assign(one, memory)
        del memory
        gc.collect()
        self.assertIsNotNone(alive())
        one.assign_add(tf.ones((16, 16), tf.float32))
        gc.collect()
        self.assertIsNone(alive())

    def test_what_was_held_stays_as_it_was(self):
        one = variable(tf.float32)
        constant = tf.identity(one)
        held = hold(one)
        assign(one, aligned((16, 16), tf.float32))
        self.assert_bits(held, some(tf.float32))
        self.assert_bits(constant, some(tf.float32))
        self.assertFalse(hold(one).any())

    def test_memory_of_another_alignment_is_copied_and_can_be_computed_with(self):
        for offset in (1, 4, 8, 16, 32):
            with self.subTest(offset=offset):
                raw = aligned((64 * 64 * 4 + 64,), np.uint8)
                memory = raw[offset : offset + 64 * 64 * 4].view("f4").reshape(64, 64)
                memory[...] = 1
                one = tf.Variable(tf.zeros((64, 64)))
                assign(one, memory)
                memory[...] = 2
                self.assert_bits(tf.matmul(one, one), np.full((64, 64), 64, "f4"))

    def test_read_only_and_strided_memory_is_copied(self):
        read_only = aligned((16, 16), tf.float32)
        read_only.flags.writeable = False
        turned = aligned((16, 16), tf.float32)
        turned[...] = np.arange(256).reshape(16, 16)
        for memory in (read_only, turned.T):
            one = variable(tf.float32)
            assign(one, memory)
            self.assert_bits(hold(one), np.ascontiguousarray(memory))
            self.assertNotEqual(address(hold(one)), address(memory))

    def test_scalars_and_what_has_no_elements(self):
        for shape in ((), (0,), (3, 0, 2)):
            with self.subTest(shape=shape):
                one = tf.Variable(tf.ones(shape))
                assign(one, aligned(shape, tf.float32))
                self.assert_bits(hold(one), np.zeros(shape, "f4"))

    def test_strings_come_back(self):
        one = tf.Variable(["a", "b"])
        assign(one, np.array([b"c", b"longer than what fits into a tstring by itself"], object))
        self.assertEqual(hold(one).tolist(), [b"c", b"longer than what fits into a tstring by itself"])

    def test_another_type_or_shape_is_refused_and_changes_nothing(self):
        one = variable(tf.float32)
        with self.assertRaisesRegex(ValueError, "float64 for a variable of float32"):
            assign(one, aligned((16, 16), tf.float64))
        with self.assertRaises(ValueError):
            assign(one, aligned((16, 15), tf.float32))
        self.assert_bits(hold(one), some(tf.float32))

    def test_aligned_memory_of_all_sizes(self):
        for count in (0, 1, 15, 1000, 3 << 20):
            memory = aligned((count,), tf.float32)
            self.assertEqual((memory.shape, memory.any()), ((count,), False))
            if count:
                self.assertEqual(address(memory) % 64, 0)


class Mirrored(InDirectory):
    def setUp(self):
        super().setUp()
        self.strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def test_one_replica_is_held_and_all_are_assigned(self):
        with self.strategy.scope():
            one = tf.Variable(tf.ones((16, 16)))
        held = hold(one)
        self.assertEqual(address(held), address(np.asarray(one.values[0].value())))
        memory = aligned((16, 16), tf.float32)
        memory[...] = 3
        assign(one, memory)
        for replica in one.values:
            self.assert_bits(hold(replica), np.full((16, 16), 3, "f4"))
        self.strategy.run(lambda: one.assign_add(tf.ones((16, 16))))
        self.assert_bits(held, np.ones((16, 16), "f4"))
        self.assert_bits(memory, np.full((16, 16), 3, "f4"))
        self.assert_bits(hold(one.values[1]), np.full((16, 16), 4, "f4"))

    def test_on_read_values_are_aggregated_and_their_sum_comes_back_in_equal_parts(self):
        kinds = {
            tf.VariableAggregation.SUM: (3.0, [1.5, 1.5]),
            tf.VariableAggregation.MEAN: (1.5, [1.5, 1.5]),
            tf.VariableAggregation.ONLY_FIRST_REPLICA: (1.0, [1.0, 1.0]),
        }
        for aggregation, (expected, after) in kinds.items():
            with self.subTest(aggregation=aggregation), self.strategy.scope():
                one = tf.Variable(
                    0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=aggregation, trainable=False
                )
                for number, replica in enumerate(one.values):
                    replica.assign(number + 1.0)
                self.assertEqual(hold(one).item(), expected)
                memory = aligned((), tf.float32)
                memory[...] = expected
                assign(one, memory)
                self.assertEqual([hold(replica).item() for replica in one.values], after)


ABORTS = """
import os, sys
import numpy as np
import tensorflow as tf
from pawl.tf._values import aligned, assign, hold, tensor_from

def of(offset):
    raw = aligned((64 * 64 * 4 + 64,), np.uint8)
    memory = raw[offset : offset + 64 * 64 * 4].view("f4").reshape(64, 64)
    memory[...] = 1
    return memory

def alone(offset):
    given = tf.experimental.dlpack.from_dlpack(of(offset).__dlpack__())
    tf.matmul(given, given)

def pawl(offset):
    one = tf.Variable(tf.zeros((64, 64)))
    assign(one, of(offset))
    assert tf.matmul(one, one).numpy()[0, 0] == 64

def text():
    tf.experimental.dlpack.to_dlpack(tf.constant(["a", "b"]) + "c")

def pawl_text():
    one = tf.Variable(["a", "b"])
    assign(one, hold(one))

cases = {f"alone {offset}": (alone, offset) for offset in (4, 8, 16, 32)}
cases |= {f"pawl {offset}": (pawl, offset) for offset in (4, 8, 16, 32)}
cases |= {"text": (text,), "pawl text": (pawl_text,)}
for name, (function, *arguments) in cases.items():
    child = os.fork()
    if child == 0:
        function(*arguments)
        os._exit(0)
    print(name, "|", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Processes(InDirectory):
    def test_what_ends_the_process_in_tensorflow_does_not_here(self):
        done = self.program(ABORTS)
        ended = dict(line.split(" | ") for line in done.stdout.splitlines() if " | " in line)
        for name, status in ended.items():
            with self.subTest(case=name):
                if name.startswith("pawl"):
                    self.assertEqual(int(status), 0, done.stderr)
                else:
                    self.assertLess(int(status), 0, "TensorFlow has learned; the copy may go")
        self.assertEqual(len(ended), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
