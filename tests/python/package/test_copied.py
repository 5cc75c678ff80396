# SPDX-License-Identifier: Apache-2.0
"""Tensors that a save copies before it returns."""

import signal
import threading
import time
import unittest

import support  # first: it finds the package

import pawl

MIB = 1 << 20
SLOW = {"bandwidth_bytes_per_s": 2 * MIB, "budget_bytes": 8 * MIB, "in_flight_bytes": MIB}


class Copied(support.InDirectory):
    def test_what_is_copied_may_change_at_once(self):
        means, kernel = bytearray(b"a") * (12 * MIB), bytearray(b"b") * MIB
        state = pawl.State({"means": pawl.Tensor(means, copied=True), "kernel": kernel})
        with pawl.Run(self.run_path, **SLOW) as run:
            run.save(state, 1)  # more than the budget: it waits for writes
            means[:] = b"c" * len(means)
            state.update({"means": pawl.Tensor(bytearray(len(means)), copied=True)})
            self.assertGreater(run.wait().fence_wait_s, 0)
            with pawl.open(self.run_path) as checkpoint:
                self.assertEqual(bytes(checkpoint["means"].read().buffer), b"a" * len(means))
                self.assertEqual(bytes(checkpoint["kernel"].read().buffer), b"b" * len(kernel))

    def test_ctrl_c_is_answered_meanwhile(self):
        means = bytearray(64 * MIB)
        state = pawl.State({"means": pawl.Tensor(means, copied=True)})
        with pawl.Run(self.run_path, **SLOW) as run:
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
                run.save(state, 1)
            self.assertLess(time.monotonic() - began, 15)  # writing takes 28 s and more
            with self.assertRaises(pawl.Canceled):
                run.wait()
            with self.assertRaises(pawl.NotFound):
                pawl.ls(self.run_path)

    def test_what_a_handler_does_meanwhile(self):
        state = pawl.State({"means": pawl.Tensor(bytearray(16 * MIB), copied=True), "step": 1})
        for final in (False, True):
            with self.subTest(final=final), pawl.Run(f"{self.run_path}-{final}", **SLOW) as run:

                def save_at_once(_signal, _frame, run=run):
                    run.save_final(state, 2, 30)

                self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, save_at_once))
                threading.Timer(0.5, signal.raise_signal, (signal.SIGTERM,)).start()
                with self.assertRaisesRegex(pawl.UsageError, "from inside the run's own `interrupted` callback"):
                    run.save_final(state, 1, 60) if final else run.save(state, 1)
                with self.assertRaises(pawl.Canceled):
                    run.wait()
                run.save(pawl.State({"step": 2}), 2)  # the handler's exception has been raised, once
                self.assertEqual(run.wait().step, 2)

    def test_timeout_is_of_the_copies_too(self):
        state = pawl.State({"means": pawl.Tensor(bytearray(32 * MIB), copied=True)})  # 12 s
        with pawl.Run(self.run_path, **SLOW) as run:
            with self.assertRaises(pawl.Timeout):
                run.save(state, 1, timeout=0.5)
            with self.assertRaises(pawl.Canceled):
                run.wait()


if __name__ == "__main__":
    unittest.main()
