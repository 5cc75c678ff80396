# SPDX-License-Identifier: Apache-2.0
"""Runs: saving, waiting, restoring, refusing; and how a process ends with a save in flight."""

import array
import copy
import gc
import logging
import os
import pathlib
import pickle
import re
import resource
import shutil
import signal
import sys
import threading
import time
import unittest

import support  # first: it finds the package

import pawl

MIB = 1 << 20
# Slow enough that a save of 16 MiB takes 4 s, and still has begun when somebody looks.
SLOW = {"bandwidth_bytes_per_s": 4 * MIB, "budget_bytes": 8 * MIB, "in_flight_bytes": MIB}


def states(size=16 * MIB, fill=1):
    return pawl.State({"x": bytearray([fill]) * size, "step": 0})


class Saving(support.InDirectory):
    def test_a_save_that_is_restored(self):
        state = states(MIB)
        with pawl.Run(self.run_path, framework="test 1.0") as run:
            run.save(state, 10, metrics={"loss": 0.5})
            run.fence()
            state["x"][:] = bytes(MIB)
            stats = run.wait()
            report = run.restore(state)
        self.assertEqual((stats.step, stats.skipped), (10, False))
        self.assertGreater(stats.bytes, MIB)
        self.assertEqual(bytes(state["x"]), b"\1" * MIB)
        self.assertEqual((report.step, report.restored, report.items), (10, 2, ()))
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual((checkpoint.step, checkpoint.framework), (10, "test 1.0"))
            self.assertEqual(checkpoint.metrics, {"loss": 0.5})

    def test_retention_pins_and_removal(self):
        state = states(64)
        with pawl.Run(self.run_path, keep_last=2, keep_best=1, metric="loss") as run:
            for step, loss in ((1, 0.1), (2, 0.9), (3, 0.8), (4, 0.7), (5, 0.6)):
                run.save(state, step, metrics={"loss": loss}, pin=step == 2)
                run.wait()
            self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1, 2, 4, 5])
            self.assertEqual([info.pinned for info in pawl.ls(self.run_path)], [False, True, False, False])
            run.pin(2, False)
            run.remove(4)
            run.save(state, 6, metrics={"loss": 1.0})
            run.wait()
            self.assertEqual([info.step for info in pawl.ls(self.run_path)], [1, 5, 6])
            with self.assertRaises(pawl.NotFound):
                run.remove(77)

    def test_due(self):
        with pawl.Run(self.run_path, save_every_steps=10) as run:
            self.assertEqual([step for step in range(35) if run.due(step)], [10, 20, 30])

    def test_s04_what_a_save_does_while_another_is_written(self):
        state = states()
        with pawl.Run(self.directory / "skip", on_busy="skip", **SLOW) as run:
            run.save(state, 1)
            run.save(state, 2)
            with self.assertRaises(pawl.Timeout):
                run.wait(0)
            run.cancel()
            with self.assertRaises(pawl.Canceled):
                run.wait()
        with pawl.Run(self.directory / "error", on_busy="error", **SLOW) as run:
            run.save(state, 1)
            with self.assertRaises(pawl.Busy):
                run.save(state, 2)
            run.cancel()
            with self.assertRaises(pawl.Canceled):
                run.wait()
        with pawl.Run(self.directory / "wait", **SLOW) as run:
            run.save(state, 1)
            with self.assertRaises(pawl.Timeout):
                run.save(state, 2, timeout=0.2)
            run.cancel()
            with self.assertRaises(pawl.Canceled):
                run.wait()

    def test_each_save_is_one_event_however_long_the_next_one_waits(self):
        state = states(4 * MIB)
        with pawl.Run(self.run_path, **SLOW) as run:
            for step in (1, 2):
                run.save(state, step)
        told = [(event.kind, event.step) for event in pawl.events(self.run_path) if event.kind != "save_progress"]
        self.assertEqual(told, [("save_begun", 1), ("save_ended", 1), ("save_begun", 2), ("save_ended", 2)])

    def test_a_state_that_was_skipped_lets_the_other_one_be_read(self):
        with pawl.Run(self.run_path, on_busy="skip", **SLOW) as run:
            run.save(states(4 * MIB, fill=3), 1)
            run.save(states(64), 2)
            gc.collect()
            self.assertTrue(run.wait().skipped)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(set(checkpoint["x"].read().buffer), {3})

    def test_arrays_are_let_go_one_by_one(self):
        names = [f"x{i}" for i in range(12)]
        state = pawl.State({name: bytearray([i]) * MIB for i, name in enumerate(names)})
        seen = set()
        with pawl.Run(self.run_path, **SLOW) as run:
            self.assertEqual(run.fenced_arrays(names), [True] * 12)
            run.save(state, 1)
            while not run.fenced():
                free = [name for name, answer in zip(names, run.fenced_arrays(names), strict=True) if answer]
                for name in free:
                    state[name][:] = bytes([255]) * MIB
                seen.add(len(free))
                time.sleep(0.005)
            run.wait()
        self.assertTrue(seen & set(range(1, 12)), seen)
        with pawl.open(self.run_path) as saved:
            for i, name in enumerate(names):
                self.assertEqual(bytes(saved[name].read().buffer), bytes([i]) * MIB)

    def test_whether_it_is_fenced_is_a_question_alone(self):
        state = states()
        with pawl.Run(self.run_path, **SLOW) as run:
            self.assertTrue(run.fenced())
            run.save(state, 1)
            began = time.monotonic()
            self.assertFalse(run.fenced())
            self.assertLess(time.monotonic() - began, 2)  # a fence takes longer
            with self.assertRaises(pawl.Busy):
                del state["x"]
            run.cancel()
            run.fence()
            self.assertTrue(run.fenced())
            with self.assertRaises(pawl.Canceled):
                run.wait()
        with self.assertRaisesRegex(pawl.UsageError, "closed"):
            run.fenced()

    def test_waits_end_when_their_time_is_up(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            run.save(states(), 1)
            for call in (run.fence, run.wait):
                began = time.monotonic()
                with self.subTest(call.__name__), self.assertRaises(pawl.Timeout) as caught:
                    call(0.3)
                self.assertLess(time.monotonic() - began, 3.5)  # the save takes 4
                self.assertIsInstance(caught.exception, TimeoutError)
            run.cancel()
            with self.assertRaises(pawl.Canceled):
                run.wait()

    def test_the_state_stays_while_it_is_read(self):
        with pawl.Run(self.run_path, **SLOW) as run:
            run.save(states(4 * MIB, fill=7), 1)  # nobody else references it
            run.wait()
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(set(checkpoint["x"].read().buffer), {7})

    def test_s13_preemption_saves_in_the_grace_time(self):
        pawl.watch_preemption(signal.SIGUSR1)
        try:
            self.assertEqual(pawl.preempted(), 0)
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertEqual(pawl.preempted(), signal.SIGUSR1)
        finally:
            pawl.unwatch_preemption()
        state = states()
        with pawl.Run(self.run_path) as run:
            run.save_final(state, 3, 30)
            self.assertEqual([info.step for info in pawl.ls(self.run_path)], [3])

    def test_many_threads_share_a_run(self):
        problems = []
        with pawl.Run(self.run_path) as run:

            def work(number):
                try:
                    state = states(64, fill=number)
                    for step in range(10):
                        run.save(state, number * 100 + step)
                        run.fence()
                        run.wait()
                except pawl.Error as why:
                    problems.append(why)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(len(pawl.ls(self.run_path)), 40)

    def test_a_thousand_saves_leave_nothing(self):
        state = states(64)
        with pawl.Run(self.run_path, keep_last=1, no_event_file=True) as run:
            for step in range(1200):
                run.save(state, step)
                run.fence()
                run.wait()
                if step == 200:
                    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                    descriptors = len(os.listdir("/proc/self/fd"))
            self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)
            self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory, 4096)  # KiB


class Restoring(support.InDirectory):
    def restored(self, saved, state, **arguments):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State(saved), 1)
            run.wait()
            return run.restore(state, **arguments)

    def test_r01_to_r04_every_difference_is_named_with_its_remedy(self):
        saved = {"a": bytearray(4), "b": bytearray(4), "c": bytearray(4)}
        state = pawl.State({"a": bytearray(b"keep"), "b": memoryview(bytearray(8)).cast("h"), "d": bytearray(5)})
        with self.assertRaises(pawl.Mismatch) as caught:
            self.restored(saved, state)
        error = caught.exception
        kinds = {item.name: item.difference.name for item in error.report.items}
        self.assertEqual(kinds, {"b": "DTYPE", "c": "UNEXPECTED", "d": "MISSING"})
        by_name = {item.name: item for item in error.report.items}
        self.assertIn("pass missing='allow'", by_name["d"].next)
        self.assertIn("pass unexpected='allow'", str(by_name["c"]))
        self.assertIn("nothing was restored", error.safe)
        self.assertNotIn("PAWL_POLICY", str(error))
        self.assertEqual(bytes(state["a"]), b"keep")

    def test_r05_renames_are_found_and_applied(self):
        saved = {f"module/{name}": bytearray(name, "ascii") for name in ("aa", "bb", "cc")}
        state = pawl.State({name: bytearray(2) for name in ("aa", "bb", "cc")})
        with self.assertRaises(pawl.Mismatch) as caught:
            self.restored(saved, state)
        rule = next(item for item in caught.exception.report.items if item.difference.name == "RENAMED")
        self.assertEqual(rule.remedies[0].rename, ("module", ""))
        self.assertIn("renames={'module': ''}", str(rule))
        with pawl.Run(self.run_path) as run:
            report = run.restore(state, renames=dict(remedy.rename for remedy in rule.remedies))
        self.assertEqual(report.restored, 3)
        self.assertEqual(bytes(state["bb"]), b"bb")

    def test_r03_r04_what_is_allowed_is_counted(self):
        state = pawl.State({"a": bytearray(2), "d": bytearray(b"mine")})
        report = self.restored({"a": bytearray(b"xy"), "c": 5}, state, missing="allow", unexpected="allow")
        self.assertEqual((report.restored, report.kept, report.ignored), (1, 1, 1))
        self.assertEqual((bytes(state["a"]), bytes(state["d"])), (b"xy", b"mine"))

    def test_r07_a_hyperparameter_that_changed(self):
        saved, state = pawl.State(), pawl.State()
        saved.set("lr", 0.1, role="hyperparameter")
        state.set("lr", 0.2, role="hyperparameter")
        with pawl.Run(self.run_path) as run:
            run.save(saved, 1)
            run.wait()
            with self.assertRaises(pawl.Mismatch):
                run.restore(state, hyperparameter="error")
            run.restore(state, hyperparameter="caller")
            self.assertEqual(state["lr"], 0.2)
            with self.assertLogs("pawl", "WARNING") as logged:
                report = run.restore(state)
            self.assertEqual(state["lr"], 0.1)
        self.assertEqual(report.items[0].severity.name, "WARNING")
        self.assertIn("lr", logged.output[0])

    def test_a_step_by_its_number(self):
        state = states(4)
        with pawl.Run(self.run_path) as run:
            for step in (1, 2):
                state["step"] = step
                run.save(state, step)
            self.assertEqual((run.restore(state, step=1).step, state["step"]), (1, 1))
            self.assertEqual((run.restore(state).step, state["step"]), (2, 2))
            with self.assertRaises(pawl.NotFound):
                run.restore(state, step=3)

    def test_r08_damage_is_named_and_an_older_step_is_taken(self):
        state = states(MIB)
        with pawl.Run(self.run_path) as run:
            for step in (1, 2):
                state["step"] = step
                run.save(state, step)
                run.wait()
        data = next((self.run_path / "step-00000002").glob("data-*"))
        raw = bytearray(data.read_bytes())
        raw[MIB // 2] ^= 1
        data.write_bytes(raw)
        found = pawl.verify(self.run_path)
        self.assertFalse(found.ok)
        self.assertEqual((found.problems[0].entry, len(found.problems)), ("x", 1))
        with pawl.Run(self.run_path) as run:
            with self.assertRaises(pawl.Damaged) as caught:
                run.restore(state, fallback=False)
            self.assertIsNotNone(caught.exception.range)
            with self.assertLogs("pawl", "WARNING"):
                report = run.restore(state)
        self.assertEqual((report.step, report.fallbacks, state["step"]), (1, 1, 1))

    def test_r08_what_was_supplied_for_a_damaged_step_is_not_in_the_state(self):
        asked = []

        def supply(entry):
            asked.append(entry.name)
            return pawl.Tensor(bytearray(MIB))

        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"x": bytearray(MIB)}), 1)
            run.wait()
            run.save(pawl.State({"x": bytearray(MIB), "y": bytearray(MIB)}), 2)
        data = next((self.run_path / "step-00000002").glob("data-*"))
        raw = bytearray(data.read_bytes())
        raw[MIB // 2] ^= 1
        data.write_bytes(raw)
        state = pawl.State({"x": bytearray(b"\1") * MIB})
        with pawl.Run(self.run_path) as run:
            self.assertEqual(run.restore(state, supply=supply).step, 1)
            self.assertEqual((asked, list(state)), (["y"], ["x"]))
            run.save(state, 3)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(list(saved), ["x"])

    def test_r09_no_checkpoint(self):
        with pawl.Run(self.run_path) as run, self.assertRaises(pawl.NotFound) as caught:
            run.restore(states(4))
        self.assertIn("no checkpoint", str(caught.exception))

    def test_a_checkpoint_restores_without_owning_the_run(self):
        state = states(MIB)
        with pawl.Run(self.run_path) as run:
            run.save(state, 1)
            run.wait()
            state["x"][:] = bytes(MIB)
            with pawl.open(self.run_path) as checkpoint:
                report = checkpoint.restore(state)
        self.assertEqual(report.restored, 2)
        self.assertEqual(bytes(state["x"]), b"\1" * MIB)


class Looking(support.InDirectory):
    def test_ls_events_doctor(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(MIB), 5, metrics={"loss": 2})
            run.wait()
        (info,) = pawl.ls(self.run_path)
        self.assertEqual((info.step, info.status, info.entries, info.metrics), (5, "committed", 2, {"loss": 2}))
        self.assertLess(abs(info.time - time.time()), 60)
        kinds = [event.kind for event in pawl.events(self.run_path)]
        self.assertEqual(kinds, ["save_begun", "save_ended"])
        ended = list(pawl.events(self.run_path))[-1]
        self.assertTrue(ended.ok)
        self.assertEqual(ended.stats.step, 5)
        self.assertEqual({finding.severity for finding in pawl.doctor(self.run_path)}, {"note"})
        told = [finding.id for finding in pawl.doctor(self.run_path, need_bytes=1 << 60)]
        self.assertIn("S06", told)

    def test_a_checkpoint_is_a_mapping(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"b": bytearray(2), "a/x": 1, "a/y": "t"}), 1)
        checkpoint = pawl.open(self.run_path)
        with checkpoint:
            self.assertEqual((list(checkpoint), len(checkpoint)), (["a/x", "a/y", "b"], 3))
            self.assertIn("b", checkpoint)
            self.assertNotIn("c", checkpoint)
            self.assertEqual(checkpoint.get("c", 7), 7)
            self.assertEqual([entry.name for entry in checkpoint.entries("a/")], ["a/x", "a/y"])
            with self.assertRaises(KeyError) as caught:
                checkpoint["a/z"]
            self.assertIn("a/", caught.exception.next)
        with self.assertRaisesRegex(pawl.UsageError, "the checkpoint is closed"):
            checkpoint["b"]

    def test_an_iterator_that_is_not_finished(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({f"v{i}": i for i in range(5)}), 1)
        checkpoint = pawl.open(self.run_path)
        walk = iter(checkpoint)
        self.assertEqual(next(walk), "v0")
        checkpoint.close()
        with self.assertRaises(pawl.UsageError):
            next(walk)
        del walk

    def test_what_a_signal_handler_raises_is_not_lost(self):
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({f"x{i}": bytearray(100) for i in range(200)}), 1)
        handled = []

        def handler(_number, _frame):
            handled.append(1)
            raise InterruptedError

        def count(_done, _of):
            pass

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        raised = 0
        gc.collect()  # what other tests have left: a finalizer loses what a handler raises in it
        with pawl.open(self.run_path) as checkpoint:
            for i in range(600):
                call = (checkpoint.verify, lambda progress: pawl.diff(checkpoint, checkpoint, progress=progress))[i % 2]
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 * (i % 100 + 1))
                    call(progress=(count, False)[i % 3 == 0])
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except InterruptedError:
                    raised += 1
        self.assertGreater(raised, 20)
        self.assertEqual(raised, len(handled))

    def test_handles_are_not_pickled(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(), 1)
            with self.assertRaisesRegex(pawl.UsageError, "a run can be neither pickled nor copied"):
                pickle.dumps(run)
        with pawl.open(self.run_path) as checkpoint, self.assertRaisesRegex(pawl.UsageError, "makes its own"):
            copy.deepcopy({"of a dataset": checkpoint})

    def test_the_directory_of_an_open_run_is_removed(self):
        run = pawl.Run(self.run_path)
        run.save(states(), 1)
        run.wait()
        shutil.rmtree(self.run_path)
        with self.assertLogs("pawl", "ERROR"), self.assertRaises(pawl.NotFound) as caught:
            run.save(states(), 2)
            run.wait()
        self.assertIn("the directory of the run is not there any more", str(caught.exception))
        self.assertEqual(caught.exception.safe, "not known: step 1 was committed, and cannot be seen now")
        run.close()
        self.assertFalse(self.run_path.exists())

    def test_the_directory_of_an_open_run_is_moved(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(), 1)
            run.wait()
            self.run_path.rename(self.directory / "elsewhere")
            run.save(states(), 2)
        self.assertEqual([info.step for info in pawl.ls(self.directory / "elsewhere")], [1, 2])

    def test_diff_tells_each_difference(self):
        earlier = pawl.State({"w": array.array("f", [1, 2, 3]), "gone": 1, "step": 1, "lr": 0.5})
        later = pawl.State({"w": array.array("f", [1, 2.5, 3]), "come": "x", "step": 2, "lr": 0.5})
        with pawl.Run(self.run_path) as run:
            run.save(earlier, 1)
            run.wait()
            run.save(later, 2)
        told = []
        with pawl.open(self.run_path, step=1) as a:
            found = pawl.diff(a, self.run_path, progress=lambda done, of: told.append((done, of)))
            self.assertTrue(pawl.diff(a, a).identical)
            alone = pawl.diff(a, self.run_path, structure_only=True)
        self.assertTrue(told)
        self.assertFalse(found.identical)
        self.assertEqual((found.same, found.different, found.only_a, found.only_b), (1, 2, 1, 1))
        self.assertEqual(
            [(it.kind, it.name) for it in found.differences],
            [("only_b", "come"), ("only_a", "gone"), ("value", "step"), ("numbers", "w")],
        )
        come, gone, step, numbers = found.differences
        self.assertEqual((come.a, come.b.kind, gone.a.kind, gone.b), (None, "string", "int64", None))
        self.assertEqual((step.value_a, step.value_b), (1, 2))
        self.assertEqual(numbers.distances, pawl.Distances(3, 1, 0, 0.5, 0.5 / 3, compared=True))
        self.assertEqual((numbers.a.dtype, numbers.value_a, found.max_abs), ("F32", None, 0.5))
        self.assertEqual([it.name for it in alone.differences], ["come", "gone"])

    def test_diff_that_cannot_be(self):
        with pawl.Run(self.run_path) as run:
            run.save(states(), 1)

        def fails(_done, _of):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            pawl.diff(self.run_path, self.run_path, progress=fails)
        with self.assertRaises(pawl.NotFound):
            pawl.diff(self.run_path, self.directory / "none")
        closed = pawl.open(self.run_path)
        closed.close()
        with self.assertRaisesRegex(pawl.UsageError, "closed"):
            pawl.diff(self.run_path, closed)
        data = next((self.run_path / "step-00000001").glob("data-*"))
        raw = bytearray(data.read_bytes())
        raw[MIB // 2] ^= 1
        data.write_bytes(raw)
        with self.assertRaises(pawl.Damaged) as caught:
            pawl.diff(self.run_path, self.run_path)
        self.assertTrue(caught.exception.entry)

    def test_paths_that_are_explained(self):
        file = self.directory / "file"
        file.write_text("x")
        for path, error in (
            (self.directory / "none", pawl.NotFound),
            (file, pawl.Error),
            (self.directory / "a\0b", pawl.UsageError),
            (self.directory / "a\ud800b", pawl.UsageError),
            (self.directory, pawl.NotFound),
        ):
            with self.subTest(path=path), self.assertRaises(error) as caught:
                pawl.open(path)
            self.assertTrue(str(caught.exception))
        with self.assertRaises(pawl.Error) as caught:
            pawl.Run(file / "run")
        self.assertTrue(caught.exception.path)

    def test_p02_no_permission(self):
        # Root may write everywhere: it becomes somebody else, after the package was loaded.
        text = (
            "import os, sys, pawl\n"
            "if os.geteuid() == 0:\n    os.setgroups([])\n    os.setgid(65534)\n    os.setuid(65534)\n"
            "try:\n    pawl.Run(sys.argv[1])\n"
            "except PermissionError as why:\n    print(type(why).__name__, why.path)\n"
        )
        self.directory.chmod(0o555)
        self.addCleanup(self.directory.chmod, 0o700)
        done = self.program(text, self.run_path)
        self.assertEqual(done.stdout.split()[:1], ["PermissionDenied"], done.stderr)

    def test_s10_a_second_writer_is_refused_by_name(self):
        with pawl.Run(self.run_path):
            done = self.program(
                "import sys, pawl\n"
                "try:\n    pawl.Run(sys.argv[1], takeover_wait_s=-1)\n"
                "except pawl.Busy as why:\n    print(why)",
                self.run_path,
            )
        self.assertIn(f"pid {os.getpid()}", done.stdout, done.stderr)

    def test_advice_names_calls_of_python_and_paths_as_they_are(self):
        path = self.directory / "pawl_save"
        with pawl.Run(path) as run:
            run.save(pawl.State({"x": 1}), 1)
        with self.assertRaises(pawl.NotFound) as caught, pawl.open(path, step=3):
            pass
        self.assertIn(f"pawl ls {path}", caught.exception.next)
        with pawl.Run(path, on_busy="error", bandwidth_bytes_per_s=1 << 20, in_flight_bytes=1 << 20) as run:
            run.save(pawl.State({"x": bytearray(4 << 20)}), 2)
            with self.assertRaises(pawl.Busy) as caught:
                run.save(pawl.State({"x": 1}), 3)
            run.cancel()
            with self.assertRaises(pawl.Canceled):
                run.wait()
        self.assertEqual(caught.exception.next, "call Run.wait() first, save less often, or choose on_busy='wait'")

    def test_the_log_goes_to_logging(self):
        logger = logging.getLogger("pawl")
        level = logger.level
        self.addCleanup(logger.setLevel, level)
        with self.assertLogs("pawl", "INFO") as logged:
            with pawl.Run(self.run_path) as run:
                run.save(states(4), 12)
                run.wait()
        self.assertTrue(any("12" in line for line in logged.output), logged.output)


SLOW_SAVE = """
import os, signal, sys, threading, time, warnings, pawl
state = pawl.State({"x": bytearray(b"\\1") * (8 << 20)})
run = pawl.Run(sys.argv[1], bandwidth_bytes_per_s=4 << 20, budget_bytes=8 << 20, in_flight_bytes=1 << 20)
run.save(state, 1)
"""


class Page(support.InDirectory):
    def test_the_programs_of_the_page_run_twice(self):
        support.numpy_or_skip()
        page = (support.SOURCE / "docs" / "python.md").read_text(encoding="utf-8")
        page = page.partition("## PyTorch")[0]  # its programs are tests/python/torch's
        text = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
        for _ in range(2):
            done = self.program(text, cwd=self.directory)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("1000 committed", done.stdout)


class Ending(support.InDirectory):
    """A save takes 2 s; the program does something else meanwhile."""

    def steps(self):
        return [info.step for info in pawl.ls(self.run_path) if info.status == "committed"]

    def test_an_interpreter_that_ends_finishes_the_save(self):
        for ending in ("", "raise SystemExit(0)", "del state, run", "sys.exit()"):
            with self.subTest(ending):
                done = self.program(SLOW_SAVE + ending, self.run_path)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(self.steps(), [1])

    def test_what_outlives_the_modules_is_freed_quietly(self):
        text = (
            "import json, sys, pawl\n"
            "with pawl.Run(sys.argv[1]) as run:\n    run.save(pawl.State({'x': bytearray(8)}), 1)\n"
            "kept = [pawl.State({'x': bytearray(8)}), pawl.open(sys.argv[1]), pawl.BatchCheck()]\n"
            "json.kept = kept + [*sys.modules.values()]\n"
        )
        done = self.program(text, self.run_path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_process_that_is_gone_at_once_loses_that_save_alone(self):
        done = self.program(SLOW_SAVE + "run.wait()\nrun.save(state, 2)\nos._exit(3)", self.run_path)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.steps(), [1])

    def test_an_exception_in_the_block_is_the_one_that_is_raised(self):
        with self.assertRaisesRegex(RuntimeError, "mine"):
            with pawl.Run(self.run_path) as run:
                run.save(states(64), 1)
                raise RuntimeError("mine")
        self.assertEqual(self.steps(), [1])

    def test_ctrl_c_is_answered_while_waiting(self):
        text = SLOW_SAVE.replace("4 << 20, budget", "1 << 20, budget") + (
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "began = time.monotonic()\n"
            "try:\n    run.wait()\n"
            "except KeyboardInterrupt:\n    print(time.monotonic() - began)\n"
            "run.cancel()\n"
            "try:\n    run.wait()\n"
            "except pawl.Canceled:\n    print('cancelled')\n"
        )
        done = self.program(text, self.run_path)
        self.assertEqual(done.returncode, 0, done.stderr)
        answered, word = done.stdout.split()
        self.assertLess(float(answered), 6)  # the save takes 8
        self.assertEqual(word, "cancelled")

    def test_ctrl_c_is_answered_while_opening(self):
        text = (
            "import os, signal, sys, threading, time, pawl\n"
            "run = pawl.Run(sys.argv[1])\n"
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "began = time.monotonic()\n"
            "try:\n    pawl.Run(sys.argv[1])\n"
            "except KeyboardInterrupt:\n    print(time.monotonic() - began)\n"
            "run.save(pawl.State({'x': 1}), 1)\n"
            "run.close()\n"
        )
        done = self.program(text, self.run_path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(float(done.stdout), 10)  # a lease is 30
        with pawl.open(self.run_path) as saved:
            self.assertEqual(saved["x"], 1)

    def test_ctrl_c_is_answered_while_restoring(self):
        text = SLOW_SAVE.replace("4 << 20, budget", "1 << 20, budget") + (
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "began = time.monotonic()\n"
            "other = pawl.State({'x': bytearray(8 << 20)})\n"
            "try:\n    run.restore(other)\n"
            "except KeyboardInterrupt:\n    print(time.monotonic() - began)\n"
            "print(run.wait().step)\n"
            "print(run.restore(other).step)\n"
            "run.close()\n"
        )
        done = self.program(text, self.run_path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answered, *steps = done.stdout.split()
        self.assertLess(float(answered), 6)  # the save takes 8
        self.assertEqual(steps, ["1", "1"])

    @unittest.skipIf(
        "libasan" in os.environ.get("LD_PRELOAD", ""),
        "AddressSanitizer's allocator is locked for ever in a child, where a thread of the parent was allocating",
    )
    def test_a_forked_child_is_told(self):
        text = SLOW_SAVE + (
            "checkpointed = pawl.State({'y': 1})\n"
            "warnings.simplefilter('ignore')  # Python warns of threads, which are why a child is told\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    for call in (run.wait, run.fence, lambda: run.save(state, 2), lambda: checkpointed['y']):\n"
            "        try:\n            call()\n"
            "        except pawl.UsageError as why:\n            print(str(why).splitlines()[0], flush=True)\n"
            "    run.close()\n"
            "    sys.exit(0)\n"
            "print('child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
            "run.wait()\n"
        )
        done = self.program(text, self.run_path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len([line for line in lines if "belongs to the process that opened it" in line]), 4)
        self.assertEqual(lines[-1], "child 0")
        self.assertEqual(self.steps(), [1])

    def test_the_library_that_is_not_there_is_named(self):
        done = self.program("import os; os.environ['PAWL_LIBRARY'] = '/nowhere/libpawl.so'; import pawl")
        self.assertIn("ImportError: libpawl cannot be loaded: /nowhere/libpawl.so", done.stderr)

    def test_importing_needs_nothing_else(self):
        text = (
            "import sys, pawl; print([name for name in ('numpy', 'torch', 'tensorflow', 'jax') if name in sys.modules])"
        )
        self.assertEqual(self.program(text).stdout.strip(), "[]")

    def test_nothing_is_left_in_the_directory_of_the_package(self):
        self.assertTrue((support.PACKAGE / "pawl" / "py.typed").exists())
        self.assertTrue(pathlib.Path(pawl.__file__).is_relative_to(support.PACKAGE), sys.path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
