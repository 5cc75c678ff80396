# SPDX-License-Identifier: Apache-2.0
"""What `import pawl` costs a Python program that starts: in a process of its own each time, the package
compiled and its files in the page cache, as after the first start on a host. Nothing that site-packages
imports at each start (-S) has brought modules along that pawl needs, too."""

import os
import pathlib
import statistics
import subprocess
import sys

import harness

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python"
BAR_S = 0.05
ROUNDS = 21
TIMED = """
import sys, time
before = time.perf_counter(), time.process_time()
import pawl
print(time.perf_counter() - before[0], time.process_time() - before[1])
"""


def _seconds(environment):
    """Of one import: by the clock, and of the processor."""
    done = subprocess.run([sys.executable, "-S", "-c", TIMED], env=environment, capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise harness.Failed(said[-1] if said else f"Python ended with {done.returncode}")
    clock, processor = map(float, done.stdout.split())
    return clock, processor


def measure(bench):
    compiled = bench.data / "import"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONPYCACHEPREFIX": str(compiled),
                   "PAWL_LIBRARY": str(bench.engine.parents[1] / "src/libpawl.so")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    bench.say("import pawl")
    try:
        _seconds(environment)  # compiles
    except harness.Failed as why:
        bench.report.remark(f"import pawl: left out, {why}")
        return
    found = []
    busy = []
    for _ in range(bench.rounds(ROUNDS)):
        bench.settle()
        clock, processor = _seconds(environment)
        found.append(clock)
        busy.append(processor)
    bench.report.figure(
        "50 ms ÷ import pawl", [BAR_S / seconds for seconds in found], 1.0,
        f"{statistics.median(found) * 1e3:.1f} ms, at most {max(found) * 1e3:.1f}; "
        f"{statistics.median(busy) * 1e3:.1f} ms of processor time")
