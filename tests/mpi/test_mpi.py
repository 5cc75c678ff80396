# SPDX-License-Identifier: Apache-2.0
"""Runs a program on real ranks of a real MPI.

Usage: test_mpi.py KIND WHAT --work FOLDER [--libpawl FILE]
KIND: openmpi or mpich. WHAT: headers, build (the programs), meetings PROMISE..., reshard, absent,
visitors.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEADLINE_S = 120
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror")
# Where both are installed, Debian's names tell them apart.
SAYS = {"openmpi": ("Open MPI", "OpenRTE", "open-mpi"), "mpich": ("HYDRA", "MPICH")}
PACKAGES = {"openmpi": "Open MPI", "mpich": "MPICH"}
# Four ranks share a few processors, as root in a container.
OPTIONS = {"openmpi": ("--oversubscribe", "--mca", "mpi_yield_when_idle", "1"), "mpich": ()}
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def skip(reason):
    print("SKIP:", reason)
    sys.exit(77)


def output_of(*command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, env=ENVIRONMENT).stdout


def tool(kind, name):
    """The path of this MPI's mpicc, mpicxx or mpirun."""
    own = shutil.which(f"{name}.{kind}")
    if own:
        return own
    plain, launcher = shutil.which(name), shutil.which("mpirun")
    if plain and launcher and any(word in output_of(launcher, "--version") for word in SAYS[kind]):
        return plain
    return skip(f"{PACKAGES[kind]} is not installed ({name})")


def run(*command):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, env=ENVIRONMENT)


def headers(kind, arguments):
    """pawl/mpi.h compiles without a warning, whatever the language."""
    folder = arguments.work / f"headers-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    for compiler, standard, suffix in (("mpicc", "c99", "c"), ("mpicc", "c11", "c"),
                                       ("mpicxx", "c++17", "cpp")):
        source = folder / f"{standard}.{suffix}"
        source.write_text("#include <pawl/mpi.h>\n#include <pawl/mpi.h>\n#include <pawl/pawl.h>\n"
                          "int main(void) {\n    pawl_mpi ranks;\n    pawl_group group;\n"
                          "    int code = pawl_mpi_group(MPI_COMM_WORLD, &ranks, &group);\n"
                          "    pawl_mpi_free(&ranks);\n    return code;\n}\n", encoding="utf-8")
        # Open MPI's own C++ interface, which is no more, warns; ours need not know it.
        run(tool(kind, compiler), f"-std={standard}", "-O2", *WARNINGS, "-DOMPI_SKIP_MPICXX",
            "-I", ROOT / "include", "-c", source, "-o", folder / f"{standard}.o")


def build(kind, arguments):
    compiler = tool(kind, "mpicc")
    tool(kind, "mpirun")
    folder = arguments.work / kind
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(HERE.glob("*.c")):
        run(compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", *WARNINGS, "-I", ROOT / "include",
            source, "-o", folder / source.stem, arguments.libpawl,
            f"-Wl,-rpath,{arguments.libpawl.parent}")


def stop(process):
    """mpirun and what it started; it has a group of its own."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def launch(kind, arguments, count, name, *rest):
    """The program ends well, and rank 0 says so."""
    command = [tool(kind, "mpirun"), *OPTIONS[kind], "-n", str(count),
               str(arguments.work / kind / name), *rest]
    print("+", *command, flush=True)
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            said, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            stop(process)
            said = (process.stdout.read() or "") + f"no end within {DEADLINE_S} s\n"
    print(said)
    assert process.returncode == 0, f"mpirun ended with {process.returncode}"
    assert "kept" in said.splitlines(), "rank 0 did not come to the end"


def meetings(kind, arguments):
    launch(kind, arguments, 4, *arguments.what)


def fresh_run(kind, arguments, name):
    folder = arguments.work / f"{name}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)


def reshard(kind, arguments):
    """What 4 ranks saved by rows, 3, 6 and 1 restore by columns."""
    folder = fresh_run(kind, arguments, "reshard")
    launch(kind, arguments, 4, "runs", "save", folder)
    for count in (3, 6, 1):
        launch(kind, arguments, count, "runs", "restore", folder)


def absent(kind, arguments):
    """S11: a rank does not come to open the run; the others end in time and name it."""
    launch(kind, arguments, 4, "runs", "absent", fresh_run(kind, arguments, "absent"))


def wait_for(path, process):
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, f"no {path}"
        time.sleep(0.05)


def visitors(kind, arguments):
    """What 2 ranks saved, 3 restore without owning the run, while its owner lives; and they fail
    alike where one does not come, or has opened another step. The owner then goes on."""
    folder = fresh_run(kind, arguments, "visitors")
    held, go_on = (pathlib.Path(folder + end) for end in (".held", ".go"))
    for path in (held, go_on):
        path.unlink(missing_ok=True)
    command = [tool(kind, "mpirun"), *OPTIONS[kind], "-n", "2",
               str(arguments.work / kind / "runs"), "hold", folder]
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True) as owner:
        try:
            wait_for(held, owner)
            for verb in ("visit", "visit_absent", "visit_other"):
                launch(kind, arguments, 3, "runs", verb, folder)
            left = [name for name in os.listdir(folder) if name.startswith(("visit-", "meet-"))]
            assert not left, left
            go_on.touch()
            assert owner.wait(DEADLINE_S) == 0
        finally:
            if owner.poll() is None:
                stop(owner)
    assert (pathlib.Path(folder) / "step-00000004" / "manifest.json").exists()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(SAYS))
    parser.add_argument("what", nargs="+")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--libpawl", type=pathlib.Path)
    arguments = parser.parse_args()
    steps = [headers, build, meetings, reshard, absent, visitors]
    {step.__name__: step for step in steps}[arguments.what[0]](arguments.kind, arguments)


if __name__ == "__main__":
    main()
