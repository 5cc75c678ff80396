#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What saving costs a real training loop in PyTorch: a GPT with AdamW, saved every few steps, by pawl and by others.

    build/torch/bin/python3 bench/torch_loop.py --ranks 1,2,4 --rounds 2

The state has the same size on however many ranks: on one the model is plain, on several it is sharded (FSDP2, gloo,
under torchrun), and so is the batch. Each contender trains in processes of its own, in turns, rounds times. Columns,
medians with quartiles; of several ranks the slowest:

    step      seconds of a step, no save before it
    saving    the same where every few steps are saved, the saves included
    call      seconds that the call which saves takes
    stopped   seconds that the trainer's thread itself stands still for a save: the call, and the waits before an
              optimizer's step (pawl: its fence; torch_checkpointing: its lock)
    stall     seconds by which a save makes the loop longer than as many steps right before it, all that follows
              included. What exceeds "stopped" is contention: the processor and the memory's bandwidth, which the
              training shares with what writes. "nothing" has the noise of this column
    durable   seconds from the call until it is durable, nothing trained meanwhile
    restore   seconds until model and optimizer are restored, the files not in the page cache
    memory    MiB by which the processes that train, together, had a higher peak than those that saved nothing. What
              a contender keeps in the page cache, or in a process beside them, is not counted

A second table has the look that Checkpointer.save() takes at the job: the seconds of the call, when the save before
is durable and no tensor was added, removed or moved, divided by the number of tensors (parameters, and AdamW's three
slots of each). "Idle": nothing ran since the save before; "training": an optimizer's step.

The last has ratios of medians, less than 1 where pawl is ahead.
"""

import argparse
import json
import pathlib
import statistics
import sys

import loops
from loops import numbers, ratio, say, spread, values_of
from torch_savers import SAVERS

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = ("call", "stopped", "stall", "durable", "restore")


def run(options, what, ranks=1, **arguments):
    """What a job found."""
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [str(HERE / "torch_job.py"), what]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in arguments.items()]
    variables = {"OMP_NUM_THREADS": str(options.threads)}
    return loops.run(pathlib.Path(options.directory) / "torch", command, variables, options.limit_s)


def measure(options, ranks, every):
    """{contender: [what a round found]}."""
    arguments = {name: getattr(options, name) for name in ("size_mib", "saves", "batch", "threads")}
    return loops.measure(options, lambda name: run(options, name, ranks, every=every, **arguments), f" on {ranks}")


# ---- tables --------------------------------------------------------------------------------------


def medians(found):
    """{contender: {column: median}}; memory beyond that of the loop that saves nothing."""
    bases = [one["peak_mib"] for one in found.get("nothing", [])]
    table = {}
    for contender, turns in found.items():
        row = {column: statistics.median(values_of(turns, column)) for column in SHOWN}
        if bases:
            row["memory"] = statistics.median(one["peak_mib"] for one in turns) - statistics.median(bases)
        table[contender] = row
    return table


def print_times(ranks, every, found):
    print(f"\n{ranks} rank{'s' if ranks > 1 else ''}, a save every {every} steps")
    print(f"{'':20}{'step':>7}{'saving':>8}  " + "".join(f"{column:27}" for column in SHOWN) + "memory")
    for contender, row in medians(found).items():
        turns = found[contender]
        steps = [statistics.median(values_of(turns, column)) for column in ("plain", "saving")]
        cells = "".join(f"{spread(values_of(turns, column)):27}" for column in SHOWN)
        memory = f"{row['memory']:.0f}" if "memory" in row else "-"
        print(f"{contender:20}{steps[0]:7.3f}{steps[1]:8.3f}  {cells}{memory}", flush=True)


def print_ratios(ranks, found):
    """Of each column pawl beside torch.save, and beside the best of all others, which is named."""
    table = medians(found)
    others = {name: row for name, row in table.items() if name not in ("pawl", "nothing")}
    if "pawl" not in table or not others:
        return
    print(f"\n{ranks} rank{'s' if ranks > 1 else ''}: {'pawl ÷ torch.save':20}pawl ÷ best other")
    for column, value in table["pawl"].items():
        best = min(others, key=lambda name: others[name][column])
        beside = ratio(value, others["torch.save"][column]) if "torch.save" in others else "-"
        print(f"  {column:8} {beside:>10}{ratio(value, others[best][column]):>20}  {best}")


def print_looks(options):
    if not options.parameters:
        return []
    print(f"\n{'parameters':>12}{'tensors':>10}{'idle: ms':>12}{'µs/tensor':>12}{'training: ms':>16}{'µs/tensor':>12}")
    looks = []
    for parameters in options.parameters:
        try:
            one = run(options, "look", parameters=parameters, saves=options.looks, threads=options.threads)
        except loops.Failed as why:
            options.failed.append(f"the look at {parameters} parameters")
            say(f"the look at {parameters} parameters failed: {why}")
            continue
        looks.append({"parameters": parameters, **one})
        cells = f"{parameters:12}{one['tensors']:10}"
        for way, width in (("idle", 12), ("training", 16)):
            cells += f"{one[way] * 1e3:{width}.3f}{one[way] * 1e6 / one['tensors']:12.3f}"
        print(cells, flush=True)
    return looks


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4], help="how many, separated by commas [1,2,4]")
    parser.add_argument("--size-mib", type=int, default=512, help="of model and moments, of all ranks together [512]")
    parser.add_argument("--batch", type=int, default=4, help="sequences in a step, of all ranks together [4]")
    parser.add_argument(
        "--every", type=numbers, default=[6, 3, 2], help="steps between two saves, for each number of ranks [6,3,2]"
    )
    parser.add_argument("--saves", type=int, default=4, help="of each contender in a round [4]")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, in each rank [1]")
    parser.add_argument("--only", type=loops.names_of(SAVERS), default=list(SAVERS), help="contenders, by name")
    parser.add_argument(
        "--parameters", type=numbers, default=[300, 1000, 10000], help="of the second table [300,1000,10000]"
    )
    parser.add_argument("--looks", type=int, default=50, help="saves of each kind in the second table [50]")
    parser.add_argument("--limit-s", type=float, default=300, help="after which a job is ended [300]")
    parser.add_argument("--directory", default=str(loops.ROOT / "build" / "bench-data"))
    parser.add_argument("--json", help="a file for all that was found")
    return parser.parse_args()


def main():
    options = parse()
    options.failed = []
    everything = {}
    for i, ranks in enumerate(options.ranks):
        every = options.every[min(i, len(options.every) - 1)]
        everything[ranks] = measure(options, ranks, every)
        print_times(ranks, every, everything[ranks])
    looks = print_looks(options)
    for ranks, found in everything.items():
        print_ratios(ranks, found)
    if options.json:
        text = json.dumps({"ranks": everything, "looks": looks}, indent=1)
        pathlib.Path(options.json).write_text(text, encoding="utf-8")
    if options.failed:
        sys.exit(f"torch_loop: failed: {'; '.join(options.failed)}")


if __name__ == "__main__":
    main()
