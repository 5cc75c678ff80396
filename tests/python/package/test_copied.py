# SPDX-License-Identifier: Apache-2.0
"""Tensors that a save copies before it returns."""

import signal
import threading
import time
import unittest

import support  # first: it finds the package

import pawl

MIB = 1 << 20
SLOW = {"bandwidth_bytes_per_s": 8 * MIB, "budget_bytes": 8 * MIB, "in_flight_bytes": MIB}


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
            threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                run.save(state, 1)
            self.assertLess(time.monotonic() - began, 4)  # writing takes 6 s and more
            with self.assertRaises(pawl.Canceled):
                run.wait()
            with self.assertRaises(pawl.NotFound):
                pawl.ls(self.run_path)


if __name__ == "__main__":
    unittest.main()
