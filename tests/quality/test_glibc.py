# SPDX-License-Identifier: Apache-2.0
"""What library and command ask of glibc: nothing newer than the wheel's tag says, and of their own
accord what docs/python.md says, exactly."""

import argparse
import re
import subprocess
import sys

NEWEST = (2, 34)  # manylinux_2_34
OWN = (2, 28)  # the newest that any name has of its own accord: statx
# Names that older ones have, too, and to which the linker of a newer one gives the version at which
# they moved into its libc.so.
MOVED = {"__libc_start_main", "fstat", "fstatat", "lstat", "pthread_condattr_setclock", "pthread_create",
         "pthread_detach", "pthread_join", "pthread_sigmask", "stat"}
# "0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_create", weak ones with a w
SYMBOL = re.compile(r"\*UND\*\s+[0-9a-f]+\s+\(?GLIBC_([0-9.]+)\)?\s+(\S+)$")
# What the headers of newer ones put in the place of older functions (sscanf, strtol).
REDIRECTED = "__isoc23_"


def asked(table):
    """(name, version) of each symbol of glibc in `objdump -T` text that its source names itself."""
    for line in table.splitlines():
        found = SYMBOL.search(line)
        if found and not found[2].startswith(REDIRECTED):
            yield found[2], tuple(int(part) for part in found[1].split("."))


def too_new(table, where):
    """A line for each symbol of glibc that the wheel's tag, or the manual, does not promise."""
    for name, version in asked(table):
        promised = NEWEST if name in MOVED else OWN
        if version > promised:
            yield f"{where}: {name} is of glibc {dotted(version)}, {dotted(promised)} is promised"


def newest(table):
    """The newest version that is asked for by a name that has not moved."""
    return max((version for name, version in asked(table) if name not in MOVED), default=(0,))


def problems_of(table, where):
    problems = list(too_new(table, where))
    if newest(table) < OWN:
        problems.append(f"{where}: asks for glibc {dotted(newest(table))} alone, and the manual says {dotted(OWN)}")
    return problems


def dotted(version):
    return ".".join(map(str, version))


def self_test():
    table = ("0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.35) hypot\n"
             "0000000000000000  w   DF *UND*\t0000000000000000  GLIBC_2.36 pidfd_open\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.38) __isoc23_sscanf\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.30) twalk_r\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.35) stat\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free\n"
             "0000000000001000 g    DF .text\t0000000000000010  PAWL_0.2    pawl_save\n")
    assert [line.split()[1] for line in problems_of(table, "x")] == ["hypot", "pidfd_open", "twalk_r", "stat"]
    old = "".join(line for line in table.splitlines(keepends=True) if "free" in line or "pthread" in line)
    assert [line.split()[1] for line in problems_of(old, "x")] == ["asks"]
    statx = "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.28) statx\n"
    assert not problems_of(old + statx, "x") and newest(old + statx) == OWN
    print("self-test: symbols that are too new are found")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    problems = []
    count = 0
    for file in arguments.files:
        table = subprocess.run(["objdump", "-T", file], check=True, capture_output=True, text=True).stdout
        problems += problems_of(table, file)
        count += sum(1 for _ in asked(table))
    for problem in problems:
        print(problem)
    print(f"{count} symbols of glibc, {len(problems)} problems")
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
