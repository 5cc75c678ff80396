# SPDX-License-Identifier: Apache-2.0
"""Several threads on one handle, and each with handles of its own; with and without the interpreter's lock."""

import contextlib
import sys
import threading
import time
import unittest
from unittest import mock

import support

import pawl
from pawl import _error, _run


def together(*calls):
    """Makes the calls in a thread each, all at once; raises what the first of them raised."""
    raised = []
    begin = threading.Barrier(len(calls))

    def make(call):
        begin.wait()
        try:
            call()
        except BaseException as why:
            raised.append(why)

    threads = [threading.Thread(target=make, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


class Threads(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

    def save(self, entries):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State(entries), 1)

    def test_importing_pawl_leaves_the_interpreters_lock_off(self):
        if not hasattr(sys, "_is_gil_enabled"):
            self.skipTest("this Python has its lock always")
        text = "import sys; before = sys._is_gil_enabled(); import pawl; print(before == sys._is_gil_enabled())"
        done = self.program(text)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def test_each_thread_has_the_text_of_its_own_errors(self):
        state = pawl.State()

        def fail(thread):
            for i in range(100):
                with self.assertRaisesRegex(pawl.NotFound, f"/none-{thread}-{i}\\b"):
                    pawl.ls(self.directory / f"none-{thread}-{i}")
                with self.assertRaisesRegex(pawl.UsageError, f"tensor-{thread}-{i}\\b"):
                    state.update({f"tensor-{thread}-{i}": (1, 2)})

        together(*(lambda thread=thread: fail(thread) for thread in range(6)))

    def test_the_error_of_a_thread_is_freed_with_it(self):
        def fail():
            with self.assertRaises(pawl.NotFound):
                pawl.ls(self.directory / "none")

        with mock.patch.object(_error.lib, "pawl_error_free", wraps=_error.lib.pawl_error_free) as free:
            for _ in range(5):
                together(fail)
        self.assertEqual(free.call_count, 5)

    def test_no_value_of_a_state_is_lost(self):
        state = pawl.State()
        names = {"gone", *(f"{thread}/{i}" for thread in range(3) for i in range(300))}

        def own(thread):
            for i in range(300):
                state[f"{thread}/{i}"] = i
                self.assertEqual(state[f"{thread}/{i}"], i)

        def come_and_go():
            for i in range(300):
                state["gone"] = i
                del state["gone"]

        def look():
            for _ in range(600):
                self.assertIsInstance(state.get("gone", 0), int)
                self.assertLessEqual({*state}, names)

        together(lambda: own(0), lambda: own(1), lambda: own(2), come_and_go, look, look)
        self.assertEqual({name: state[name] for name in state}, {f"{t}/{i}": i for t in range(3) for i in range(300)})

    def test_get_is_one_look(self):
        class Watched(pawl.State):
            def __contains__(self, name):
                found = super().__contains__(name)
                removing.start()
                removing.join(0.2)
                return found

        state = Watched({"n": 1})
        removing = threading.Thread(target=state.__delitem__, args=("n",))
        self.assertEqual(state.get("n", 0), 1)
        removing.join()
        self.assertEqual(len(state), 0)

    def test_saves_of_several_threads_into_one_run_are_all_there(self):
        def save(thread):
            for i in range(5):
                step = 10 * thread + i
                run.save(pawl.State({"step": step, "x": bytearray([step]) * 1000}), step)
                run.fence()

        def wait():
            for _ in range(10):
                run.wait()
                run.fenced()

        with pawl.Run(self.run_path) as run:
            together(*(lambda thread=thread: save(thread) for thread in range(3)), wait, wait)
        steps = [10 * thread + i for thread in range(3) for i in range(5)]
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], steps)
        for step in steps:
            with pawl.open(self.run_path, step) as checkpoint:
                self.assertEqual(checkpoint["step"], step)
                self.assertEqual(bytes(checkpoint["x"].read().buffer), bytes([step]) * 1000)

    def test_a_long_wait_lets_other_calls_in(self):
        waits = mock.Mock(wraps=_run.lib.pawl_wait)
        options = {"bandwidth_bytes_per_s": 4 << 20, "budget_bytes": 8 << 20, "in_flight_bytes": 1 << 20}
        with pawl.Run(self.run_path, **options) as run, mock.patch.object(_run.lib, "pawl_wait", waits):
            run.save(pawl.State({"x": bytearray(8 << 20)}), 1)
            waiting = threading.Thread(target=run.wait)
            waiting.start()
            passed = []
            for _ in range(10):
                time.sleep(0.01)
                before = waits.call_count
                run.fenced()
                passed.append(waits.call_count - before)
            waiting.join()
        self.assertLess(sum(sorted(passed)[:8]), 5, passed)  # a thread may stand still, once or twice

    def test_other_threads_go_on_while_a_call_waits(self):
        """Threads change places here only where the one that runs lets go of the lock: in the call, or not at all."""
        sys.setswitchinterval(1000)
        counted, ending = [0], threading.Event()

        def count():
            while not ending.is_set():
                counted[0] += 1
                time.sleep(0.0001)

        counting = threading.Thread(target=count)
        counting.start()
        self.addCleanup(counting.join)
        self.addCleanup(ending.set)
        grew = {}

        def watch(name):
            function = getattr(_run.lib, name)

            def call(*arguments):
                before = counted[0]
                status = function(*arguments)
                grew[name] = grew.get(name, 0) + counted[0] - before
                return status

            return mock.patch.object(_run.lib, name, call)

        state = pawl.State({"x": bytearray(16 << 20)})
        options = {"bandwidth_bytes_per_s": 16 << 20, "budget_bytes": 8 << 20, "in_flight_bytes": 1 << 20}
        names = ("pawl_fence", "pawl_wait", "pawl_restore", "pawl_checkpoint_verify")
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(watch(name))
            with pawl.Run(self.run_path, keep_last=1, **options) as run:
                for step in range(10):  # where the machine stood still there was nothing to wait for
                    run.save(state, step)
                    run.fence()
                    run.wait()
                    if grew["pawl_fence"] and grew["pawl_wait"]:
                        break
                for _ in range(200):  # may take less time than another thread needs to wake up
                    run.restore(state)
                    pawl.verify(self.run_path)
                    if grew["pawl_restore"] and grew["pawl_checkpoint_verify"]:
                        break
        for name in names:
            with self.subTest(name):
                self.assertGreater(grew[name], 0)

    def test_closing_waits_for_the_call_that_is_under_way(self):
        self.save({"x": bytearray(100000)})
        checkpoint = pawl.open(self.run_path)
        closing = threading.Thread(target=checkpoint.close)
        alive = []

        def tell(_done, _of):
            if not alive:
                closing.start()
                closing.join(0.2)
                alive.append(closing.is_alive())

        self.assertTrue(checkpoint.verify(progress=tell).ok)
        closing.join()
        self.assertEqual(alive, [True])
        self.assertTrue(checkpoint.closed)

    def test_a_checkpoint_is_closed_while_others_read_it(self):
        self.save({f"x{i:03}": bytearray([i]) * 100 for i in range(200)})
        for turn in range(20):
            checkpoint = pawl.open(self.run_path)
            came = []

            def read(checkpoint=checkpoint, came=came):
                try:
                    while True:
                        for i, name in enumerate(checkpoint):
                            came.append((i, name))
                        self.assertEqual(bytes(checkpoint["x007"].read().buffer), b"\7" * 100)
                except pawl.UsageError as why:
                    self.assertIn("the checkpoint is closed", str(why))

            def close(checkpoint=checkpoint, came=came, turn=turn):
                while len(came) < 30 * turn:
                    time.sleep(0.0001)
                checkpoint.close()

            together(read, read, read, close, close)
            self.assertEqual([(i, name) for i, name in came if name != f"x{i:03}"], [])

    def test_one_of_those_that_close_a_run_hears_of_its_failure(self):
        for turn in range(20):
            run = pawl.Run(self.directory / f"run-{turn}", bandwidth_bytes_per_s=4 << 20, budget_bytes=8 << 20)
            run.save(pawl.State({"x": bytearray(1 << 20)}), 1)
            run.cancel()
            heard = []

            def close(run=run, heard=heard):
                try:
                    run.close()
                except pawl.Canceled as why:
                    heard.append(why)

            together(close, close, close)
            self.assertEqual(len(heard), 1)

    def test_the_cause_in_a_group_is_what_this_threads_callback_raised(self):
        def gather(_mine, _deadline_s):
            time.sleep(0.001)
            raise ValueError(threading.get_ident())

        def broadcast(data, _n, _deadline_s):
            return data

        group = pawl.Group(0, 2, gather=gather, broadcast=broadcast)

        def open_run(thread):
            for i in range(5):
                with self.assertRaises(pawl.PeerFailed) as failed:
                    pawl.Run(self.directory / f"run-{thread}-{i}", group=group)
                self.assertEqual(str(failed.exception.__cause__), str(threading.get_ident()))

        with self.assertLogs("pawl"):
            together(*(lambda thread=thread: open_run(thread) for thread in range(4)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
