# SPDX-License-Identifier: Apache-2.0
"""The wheel, as somebody meets it who has nothing but Python: what it asks of the system, and what it
does where it is installed.

Usage: test_wheel.py --environment FOLDER --work FOLDER [--torch FOLDER] WHEEL
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import zipfile

from test_install import ROOT, fresh, output_of, run

GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
TAG = (2, 34)
# Saves, restores and verifies by what Python itself has; then the files are the wheel's own.
WITHOUT_MORE = """
import pathlib, sys
import pawl
from pawl._library import lib

state = pawl.State({"x": bytearray(b"12345678"), "step": 3})
with pawl.Run("run") as run:
    run.save(state, 3)
    run.wait()
    state["x"][:] = bytes(8)
    assert run.restore(state).step == 3
assert bytes(state["x"]) == b"12345678"
assert pawl.verify("run").ok
for path in (pawl.__file__, lib.path):
    assert pathlib.Path(path).is_relative_to(sys.prefix), path
"""


def version_of(text):
    return tuple(int(part) for part in text.replace("_", ".").split("."))


def asks_for_glibc_alone(at):
    """All that its files are linked with is glibc's, or inside; auditwheel says the same, and no newer
    tag than docs/python.md says."""
    with zipfile.ZipFile(at.wheel) as packed:
        packed.extractall(at.unpacked)
    files = [path for path in at.unpacked.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    inside = {path.name for path in files}
    assert any(name.startswith("libpawl.so") for name in inside) and "pawl" in inside, inside
    for path in files:
        needed = set(re.findall(r"NEEDED\s+(\S+)", output_of("objdump", "-p", path)))
        other = {name for name in needed - inside - GLIBC if not name.startswith("ld-linux")}
        assert not other, f"{path.name} needs {sorted(other)}"
    own = [path for path in files if path.name == "pawl" or path.name.startswith("libpawl.so")]
    run(sys.executable, ROOT / "tests/quality/test_glibc.py", *own)

    said = " ".join(output_of("auditwheel", "show", at.wheel, env=at.environment).split())
    external = set(re.findall(r"(\S+) with versions", said))
    assert external and external - inside <= GLIBC, f"auditwheel names {sorted(external - inside)}"
    tag = re.search(r'platform tag: "manylinux_(\d+_\d+)_\w+"', said)
    assert tag and tag.group(0).split('"')[1] in at.wheel.name, f"{at.wheel.name} has not the tag of: {said}"
    # Headers of glibc 2.38 and newer put names of theirs in the place of older ones, whoever compiles.
    redirected = any(b"__isoc23_" in path.read_bytes() for path in files)
    assert redirected or version_of(tag.group(1)) <= TAG, f"the tag is newer than manylinux_2_34: {tag.group(1)}"


def installs(at):
    """Into an environment of its own, where nothing else is, and from no index."""
    run(sys.executable, "-m", "venv", at.venv)
    run(at.python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", at.wheel,
        env=at.environment)


def works(at):
    """The package without another one, and the command."""
    version = at.wheel.name.split("-")[1]
    said = output_of(at.venv / "bin/pawl", "--version", env=at.environment)
    assert said == f"pawl {version}\n", f"pawl --version said {said!r}"
    run(at.python, "-c", WITHOUT_MORE, cwd=at.work, env=at.environment)
    said = output_of(at.venv / "bin/pawl", "ls", "run", cwd=at.work, env=at.environment)
    assert "committed" in said, f"pawl ls said {said!r}"


def readme(at):
    """The Python of the README, as it stands: twice, since the second time goes on where the first was."""
    packages = list(at.torch.glob("lib/python*/site-packages"))
    if not packages:
        print("SKIP: the Python of README.md: PyTorch is not in build/torch")
        return
    (own,) = at.venv.glob("lib/python*/site-packages")
    assert own.parent.name == packages[0].parent.name, f"{packages[0]} is of another Python than {own}"
    (own / "torch.pth").write_text(f"{packages[0]}\n", encoding="utf-8")
    program = ROOT / "tests/python/torch/readme.py"
    for steps in ("500\n", "500 1000\n"):
        said = output_of(at.python, program, ROOT / "README.md", cwd=at.work, env=at.environment)
        assert said == steps, f"checkpoints of steps {said!r}, not {steps!r}"


class Place:
    """What is tested, and where."""

    def __init__(self, arguments):
        self.wheel = arguments.wheel.resolve()
        self.work = fresh(arguments.work.resolve())
        self.unpacked = self.work / "unpacked"
        self.venv = self.work / "venv"
        self.python = self.venv / "bin/python3"
        self.torch = arguments.torch
        tools = arguments.environment.resolve() / "bin"
        left_out = ("PYTHONPATH", "PYTHONHOME", "PAWL_LIBRARY", "PAWL_COMMAND", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
        self.environment = {name: value for name, value in os.environ.items() if name not in left_out}
        self.environment.update(PATH=f"{tools}:{os.environ['PATH']}", OMP_NUM_THREADS="1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--environment", type=pathlib.Path, required=True, help="where auditwheel is")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--torch", type=pathlib.Path, default=ROOT / "build/torch")
    at = Place(parser.parse_args())
    for step in (asks_for_glibc_alone, installs, works, readme):
        step(at)


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, subprocess.CalledProcessError) as why:
        sys.exit(f"wheel: {why}")
