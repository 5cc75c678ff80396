# SPDX-License-Identifier: Apache-2.0
"""The bench at a size of 4 MiB: lists of tensors, ratios, caches that are cold when they should be, a
whole run, and one that is interrupted. Usage: test_bench.py ENGINE DIRECTORY [TEST]...
Without names: all but the one of many ranks, which is skipped (exit code 77) where there is no MPI."""

import json
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import harness  # noqa: E402
import peerset  # noqa: E402
import report  # noqa: E402
import states  # noqa: E402


def test_lists_have_the_size_that_was_asked_for(_engine, _directory):
    for make in (states.gpt2, states.llama):
        for size in (64 * harness.MIB, harness.GIB):
            found = states.bytes_of(make(size))
            assert 0.97 * size <= found <= size, (make, size, found)
    assert states.bytes_of(states.many(1000, 4096)) == 1000 * 4096


def test_a_list_reads_back_as_it_was_written(_engine, directory):
    tensors = states.llama(8 * harness.MIB)
    states.write(tensors, directory / "list")
    assert states.read(directory / "list") == tensors


def test_a_figure_below_its_floor_is_called_so(_engine, directory):
    found = report.Report()
    found.figure("good", [2.0, 1.0, 4.0], 1.5)
    found.figure("bad", [1.0, 1.2, 9.0], 1.5)
    found.figure("no bar", [1.0])
    assert [found.verdict(f) for f in found.figures] == ["ok", "BELOW", ""]
    assert found.figures[0]["value"] == 2.0 and found.figures[0]["spread"] == [1.5, 3.0]
    found.write(directory / "results/latest.json")
    for figure in json.loads((directory / "results/latest.json").read_text(encoding="utf-8")):
        assert {"figure", "value", "unit", "spread", "floor"} <= set(figure), figure
    assert "1 of 2 figures with a floor" in found.text(), found.text()


def test_every_round_has_everything_in_another_order(_engine, _directory):
    orders = [order for _, order in harness.rounds(20, "abcd")]
    assert all(sorted(order) == list("abcd") for order in orders)
    assert len({tuple(order) for order in orders}) > 5


def test_cold_files_are_not_cached_and_warm_ones_are(_engine, directory):
    path = directory / "files" / "some"
    path.parent.mkdir()
    path.write_bytes(b"x" * 3000000)
    assert harness.make_warm(path.parent)
    try:
        harness.make_cold(path.parent)
    except harness.Failed as why:
        print(f"SKIP: this filesystem keeps its files in memory: {why}")
        return
    assert harness.cached_bytes(path) == 0


def test_the_engine_says_what_fails(engine, directory):
    (directory / "list").write_text("a F32 - 10\nb U8 + 3\nb/m U8 b=m 3\n", encoding="ascii")
    with harness.Worker([engine], directory / "log") as worker:
        answer = worker.ask("state", directory / "list", 1)
        assert answer == {"bytes": 46, "entries": 3}, answer
        assert worker.ask("same")["same"]
        worker.ask("scramble")
        assert not worker.ask("same")["same"]
        try:
            worker.ask("restore", directory / "nothing")
        except harness.Failed as why:
            assert "nothing" in str(why), why
        else:
            raise AssertionError("a restore of nothing succeeded")


def test_pawl_notices_a_flipped_bit_by_the_bench_s_own_test(engine, directory):
    class Bench:
        data = directory
        log = directory / "log"
    Bench.engine = engine
    listed = directory / "list"
    states.write(states.one(harness.MIB), listed)
    contender = peerset.contenders(Bench, [], harness.MIB)["pawl"]
    verdict, words = peerset.verdict_on_damage(Bench, contender, listed)
    assert verdict == "yes" and "restore" in words, (verdict, words)


def command(engine, directory, *more):
    return [sys.executable, "-B", ROOT / "bench/bench.py", "--engine", engine, "--directory",
            directory / "data", "--output", directory / "latest.json", "--sizes", "4", "--rounds",
            "1", "--pause", "0", *more]


def test_what_cannot_be_meant_is_refused_before_anything_runs(engine, directory):
    for option, value, words in (("--sizes", "64,3", "3 is less than 4"),
                                 ("--sizes", "1e3", "invalid list value"),
                                 ("--rounds", "0", "0 is less than 1"),
                                 ("--pause", "nan", "nan is less than 0"),
                                 ("--only", "device,all", "no part is called all"),
                                 ("--peers", "torch", "no peer is called torch")):
        run = subprocess.run(command(engine, directory, option, value), text=True,
                             stderr=subprocess.PIPE, check=False)
        assert run.returncode == 2 and words in run.stderr, (option, value, run.stderr)
    assert not (directory / "data").exists()


def test_a_run_has_its_figures_and_leaves_nothing(engine, directory):
    run = subprocess.run(command(engine, directory, "--only", "device,syncs,memory"), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert run.returncode == 0, run.stderr
    names = [figure["figure"] for figure in
             json.loads((directory / "latest.json").read_text(encoding="utf-8"))]
    for words in ("warm verified restore", "fence after the write", "fence at once", "syncs",
                  "extra memory"):
        assert any(words in name for name in names), (words, names)
    assert not list((directory / "data").iterdir())


def test_the_import_of_the_package_is_measured(engine, directory):
    run = subprocess.run(command(engine, directory, "--only", "import", "--rounds", "3"), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert run.returncode == 0, run.stderr
    if "import pawl: left out" in run.stdout:  # Python alone cannot load what a sanitizer has built
        assert "ASan runtime" in run.stdout or "TLS block" in run.stdout, run.stdout
        print("SKIP: Python cannot load what this sanitizer has built")
        return
    figure, = json.loads((directory / "latest.json").read_text(encoding="utf-8"))
    assert figure["figure"] == "50 ms ÷ import pawl" and figure["rounds"] == 3, figure
    assert 0 < figure["spread"][0] <= figure["value"] <= figure["spread"][1], figure
    assert not list((directory / "data").iterdir())


def ranks_are_measured(engine, directory):
    run = subprocess.run(command(engine, directory, "--only", "ranks"), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert run.returncode == 0, run.stderr
    if "no many ranks: there is no MPI" in run.stdout:
        print("SKIP: there is no MPI, or charlm-mpi is not built, as for ThreadSanitizer")
        sys.exit(77)
    figures = json.loads((directory / "latest.json").read_text(encoding="utf-8"))
    assert any("1 rank ÷ 16 ranks" in figure["figure"] for figure in figures), figures
    assert not list((directory / "data").iterdir())


def test_an_interrupted_run_leaves_nothing(engine, directory):
    with subprocess.Popen(command(engine, directory, "--only", "growth"), stderr=subprocess.PIPE,
                          text=True) as run:
        while not list(directory.glob("data/*/growth")) and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        said = run.stderr.read()
    assert run.returncode == 1 and "interrupted" in said, said
    assert not list((directory / "data").iterdir()) and not (directory / "latest.json").exists()


def main():
    engine, parent = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    parent.mkdir(parents=True, exist_ok=True)
    harness.empty(parent)
    for name in sys.argv[3:] or [name for name in globals() if name.startswith("test_")]:
        directory = parent / name
        directory.mkdir()
        globals()[name](engine, directory)
        print(f"ok: {name}")
    harness.empty(parent)


if __name__ == "__main__":
    main()
