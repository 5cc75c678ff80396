# SPDX-License-Identifier: Apache-2.0
"""The example trainer as a process: what it says when training goes wrong, and that it resumes exactly.

Usage: test_trainer.py CHARLM OTHER_CHECKPOINT DIRECTORY [TEST]...
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
    other_checkpoint = None
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

    def start(self, command):
        """A process that does not outlive the test, whatever becomes of that."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition, what):
        limit = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), limit, f"no {what}")
            time.sleep(0.01)

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
        self.assert_failed(self.train("--steps", 100, "--keep-remainder"), """\
charlm: batch 17 `inputs` has shape [12,4], the first had [16,4]; drop or pad the remainder
  entry:    inputs
  expected: [16,4]
  found:    [12,4]
  next:     drop or pad the remainder
""")

    def test_j01_dropped_remainder(self):
        """By default the remainder is dropped, and training passes the end of the epoch."""
        self.assert_trained(self.train("--steps", 100))

    def test_j02_other_dtype(self):
        """A batch that comes with another dtype than the first is refused."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "batch-dtype"), """\
charlm: batch 2 `inputs` has dtype I64, the first had U8; mend the input
  entry:    inputs
  expected: U8
  found:    I64
  next:     mend the input: convert the entry, or find out why it changed
""")

    def test_j05_nan_gradient(self):
        """A gradient with a NaN is refused before it reaches a weight."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "nan-gradient"), """\
charlm: the gradient of `model/dense1/kernel` is not finite: NaN at element 7
  entry:    model/dense1/kernel
  expected: 2048 finite elements
  found:    1 NaN, 0 infinite
  next:     leave out this step, or go back to the last checkpoint with a smaller learning rate; \
look at this batch for NaN, division by zero or overflow
""")

    def test_j05_no_gradient(self):
        """A variable without a gradient is refused."""
        self.assert_failed(self.train("--steps", 10, "--mistake", "no-gradient"), """\
charlm: the gradient of `model/dense1/kernel` is missing: it is a null pointer
  entry:    model/dense1/kernel
  expected: F32 [256, 8], as the variable
  found:    a null pointer
  next:     is the variable used by the loss? Freeze it by leaving it out of both lists, or give \
it a gradient of zeros
""")

    def test_j06_data_from_the_top(self):
        """A loader that begins anew after a resume is refused."""
        self.assert_trained(self.train("--steps", 3))
        self.assert_failed(self.train("--steps", 6, "--mistake", "data-position"), """\
charlm: the checkpoint was saved at data position 48, the loader stands at 0
  entry:    data/position
  expected: 48, as restored
  found:    0
  next:     move the loader on to 48 before training goes on, or examples are seen twice
""")

    def test_j06_shorter_text(self):
        """A text that ends before the position of the checkpoint is refused."""
        self.assert_trained(self.train("--steps", 10))
        shorter = self.write_text("shorter.txt", TEXT[:100])
        self.assert_failed(self.train("--steps", 12, text=shorter), """\
charlm: the checkpoint was saved at data position 160, the loader stands at 96
  entry:    data/position
  expected: 160, as restored
  found:    96
  next:     move the loader on to 160 before training goes on, or examples are seen twice
""")

    def test_j06_other_batch_size(self):
        """Another batch size is said, with both signatures, and training goes on."""
        self.assert_trained(self.train("--steps", 3))
        self.assert_trained(self.train("--steps", 6, "--batch", 8), """\
charlm: warning: restoring step 3: the batches changed: "data/batch_signature" is \
{"inputs":{"dtype":"U8","shape":[16,4]},"targets":{"dtype":"U8","shape":[16]}} in the checkpoint and \
{"inputs":{"dtype":"U8","shape":[8,4]},"targets":{"dtype":"U8","shape":[8]}} in the state: \
the state's value is used
""")


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
        events = os.path.join(self.home, "events")
        trainer = self.start(self.command("--steps", 10**9, "--save-every", 0, "--events", events))
        self.wait_for(lambda: os.path.exists(events) and b" step 5\n" in read(events), "step 5")
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
        """--from continues where another run stopped, and leaves that run alone."""
        self.assert_trained(self.train("--steps", 11, run="old"))
        new = self.train("--steps", 40, "--from", os.path.join(self.home, "old"), run="new")
        self.assert_trained(new)
        self.assertIn("resumed from step 11 of HOME/old", new.out)
        self.assertEqual(new.weights(), self.straight())
        self.assertEqual(os.listdir(os.path.join(self.home, "old")).count("step-00000040"), 0)

    def test_model_only_from_another_run(self):
        """With --model-only it takes the weights and nothing else: another optimizer is no matter."""
        old = self.train("--steps", 11, run="old")
        new = self.train("--steps", 0, "--seed", 9, "--optimizer", "sgd", "--model-only",
                         "--from", os.path.join(self.home, "old"), run="new")
        self.assert_trained(new)
        self.assertEqual(new.weights(), old.weights())
        self.assertIn("finished at step 0", new.out)

    def test_model_only_of_the_run(self):
        """--model-only on the run itself goes on counting steps, so that the newest stays the newest."""
        self.assert_trained(self.train("--steps", 11))
        self.assert_trained(self.train("--steps", 13, "--optimizer", "sgd", "--model-only"))
        result = self.train("--steps", 14, "--optimizer", "sgd")
        self.assert_trained(result)
        self.assertIn("resumed from step 13", result.out)


class OtherTraining(TrainerTest):
    """A checkpoint of another training is never taken in silence."""

    def test_r01_other_shape(self):
        """Another width of the hidden layers is refused, naming every variable and slot."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--hidden", 12)
        self.assertEqual(result.code, 1)
        for line in ("model/dense1/kernel: [256, 8] F32 in the checkpoint, [256, 12] F32 here",
                     "model/output/kernel: [8, 256] F32 in the checkpoint, [12, 256] F32 here",
                     "optimizer/adam/v/dense2/bias: [8] F32 in the checkpoint, [12] F32 here"):
            self.assertIn(f"charlm: {line}\n", result.err)
        self.assertIn("step 3 and the state differ in 15 places", result.err)
        self.assertNotIn("--model-only", result.err)  # the model's own shapes differ

    def test_r06_other_optimizer(self):
        """Another class of optimizer is refused, and what to do about it is said."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--optimizer", "sgd")
        self.assertEqual(result.code, 1)
        self.assertIn('the optimizer changed from "AdamW" in the checkpoint to "SGD"', result.err)
        self.assertIn("  next:     pass --model-only to restore the model alone\n", result.err)
        self.assertIn("            with --model-only it resumes\n", result.err)
        self.assertNotIn("options.", result.err)

    def test_r07_checkpoint_rate_stands(self):
        """The checkpoint's learning rate stands by default, and a warning tells."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1)
        self.assert_trained(result, """\
charlm: warning: restoring step 3: "optimizer/learning_rate" is 0.001 in the checkpoint and 0.1 in the state: \
the checkpoint's value is used
charlm: pass --hyperparameter=caller to keep the state's
""")
        self.assertEqual(result.weights(), self.train("--steps", 6, run="straight").weights())

    def test_r07_caller_rate_stands(self):
        """With --hyperparameter=caller the learning rate of the command line counts."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1, "--hyperparameter=caller")
        self.assert_trained(result, """\
charlm: warning: restoring step 3: "optimizer/learning_rate" is 0.001 in the checkpoint and 0.1 in the state: \
the state's value is used
""")
        self.assertNotEqual(result.weights(), self.train("--steps", 6, run="straight").weights())

    def test_r07_error(self):
        """With --hyperparameter=error another learning rate is refused."""
        self.assert_trained(self.train("--steps", 3))
        result = self.train("--steps", 6, "--learning-rate", 0.1, "--hyperparameter=error")
        self.assertEqual(result.code, 1)
        self.assertIn("charlm: optimizer/learning_rate: 0.001 in the checkpoint, 0.1 here\n",
                      result.err)

    def begin_with_other(self, *options):
        other = os.path.join(self.home, "other")
        if not os.path.exists(other):
            subprocess.run([self.other_checkpoint, other], check=True, timeout=DEADLINE_S)
        return self.train("--steps", 1, "--model-only", "--from", other, *options)

    RENAME, CAST = ("--rename", "net=model"), ("--cast=allow",)
    MISSING, UNEXPECTED = ("--missing=allow",), ("--unexpected=allow",)

    def test_other_program_accepted(self):
        """Names, dtype and layers of another program's checkpoint are taken when all is asked for."""
        result = self.begin_with_other(*self.RENAME, *self.CAST, *self.MISSING, *self.UNEXPECTED)
        self.assertEqual(result.code, 0)
        self.assertIn("resumed from step 7 of HOME/other: 6 entries", result.out)

    def test_other_program_as_advised(self):
        """What is said to resume it does."""
        result = self.begin_with_other()
        self.assertEqual(result.code, 1)
        together = re.search(r"^ +with (--.*) it resumes$", result.err, re.M)
        self.assertIsNotNone(together, result.err)
        options = together.group(1).replace(",", "").replace(" and", "").split()
        self.assertLess({"--rename", *self.CAST, *self.MISSING, *self.UNEXPECTED}, set(options))
        result = self.begin_with_other(*options)
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("resumed from step 7 of HOME/other: 6 entries", result.out)

    def test_other_program_refused(self):
        """Each of the differences is refused when it alone is not asked for."""
        for options, line in (
                (self.CAST,
                 "net/output/kernel: [8, 256] BF16 in the checkpoint, nothing here"),
                (self.RENAME + self.MISSING + self.UNEXPECTED,
                 "model/output/kernel: [8, 256] BF16 in the checkpoint, [8, 256] F32 here"),
                (self.RENAME + self.CAST + self.UNEXPECTED,
                 "model/output/bias: nothing in the checkpoint, [256] F32 here"),
                (self.RENAME + self.CAST + self.MISSING,
                 "model/output/scale: [256] BF16 in the checkpoint, nothing here")):
            result = self.begin_with_other(*options)
            self.assertEqual(result.code, 1)
            self.assertIn(f"charlm: {line}\n", result.err)
            self.assertIn("nothing was restored", result.err)


class Saving(TrainerTest):
    """A save that fails."""

    def test_s06_file_size_limit(self):
        """Saves that cannot be written are reported; training goes on, and fails at the end."""
        result = self.train("--steps", 6, "--save-every", 3, limit_bytes=4096)
        story = """\
saving step {0}: the checkpoint's largest file is larger than files may be
  path:     HOME/run/step-{0:08d}
  expected: files of up to SIZE
  found:    a limit of 4.10 kB (ulimit -f, or that of FILESYSTEM)
  safe:     this run has no checkpoint yet
  next:     raise the limit (ulimit -f unlimited), or save to another filesystem
"""
        err = re.sub(r"or that of .*\)", "or that of FILESYSTEM)", result.err)
        err = re.sub(r"up to [0-9.]+ kB", "up to SIZE", err)
        self.assertEqual(err, "charlm: " + story.format(3)
                         + "charlm: a save failed; training goes on and the next one tries again\n"
                         + "charlm: " + story.format(6))
        self.assertEqual(result.code, 1)
        self.assertIn("step      6", result.out)
        self.assertNotIn("finished", result.out)


class Demonstration(TrainerTest):
    def trainer(self):
        """The process of a trainer that the demonstration means to kill; None: there is none."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = read(f"/proc/{name}/cmdline").split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if os.path.join(self.home, "killed").encode() in words and b"1000000000" in words:
                return int(name)
        return None

    def test_ended_by_a_signal(self):
        """A demonstration that is asked to end leaves no trainer behind: that one would train for ever."""
        demo = os.path.join(os.path.dirname(__file__), "../../examples/charlm/demo.py")
        events = os.path.join(self.home, "killed.events")
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # a test may be run by nohup
            process = self.start([sys.executable, demo, "--charlm", self.charlm, "--pawl", "pawl",
                                  "--directory", self.home, "--steps", "20", *SMALL])
            self.wait_for(lambda: self.trainer() and os.path.exists(events), "trainer")
            process.send_signal(number)
            process.communicate(timeout=DEADLINE_S)
            left = self.trainer()
            if left:
                os.kill(left, signal.SIGKILL)
            self.assertIsNone(left)
            self.assertEqual(process.returncode, 128 + number)


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
        self.assert_usage("--optimizer adam: one of adamw|sgd is needed", "--optimizer", "adam")
        self.assert_usage("--optimizer : one of adamw|sgd is needed", "--optimizer", "")
        self.assert_usage("--keep-remainder takes no value", "--keep-remainder=1")
        self.assert_usage("--hyperparameter mine: one of error|checkpoint|caller is needed",
                          "--hyperparameter", "mine")
        self.assert_usage("--rename a=: FROM=TO is needed", "--rename", "a=")
        self.assert_usage("--rename a: FROM=TO is needed", "--rename=a")

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
    TrainerTest.charlm, TrainerTest.other_checkpoint, TrainerTest.directory = sys.argv[1:4]
    os.makedirs(TrainerTest.directory, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
