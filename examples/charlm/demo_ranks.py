#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on 4 ranks, kills one of them, then all of them, goes on with 3 ranks and then with 6, and shows that
nothing was lost on the way.

Weights and optimizer state after each restore are compared, bit for bit, with those that were saved: by
digests that the job prints, by the pawl command, and by reading the files without pawl. At the end the
same is done again in an orderly way, and must come to the same bits.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import watch
from watch import Failure

LIFE_TIMEOUT_S = 120.0  # for a job that is going to be killed, or that ends by itself
DEATH_TIMEOUT_S = 30.0  # from the death of a rank to the end of its job
SHARED_BYTES = 256 << 20
EXIT_SKIPPED = 77
RUNS = ("ranks", "copy-on-3", "copy-on-6", "orderly")
PER_RANK = "random/state"
EXAMPLE = "optimizer/adam/m/dense1/kernel"


# ---- jobs -----------------------------------------------------------------------------------------

def is_open_mpi(mpirun):
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in said.stdout + said.stderr or "OpenRTE" in said.stdout + said.stderr


def shared_memory():
    """Where ranks may exchange bytes without a disk, each in a few MiB; None: as the system has it."""
    path = "/dev/shm"
    if os.access(path, os.W_OK) and shutil.disk_usage(path).free > SHARED_BYTES:
        return path
    return None


def environment_for(scratch):
    """More ranks than processors, in a container, as root: Open MPI wants to be told that this is
    meant. What it leaves behind when it is killed goes to `scratch`."""
    told = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "OMPI_MCA_btl_vader_backing_directory": scratch,
            "OMPI_MCA_orte_tmpdir_base": scratch, "TMPDIR": scratch,
            "OPENBLAS_NUM_THREADS": "1",
            # In a build with AddressSanitizer: what MPI does not free is not ours.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    return {**os.environ, **told}


class Job(watch.Process):
    """A job of several ranks, from mpirun on; events are those of rank 0, if not said otherwise."""

    def __init__(self, options, ranks, run, steps, *more):
        self.ranks, self.run = ranks, run
        self.told = [watch.EventFile(run + ".events" + (f".{rank}" if rank else ""))
                     for rank in range(ranks)]
        self.named, self.last_step = self.told[0].named, self.told[0].last_step
        open_mpi = ["--oversubscribe", "--bind-to", "none"] if options.open_mpi else []
        super().__init__([options.mpirun, *open_mpi, "-n", ranks, options.charlm, "--run", run,
                          "--events", self.told[0].path, "--save-every", options.save_every,
                          "--hidden", options.hidden, "--context", options.context,
                          "--batch", options.batch, "--keep", 0, "--per-rank", "caller",
                          "--digests", "--steps", steps, *more], run + ".output",
                         env=options.environment, start_new_session=True)

    def look(self):
        for each in self.told:
            each.look()

    def processes(self):
        """Of the ranks."""
        self.look()
        return [each.last_step("process") for each in self.told]

    def kill_rank(self, rank):
        """SIGKILL to one rank. Returns the seconds until the whole job had ended."""
        before = time.monotonic()
        processes = self.processes()
        os.kill(processes[rank], signal.SIGKILL)
        try:
            code = self.process.wait(DEATH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"the job went on for {DEATH_TIMEOUT_S:.0f} s without rank {rank}; "
                          f"{self.story()}") from None
        wait_until_gone(processes)
        if code == 0:
            raise Failure(f"the job lost rank {rank} and ended with code 0; {self.story()}")
        self.look()
        return time.monotonic() - before

    def kill(self):
        """SIGKILL to mpirun and to all ranks, as when the machine is taken away."""
        processes = descendants(self.process.pid)
        for process in [*processes, self.process.pid]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        wait_until_gone(processes)
        self.look()


def state_and_parent(process):
    """From /proc; None when the process is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1])


def descendants(process):
    every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {each: found[1] for each in every if (found := state_and_parent(each))}
    found = [process]
    for parent in found:
        found += [each for each in parents if parents[each] == parent]
    return found[1:]


def wait_until_gone(processes):
    limit = time.monotonic() + DEATH_TIMEOUT_S
    for process in processes:
        while (found := state_and_parent(process)) and found[0] not in "ZX":
            if time.monotonic() > limit:
                raise Failure(f"process {process} is still there after SIGKILL")
            time.sleep(watch.POLL_S)


# ---- what is compared -----------------------------------------------------------------------------

def digests_at(jobs, name, step):
    """What the newest of the jobs said of a step: weights and optimizer."""
    for job in reversed(jobs):
        said = [event for event in job.named(name) if event[2] == step]
        if said:
            return said[-1][3:5]
    raise Failure(f"no job printed a digest: {name} step {step}")


def must_be_equal(one, other, what):
    if one != other:
        raise Failure(f"{what} differ: {one} and {other}")


def kib(size):
    return f"{size / 1024:,.1f} KiB"


def show_restore(job, earlier):
    """Which step a job came back to, what each rank took, and that it is what was saved."""
    job.wait_until(lambda: all(each.named("resumed") for each in job.told)
                   and job.named("restored"), LIFE_TIMEOUT_S, "every rank said what it restored")
    step = job.last_step("resumed")
    saved, restored = (digests_at(jobs, name, step) for jobs, name in
                       ((earlier, "saving"), ([job], "restored")))
    print(f"    restored step {step}")
    for rank, told in enumerate(job.told):
        size, entries, kept = told.named("resumed")[-1][3:6]
        print(f"      rank {rank} took {kib(int(size))} of {entries} entries"
              + (f", kept {kept} of its own" if int(kept) else ""))
    for name, before, after in zip(("weights", "optimizer"), saved, restored):
        print(f"      {name:9} saved as {before}, restored as {after}")
    must_be_equal(saved, restored, f"what was saved as step {step} and what was restored")
    print("      the same, bit for bit", flush=True)
    return step


# ---- re-sharding ----------------------------------------------------------------------------------

def rows_by_rank(entry, ranks):
    """First row and number of rows of each rank's shard."""
    rows = [(0, 0)] * ranks
    for piece in entry.pieces:
        if piece.shape[0]:
            rows[piece.rank] = (piece.offset[0], piece.shape[0])
    return rows


def moved(before, after):
    """Of one entry: rows that go from each rank that saved them to each that has them now."""
    return [[max(0, min(a + n, b + m) - max(a, b)) for b, m in after] for a, n in before]


def row_bytes(entry):
    return sum(len(piece.data) for piece in entry.pieces) // entry.shape[0]


def show_moves(old, new, before, after):
    """What went where when `before` (saved by `old` ranks) was saved again by `new` ranks."""
    sharded = sorted(name for name, entry in before.items()
                     if entry.about.get("role") == "slot")
    total = [[0] * new for _ in range(old)]
    shapes = {}
    for name in sharded:
        one, other = rows_by_rank(before[name], old), rows_by_rank(after[name], new)
        shapes.setdefault((tuple(one), tuple(other)), []).append(name)
        for i, row in enumerate(moved(one, other)):
            for j, rows in enumerate(row):
                total[i][j] += rows * row_bytes(before[name])
    print(f"    {len(sharded)} entries are cut into {new} shards instead of {old}; rows by rank:")
    for (one, other), names in shapes.items():
        print("      " + " ".join(str(rows) for _, rows in one) + "  ->  "
              + " ".join(str(rows) for _, rows in other)
              + f"    {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))
    print(f"    what moved, KiB: from the rank that saved it (down) to the one that has it (across)")
    for i, row in enumerate(total):
        print(f"      {i:3} " + " ".join(f"{size / 1024:9,.1f}" for size in row))
    away = sum(size for i, row in enumerate(total) for j, size in enumerate(row) if i != j)
    whole = sum(map(sum, total))
    print(f"      {kib(away)} of {kib(whole)} of optimizer state changed its rank; every rank reads "
          f"all weights")
    print(f"      {PER_RANK}: {old} states of random generators, which fit no {new} ranks: drawn anew "
          "(--per-rank=caller)", flush=True)


def compare_copy(options, run, copy, step, old, new):
    """The copy was restored from `run`, and saved, by another number of ranks: only what is per rank
    may differ. By pawl, and without it."""
    for each in (run, copy):
        watch.run_tool(options.pawl, "verify", f"{each}@{step}")
    found = json.loads(watch.run_tool(options.pawl, "diff", "--json", f"{run}@{step}",
                                      f"{copy}@{step}", codes=(0, 3)))
    before, after = watch.read_entries(run, step), watch.read_entries(copy, step)
    one, other = watch.digests_of(before), watch.digests_of(after)
    different = sorted(name for name in one.keys() | other.keys()
                       if one.get(name) != other.get(name))
    must_be_equal(different, [PER_RANK], "entries of both that")
    must_be_equal(names_that_differ(found), [PER_RANK], "entries of both that, by pawl diff,")
    show_moves(old, new, before, after)
    for each in (run, copy):
        show_tool(options, "show", "--structure", f"{each}@{step}", EXAMPLE, only="size ")
    show_tool(options, "diff", f"{run}@{step}", f"{copy}@{step}", codes=(3,))
    print(f"    a reader of the files without pawl, too, finds {len(one) - 1} entries equal, bit for "
          "bit", flush=True)


def show_tool(options, *words, codes=(0,), only=""):
    """A pawl command, and what it says: the lines that begin with `only`."""
    said = watch.run_tool(options.pawl, *words, codes=codes)
    lines = ["$ pawl " + " ".join(words)]
    lines += ["  " + line for line in said.splitlines() if line.startswith(only) and line]
    for line in lines:
        print("    " + line.replace(os.path.abspath(options.directory) + os.sep, ""))


def names_that_differ(found):
    return sorted(each["name"] for each in found["differences"])


# ---- the demonstration ----------------------------------------------------------------------------

def wait_for_commits(job, count):
    job.wait_until(lambda: len(job.named("save-committed")) >= count, LIFE_TIMEOUT_S,
                   f"{count} saves of it were committed")


def wait_for_next_save(job):
    begun = len(job.named("save-begun"))
    job.wait_until(lambda: len(job.named("save-begun")) > begun, LIFE_TIMEOUT_S,
                   "the beginning of the next save")


def finish(options, ranks, run, steps, *more):
    """A job that nobody disturbs."""
    job = Job(options, ranks, run, steps, *more)
    job.wait_for_end(LIFE_TIMEOUT_S)
    return job


def kill_one(options, dice, run):
    job = Job(options, 4, run, watch.WITHOUT_END)
    wait_for_commits(job, 1)
    time.sleep(dice.uniform(0, 0.1))
    victim = dice.randrange(4)
    took_s = job.kill_rank(victim)
    print(f"1   4 ranks; rank {victim} was killed at step {job.last_step('step')}, and mpirun ended the "
          f"others in {took_s:.1f} s", flush=True)
    return job


def kill_all_saving(options, dice, run, earlier):
    print("2   4 ranks", flush=True)
    job = Job(options, 4, run, watch.WITHOUT_END)
    show_restore(job, earlier)
    wait_for_commits(job, 1)
    wait_for_next_save(job)
    saves = job.named("save-committed")
    time.sleep(dice.uniform(0, 0.8 * float(saves[-1][3])))
    job.kill()
    step = job.last_step("save-begun")
    print(f"    all were killed while they saved step {step}, which was "
          + ("committed just before" if watch.is_committed(run, step) else "not committed"),
          flush=True)
    return job


def go_on_with(options, ranks, run, steps, earlier, number):
    """Another number of ranks than before. Returns the job, and the step that it came back to."""
    print(f"{number}   {ranks} ranks instead of {earlier[-1].ranks}", flush=True)
    job = Job(options, ranks, run, steps)
    return job, show_restore(job, earlier)


def copy_on(options, ranks, run):
    """As many ranks restore the newest step, too, and save what they have in a run of its own."""
    copy = os.path.join(os.path.dirname(run), f"copy-on-{ranks}")
    finish(options, ranks, copy, 0, "--from", run)
    return copy


def change_ranks(options, dice, run, jobs):
    """3 ranks, and 6 to the end. Returns the steps at which the number changed, and the last one."""
    copy = copy_on(options, 3, run)
    job, third = go_on_with(options, 3, run, watch.WITHOUT_END, jobs, 3)
    wait_for_commits(job, 1)
    time.sleep(dice.uniform(0, 0.3))
    job.kill()
    print(f"    all were killed at step {job.last_step('step')}", flush=True)
    compare_copy(options, run, copy, third, 4, 3)

    jobs.append(job)
    copy = copy_on(options, 6, run)
    end = max(options.steps, job.last_step("step") + options.save_every)
    job, fourth = go_on_with(options, 6, run, end, jobs, 4)
    job.wait_for_end(LIFE_TIMEOUT_S)
    print(f"    trained to the end, step {job.last_step('finished')}", flush=True)
    compare_copy(options, run, copy, fourth, 3, 6)
    return third, fourth, end


def demonstrate(options):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    dice = random.Random(seed)
    directory = os.path.abspath(options.directory)
    run, orderly = (os.path.join(directory, name) for name in ("ranks", "orderly"))
    watch.empty(directory, RUNS)
    print(f"training in {run}, with a save every {options.save_every} steps\n"
          f"(--seed {seed} repeats the moments of the kills as far as the machine lets it)\n",
          flush=True)
    jobs = [kill_one(options, dice, run)]
    jobs.append(kill_all_saving(options, dice, run, jobs))
    third, fourth, end = change_ranks(options, dice, run, jobs)
    print(f"\nthe same again without a kill: 4 ranks to step {third}, 3 to step {fourth}, 6 to the end",
          flush=True)
    for ranks, steps in ((4, third), (3, fourth), (6, end)):
        finish(options, ranks, orderly, steps)
    ends = [f"{each}@{end}" for each in (run, orderly)]
    watch.run_tool(options.pawl, "verify", run)
    show_tool(options, "diff", *ends)
    must_be_equal(*(watch.digests_of(watch.read_entries(each, end))
                    for each in (run, orderly)), "the last checkpoints")
    print("demo: after a rank was lost, after all were, on 4, 3 and 6 ranks: all weights and optimizer\n"
          "state came back bit for bit, and the end is the one of the job that nobody disturbed")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--charlm", required=True, help="the trainer for MPI, charlm-mpi")
    parser.add_argument("--pawl", required=True, help="the command")
    parser.add_argument("--directory", required=True, help="where the runs go; emptied first")
    parser.add_argument("--mpirun", help="[mpirun.openmpi, or mpirun]")
    parser.add_argument("--seed", type=int, help="of the moments of the kills [another every time]")
    parser.add_argument("--steps", type=int, default=400,
                        help="at the end [400; more where the kills came later]")
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=130, help="[130: divisible by none of 3, 4, 6]")
    parser.add_argument("--context", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    options.mpirun = options.mpirun or shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not options.mpirun or not os.path.exists(options.charlm):
        print("SKIP: there is no mpirun, or no charlm-mpi, which is built where there is MPI, but not for "
              "ThreadSanitizer: install Open MPI (Debian: libopenmpi-dev, openmpi-bin), and build again")
        sys.exit(EXIT_SKIPPED)
    options.open_mpi = is_open_mpi(options.mpirun)
    return options


def main():
    options = read_options()
    watch.leave_when_asked()
    scratch = tempfile.mkdtemp(prefix="charlm-", dir=shared_memory())
    try:
        options.environment = environment_for(scratch)
        demonstrate(options)
    except Failure as failure:
        print(f"demo: failed: {failure}", file=sys.stderr)
        return 1
    finally:
        Job.end_all()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
