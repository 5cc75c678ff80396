#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reading and converting the checkpoints of other tools, beside these tools and the device.

    build/torch/bin/python3 bench/formats.py --gib 1 --rounds 3

Reading: a whole checkpoint into new memory, cold (not in the page cache) and warm, by pawl, by a restore of pawl, which
compares checksums, and by the tool itself; each turn in a process of its own, after its imports, in an order that changes: a
second turn in one process would find the memory of the first. Those that map the file are measured twice: every page
brought in, and copied into tensors, as a model has them. The files were written by pawl_convert, from one state of random bits.

Converting: the slower of reading the source and writing as much, direct, by 4 threads, 4 MiB each (in the same round),
divided by the time of the conversion; and by how much the memory of the process grew."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import harness
import report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PARTS = 12
CONVERT_BAR = 0.9
MEMORY_BAR = 164 * harness.MIB  # what pawl/convert.h says, and 64 MiB

MADE = {"torch": "model.pt", "dcp": "model", "tensorflow": "ckpt", "safetensors": "model.safetensors", "npz": "model.npz"}
PEERS = {
    "torch": ("torch.load", "torch.load, mmap", "torch.load, mmap, copied"),
    "dcp": ("dcp.load",),
    "tensorflow": ("tf.train.load_checkpoint",),
    "safetensors": ("safetensors, numpy", "safetensors, torch", "safetensors, torch, copied"),
    "npz": ("numpy.load",),
}
VERIFY = ("tf.train.load_checkpoint", "numpy.load")  # peers that compare checksums while they read
CONVERSIONS = (("torch", "safetensors"), ("run", "torch"), ("tensorflow", "run"))


def made(data, kind):
    return data / kind / ("run" if kind == "run" else MADE[kind])


def make(data, size, entries):
    """The state as a step of a run, then in each format."""
    sys.path.insert(0, str(ROOT / "python"))
    import numpy  # noqa: PLC0415
    import pawl  # noqa: PLC0415

    generator = numpy.random.Generator(numpy.random.SFC64(1))
    state = pawl.State()
    count = size // entries // 8
    for i in range(entries):
        words = generator.integers(0, 1 << 64, count, numpy.uint64)
        state[f"layer.{i}.weight"] = words.view(numpy.float32).reshape(2, -1)
    (data / "run").mkdir()
    with pawl.Run(made(data, "run")) as run:
        run.save(state, 0)
        run.wait()
    del state
    for kind in MADE:
        (data / kind).mkdir()
        pawl.convert(made(data, "run"), made(data, kind), to=kind)


class Bench:
    def __init__(self, options):
        self.options = options
        self.data = pathlib.Path(options.directory) / f"formats-{os.getpid()}"
        self.report = report.Report()
        self.missing = {}
        self.found = {}

    def ask(self, reader, *paths, directory, cold):
        """What a turn found, the files of the directory cold or warm; None: the reader is missing."""
        python = self.options.tensorflow if reader.startswith("tf") else sys.executable
        if not pathlib.Path(python).exists():
            return self.lacks(reader, f"there is no {python}")
        process = subprocess.Popen(
            [python, HERE / "format_job.py", reader, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        with process:
            first = json.loads(process.stdout.readline() or '{"missing": "it ended"}')
            if "missing" in first:
                return self.lacks(reader, first["missing"])
            harness.settle(self.options.pause)
            (harness.make_cold if cold else harness.make_warm)(directory)
            process.stdin.write("\n")
            process.stdin.flush()
            line = process.stdout.readline()
            process.stdin.close()
            if not line:
                raise harness.Failed(f"{reader}: {process.stderr.read().strip()[-500:]}")
        return json.loads(line)

    def lacks(self, reader, why):
        if reader not in self.missing:
            self.missing[reader] = why
            self.report.remark(f"{reader}, left out: {why}")
        return None

    def note(self, what, value):
        self.found.setdefault(what, []).append(value)

    # ---- reading

    def read_round(self, i):
        for kind, readers in PEERS.items():
            directory = self.data / kind
            for reader in harness.shuffled(("pawl", "pawl, verified", *readers), i):
                if reader in self.missing:
                    continue
                print(f"bench: round {i + 1}: {kind}, {reader}", file=sys.stderr, flush=True)
                for how in ("cold", "warm"):
                    one = self.ask(reader, made(self.data, kind), directory=directory, cold=how == "cold")
                    if one is not None:
                        self.note((kind, reader, how), one["seconds"])

    def read_tables(self):
        rows = []
        for kind, readers in PEERS.items():
            for reader in ("pawl", "pawl, verified", *readers):
                cold, warm = (self.found.get((kind, reader, how)) for how in ("cold", "warm"))
                if not (cold and warm):
                    continue
                rows.append([f"{kind}: {reader}", *(f"{statistics.median(s):.3f}" for s in (cold, warm))])
                own = "pawl, verified" if reader in VERIFY else "pawl"
                if reader in readers:
                    for how, theirs in (("cold", cold), ("warm", warm)):
                        self.report.figure(f"{kind}, {how}: {reader} ÷ {own}",
                                           [t / o for t, o in zip(theirs, self.found.get((kind, own, how), []))])
        self.report.table(f"reading all, {self.options.gib:g} GiB: seconds, medians", ["", "cold", "warm"], rows)

    # ---- converting

    def convert_round(self, i):
        out = self.data / "out"
        for source, to in harness.shuffled(CONVERSIONS, i):
            print(f"bench: round {i + 1}: {source} to {to}", file=sys.stderr, flush=True)
            directory = self.data / source
            largest = max(harness.files_below(directory), key=lambda path: path.stat().st_size)
            seconds = {}
            for reader, paths in harness.shuffled([
                    ("device, reading", (largest,)), ("device, writing", (largest, out / "device")),
                    ("convert", (made(self.data, source), out / ("run" if to == "run" else MADE[to])))], i):
                out.mkdir()
                one = self.ask(reader, *paths, directory=directory, cold=True)
                shutil.rmtree(out)
                seconds[reader] = one["seconds"]
                if reader == "convert":
                    self.note((source, to, "memory"), one["extra_bytes"])
            share = sum(path.stat().st_size for path in harness.files_below(directory)) / largest.stat().st_size
            slower = max(seconds["device, reading"], seconds["device, writing"]) * share
            self.note((source, to), slower / seconds["convert"])
            self.note((source, to, "seconds"), seconds["convert"])

    def convert_tables(self):
        for source, to in CONVERSIONS:
            if (source, to) not in self.found:
                continue
            seconds = statistics.median(self.found[source, to, "seconds"])
            memory = self.found[source, to, "memory"]
            self.report.figure(f"slower of reading and writing ÷ {source} to {to}", self.found[source, to], CONVERT_BAR,
                               f"{seconds:.2f} s")
            self.report.figure(f"164 MiB ÷ extra memory, {source} to {to}", [MEMORY_BAR / max(1, m) for m in memory], 1,
                               f"{max(memory) / harness.MIB:.0f} MiB at most")

    def run(self):
        self.data.mkdir(parents=True)
        try:
            make(self.data, int(self.options.gib * harness.GIB), self.options.entries)
            try:
                for i in range(self.options.rounds):
                    if "read" in self.options.only:
                        self.read_round(i)
                    if "convert" in self.options.only:
                        self.convert_round(i)
            except KeyboardInterrupt:
                self.report.remark("stopped; what there is was measured before")
            if "read" in self.options.only:
                self.read_tables()
            if "convert" in self.options.only:
                self.convert_tables()
        finally:
            shutil.rmtree(self.data)


def find_library(options):
    os.environ.setdefault("PAWL_LIBRARY", str(options.libpawl.resolve()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4, help="size of the state [4]")
    parser.add_argument("--entries", type=int, default=PARTS, help=f"tensors [{PARTS}]")
    parser.add_argument("--rounds", type=int, default=3, help="[3]")
    parser.add_argument("--only", default="read,convert", help="parts: read, convert [both]")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds before each turn [0.5]")
    parser.add_argument("--directory", default=ROOT / "build/bench", help="on the disk to measure [build/bench]")
    parser.add_argument("--tensorflow", default=ROOT / "build/formats/bin/python3", help="a Python that has TensorFlow")
    parser.add_argument("--libpawl", type=pathlib.Path, default=ROOT / "build/release/src/libpawl.so", help="[build/release]")
    options = parser.parse_args()
    find_library(options)
    bench = Bench(options)
    bench.run()
    print(bench.report.text())
    bench.report.write(HERE / "results/formats.json")


main()
