# SPDX-License-Identifier: Apache-2.0
"""The installed tree, as an outside program meets it.

Usage: test_install.py WHAT --build BUILD --work FOLDER [--cc CC] [--cxx CXX]
WHAT: stage, headers-c99, headers-c11, headers-cxx17, find-package-shared, find-package-static,
pkg-config-shared, pkg-config-static, command, moved, readme-c, readme-mpi, readme-shell.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# As root in a container, and with more ranks than processors, Open MPI 4 and 5 want to be told so.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(part) for part in command], check=True, text=True, **options)


def output_of(*command, **options):
    return run(*command, stdout=subprocess.PIPE, **options).stdout


def skip(reason):
    print("SKIP:", reason)
    sys.exit(77)


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


class Stage:
    """Where `stage` installed to, and what an outside program needs to know of it."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.prefix = arguments.work / "prefix"
        configured = (arguments.build / "CMakeCache.txt").read_text(encoding="utf-8")
        libdir = re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", configured, re.MULTILINE).group(1)
        self.libdir = self.prefix / libdir
        self.environment = {**os.environ, "PKG_CONFIG_PATH": str(self.libdir / "pkgconfig"),
                            "LD_LIBRARY_PATH": str(self.libdir),
                            "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}

    def run_outside(self, program, folder):
        said = output_of(program, folder / "run", env=self.environment)
        assert re.fullmatch(r"pawl \d+\.\d+\.\d+\n", said), f"the program said {said!r}"

    def pkg_config(self, *options):
        return output_of("pkg-config", *options, "pawl", env=self.environment).split()


def stage(at):
    fresh(at.prefix)
    run("cmake", "--install", at.arguments.build, "--prefix", at.prefix, stdout=subprocess.DEVNULL)
    for wanted in ("include/pawl/pawl.h", "include/pawl/mpi.h", "bin/pawl"):
        assert (at.prefix / wanted).is_file(), f"{wanted} was not installed"
    assert (at.libdir / "libpawl.so.0.2").is_symlink(), "libpawl.so.0.2 was not installed"


def compile_headers(at, compiler, standard, suffix):
    """Each public header by itself, and twice, compiles without a warning. Those for MPI need an MPI's
    compiler: tests/mpi does the same with them."""
    folder = fresh(at.arguments.work / f"headers-{standard}")
    headers = sorted(set((at.prefix / "include/pawl").glob("*.h")) -
                     set((at.prefix / "include/pawl").glob("mpi*.h")))
    assert len(headers) > 5, f"only {len(headers)} headers were installed"
    for header in headers:
        source = folder / f"{header.stem}{suffix}"
        line = f"#include <pawl/{header.name}>\n"
        source.write_text(line + line + "int main(void) { return 0; }\n", encoding="utf-8")
        run(compiler, f"-std={standard}", "-Wpedantic", "-Wall", "-Wextra", "-Werror",
            "-I", at.prefix / "include", "-fsyntax-only", source)


def headers_c99(at):
    compile_headers(at, at.arguments.cc, "c99", ".c")


def headers_c11(at):
    compile_headers(at, at.arguments.cc, "c11", ".c")


def headers_cxx17(at):
    compiler = at.arguments.cxx or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        skip("no C++ compiler is installed")
    compile_headers(at, compiler, "c++17", ".cpp")


def find_package(at, kind, target, components=""):
    folder = fresh(at.arguments.work / f"find-package-{kind}")
    run("cmake", "-S", HERE / "outside", "-B", folder, f"-DCMAKE_PREFIX_PATH={at.prefix}",
        f"-DCMAKE_C_COMPILER={at.arguments.cc}", f"-DOUTSIDE_TARGET={target}",
        f"-DOUTSIDE_COMPONENTS={components}", stdout=subprocess.DEVNULL)
    run("cmake", "--build", folder, stdout=subprocess.DEVNULL)
    at.run_outside(folder / "outside", folder)
    return folder / "outside"


def find_package_shared(at):
    assert needs_pawl(find_package(at, "shared", "pawl::pawl", "shared")), "linked with the archive"


def find_package_static(at):
    program = find_package(at, "static", "pawl::pawl_static", "static")
    assert not needs_pawl(program), "linked with the shared library"


def needs_pawl(program):
    return "libpawl.so.0.2" in output_of("objdump", "-p", program)


def pkg_config_shared(at):
    folder = fresh(at.arguments.work / "pkg-config-shared")
    program = folder / "outside"
    run(at.arguments.cc, HERE / "outside/main.c", "-o", program,
        *at.pkg_config("--cflags", "--libs"))
    assert needs_pawl(program), "linked with the archive"
    at.run_outside(program, folder)


def pkg_config_static(at):
    folder = fresh(at.arguments.work / "pkg-config-static")
    program = folder / "outside"
    libraries = [part if part != "-lpawl" else "-l:libpawl.a"
                 for part in at.pkg_config("--libs", "--static")]
    run(at.arguments.cc, HERE / "outside/main.c", "-o", program, *at.pkg_config("--cflags"),
        *libraries)
    assert not needs_pawl(program), "linked with the shared library"
    at.run_outside(program, folder)


def moved(at):
    """pawl.pc and pawlConfig.cmake know no absolute path: the tree may be moved."""
    for path in [at.libdir / "pkgconfig/pawl.pc", *(at.libdir / "cmake/pawl").glob("*.cmake")]:
        for place in (at.prefix, at.arguments.build, ROOT):
            assert str(place) not in path.read_text(encoding="utf-8"), f"{path} names {place}"


def command(at):
    """The command runs, its manual page formats without complaint, its completion is shell."""
    said = output_of("pawl", "--version", env=at.environment)
    assert re.match(r"pawl \d+\.\d+\.\d+", said), f"pawl --version said {said!r}"
    page = at.prefix / "share/man/man1/pawl.1"
    assert page.is_file(), "the manual page was not installed"
    if shutil.which("man"):
        result = run("man", "--warnings", "-l", page, stdout=subprocess.DEVNULL,
                     stderr=subprocess.PIPE, env={**at.environment, "MANWIDTH": "100"})
        assert not result.stderr, f"man complains: {result.stderr}"
    completion = at.prefix / "share/bash-completion/completions/pawl"
    assert completion.is_file(), "the bash completion was not installed"
    run("bash", "-n", completion)


def readme_block(language, beginning=""):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(rf"^```{language}\n({re.escape(beginning)}.*?)^```$", text,
                      re.MULTILINE | re.DOTALL)
    assert block, f"README.md has no block of {language} that begins with {beginning!r}"
    return block.group(1)


AROUND_README_C = """\
#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>

static pawl_error *err;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%%s\\n", pawl_error_text(err));
        exit(1);
    }
}

static void compute_gradients(float kernel[64][10]) {
    (void)kernel;
}

static void apply_gradients(float kernel[64][10]) {
    kernel[0][0] += 1.0f;
}

int main(void) {
    pawl_run *run;
    pawl_state *state;
    err = pawl_error_new();
%s
    pawl_state_free(state);
    pawl_error_free(err);
    return 0;
}
"""


def readme_c(at):
    """The C of the README compiles inside a program, and runs."""
    folder = fresh(at.arguments.work / "readme")
    (folder / "train.c").write_text(AROUND_README_C % readme_block("c"), encoding="utf-8")
    run(at.arguments.cc, "-Wall", "-Wextra", "-Werror", "train.c", "-o", "train",
        *at.pkg_config("--cflags", "--libs"), cwd=folder)
    run("./train", cwd=folder, env=at.environment)


AROUND_README_MPI = """\
#include <pawl/pawl.h>

%s
#include <stdio.h>
#include <stdlib.h>

static pawl_error *err;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%%s\\n", pawl_error_text(err));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void must_mpi(int code) {
    if (code != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, code);
    }
}

int main(int argc, char **argv) {
    static float my_rows[1000][64], all_weights[8];
    pawl_tensor weights = {.struct_size = sizeof weights, .name = "model/w", .dtype = PAWL_F32,
                           .ndim = 1, .shape = (const int64_t[]){8}, .data = all_weights};
    pawl_mpi ranks;
    pawl_group group;
    pawl_run *run;
    pawl_state *state;
    pawl_status found;
    must_mpi(MPI_Init(&argc, &argv));
    err = pawl_error_new();
    must(pawl_state_new(&state, err));
%s
    if (found != PAWL_ENOTFOUND) must(found);
    must(pawl_save(run, state, 1, NULL, err));
    must(pawl_run_close(run, 0, err));
    pawl_state_free(state);
    pawl_error_free(err);
    pawl_mpi_free(&ranks);
    must_mpi(MPI_Finalize());
    return 0;
}
"""


def readme_mpi(at):
    """The C of the README for many ranks compiles inside a program of MPI, and runs on three."""
    cc = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not (cc and mpirun):
        skip("there is no mpicc, or no mpirun")
    folder = fresh(at.arguments.work / "readme-mpi")
    parts = readme_block("c", "#include <pawl/mpi.h>").split("...\n")
    (folder / "train.c").write_text(AROUND_README_MPI % tuple(parts), encoding="utf-8")
    run(cc, "-Wall", "-Wextra", "-Werror", "train.c", "-o", "train",
        *at.pkg_config("--cflags", "--libs"), cwd=folder)
    for _ in range(2):  # a new run, and one that goes on
        run(mpirun, "-n", 3, "./train", cwd=folder, env={**at.environment, **MPI_ENVIRONMENT})
    run("pawl", "verify", "run", cwd=folder, env=at.environment)


def readme_shell(at):
    """The shell of the README runs as it stands, on the run that readme-c left, and a SavedModel."""
    if not shutil.which("mpirun"):
        skip("there is no mpirun, by which one of its lines is run")
    model = at.arguments.work / "readme" / "export" / "1"
    model.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tests/fuzz/corpus/saved_model/nested", model / "saved_model.pb")
    script = "set -eu\n" + readme_block("sh")
    run("bash", "-c", script, cwd=at.arguments.work / "readme",
        env={**at.environment, **MPI_ENVIRONMENT})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="")
    arguments = parser.parse_args()
    steps = [stage, headers_c99, headers_c11, headers_cxx17, find_package_shared,
             find_package_static, pkg_config_shared, pkg_config_static, moved, command, readme_c,
             readme_mpi, readme_shell]
    {step.__name__.replace("_", "-"): step for step in steps}[arguments.what](Stage(arguments))


if __name__ == "__main__":
    main()
