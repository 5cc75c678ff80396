# SPDX-License-Identifier: Apache-2.0
"""CheckpointManager does what that of tf.train does, in the background, and keeps what it promises."""

import gc
import os
import threading
import time
import weakref

import support
from support import InDirectory, address, np, tf

import jobs
import pawl
import pawl.tf
from pawl import _let_go
from pawl.tf import _target

support.two_devices()

#: Slow enough that a save is still being written when the next step is made.
SLOW = {"bandwidth_bytes_per_s": 8 << 20, "in_flight_bytes": 1 << 20, "budget_bytes": 8 << 20}

NEVER_CLOSED = """
import sys, tensorflow as tf, pawl.tf
manager = pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=tf.Variable(tf.ones((1000, 1000)))), sys.argv[1], 2)
manager.save()
"""

KILLED = """
import os, signal, sys, tensorflow as tf, pawl.tf
checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.zeros((1000, 1000))), step=tf.Variable(0))
slow = {"bandwidth_bytes_per_s": 1 << 20, "in_flight_bytes": 1 << 20}
manager = pawl.tf.CheckpointManager(checkpoint, sys.argv[1], 2, step_counter=checkpoint.step)
manager.save()
manager.sync()
manager.close()
checkpoint.step.assign(1)
checkpoint.a.assign_add(tf.ones((1000, 1000)))
manager = pawl.tf.CheckpointManager(checkpoint, sys.argv[1], 2, step_counter=checkpoint.step, **slow)
manager.save()
os.kill(os.getpid(), signal.SIGKILL)
"""


def manager_of(path, max_to_keep=None, **options):
    checkpoint = pawl.tf.Checkpoint(a=tf.Variable(0.0), step=tf.Variable(0, dtype=tf.int64))
    return pawl.tf.CheckpointManager(checkpoint, path, max_to_keep, **options)


class Skipped(InDirectory):
    def test_a_save_that_is_skipped_has_no_path_and_is_due_again(self):
        checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.zeros((1000, 1000))), step=tf.Variable(0))
        slow = {"bandwidth_bytes_per_s": 1 << 20, "in_flight_bytes": 1 << 20, "on_busy": "skip"}
        with pawl.tf.CheckpointManager(
            checkpoint, self.run_path, 9, step_counter=checkpoint.step, checkpoint_interval=1, **slow
        ) as manager:
            self.assertEqual(manager.save(), f"{self.run_path}@0")
            checkpoint.step.assign(1)
            with self.assertLogs("pawl", "INFO") as logged:
                self.assertIsNone(manager.save())
            self.assertIn("step 1 is skipped", logged.output[-1])
            self.assertTrue(manager.run.wait().skipped)
            self.assertEqual(manager.save(), f"{self.run_path}@1")
        self.assertEqual([step.step for step in pawl.ls(self.run_path)], [0, 1])


class Idioms(InDirectory):
    def both(self, **options):
        """A manager of TensorFlow and one of pawl, each with a counter."""
        found = []
        self.number = getattr(self, "number", 0) + 1
        for kind, make in (("tf", tf.train.CheckpointManager), ("pawl", pawl.tf.CheckpointManager)):
            checkpoint = (tf.train if kind == "tf" else pawl.tf).Checkpoint(a=tf.Variable(0.0), step=tf.Variable(0))
            counter = {"step_counter": checkpoint.step} if "checkpoint_interval" in options else {}
            found.append(
                make(
                    checkpoint,
                    str(self.directory / f"{kind}{self.number}"),
                    **{"max_to_keep": None, **options, **counter},
                )
            )
        self.addCleanup(found[1].close)
        return found

    def test_saves_are_due_at_the_same_steps(self):
        due = []
        for manager in self.both(checkpoint_interval=5):
            saved = []
            for step in (0, 3, 5, 7, 12):
                manager.checkpoint.step.assign(step)
                if manager.save() is not None:
                    saved.append(step)
            due.append(saved)
        self.assertEqual(due, [[0, 5, 12]] * 2)

    def test_without_the_interval_a_step_is_still_not_saved_twice(self):
        due = []
        for manager in self.both(checkpoint_interval=5):
            saved = []
            for step in (0, 0, 3, 3, 5):
                manager.checkpoint.step.assign(step)
                if manager.save(check_interval=False) is not None:
                    saved.append(step)
            due.append(saved)
        self.assertEqual(due, [[0, 3, 5]] * 2)

    def due_again(self, kind, given):
        """What is saved by a second manager, after one that has saved step 3."""
        framework = tf.train if kind == "tf" else pawl.tf
        checkpoint = framework.Checkpoint(step=tf.Variable(3))
        path, saved = str(self.directory / f"{kind} {given}"), []
        first = framework.CheckpointManager(checkpoint, path, None, step_counter=checkpoint.step)
        first.save()
        if kind == "pawl":
            first.close()
        options = {"step_counter": checkpoint.step, "checkpoint_interval": 5}
        if given:
            options["last_checkpoint_step"] = 3
        second = framework.CheckpointManager(checkpoint, path, None, **options)
        if not given:
            second.restore_or_initialize()
        for step in (3, 4, 8, 9):
            checkpoint.step.assign(step)
            if second.save() is not None:
                saved.append(step)
        if kind == "pawl":
            second.close()
        return saved

    def test_the_interval_counts_from_the_step_that_is_given_or_restored(self):
        for given in (True, False):
            with self.subTest(given=given):
                self.assertEqual([self.due_again(kind, given) for kind in ("tf", "pawl")], [[8], [8]])

    def test_the_newest_so_many_stay(self):
        for manager in self.both(max_to_keep=2):
            for _ in range(5):
                manager.save()
            names = [os.path.basename(path).replace("ckpt-", "pawl1@") for path in manager.checkpoints]
            self.assertEqual(names, ["pawl1@4", "pawl1@5"])
            self.assertEqual(manager.latest_checkpoint, manager.checkpoints[-1])

    def test_numbers_that_are_given(self):
        for manager in self.both():
            for number in (7, tf.Variable(9, dtype=tf.int64), tf.constant(11, tf.int64)):
                manager.save(checkpoint_number=number)
            self.assertEqual([int(path.replace("@", "-").rsplit("-")[-1]) for path in manager.checkpoints], [7, 9, 11])

    def test_numbers_go_on_after_the_newest_that_is_there(self):
        with manager_of(self.run_path) as manager:
            manager.save(checkpoint_number=7)
        with manager_of(self.run_path) as manager:
            self.assertEqual(manager.save(), f"{self.run_path}@8")

    def test_what_tensorflow_refuses(self):
        for make, checkpoint in (
            (tf.train.CheckpointManager, tf.train.Checkpoint()),
            (pawl.tf.CheckpointManager, pawl.tf.Checkpoint()),
        ):
            with self.assertRaisesRegex(ValueError, "positive integer"):
                make(checkpoint, str(self.run_path), 0)
            with self.assertRaisesRegex(ValueError, "step_counter"):
                make(checkpoint, str(self.run_path), 1, checkpoint_interval=5)

    def test_restore_or_initialize(self):
        called = []
        with manager_of(self.run_path, init_fn=lambda: called.append(1)) as manager:
            self.assertIsNone(manager.restore_or_initialize())
            self.assertEqual(called, [1])
            manager.checkpoint.a.assign(5.0)
            manager.save()
        with manager_of(self.run_path, init_fn=lambda: called.append(2)) as manager:
            self.assertEqual(manager.restore_or_initialize(), f"{self.run_path}@1")
            self.assertEqual((called, manager.checkpoint.a.numpy()), ([1], 5.0))
            manager.report.assert_consumed().assert_existing_objects_matched().assert_nontrivial_match()

    def test_restoring_the_latest(self):
        with manager_of(self.run_path) as manager:
            for value in (1.0, 2.0, 3.0):
                manager.checkpoint.a.assign(value)
                manager.save()
            manager.checkpoint.restore(manager.latest_checkpoint).assert_consumed()
            self.assertEqual(manager.checkpoint.a.numpy(), 3.0)
            manager.checkpoint.restore(manager.checkpoints[0])
            self.assertEqual(manager.checkpoint.a.numpy(), 1.0)
            report = manager.restore(step=2)
            self.assertEqual((manager.checkpoint.a.numpy(), report.path), (2.0, f"{self.run_path}@2"))

    def test_a_checkpoint_of_tf_train_is_taken_over(self):
        given = tf.train.Checkpoint(block=jobs.Block())
        given.save(self.directory / "tf" / "ck")  # makes a save_counter
        with pawl.tf.CheckpointManager(given, self.run_path, 1) as manager:
            manager.save()
        with pawl.open(self.run_path) as saved:
            self.assertIn("block/w", saved)
            self.assertNotIn("save_counter", saved)

    def test_older_numbers_are_told_in_the_log(self):
        with manager_of(self.run_path) as manager:
            manager.save(checkpoint_number=9)
            with self.assertLogs("pawl.tf", "WARNING") as logged:
                manager.save(checkpoint_number=3)
            self.assertIn("newer than step 3", logged.output[0])
            self.assertTrue(manager.latest_checkpoint.endswith("@9"))


class Cut(InDirectory):
    def test_updates_beside_a_save_are_not_in_it(self):
        many = [tf.Variable(tf.zeros((256, 1024))) for _ in range(8)]
        one = tf.ones((256, 1024))
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(many=many), self.run_path, None, **SLOW) as manager:
            for step in range(3):
                manager.save()
                for variable in many:
                    variable.assign_add(one)
                    variable.scatter_add(tf.IndexedSlices(one[:1], [0]))
                self.assertEqual(manager.run.fenced(), False, "the save was over before the updates were")
                manager.sync()
                with pawl.open(self.run_path) as saved:
                    for i in range(8):
                        found = np.asarray(saved[f"many/{i}"])
                        self.assertEqual((found[0, 0], found.max()), (2 * step, 2 * step if step else 0))
                        self.assertTrue((found[1:] == step).all())

    def test_values_are_not_copied_and_are_let_go_when_they_are_written(self):
        variable = tf.Variable(tf.zeros((1024, 1024)))
        held = []

        def hold_all(variables):
            arrays = _hold_all(variables)
            held.extend((address(array), weakref.ref(array)) for array in arrays)
            return arrays

        _hold_all, _target.hold_all = _target.hold_all, hold_all
        self.addCleanup(setattr, _target, "hold_all", _hold_all)
        with pawl.tf.CheckpointManager(pawl.tf.Checkpoint(a=variable), self.run_path, 1, **SLOW) as manager:
            manager.save()
            self.assertEqual(held[0][0], address(np.asarray(variable.value())))
            self.assertIsNotNone(held[0][1]())
            deadline = time.monotonic() + 60
            while held[0][1]() is not None and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.01)
            self.assertIsNone(held[0][1](), "nobody has let go, although nothing was called")

    def test_a_run_that_is_never_closed_is_finished_at_exit(self):
        self.program(NEVER_CLOSED, self.run_path)
        with pawl.open(self.run_path) as saved:
            self.assertEqual(np.asarray(saved["a"]).sum(), 1e6)

    def test_a_job_that_is_killed_while_it_saves_goes_on_from_the_step_before(self):
        done = self.program(KILLED, self.run_path, check=False)
        self.assertEqual(done.returncode, -9, done.stderr)
        checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.ones((1000, 1000))), step=tf.Variable(5))
        with pawl.tf.CheckpointManager(checkpoint, self.run_path, 2) as manager:
            self.assertEqual(manager.restore_or_initialize(), f"{self.run_path}@0")
        self.assertEqual((int(checkpoint.step), float(tf.reduce_sum(checkpoint.a))), (0, 0.0))

    def test_an_interrupted_first_save_is_no_checkpoint(self):
        self.program(
            KILLED.replace("manager.save()\nmanager.sync()\nmanager.close()\n", "manager.close()\n", 1),
            self.run_path,
            check=False,
        )
        called = []
        checkpoint = pawl.tf.Checkpoint(a=tf.Variable(tf.ones((1000, 1000))), step=tf.Variable(5))
        with pawl.tf.CheckpointManager(checkpoint, self.run_path, 2, init_fn=lambda: called.append(1)) as manager:
            self.assertIsNone(manager.restore_or_initialize())
        self.assertEqual(called, [1])

    def test_many_threads_wait_for_nothing(self):
        with manager_of(self.run_path, 2) as manager:
            for _ in range(20):
                manager.save()
            manager.sync()
            self.assertLess(sum(thread.name == _let_go.NAME for thread in threading.enumerate()), 2)


if __name__ == "__main__":
    support.main()
