#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What saving costs `fit` of Keras on TensorFlow: a model with Adam, saved every few steps, by pawl and by others.

    build/formats/bin/python3 bench/keras_fit.py --mib 256 --rounds 3

Each contender trains in a process of its own, in turns, rounds times; in each process fits that save nothing and fits
that save follow one another. All keep the newest checkpoint alone. Columns, medians with quartiles:

    step      seconds of a step, nothing is saved
    saving    the same where every few steps are saved, the saves included
    stopped   seconds that the training loop stands still for a save: the callback's call
    stall     seconds by which a save makes the loop longer than as many steps without it, all that follows included.
              What exceeds "stopped" is contention: the processor and the memory's bandwidth, and that TensorFlow gives
              a variable new memory where it is held. "nothing" has the noise of this column
    written   seconds from the call until the contender says that it has written it, nothing trained meanwhile
    durable   the same until it is durable. Only pawl syncs what it writes: for all others the bench does it, after
              what they wrote. In the loop nobody does: what is lost if the power fails is not in their stall
    cold      seconds until a model, made anew and compiled, and its optimizer have what was saved, in a process of its
              own that has restored something small before; the files not in the page cache. Warm: the files in it
    memory    MiB by which the process had a higher peak than while it trained and saved nothing
    cached    MiB of what was saved that are in the page cache when it is written: memory, too, which the system cannot
              give to others before it has written them
    both      memory and cached

The last table has ratios of medians: pawl beside each of the others, less than 1 where pawl is ahead.
"""

import argparse
import json
import pathlib
import statistics
import sys

import loops
from loops import ratio, spread, values_of

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = ("stopped", "stall", "written", "durable", "cold", "warm")
COLUMNS = (*SHOWN, "both")
SAVERS = (
    "nothing",
    "pawl.keras",
    "pawl.tf",
    "ModelCheckpoint .keras",
    "ModelCheckpoint .h5",
    "BackupAndRestore",
    "tf.train",
    "tf.train async",
)


def job(options, contender):
    command = [sys.executable, str(HERE / "keras_job.py"), contender]
    command += loops.given(options, "mib", "every", "saves", "turns", "batch", "restores")
    variables = {
        "CUDA_VISIBLE_DEVICES": "",
        "KERAS_BACKEND": "tensorflow",
        "OMP_NUM_THREADS": str(options.threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_NUM_INTEROP_THREADS": str(options.threads),
        "TF_NUM_INTRAOP_THREADS": str(options.threads),
    }
    return loops.run(pathlib.Path(options.directory) / "keras", command, variables, options.limit_s)


# ---- tables --------------------------------------------------------------------------------------


def medians(found):
    """{contender: {column: median}}."""
    table = {}
    for contender, turns in found.items():
        columns = ("plain", "saving", *SHOWN, "memory", "cached")
        row = {column: statistics.median(values_of(turns, column)) for column in columns}
        table[contender] = {**row, "both": row["memory"] + row["cached"]}
    return table


def print_times(options, found):
    print(f"{options.mib} MiB, a save every {options.every} steps")
    print(f"{'':24}{'step':>7}{'saving':>8}  " + "".join(f"{column:27}" for column in SHOWN) + "memory  cached")
    for contender, row in medians(found).items():
        cells = "".join(f"{spread(values_of(found[contender], column)):27}" for column in SHOWN)
        print(f"{contender:24}{row['plain']:7.3f}{row['saving']:8.3f}  {cells}{row['memory']:6.0f}{row['cached']:8.0f}")


def print_ratios(found):
    """Of each column pawl beside the others."""
    table = medians(found)
    others = [name for name in table if not name.startswith("pawl") and name != "nothing"]
    for ours in [name for name in table if name.startswith("pawl")]:
        print(f"\n{ours + ' ÷':24}" + "".join(f"{column:>10}" for column in COLUMNS))
        for other in others:
            cells = "".join(f"{ratio(table[ours][column], table[other][column]):>10}" for column in COLUMNS)
            print(f"{other:24}{cells}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="of model and moments [256]")
    parser.add_argument("--every", type=int, default=10, help="steps between two saves [10]")
    parser.add_argument("--batch", type=int, default=32, help="examples in a step [32]")
    parser.add_argument("--saves", type=int, default=4, help="that are measured in a fit [4]")
    parser.add_argument("--turns", type=int, default=2, help="fits of each kind in a process [2]")
    parser.add_argument("--restores", type=int, default=1, help="cold, and warm, of what a process has saved [1]")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contender [3]")
    parser.add_argument("--threads", type=int, default=1, help="of TensorFlow [1]")
    parser.add_argument("--only", type=loops.names_of(SAVERS), default=list(SAVERS), help="contenders, by name")
    parser.add_argument("--limit-s", type=float, default=300, help="after which a job is ended [300]")
    parser.add_argument("--directory", default=str(loops.ROOT / "build" / "bench-data"))
    parser.add_argument("--json", default=str(HERE / "results" / "keras.json"), help="a file for all that was found")
    return parser.parse_args()


def main():
    options = parse()
    options.failed = []
    found = loops.measure(options, lambda contender: job(options, contender))
    print_times(options, found)
    print_ratios(found)
    path = pathlib.Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"options": vars(options), "found": found}, indent=1), encoding="utf-8")
    if options.failed:
        sys.exit(f"keras_fit: failed: {'; '.join(options.failed)}")


if __name__ == "__main__":
    main()
