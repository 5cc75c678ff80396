# SPDX-License-Identifier: Apache-2.0
"""What library and command ask of glibc: nothing newer than the wheel's tag says."""

import argparse
import re
import subprocess
import sys

NEWEST = (2, 34)  # manylinux_2_34: what the linker of any glibc since then asks for, in pthread_create alone
# "0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_create", weak ones with a w
SYMBOL = re.compile(r"\*UND\*\s+[0-9a-f]+\s+\(?GLIBC_([0-9.]+)\)?\s+(\S+)$")
# What the headers of newer ones put in the place of older functions (sscanf, strtol).
REDIRECTED = "__isoc23_"


def too_new(table, where):
    """A line for each symbol of glibc in `objdump -T` text that older ones do not have."""
    for line in table.splitlines():
        found = SYMBOL.search(line)
        if not found:
            continue
        version = tuple(int(part) for part in found[1].split("."))
        if version > NEWEST and not found[2].startswith(REDIRECTED):
            yield f"{where}: {found[2]} is of glibc {found[1]}, the wheel promises {NEWEST[0]}.{NEWEST[1]}"


def asked(table):
    return sum(1 for line in table.splitlines() if SYMBOL.search(line))


def self_test():
    table = ("0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.35) hypot\n"
             "0000000000000000  w   DF *UND*\t0000000000000000  GLIBC_2.36 pidfd_open\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.38) __isoc23_sscanf\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create\n"
             "0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free\n"
             "0000000000001000 g    DF .text\t0000000000000010  PAWL_0.2    pawl_save\n")
    assert [line.split()[1] for line in too_new(table, "x")] == ["hypot", "pidfd_open"]
    assert asked(table) == 5
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
        problems += too_new(table, file)
        count += asked(table)
    for problem in problems:
        print(problem)
    print(f"{count} symbols of glibc, {len(problems)} problems")
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
