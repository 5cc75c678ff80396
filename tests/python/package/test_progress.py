# SPDX-License-Identifier: Apache-2.0
"""How far a long call is: told to a function, or shown as a line on a terminal."""

import unittest

import support  # first: it finds the package

import pawl

MIB = 1 << 20
SIZE = 16 * MIB

ON_A_TERMINAL = """
import os, pty, sys, pawl
{terminal}
assert pawl.verify(sys.argv[1], progress=True).ok
state = pawl.State({{"x": bytearray(16 << 20)}})
with pawl.Run(sys.argv[1], bandwidth_bytes_per_s=16 << 20) as run:
    run.restore(state, progress=True)
    run.save(state, 2)
    run.wait(progress=True)
{show}
"""


class Told(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.told = []
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": bytearray(b"x") * SIZE}), 1)

    def tell(self, done, of):
        self.told.append((done, of))

    def assert_all_was_told(self, of):
        self.assertEqual(self.told, sorted(self.told))
        self.assertEqual({of}, {told for _, told in self.told})
        self.assertEqual(self.told[-1][0], of)

    def test_of_verify(self):
        found = pawl.verify(self.run_path, progress=self.tell)
        self.assertTrue(found.ok)
        self.assert_all_was_told(found.bytes)

    def test_what_it_raises_ends_verify(self):
        def fails(_done, _of):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            pawl.verify(self.run_path, progress=fails)

    def test_of_a_restore(self):
        state = pawl.State({"x": bytearray(SIZE)})
        with pawl.Run(self.run_path) as run:
            run.restore(state, progress=self.tell)
        self.assert_all_was_told(SIZE)
        self.told = []
        with pawl.open(self.run_path) as checkpoint:
            checkpoint.restore(state, progress=self.tell)
        self.assert_all_was_told(SIZE)

    def test_what_it_raises_ends_a_restore(self):
        def fails(_done, _of):
            raise RuntimeError("enough")

        with pawl.Run(self.run_path) as run:
            with self.assertRaisesRegex(RuntimeError, "enough"):
                run.restore(pawl.State({"x": bytearray(SIZE)}), progress=fails)
            state = pawl.State({"x": bytearray(SIZE)})
            run.restore(state)  # it is as usable as before
            self.assertEqual(bytes(state["x"]), b"x" * SIZE)

    def test_of_a_save(self):
        with pawl.Run(self.run_path, bandwidth_bytes_per_s=4 * MIB, in_flight_bytes=MIB) as run:
            run.save(pawl.State({"x": bytearray(SIZE)}), 2)
            stats = run.wait(progress=self.tell)
        self.assertGreater(len(self.told), 3)
        self.assert_all_was_told(stats.bytes)
        self.assertEqual(stats.written_bytes, stats.bytes)

    def test_a_line_on_a_terminal(self):
        terminal = "terminal, end = pty.openpty(); os.dup2(end, 2)"
        show = (  # it comes in pieces
            "os.write(end, b'the end')\n"
            "shown = b''\n"
            "while not shown.endswith(b'the end'):\n    shown += os.read(terminal, 65536)\n"
            "print(repr(shown))\n"
        )
        done = self.program(ON_A_TERMINAL.format(terminal=terminal, show=show), self.run_path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"verifying: [\d.]+ \w+ of 16.8 MB, \d+ %")
        self.assertRegex(done.stdout, r"restoring: [\d.]+ \w+ of 16.8 MB, \d+ %")
        self.assertRegex(done.stdout, r"saving: [\d.]+ \w+ of 16.8 MB, \d+ %")
        self.assertTrue(done.stdout.endswith(r"\r\x1b[Kthe end'" + "\n"), done.stdout)
        done = self.program(ON_A_TERMINAL.format(terminal="", show=""), self.run_path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
