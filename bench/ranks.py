# SPDX-License-Identifier: Apache-2.0
"""What a save and a restore cost a job of many ranks that share this machine: the example trainer under
mpirun, with more ranks than processors. No figure has a floor, since the times include waiting for a
processor; they show that the stall stays small, and what committing many ranks adds."""

import argparse
import os
import shutil
import statistics
import sys
import tempfile

import harness
import report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "examples/charlm"))
import demo_ranks  # noqa: E402
import watch  # noqa: E402

COUNTS = (1, 4, 16)
STEPS, SAVE_EVERY = 88, 8
DEADLINE_S = 300


def options_for(bench, scratch):
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    charlm = bench.engine.parents[1] / "examples/charlm/charlm-mpi"
    if not mpirun or not charlm.exists():
        return None
    return argparse.Namespace(mpirun=mpirun, open_mpi=demo_ranks.is_open_mpi(mpirun), charlm=charlm,
                              save_every=SAVE_EVERY, hidden=256, context=16, batch=64,
                              environment=demo_ranks.environment_for(scratch))


def one_job(options, ranks, run):
    job = demo_ranks.Job(options, ranks, str(run), STEPS)
    try:
        job.wait_for_end(DEADLINE_S)
    finally:
        watch.Process.end_all()
    return job


def seconds_of(events, word):
    return [float(event[word]) for event in events]


def text_of(seconds):
    low, high = report.quartiles(seconds)
    return f"{statistics.median(seconds) * 1e3:.2f} ms ({low * 1e3:.2f}..{high * 1e3:.2f})"


def measure_count(bench, options, ranks):
    """A row, and medians of save and stall: saves of one job, without the first, which also makes the
    run; restores of some more."""
    run = bench.data / f"ranks-{ranks}"
    job = one_job(options, ranks, run)
    saves = [told.named("save-committed")[1:] for told in job.told]
    stalls = [seconds_of(each, 4) for each in saves]
    restores = []
    for i in range(bench.rounds(5)):
        bench.say(f"{ranks} ranks, restore {i + 1}")
        again = one_job(options, ranks, run)
        restores.append(max(seconds_of([told.named("resumed")[-1] for told in again.told], 6)))
    size = sum(path.stat().st_size for path in harness.files_below(run)
               if path.parent.name == f"step-{STEPS:08d}")
    shutil.rmtree(run)
    durable, every_stall = seconds_of(saves[0], 3), [stall for each in stalls for stall in each]
    row = [ranks, f"{size / harness.MIB:.1f} MiB", text_of(durable), text_of(every_stall),
           f"{max(map(statistics.median, stalls)) * 1e3:.2f} ms", text_of(restores)]
    return row, statistics.median(durable), statistics.median(every_stall)


def measure(bench):
    scratch = tempfile.mkdtemp(prefix="charlm-", dir=demo_ranks.shared_memory())
    try:
        options = options_for(bench, scratch)
        if options is None:
            bench.report.remark("no many ranks: there is no MPI, or charlm-mpi is not built")
            return
        rows, saves, stalls = [], [], []
        for ranks in COUNTS:
            bench.say(f"{ranks} ranks")
            row, durable, stall = measure_count(bench, options, ranks)
            rows.append(row)
            saves.append(durable)
            stalls.append(stall)
        bench.report.table(
            f"the example trainer on many ranks, {os.cpu_count()} processors: medians (quartiles)",
            ["ranks", "checkpoint", "pawl_save to committed", "stall", "of the slowest rank",
             "restore, until the last rank has it"], rows)
        for what, found in (("durable save", saves), ("stall", stalls)):
            bench.report.figure(f"{what}, 1 rank ÷ {COUNTS[-1]} ranks on {os.cpu_count()} processors",
                                [found[0] / found[-1]], None,
                                f"{found[0] * 1e3:.2f} ms and {found[-1] * 1e3:.2f} ms")
    except watch.Failure as why:
        raise harness.Failed(str(why)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
