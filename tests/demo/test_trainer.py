# SPDX-License-Identifier: Apache-2.0
"""The example trainer as a process: what it says when training goes wrong, and that it resumes exactly.

Usage: test_trainer.py CHARLM DIRECTORY [TEST]...
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

DEADLINE_S = 60
TEXT = "It is the catch that keeps a ratchet from slipping back, says the pawl.\n" * 4
SMALL = ["--hidden", "8", "--context", "4", "--batch", "16"]


class Result:
    """Exit code and text of one trainer; paths of this machine are replaced by words."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err

    def weights(self):
        return re.search(r"weights ([0-9a-f]{16})", self.out).group(1)


class TrainerTest(unittest.TestCase):
    charlm = None
    directory = None

    def setUp(self):
        self.home = os.path.join(self.directory, self._testMethodName)
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home)
        self.text = self.write_text("text.txt", TEXT)
        self.maxDiff = None

    def write_text(self, name, content):
        path = os.path.join(self.home, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(content)
        return path

    def command(self, *options, run="run", text=None):
        return [self.charlm, "--run", os.path.join(self.home, run), *SMALL, *map(str, options),
                text or self.text]

    def words(self, text):
        return text.decode().replace(self.home, "HOME")

    def train(self, *options, limit_bytes=None, **where):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        done = subprocess.run(self.command(*options, **where), capture_output=True, check=False,
                              timeout=DEADLINE_S, preexec_fn=limit if limit_bytes else None)
        return Result(done.returncode, self.words(done.stdout), self.words(done.stderr))

    def assert_trained(self, result, err=""):
        self.assertEqual(result.err, err)
        self.assertEqual(result.code, 0)

    def assert_failed(self, result, err, code=1):
        self.assertEqual(result.err, err)
        self.assertEqual(result.code, code)


class Mistakes(TrainerTest):
    """Failures J01, J02, J05 and J06, really made, with the whole text of the message."""

    def test_j01_smaller_last_batch(self):
        """The remainder of an epoch, kept, is refused as soon as it comes."""
        self.assert_failed(self.train("--steps", 100, "--keep-remainder"), "?")

    def test_j01_dropped_remainder(self):
        """By default the remainder is dropped, and training passes the end of the epoch."""
        self.assert_trained(self.train("--steps", 100))

    def test_j02_other_dtype(self):
        """A batch that comes with another dtype than the first is refused."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "batch-dtype"), "?")

    def test_j05_nan_gradient(self):
        """A gradient with a NaN is refused before it reaches a weight."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "nan-gradient"), "?")

    def test_j05_no_gradient(self):
        """A variable without a gradient is refused."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "no-gradient"), "?")

    def test_j06_data_from_the_top(self):
        """A loader that begins anew after a resume is refused."""
        self.assert_trained(self.train("--steps", 3))
        self.assert_failed(self.train("--steps", 6, "--mistake", "data-position"), "?")

    def test_j06_shorter_text(self):
        """A text that ends before the position of the checkpoint is refused."""
        self.assert_trained(self.train("--steps", 10))
        shorter = self.write_text("shorter.txt", TEXT[:100])
        self.assert_failed(self.train("--steps", 12, text=shorter), "?")

    def test_j06_other_batch_size(self):
        """Another batch size is said, with both signatures, and training goes on."""
        self.assert_trained(self.train("--steps", 3))
        self.assert_trained(self.train("--steps", 6, "--batch", 8), "?")


class Resuming(TrainerTest):
    """Training in pieces ends where training in one piece does."""

    def straight(self, *options):
        result = self.train("--steps", 40, *options, run="straight")
        self.assert_trained(result)
        return result.weights()

    def test_in_pieces(self):
        """Three runs of one trainer, over the ends of epochs, end with the weights of one run."""
        for steps in (11, 29, 40):
            result = self.train("--steps", steps, "--save-every", 5)
            self.assert_trained(result)
        self.assertIn("resumed from step 29", result.out)
        self.assertEqual(result.weights(), self.straight())

    def test_in_pieces_sgd(self):
        """The same with the other optimizer."""
        for steps in (11, 40):
            result = self.train("--steps", steps, "--optimizer", "sgd")
            self.assert_trained(result)
        self.assertEqual(result.weights(), self.straight("--optimizer", "sgd"))

    def test_seed_changes_the_weights(self):
        """The weights depend on the seed: equal weights elsewhere are no coincidence."""
        other = self.train("--steps", 40, "--seed", 2)
        self.assertNotEqual(other.weights(), self.straight())

    def test_s13_signal_saves_and_resumes(self):
        """SIGTERM ends training with code 75 and a checkpoint, and the rest ends with equal weights."""
        many = 200000
        events = os.path.join(self.home, "events")
        command = self.command("--steps", many, "--save-every", 0, "--events", events)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as trainer:
            limit = time.monotonic() + DEADLINE_S
            while not (os.path.exists(events) and b" step 5\n" in read(events)):
                self.assertLess(time.monotonic(), limit, "no step 5")
                time.sleep(0.01)
            trainer.send_signal(signal.SIGTERM)
            out, err = trainer.communicate(timeout=DEADLINE_S)
        self.assertEqual(err, b"")
        self.assertEqual(trainer.returncode, 75)
        step = int(re.search(r"stopped after step (\d+), which is saved", out.decode()).group(1))
        result = self.train("--steps", step + 7)
        self.assert_trained(result)
        straight = self.train("--steps", step + 7, run="straight")
        self.assertEqual(result.weights(), straight.weights())

    def test_finished_run_is_left_alone(self):
        """Running a finished run again trains nothing, and says so."""
        first = self.train("--steps", 5)
        again = self.train("--steps", 5)
        self.assert_trained(again)
        self.assertEqual(again.weights(), first.weights())
        self.assertIn("finished at step 5", again.out)

    def test_from_another_run(self):
        """--from takes the weights of another run, and nothing else of it."""
        old = self.train("--steps", 5, run="old")
        new = self.train("--steps", 0, "--seed", 9, "--optimizer", "sgd",
                         "--from", os.path.join(self.home, "old"), run="new")
        self.assert_trained(new)
        self.assertIn("starting at step 0 with the model of HOME/old, step 5", new.out)
        self.assertEqual(new.weights(), old.weights())


class OtherTraining(TrainerTest):
    """A checkpoint of another training is never taken in silence."""

    def test_r01_other_shape(self):
        """Another width of the hidden layers is refused, naming every variable and slot."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--hidden", 12)
        self.assertEqual(result.code, 1)
        for name in ("model/dense1/kernel", "model/output/kernel", "optimizer/adam/v/dense2/bias"):
            self.assertIn(name, result.err)

    def test_r06_other_optimizer(self):
        """Another class of optimizer is refused."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--optimizer", "sgd")
        self.assertEqual(result.code, 1)
        self.assertIn("AdamW", result.err)
        self.assertIn("SGD", result.err)

    def test_r07_checkpoint_rate_stands(self):
        """The checkpoint's learning rate stands by default, and a warning tells."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1)
        self.assert_trained(result, "?")
        self.assertEqual(result.weights(), self.train("--steps", 6, run="straight").weights())

    def test_r07_caller_rate_stands(self):
        """With --hyperparameters caller the learning rate of the command line counts."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1, "--hyperparameters", "caller")
        self.assert_trained(result, "?")
        self.assertNotEqual(result.weights(), self.train("--steps", 6, run="straight").weights())

    def test_r07_error(self):
        """With --hyperparameters error another learning rate is refused."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1, "--hyperparameters", "error")
        self.assertEqual(result.code, 1)
        self.assertIn("optimizer/learning_rate", result.err)


class Saving(TrainerTest):
    """A save that fails."""

    def test_s06_file_size_limit(self):
        """Saves that cannot be written are reported one by one; training goes on, and fails at the end."""
        result = self.train("--steps", 6, "--save-every", 3, limit_bytes=4096)
        self.assertEqual(result.code, 1)
        self.assertIn("step      6", result.out)
        self.assertNotIn("finished", result.out)
        self.assertIn("a save failed; training goes on", result.err)


class CommandLine(TrainerTest):
    """What is wrong on the command line is said before anything is done."""

    def assert_usage(self, err, *options):
        self.assert_failed(self.train(*options), f"charlm: {err}\n", code=2)

    def test_wrong_options(self):
        """Each wrong option has its sentence."""
        self.assert_usage("there is no option --stepz; charlm --help lists them", "--stepz", "1")
        self.assert_usage("--steps x: a whole number from 0 to 1000000000 is needed", "--steps", "x")
        self.assert_usage("--batch 0: a whole number from 1 to 1000000000 is needed", "--batch=0")
        self.assert_usage("--learning-rate nan: a number above 0 is needed", "--learning-rate", "nan")
        self.assert_usage("--optimizer adam: adamw or sgd is needed", "--optimizer", "adam")
        self.assert_usage("--keep-remainder takes no value", "--keep-remainder=1")
        self.assert_usage("--mistake typo: one of batch-dtype, data-position, nan-gradient or "
                          "no-gradient is needed", "--mistake", "typo")
        self.assert_usage("--hyperparameters mine: one of checkpoint, caller or error is needed",
                          "--hyperparameters", "mine")

    def test_missing_text(self):
        """A text that is not there is named, with the system's words."""
        self.assert_failed(self.train(text="nowhere.txt"),
                           "charlm: cannot read the text nowhere.txt: No such file or directory\n")

    def test_short_text(self):
        """A text that is too short for one batch is refused with both figures."""
        self.assert_failed(
            self.train(text=self.write_text("short.txt", "too short")),
            "charlm: the text has 9 characters; batches of 16 windows of 4 characters need at least "
            "20, and at most 4294967295 are supported\n")


def read(path):
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    TrainerTest.charlm, TrainerTest.directory = sys.argv[1:3]
    os.makedirs(TrainerTest.directory, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
