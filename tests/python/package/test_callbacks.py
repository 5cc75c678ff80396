# SPDX-License-Identifier: Apache-2.0
"""Functions of the program that run in the middle of a call: progress, supply, handlers of the log and of signals."""

import gc
import logging
import os
import signal
import threading
import unittest

import support  # first: it finds the package

import pawl
from pawl import _run

MIB = 1 << 20
IN_A_CALL = "is in a call, which has called this function"


class Handler(logging.Handler):
    def __init__(self, call):
        super().__init__()
        self.emit = lambda _record: call()


class Callbacks(support.InDirectory):
    def setUp(self):
        super().setUp()
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": bytearray(b"x") * MIB}), 1)
        self.caught = []

    def tries(self, call):
        """A callback that makes the call once, and keeps what it raised."""

        def callback(*_arguments):
            if not self.caught:
                with self.assertRaises(pawl.Error) as why:
                    call()
                self.caught.append(str(why.exception))

        return callback

    def test_a_handle_in_a_call_takes_no_other(self):
        run, state = pawl.Run(self.run_path), pawl.State({"x": bytearray(MIB)})
        checkpoint = pawl.open(self.run_path)
        self.addCleanup(run.close)
        calls = {
            "close in verify": lambda: checkpoint.verify(progress=self.tries(checkpoint.close)),
            "read in verify": lambda: checkpoint.verify(progress=self.tries(lambda: checkpoint["x"])),
            "close in diff": lambda: pawl.diff(checkpoint, checkpoint, progress=self.tries(checkpoint.close)),
            "close in a restore": lambda: checkpoint.restore(state, progress=self.tries(checkpoint.close)),
            "close of the run": lambda: run.restore(state, progress=self.tries(run.close)),
            "wait": lambda: run.restore(state, progress=self.tries(run.wait)),
            "the state, removed from": lambda: run.restore(state, progress=self.tries(lambda: state.__delitem__("x"))),
            "the state, added to": lambda: run.restore(state, progress=self.tries(lambda: state.update({"y": 1}))),
        }
        for name, call in calls.items():
            with self.subTest(name):
                self.caught.clear()
                call()
                self.assertRegex(self.caught[0], f"{IN_A_CALL}|is being restored")
        self.assertEqual(bytes(state["x"]), b"x" * MIB)
        checkpoint.close()

    def test_supply_that_closes_the_run(self):
        with pawl.Run(self.run_path) as run:
            with self.assertRaises(pawl.Mismatch):  # it has given no memory, so there is nothing to restore
                run.restore(pawl.State({"y": 1}), unexpected="allow", missing="allow", supply=self.tries(run.close))
        self.assertIn(IN_A_CALL, self.caught[0])

    def test_a_handler_of_the_log_that_closes_the_run(self):
        log = logging.getLogger("pawl")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.INFO)
        with pawl.Run(self.run_path) as run:
            handler = Handler(self.tries(run.close))
            log.addHandler(handler)
            self.addCleanup(log.removeHandler, handler)
            run.restore(pawl.State({"x": bytearray(MIB)}))
        self.assertIn(IN_A_CALL, self.caught[0])

    def test_other_handles_may_be_used_meanwhile(self):
        other, seen = pawl.State({"y": 1}), []

        def tell(done, _of):
            other.update({"y": done})
            other["z"] = bytearray(10)
            with pawl.open(self.run_path) as checkpoint:
                seen.append((other["y"], checkpoint.step))

        with pawl.Run(self.run_path) as run:
            run.restore(pawl.State({"x": bytearray(MIB)}), progress=tell)
        self.assertEqual(seen[-1], (MIB, 1))

    def test_generator_exit_is_an_exception_as_others_are(self):
        def ends(_done, _of):
            raise GeneratorExit

        with pawl.open(self.run_path) as checkpoint, self.assertRaises(GeneratorExit):
            checkpoint.verify(progress=ends)

    def test_ctrl_c_while_the_log_is_written(self):
        log = logging.getLogger("pawl")
        self.addCleanup(log.setLevel, log.level)
        handler = Handler(lambda: signal.raise_signal(signal.SIGINT))
        log.setLevel(logging.INFO)
        state = pawl.State({"x": bytearray(MIB)})
        with pawl.Run(self.run_path) as run:
            with self.assertRaises(KeyboardInterrupt):
                log.addHandler(handler)
                try:
                    run.restore(state)
                finally:
                    log.removeHandler(handler)
            run.restore(state)
        self.assertEqual(bytes(state["x"]), b"x" * MIB)


class Signals(support.InDirectory):
    """A handler runs whenever Python looks: as often as not in the middle of a call of libpawl."""

    def test_a_handler_that_closes_what_is_in_use(self):
        text = (
            "import os, pawl, signal, sys, threading\n"
            "state = pawl.State(dict(x=bytearray(64 << 20)))\n"
            "run = pawl.Run(sys.argv[1])\nrun.save(state, 1)\nrun.wait()\ncheckpoint = pawl.open(sys.argv[1])\n"
            "ended = []\n"
            "def end(*_):\n    ended.append(1)\n    checkpoint.close()\n    run.close()\n"
            "signal.signal(signal.SIGTERM, end)\n"
            "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
            "try:\n    while not ended:\n        {call}\n"
            "except pawl.UsageError as why:\n    print(why.args[0])\n"
            "run.close()\nprint(run.closed)\n"
        )
        for call in ("run.restore(state)", "checkpoint.verify()", "pawl.diff(checkpoint, checkpoint)"):
            with self.subTest(call):
                done = self.program(text.format(call=call), self.directory / call.partition("(")[0])
                self.assertEqual((done.returncode, done.stderr), (0, ""), done)
                *said, closed = done.stdout.splitlines()
                self.assertEqual(closed, "True")
                for line in said:
                    self.assertRegex(line, "from inside the run's own `interrupted` callback|is closed")

    def test_ctrl_c_while_something_is_opened_leaves_nothing_open(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": bytearray(1000)}), 1)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, signal.default_int_handler))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        opens = {
            "a run": lambda: pawl.Run(self.run_path),
            "a checkpoint": lambda: pawl.open(self.run_path).close(),
            "verify": lambda: pawl.verify(self.run_path),
        }
        for name, call in opens.items():
            with self.subTest(name):
                interrupted = 0
                before = len(os.listdir("/proc/self/fd"))
                for i in range(200):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 2e-4 + i % 50 * 5e-5)
                        call()
                        signal.setitimer(signal.ITIMER_REAL, 0)
                    except KeyboardInterrupt:
                        interrupted += 1
                    for run in list(_run._open_runs):  # which the program would have
                        run.close()
                self.assertGreater(interrupted, 0)
                gc.collect()
                self.assertLess(len(os.listdir("/proc/self/fd")) - before, 20)
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": 1}), 2)
            run.wait()
            run.remove(1)

    def test_ctrl_c_at_the_end_gives_up_one_run_alone(self):
        text = (
            "import os, pawl, signal, sys, threading, time\n"
            "slow = dict(bandwidth_bytes_per_s=2 << 20, budget_bytes=8 << 20, in_flight_bytes=1 << 20)\n"
            "runs = [pawl.Run(path, **slow) for path in sys.argv[1:]]\n"
            "for run in runs:\n    run.save(pawl.State({'x': bytearray(6 << 20)}), 1)\n"
            "def interrupt():\n    time.sleep(0.7)\n    os.kill(os.getpid(), signal.SIGINT)\n"
            "threading.Thread(target=interrupt, daemon=True).start()\n"
        )
        paths = [self.directory / name for name in "abc"]
        done = self.program(text, *paths)
        self.assertIn("at exit: KeyboardInterrupt", done.stderr)
        committed = [path for path in paths if any(info.status == "committed" for info in pawl.ls(path))]
        self.assertGreaterEqual(len(committed), 2, done.stderr)

    def test_ctrl_c_in_the_final_save_is_raised_there(self):
        state = pawl.State({"x": pawl.Tensor(bytearray(16 * MIB), copied=True)})
        slow = {"bandwidth_bytes_per_s": 2 * MIB, "budget_bytes": 8 * MIB, "in_flight_bytes": MIB}
        run = pawl.Run(self.run_path, **slow)
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
            run.save_final(state, 1, 60)
        with self.assertRaises(pawl.Canceled):
            run.close()
        self.assertTrue(run.closed)


if __name__ == "__main__":
    unittest.main()
