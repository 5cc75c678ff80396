# SPDX-License-Identifier: Apache-2.0
"""The peers: where they are installed, and one turn of each in the same loop as pawl."""

import dataclasses
import pathlib
import shutil
import statistics
import subprocess
import sys
import venv

import harness
import report
import states

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = (("stall_s", "stall"), ("durable_s", "durable"), ("extra_bytes", "extra memory"),
           ("cold_s", "cold restore"), ("warm_s", "warm restore"))
COMMAND_LIMIT_S = 150  # of one command of a turn; with many tensors some peers would take hours
MANY_LIMIT_S = 60
MIN_EXTRA_BYTES = 1 << 20  # less is noise of an allocator


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    module: str        # of bench/peers
    environment: str   # of bench/requirements-*.txt
    package: str
    copies: bool = False  # copies the state first, then writes in the background


PEERS = (
    Peer("torch.save", "torch_save", "torch", "torch"),
    Peer("torch.save, load mmap", "torch_save_mmap", "torch", "torch"),
    Peer("DCP save", "dcp", "torch", "torch"),
    Peer("DCP async_save", "dcp_async", "torch", "torch", True),
    Peer("torch_checkpointing", "torch_checkpointing_async", "torch", "torch_checkpointing", True),
    Peer("safetensors torch", "safetensors_torch", "torch", "safetensors"),
    Peer("safetensors numpy", "safetensors_numpy", "torch", "safetensors"),
    Peer("Orbax", "orbax_standard", "jax", "orbax-checkpoint", True),
    Peer("tf.train.Checkpoint", "tensorflow_checkpoint", "tf", "tensorflow-cpu"),
    Peer("numpy.savez", "numpy_savez", "torch", "numpy"),
)


# ---- installation ---------------------------------------------------------------------------------

def python_of(root, environment):
    return root / environment / "bin" / "python3"


def _wanted(environment):
    return (HERE / f"requirements-{environment}.txt").read_text(encoding="utf-8")


def install(root, environment, log):
    """Installs an environment; returns why that failed, or None."""
    python = python_of(root, environment)
    stamp = root / environment / "installed.txt"
    wanted = _wanted(environment)
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return None
    print(f"bench: pip install -r bench/requirements-{environment}.txt", file=sys.stderr)
    shutil.rmtree(root / environment, ignore_errors=True)
    try:
        venv.create(root / environment, with_pip=True)
        with open(log, "ab") as out:
            subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "--retries",
                            "2", "--timeout", "30", "-r", HERE / f"requirements-{environment}.txt"],
                           stdout=out, stderr=out, check=True)
    except (OSError, subprocess.CalledProcessError):
        return f"not installed: {harness.last_line(log)}"
    stamp.write_text(wanted, encoding="utf-8")
    return None


def version_of(root, peer):
    code = f"from importlib.metadata import version; print(version({peer.package!r}))"
    found = subprocess.run([python_of(root, peer.environment), "-c", code], capture_output=True,
                           text=True, check=False)
    return found.stdout.strip()


# ---- a turn ---------------------------------------------------------------------------------------

def _open_pawl(bench, fence, budget_mib):
    def save(worker, directory, limit_s):
        worker.ask("open", directory / "run", budget_mib, "auto")
        found = worker.ask("save", 1, fence, limit_s=limit_s)
        worker.ask("close")
        return found
    return lambda: harness.Worker([bench.engine], bench.log), save, lambda d: d / "run"


def _open_peer(bench, peer):
    python = python_of(bench.environments, peer.environment)
    argv = [python, HERE / "peers" / "worker.py", peer.module]
    start = lambda: harness.Worker(argv, bench.log, {  # noqa: E731
        "BENCH_SCRATCH": str(bench.scratch), "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"})
    return start, lambda worker, d, limit_s: worker.ask("save", d, limit_s=limit_s), lambda d: d


def contenders(bench, peers, size):
    """{name: (start a worker, save, what to restore from)}; pawl twice."""
    fits = int(size * 1.05 / harness.MIB) + 64
    found = {"pawl": _open_pawl(bench, "late", 0),
             "pawl, fence at once": _open_pawl(bench, "now", fits)}
    for peer in peers:
        found[peer.name] = _open_peer(bench, peer)
    return found


def turn(bench, contender, listed, compare, limit_s):
    """One save, one cold and one warm restore, in a process of its own. Seconds and bytes."""
    start, save, saved_at = contender
    directory = bench.data / "turn"
    directory.mkdir()
    try:
        with start() as worker:
            worker.ask("state", listed, 1, limit_s=limit_s)
            bench.settle()
            found = save(worker, directory, limit_s)
            worker.ask("scramble")
            harness.make_cold(directory)
            restore = ("restore", saved_at(directory))
            found["cold_s"] = worker.ask(*restore, limit_s=limit_s)["seconds"]
            worker.ask("scramble")
            found["was_warm"] = harness.make_warm(directory)
            found["warm_s"] = worker.ask(*restore, limit_s=limit_s)["seconds"]
            if compare and not worker.ask("same", limit_s=COMMAND_LIMIT_S)["same"]:
                raise harness.Failed("the state came back different")
        return found
    finally:
        shutil.rmtree(directory)


def verdict_on_damage(bench, contender, listed):
    """Flips one bit in the middle of the largest file of a checkpoint and restores it: is it
    noticed?"""
    start, save, saved_at = contender
    directory = bench.data / "damage"
    directory.mkdir()
    try:
        with start() as worker:
            worker.ask("state", listed, 1)
            save(worker, directory, COMMAND_LIMIT_S)
            worker.ask("scramble")
            largest = max(harness.files_below(directory), key=lambda path: path.stat().st_size)
            harness.make_cold(directory)
            with open(largest, "r+b") as file:
                file.seek(largest.stat().st_size // 2)
                byte = file.read(1)[0]
                file.seek(-1, 1)
                file.write(bytes([byte ^ 1]))
            try:
                worker.ask("restore", saved_at(directory))
            except harness.Failed as refusal:
                return "yes", str(refusal)
            return ("no" if not worker.ask("same")["same"] else "the flipped bit was not read"), ""
    finally:
        shutil.rmtree(directory)


# ---- all of them ----------------------------------------------------------------------------------

def measure(bench, title, tensors, count, peers):
    """Interleaved turns. Returns {name: [what a turn found]} and {name: why it has none}."""
    found, failed = {}, {}
    limit_s = MANY_LIMIT_S if len(tensors) >= 100000 else COMMAND_LIMIT_S
    tensors_file = bench.listed("peers", tensors)
    every = contenders(bench, peers, states.bytes_of(tensors))
    for i, names in harness.rounds(count, every):
        for name in names:
            if name in failed:
                continue
            bench.say(f"{title}, round {i + 1} of {count}: {name}")
            try:
                one = turn(bench, every[name], tensors_file, i == 0, limit_s)
                found.setdefault(name, []).append(one)
            except (harness.Failed, OSError) as why:
                failed[name] = str(why)
    return found, failed


def cell(column, value):
    if column == "extra_bytes":
        return f"{value / harness.MIB:.0f} MiB"
    if value < 0.1:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.2f} s"


def add_table(bench, title, found, failed, verified):
    rows = []
    for name in ["pawl", "pawl, fence at once", *(peer.name for peer in PEERS)]:
        turns = found.get(name)
        if turns is None:
            continue
        medians = [statistics.median(t[column] for t in turns) for column, _ in COLUMNS]
        rows.append([name, *(cell(c, m) for (c, _), m in zip(COLUMNS, medians)),
                     verified.get(name, "")])
    rows += [[name] + ["-"] * len(COLUMNS) + [why] for name, why in failed.items()]
    bench.report.table(title, ["", *(head for _, head in COLUMNS), "verified"], rows)


def why_behind(column, peer):
    """What is known of columns in which some peer may be ahead."""
    if column == "extra_bytes" and not peer.copies:
        return "it blocks, and writes from the tensors into the page cache, which is not counted"
    if column == "stall_s" and peer.copies:
        return "pawl's first such fence pays for new memory from the system; later ones take a tenth"
    if column in ("cold_s", "warm_s") and "mmap" in peer.name:
        return "it verifies nothing, and leaves the tensors mapped to the file"
    if column in ("cold_s", "warm_s") and "safetensors" in peer.name:
        return "it verifies nothing"
    return ""


def add_figures(bench, label, found, peers):
    """Each column of each peer against pawl, round by round. A peer that copies the state first is
    compared with pawl doing the same: the fence at once, with a budget that fits."""
    rows = []
    for peer in peers:
        own = "pawl, fence at once" if peer.copies else "pawl"
        row = [peer.name]
        pairs = list(zip(found.get(peer.name, []), found.get(own, [])))
        for column, head in COLUMNS:
            least = MIN_EXTRA_BYTES if column == "extra_bytes" else 1e-9
            values = [max(theirs[column], least) / max(ours[column], least)
                      for theirs, ours in pairs]
            note = ""
            if values and statistics.median(values) < 1:
                note = why_behind(column, peer)
            figure = bench.report.figure(f"{head}, {peer.name} ÷ pawl, {label}", values, 1.0, note,
                                         in_table=False)
            row.append(report.Report.mark(figure))
        rows.append(row)
    bench.report.table(f"{label}: peer ÷ pawl, medians of the rounds; more than 1: pawl is ahead",
                       ["", *(head for _, head in COLUMNS)], rows)
