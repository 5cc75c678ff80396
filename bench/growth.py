# SPDX-License-Identifier: Apache-2.0
"""How cost grows with entries and with bytes, and which phases it has."""

import statistics

import figures
import harness
import states

ENTRIES = (100, 1000, 10000, 100000, 1000000)
PHASES = ("prepare_s", "write_s", "sync_s", "commit_s")


def _one_state(bench, listed, name, count):
    """Medians over a few saves of one state, and over restores of the last."""
    directory = bench.data / "growth"
    directory.mkdir()
    saves, cold, warm = [], [], []
    with bench.start() as worker:
        worker.ask("state", listed, 1)
        worker.ask("open", directory / "run", 0, "auto")
        for step in range(count):
            bench.settle()
            saves.append(worker.ask("save", step, "late"))
            if step > 0:
                worker.ask("remove", step - 1)
        for _ in range(count):
            harness.make_cold(directory)
            cold.append(worker.ask("restore", directory / "run")["seconds"])
            harness.make_warm(directory)
            warm.append(worker.ask("restore", directory / "run")["seconds"])
        harness.make_cold(directory)
        found = worker.ask("find", directory / "run", name)
    harness.empty(directory)
    directory.rmdir()
    medians = {key: statistics.median(save[key] for save in saves)
               for key in ("durable_s", "save_s", *PHASES)}
    return {**found, **medians, "cold_s": statistics.median(cold), "warm_s": statistics.median(warm),
            "extra_bytes": max(save["extra_bytes"] for save in saves)}


def _row(name, found):
    total = found["durable_s"] or 1
    return [name, f"{found['durable_s'] * 1e3:.1f}", f"{found['save_s'] * 1e3:.2f}",
            *(f"{100 * found[phase] / total:.0f}%" for phase in PHASES),
            f"{found['cold_s'] * 1e3:.1f}", f"{found['warm_s'] * 1e3:.1f}",
            f"{(found['open_s'] + found['find_s']) * 1e3:.2f}",
            f"{found['extra_bytes'] / harness.MIB:.0f}"]


HEAD = ("durable ms", "pawl_save ms", "prepare", "write", "sync", "commit", "cold ms", "warm ms",
        "open + find ms", "extra MiB")


def measure(bench, sizes):
    rows = []
    for entries in ENTRIES:
        bench.say(f"growth: {entries} entries")
        tensors = states.many(entries, 16)
        found = _one_state(bench, bench.listed("growth", tensors), tensors[entries // 2].name,
                           bench.rounds(3))
        rows.append(_row(f"{entries:,} entries of 16 bytes", found))
    bench.report.table("growth with entries: medians; shares of the time to durable",
                       ["", *HEAD], rows)
    rows = []
    for size in sorted({harness.MIB, 16 * harness.MIB, 256 * harness.MIB, *sizes}):
        bench.say(f"growth: {figures.label(size)}")
        found = _one_state(bench, bench.listed("growth", states.one(size)), "tensor", bench.rounds(3))
        rows.append(_row(figures.label(size), found))
    bench.report.table("growth with bytes, one tensor: medians; shares of the time to durable",
                       ["", *HEAD], rows)
