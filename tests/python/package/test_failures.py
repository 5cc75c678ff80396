# SPDX-License-Identifier: Apache-2.0
"""What goes wrong while something is saved: the error's text, and its parts as data."""

import contextlib
import errno
import json
import pathlib
import resource
import signal
import time
import unittest

import support  # first: it finds the package

import pawl

MIB = 1 << 20
# A save of 16 MiB takes 4 s, and reads no more than 1 MiB ahead of what it has written.
SLOW = {"bandwidth_bytes_per_s": 4 * MIB, "budget_bytes": 8 * MIB, "in_flight_bytes": MIB}


@contextlib.contextmanager
def files_up_to(size):
    """No file of this process grows beyond `size` bytes, as by `ulimit -f`; Python ignores SIGXFSZ."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def little_memory(more):
    """This process's address space grows by `more` bytes at most."""
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Reading(support.InDirectory):
    def test_no_memory_for_a_tensor(self):
        path = self.directory / "x.safetensors"
        header = json.dumps({"x": {"dtype": "U8", "shape": [64 * MIB], "data_offsets": [0, 64 * MIB]}}).encode()
        with path.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + 64 * MIB)
        with pawl.open(path) as checkpoint:
            with little_memory(16 * MIB), self.assertRaises(pawl.OutOfMemory) as caught:
                checkpoint["x"].read()
            self.assertIsInstance(caught.exception, MemoryError)
            self.assertEqual(caught.exception.entry, "x")
            self.assertEqual(checkpoint["x"].read().nbytes, 64 * MIB)


class Saving(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.memory = bytearray(16 * MIB)
        self.state = pawl.State({"bias": bytearray(1000), "kernel": self.memory})

    def save_step_1(self, run):
        run.save(pawl.State({"x": 1}), 1)
        run.wait()

    def cancel(self, run):
        run.cancel()
        with self.assertRaises(pawl.Canceled):
            run.wait()

    def data_file(self, step):
        """The data file of a save that is being written, once it has its room."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for path in (self.run_path / f"step-{step:08}").glob("data-*"):
                if path.stat().st_size > MIB:
                    return path
            time.sleep(0.01)
        raise self.failureException("no data file has appeared")

    def test_s01_checking_names_the_entry_and_the_bytes_that_changed(self):
        place = 12 * MIB
        with pawl.Run(self.run_path, checking=True, **SLOW) as run:
            self.save_step_1(run)
            run.save(self.state, 2)
            self.memory[place] = 1  # which is read 3 s from now, for there is no fence
            with self.assertRaises(pawl.UsageError) as caught, self.assertLogs("pawl", "ERROR") as logged:
                run.wait()
        error = caught.exception
        self.assertEqual(error.attempt, "saving step 2: a tensor changed while it was being saved")
        self.assertEqual((error.entry, error.step), ("kernel", 2))
        self.assertEqual(error.expected, "the bytes that were there when the save began")
        self.assertRegex(error.found, r"^bytes \d+ to \d+ of its 16777216 bytes are different$")
        first, last = (int(word) for word in error.found.split() if word.isdigit() and int(word) != len(self.memory))
        self.assertTrue(first <= place <= last, error.found)
        self.assertLess(last - first, 16 << 10)  # a block
        self.assertEqual(error.safe, "step 1 is committed and can be restored")
        self.assertIn("call Run.fence() before the optimizer's step", error.next)
        self.assertIn("  entry:    kernel\n", logged.output[0])
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1])

    def test_s01_checking_finds_nothing_after_a_fence(self):
        with pawl.Run(self.run_path, checking=True) as run:
            run.save(self.state, 1)
            run.fence()
            self.memory[:] = b"\1" * len(self.memory)
            run.wait()
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(set(checkpoint["kernel"].read().buffer), {0})

    def test_s02_an_entry_in_flight_is_neither_removed_nor_replaced(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            run.save(self.state, 7)
            with self.assertRaises(pawl.Busy) as caught:
                del self.state["kernel"]
            error = caught.exception
            self.assertEqual(error.attempt, "cannot remove the entry: the save of step 7 still reads its memory")
            self.assertEqual((error.entry, error.next), ("kernel", "call Run.fence() first"))
            self.assertEqual(error.safe, "the entry is still in the state, and the save goes on")
            with self.assertRaises(pawl.Busy) as caught:
                self.state["kernel"] = bytearray(len(self.memory))
            self.assertEqual(caught.exception.entry, "kernel")
            self.assertIn("step 7", caught.exception.attempt)
            self.cancel(run)
            run.fence()
            self.state["kernel"] = bytearray(len(self.memory))
            del self.state["kernel"]

    def test_s02_entries_that_are_added_meanwhile_are_of_the_next_save(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            run.save(self.state, 1)
            self.state["later"] = 5
            run.fence()
            run.wait()
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(list(checkpoint), ["bias", "kernel"])

    def fail_to_write_step_2(self, run):
        """Saves steps 1 and 2, of which the second runs into a limit; nobody has waited for it."""
        self.save_step_1(run)
        run.save(self.state, 2)
        return self.data_file(2)

    def is_told_of_step_2(self, error, path):
        self.assertEqual((error.step, error.path, error.errno), (2, str(path), errno.EFBIG))
        self.assertEqual(error.range[0], 8 * MIB)
        self.assertEqual(error.system, "File too large (EFBIG, errno 27)")
        self.assertIn(f"saving step 2: writing bytes {8 * MIB} to ", error.attempt)
        self.assertEqual(error.safe, "step 1 is committed and can be restored")

    def test_s03_an_earlier_failure_is_raised_once_by_the_next_save(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            path = self.fail_to_write_step_2(run)
            with files_up_to(8 * MIB), self.assertLogs("pawl", "ERROR") as logged:
                with self.assertRaises(pawl.NoSpace) as caught:
                    run.save(pawl.State({"x": 3}), 3)
            self.is_told_of_step_2(caught.exception, path)
            self.assertEqual(len(logged.output), 1)
            self.assertIn(f"saving step 2: writing bytes {8 * MIB} to ", logged.output[0])
            self.assertIn(str(path), logged.output[0])
            run.save(pawl.State({"x": 3}), 3)
            self.assertEqual(run.wait().step, 3)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1, 3])

    def test_s03_a_failure_is_raised_once_by_wait(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            path = self.fail_to_write_step_2(run)
            with files_up_to(8 * MIB), self.assertLogs("pawl", "ERROR"):
                with self.assertRaises(pawl.NoSpace) as caught:
                    run.wait()
            self.is_told_of_step_2(caught.exception, path)
            self.assertIsInstance(caught.exception, OSError)
            run.save(pawl.State({"x": 3}), 3)
            self.assertEqual(run.wait().step, 3)

    def test_s03_a_failure_that_nobody_waited_for_is_raised_by_close(self):
        run = pawl.Run(self.run_path, **SLOW)
        path = self.fail_to_write_step_2(run)
        with files_up_to(8 * MIB), self.assertLogs("pawl", "ERROR"):
            with self.assertRaises(pawl.NoSpace) as caught:
                run.close()
        self.is_told_of_step_2(caught.exception, path)
        self.assertTrue(run.closed)

    def test_s13_a_final_save_that_does_not_fit_says_so(self):
        pawl.watch_preemption(signal.SIGUSR1)
        self.addCleanup(pawl.unwatch_preemption)
        with pawl.Run(self.run_path, **SLOW) as run:
            self.save_step_1(run)
            signal.raise_signal(signal.SIGUSR1)
            self.assertEqual(pawl.preempted(), signal.SIGUSR1)
            with self.assertRaises(pawl.Timeout) as caught:
                run.save_final(self.state, 2, 0.5)
            with self.assertRaises(pawl.Canceled):
                run.wait()
        error = caught.exception
        self.assertIsInstance(error, TimeoutError)
        self.assertEqual(error.attempt, "the final save of step 2 did not fit into the grace time")
        self.assertEqual((error.step, error.path), (2, str(self.run_path)))
        self.assertEqual(error.expected, "durable within 0.5 s")
        self.assertRegex(error.found, r"^[\d.]+ k?M?B of 16\.8 MB written; the save was given up$")
        self.assertEqual(error.safe, "step 1 is committed and can be restored")
        self.assertEqual(error.next, "ask the scheduler for more grace time, or save more often")
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
