# SPDX-License-Identifier: Apache-2.0
"""The example trainer on real ranks of MPI: that it resumes exactly, on as many ranks and on others, and
what it says when a rank fails.

Usage: test_ranks.py EXAMPLE_DIRECTORY CHARLM_MPI CHARLM MPIRUN DIRECTORY [TEST]...
CHARLM_MPI is "none" where it could not be built.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEADLINE_S = 60
TEXT = "It is the catch that keeps a ratchet from slipping back, says the pawl.\n" * 4
# Neither the units nor the samples can be divided by 3, 4 or 6.
SMALL = ["--hidden", "13", "--context", "4", "--batch", "17"]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def weights(self):
        return re.search(r"finished at step \d+, weights ([0-9a-f]{16})", self.out).group(1)

    def digests(self, what, step):
        """Of weights and optimizer, as "saving" or "restored" printed them."""
        found = re.search(rf"{what} step {step}: (weights .*)", self.out)
        return found.group(1) if found else None


class RanksTest(unittest.TestCase):
    charlm_mpi = charlm = mpirun = directory = None

    def setUp(self):
        self.home = os.path.join(self.directory, self._testMethodName)
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home)
        self.text = os.path.join(self.home, "text.txt")
        with open(self.text, "w", encoding="ascii") as file:
            file.write(TEXT)
        self.maxDiff = None
        self.scratch = tempfile.mkdtemp(prefix="charlm-test-",
                                        dir=demo_ranks.shared_memory())
        self.addCleanup(shutil.rmtree, self.scratch, True)

    def path(self, name):
        return os.path.join(self.home, name)

    def command(self, ranks, *options, run="run", program=None):
        open_mpi = ["--oversubscribe", "--bind-to", "none"] if self.is_open_mpi else []
        return [self.mpirun, *open_mpi, "-n", str(ranks), *(program or [self.charlm_mpi]), "--run",
                self.path(run), *SMALL, "--digests", *map(str, options), self.text]

    def start(self, *args, **how):
        job = subprocess.Popen(self.command(*args, **how), text=True, start_new_session=True,
                               env=demo_ranks.environment_for(self.scratch),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, job)
        return job

    @staticmethod
    def end(job):
        """Nothing of it goes on, whatever becomes of the test."""
        if job.poll() is None:
            for process in [*demo_ranks.descendants(job.pid), job.pid]:
                os.kill(process, signal.SIGKILL)
            job.wait()

    def end_of(self, job, deadline_s=DEADLINE_S):
        try:
            out, err = job.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.end(job)
            out, err = job.communicate()
            self.fail(f"no end within {deadline_s} s\n{out}\n{err}")
        return Result(job.returncode, out, err)

    def train(self, ranks, *options, **how):
        return self.end_of(self.start(ranks, *options, **how))

    def assert_trained(self, result, err=""):
        self.assertEqual((result.code, result.err), (0, err), result.out)

    def wait_for(self, condition, job, what):
        limit = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertIsNone(job.poll(), f"the job ended before {what}")
            self.assertLess(time.monotonic(), limit, f"no {what}")
            time.sleep(0.002)

    def events(self, name, events="events"):
        """The steps of the events of that name that rank 0 told."""
        try:
            with open(self.path(events), encoding="ascii") as file:
                lines = [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [int(words[2]) for words in lines if words[1] == name]


class SameRanks(RanksTest):
    def straight(self, ranks, steps):
        result = self.train(ranks, "--steps", steps, run="straight")
        self.assert_trained(result)
        return result

    def test_in_pieces(self):
        """Three jobs of 4 ranks, over the ends of epochs, end with the bits of one job."""
        for steps in (11, 29, 40):
            result = self.train(4, "--steps", steps, "--save-every", 5)
            self.assert_trained(result)
        self.assertIn("resumed from step 29", result.out)
        self.assertEqual(result.digests("saving", 40), self.straight(4, 40).digests("saving", 40))

    def test_killed_and_resumed(self):
        """4 ranks that were killed while they saved end with the bits of 4 that nobody disturbed."""
        options = ("--save-every", 3, "--events", self.path("events"))
        for kill in range(3):
            commits = len(self.events("save-committed")) + 2
            begun = len(self.events("save-begun")) + 3
            job = self.start(4, "--steps", watch.WITHOUT_END, *options)
            self.wait_for(lambda: len(self.events("save-committed")) >= commits
                          and len(self.events("save-begun")) >= begun, job, "two saves")
            processes = demo_ranks.descendants(job.pid)
            if kill == 1:  # one rank alone
                os.kill(self.events("process", "events.2")[-1], signal.SIGKILL)
                self.assertNotEqual(self.end_of(job).code, 0)
            else:
                for process in [*processes, job.pid]:
                    os.kill(process, signal.SIGKILL)
                self.end_of(job)
            demo_ranks.wait_until_gone(processes)
        steps = self.events("step")[-1] + 10
        result = self.train(4, "--steps", steps, *options)
        self.assert_trained(result)
        self.assertGreater(self.events("resumed")[-1], 0)
        self.assertEqual(result.digests("saving", steps),
                         self.straight(4, steps).digests("saving", steps))

    def test_number_of_ranks_changes_the_sums(self):
        """The weights depend on the number of ranks: equal ones elsewhere are no coincidence."""
        self.assertNotEqual(self.straight(4, 20).weights(),
                            self.train(3, "--steps", 20, run="three").weights())

    def test_s13_signal_stops_all_at_one_step(self):
        """A signal that mpirun hands on ends the job with code 75 and one checkpoint of all ranks."""
        job = self.start(3, "--steps", watch.WITHOUT_END, "--save-every", 0,
                         "--events", self.path("events"))
        self.wait_for(lambda: 5 in self.events("step"), job, "step 5")
        job.send_signal(signal.SIGUSR1)
        stopped = self.end_of(job)
        self.assertEqual(stopped.code, 75, stopped.err)
        step = int(re.search(r"stopped after step (\d+), which is saved", stopped.out).group(1))
        result = self.train(3, "--steps", step + 7)
        self.assert_trained(result)
        self.assertEqual(result.weights(), self.straight(3, step + 7).weights())


def drawn_anew(step, before, ranks):
    """What is said of random numbers that are not restored."""
    if before == ranks:
        return ""
    return (f'charlm: warning: restoring step {step}: each rank has its own "random/state": the '
            f"checkpoint is of {before} rank{'s' * (before > 1)}, the state of {ranks} "
            f"rank{'s' * (ranks > 1)}: rank 0 of {ranks} keeps the state's value; the "
            + (f"values of ranks 0 to {before - 1} are" if before > 1 else "value of rank 0 is")
            + " left out\n")


class OtherRanks(RanksTest):
    def saved_by(self, ranks, steps=11):
        result = self.train(ranks, "--steps", steps)
        self.assert_trained(result)
        return result.digests("saving", steps)

    def test_r10_refused(self):
        """Another number of ranks is refused, unless the program says what random states to take."""
        self.saved_by(4)
        result = self.train(3, "--steps", 13)
        self.assertNotIn(result.code, (0, 75))
        self.assertIn("random/state", result.err)
        self.assertIn("--per-rank=caller", result.err)

    def test_any_number_of_ranks(self):
        """What 4 ranks saved comes back on 3, 6, 1 and 14, more than a layer has units, and on 4."""
        saved, step, before = self.saved_by(4), 11, 4
        for ranks in (3, 6, 1, 14, 4):
            result = self.train(ranks, "--steps", step + 2, "--per-rank=caller")
            self.assert_trained(result, drawn_anew(step, before, ranks))
            self.assertEqual(result.digests("restored", step), saved, f"on {ranks} ranks")
            step, before = step + 2, ranks
            saved = result.digests("saving", step)

    def kept(self, rank):
        """How many entries a rank said that it kept."""
        with open(self.path("events") + (f".{rank}" if rank else ""), encoding="ascii") as file:
            return next(int(line.split()[5]) for line in file if line.split()[1] == "resumed")

    def test_allow(self):
        """With allow, ranks that were saved go on with their random numbers, the others with new ones."""
        self.saved_by(3)
        result = self.train(4, "--steps", 13, "--per-rank=allow", "--events", self.path("events"))
        self.assert_trained(result, """\
charlm: warning: restoring step 11: each rank has its own "random/state": the checkpoint is of 3 ranks, the \
state of 4 ranks: rank 0 of 4 takes its own
""")
        self.assertEqual([self.kept(rank) for rank in range(4)], [0, 0, 0, 1])

    def test_one_process(self):
        """charlm, which knows no MPI, goes on where 4 ranks stopped, and 4 ranks where it stopped."""
        saved = self.saved_by(4)
        words = [self.charlm, "--run", self.path("run"), *SMALL, "--digests", "--per-rank=caller",
                 "--steps", "15", self.text]
        alone = subprocess.run(words, capture_output=True, text=True, check=False,
                               timeout=DEADLINE_S)
        alone = Result(alone.returncode, alone.stdout, alone.stderr)
        self.assert_trained(alone, drawn_anew(11, 4, 1))
        self.assertEqual(alone.digests("restored", 11), saved)
        result = self.train(4, "--steps", 16, "--per-rank=caller")
        self.assert_trained(result, drawn_anew(15, 1, 4))
        self.assertEqual(result.digests("restored", 15), alone.digests("saving", 15))


class Failing(RanksTest):
    def test_j05_rank_0_fails(self):
        """What one rank cannot go on with ends the job, with its story."""
        result = self.train(4, "--steps", 10, "--mistake", "nan-gradient")
        self.assertNotIn(result.code, (0, 75))
        self.assertIn("the gradient of `model/dense1/kernel` is not finite: NaN at element 7",
                      result.err)

    def test_one_rank_cannot_write(self):
        """A save that one rank cannot write fails on all, naming it; training goes on, and once it can
        write again, saves are committed again."""
        job = self.start(4, "--steps", watch.WITHOUT_END, "--save-every", 4, "--hidden", 200,
                         "--events", self.path("events"),
                         program=["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", self.charlm_mpi])
        self.wait_for(lambda: self.events("save-committed"), job, "commit")
        process = self.events("process", "events.2")[-1]
        _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (1 << 17, hard))
        self.wait_for(lambda: self.events("save-failed"), job, "failed save")
        resource.prlimit(process, resource.RLIMIT_FSIZE, (hard, hard))
        failed = self.events("save-failed")[-1]
        self.wait_for(lambda: self.events("save-committed")[-1] > failed, job, "commit after that")
        job.send_signal(signal.SIGUSR1)
        result = self.end_of(job)
        self.assertEqual(result.code, 75, result.err)
        self.assertIn("charlm: a save failed; training goes on and the next one tries again\n",
                      result.err)
        for rank, story in ((0, "charlm: saving step N: rank 2 (host H, pid P): {}"),
                            (1, "charlm: rank 1: saving step N: rank 2 (host H, pid P): {}"),
                            (2, "charlm: rank 2: saving step N: {}")):
            story = story.format("the checkpoint's largest file is larger than files may be\n")
            self.assertIn(story, re.sub(r"step \d+", "step N", re.sub(
                r"host \S+, pid \d+", "host H, pid P", result.err)), f"of rank {rank}")


def main():
    global demo_ranks, watch
    example, RanksTest.charlm_mpi, RanksTest.charlm, RanksTest.mpirun, RanksTest.directory = \
        sys.argv[1:6]
    if RanksTest.charlm_mpi == "none":
        print("SKIP: charlm-mpi is not built: there is no MPI, or ThreadSanitizer would look into it")
        sys.exit(77)
    sys.path.insert(0, example)
    import demo_ranks
    import watch
    RanksTest.is_open_mpi = demo_ranks.is_open_mpi(RanksTest.mpirun)
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)


if __name__ == "__main__":
    main()
