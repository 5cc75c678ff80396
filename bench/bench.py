# SPDX-License-Identifier: Apache-2.0
"""Measures pawl against the device, against memcpy, against its peers, and how its costs grow.

Every figure is a ratio of things measured in turn, in one run, round by round: disks, virtual ones most
of all, change from minute to minute. docs/performance.md says how to read the table."""

import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import device
import figures
import growth
import harness
import importing
import peerset
import ranks
import report
import scale
import states

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("device", "shapes", "small", "syncs", "first", "memory", "import", "peers", "peers-small", "growth",
         "ranks", "scale")
QUICK_PARTS = ("device", "small", "syncs", "first", "memory", "import")
MIN_SIZE_MIB = 4  # one request of fio, which moves whole ones
SIZES = (64 * harness.MIB, harness.GIB, 4 * harness.GIB, 8 * harness.GIB)


class Bench:
    """What the parts share."""

    def __init__(self, options, data):
        self.options = options
        self.data = data
        self.scratch = data / "scratch"
        self.scratch.mkdir()
        self.engine = options.engine.resolve()
        self.scale = options.scale.resolve()
        self.environments = options.environments.resolve()
        self.log = data / "log.txt"
        self.log.touch()
        self.report = report.Report()
        self.fio = device.Fio(data) if device.fio_is_there() else None

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def settle(self):
        harness.settle(self.options.pause)

    def listed(self, name, tensors):
        path = self.data / f"{name}.list"
        states.write(tensors, path)
        return path

    def start(self):
        return harness.Worker([self.engine], self.log)

    def rounds(self, usual):
        return self.options.rounds or usual


def number_of(kind, least):
    """A type of argument: a number of that kind that is not less."""
    def take(text):
        number = kind(text)
        if not number >= least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return number
    take.__name__ = "number"
    return take


def listed_of(take):
    """A type of argument: some of what `take` takes, separated by commas."""
    def take_all(text):
        return [take(part.strip()) for part in text.split(",")]
    take_all.__name__ = "list"
    return take_all


def one_of(names, what):
    def take(name):
        if name not in names:
            raise argparse.ArgumentTypeError(
                f"no {what} is called {name}; they are {', '.join(names)}")
        return name
    return take


def parse(arguments):
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="against the device alone, at 1 GiB")
    modules = [peer.module for peer in peerset.PEERS]
    parser.add_argument("--only", dest="parts", type=listed_of(one_of(PARTS, "part")),
                        default=list(PARTS), help="parts, of " + ",".join(PARTS))
    parser.add_argument("--sizes", type=listed_of(number_of(int, MIN_SIZE_MIB)),
                        help=f"MiB, as 64,1024; at least {MIN_SIZE_MIB} [64, 1024, 4096, 8192]")
    parser.add_argument("--peers", type=listed_of(one_of(modules, "peer")), default=modules,
                        help="modules of bench/peers, as dcp,torch_save [all]")
    parser.add_argument("--rounds", type=number_of(int, 1), help="of each part [by size]")
    parser.add_argument("--pause", type=number_of(float, 0), default=0.5,
                        help="seconds before each turn [0.5]")
    parser.add_argument("--engine", type=pathlib.Path,
                        default=HERE.parent / "build/release/bench/bench_engine")
    parser.add_argument("--scale", type=pathlib.Path,
                        default=HERE.parent / "build/release/tests/scale/scale_ranks")
    parser.add_argument("--directory", type=pathlib.Path, default=HERE.parent / "build/bench-data",
                        help="on the filesystem to measure [build/bench-data]")
    parser.add_argument("--environments", type=pathlib.Path,
                        default=HERE.parent / "build/bench-venv")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "results/latest.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.parts = [part for part in options.parts if part in QUICK_PARTS]
    usual = [harness.GIB] if options.quick else list(SIZES)
    options.sizes = [n * harness.MIB for n in options.sizes] if options.sizes else usual
    return options


# ---- what fits ------------------------------------------------------------------------------------

def fitting_sizes(bench):
    """Sizes that memory and disk allow: the state and a copy of it; two checkpoints and the file of
    fio. Says why others are left out."""
    memory = harness.available_bytes()
    room = shutil.disk_usage(bench.data).free
    fitting = []
    for size in bench.options.sizes:
        if 2.2 * size + harness.GIB > memory:
            bench.report.remark(f"{figures.label(size)}: left out, {memory / harness.GIB:.1f} GiB of "
                                "memory are available")
        elif 3.5 * size + harness.GIB > room:
            bench.report.remark(f"{figures.label(size)}: left out, {room / harness.GIB:.1f} GiB of "
                                "disk are free")
        else:
            fitting.append(size)
    return fitting


# ---- peers ----------------------------------------------------------------------------------------

# (bytes, rounds)
PEER_SIZES = {64 * harness.MIB: 3, harness.GIB: 3, 4 * harness.GIB: 2}


def installed_peers(bench):
    peers, absent = [], {}
    reasons = {}
    for peer in peerset.PEERS:
        if peer.module not in bench.options.peers:
            continue
        if peer.environment not in reasons:
            reasons[peer.environment] = peerset.install(bench.environments, peer.environment, bench.log)
        if reasons[peer.environment]:
            absent[peer.name] = reasons[peer.environment]
        else:
            peers.append(peer)
    return peers, absent


def verdicts(bench, peers):
    """Which notices a flipped bit."""
    size = 64 * harness.MIB
    listed = bench.listed("damage", states.gpt2(size))
    verified = {}
    for name, contender in peerset.contenders(bench, peers, size).items():
        bench.say(f"a flipped bit: {name}")
        try:
            verified[name], words = peerset.verdict_on_damage(bench, contender, listed)
        except (harness.Failed, OSError) as why:
            verified[name], words = "?", str(why)
        if words:
            bench.report.remark(f"{name}, of a flipped bit: {words[:200]}")
    return verified


def measure_peers(bench, sizes):
    """The same state for all; and 100,000 small tensors, once, because some need minutes."""
    peers, absent = installed_peers(bench)
    bench.report.table("peers", ["", "version", "package"], [
        [peer.name, peerset.version_of(bench.environments, peer), peer.package] for peer in peers])
    verified = verdicts(bench, peers)
    turns = []
    if "peers" in bench.options.parts:
        turns += [(f"GPT-2 with Adam, {figures.label(size)}", states.gpt2(size), PEER_SIZES[size])
                  for size in sizes if size in PEER_SIZES]
    if "peers-small" in bench.options.parts:
        turns.append(("100,000 × 4 KiB", states.many(100000, 4096), 1))
    for title, tensors, count in turns:
        found, failed = peerset.measure(bench, title, tensors, bench.rounds(count), peers)
        peerset.add_table(bench, f"{title}: medians of the rounds", found, {**failed, **absent}, verified)
        peerset.add_figures(bench, title, found, peers)


# ---- the whole ------------------------------------------------------------------------------------

def run(bench):
    sizes = fitting_sizes(bench)
    parts = bench.options.parts
    if bench.fio is None:
        bench.report.remark("fio is not installed: nothing is compared with the device")
    elif "device" in parts or "shapes" in parts:
        figures.choose_ways(bench)
    if "device" in parts:
        for size in sizes:
            figures.measure_device(bench, f"one tensor, {figures.label(size)}", states.one(size),
                                   bench.options.quick or size == 4 * harness.GIB)
    if "shapes" in parts:
        figures.measure_shapes(bench)
    if "small" in parts:
        figures.measure_small(bench)
    if "syncs" in parts:
        figures.measure_syncs(bench)
    if "first" in parts:
        figures.measure_first_fence(bench)
    if "memory" in parts:
        for size in sizes:
            figures.measure_memory(bench, size)
    if "import" in parts:
        importing.measure(bench)
    if "peers" in parts or "peers-small" in parts:
        measure_peers(bench, sizes)
    if "growth" in parts:
        growth.measure(bench, sizes)
    if "ranks" in parts:
        ranks.measure(bench)
    if "scale" in parts:
        scale.measure(bench)


def conclude(bench, began):
    bench.report.remark(f"the run took {(time.monotonic() - began) / 60:.0f} minutes")
    print(bench.report.text(), flush=True)  # whatever becomes of the file
    bench.report.write(bench.options.output)
    print(f"written to {bench.options.output}")


def measure(options):
    """Everything, in a directory of its own, which goes whatever happens."""
    options.directory.mkdir(parents=True, exist_ok=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=options.directory)).resolve()
    began = time.monotonic()
    bench = None
    try:
        bench = Bench(options, data)
        run(bench)
        conclude(bench, began)
    except (KeyboardInterrupt, harness.Failed):
        if bench is not None and bench.report.figures:
            print(bench.report.text())
        raise
    finally:
        shutil.rmtree(data, ignore_errors=True)


def main():
    options = parse(sys.argv[1:])
    if not options.engine.exists():
        sys.exit(f"bench: {options.engine} is not built; see `make bench`")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        measure(options)
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; nothing is written")
    except (harness.Failed, OSError) as why:
        sys.exit(f"bench: {why}")


if __name__ == "__main__":
    main()
