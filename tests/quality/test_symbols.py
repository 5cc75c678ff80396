# SPDX-License-Identifier: Apache-2.0
"""The functions that include/pawl/ declares, those that src/api/pawl.map lists, those that the shared
library exports and those that the archive defines are one set; and the library has no data that can
change, but for the flag that a signal handler sets.

Usage: test_symbols.py --root ROOT --shared LIBPAWL.SO --archive LIBPAWL.A [--writable]
"""

import argparse
import pathlib
import re
import subprocess
import sys

import quality

# Data that may change: a signal handler can be handed nothing.
WRITABLE_FILES = {"preemption.c"}
# The compiler's own start and end files put these there, and what it found out about the processor.
COMPILERS_OWN = {"completed.0", "__dso_handle", "__TMC_END__", "_edata", "__bss_start", "_end",
                 ".data", ".bss", "__cpu_model", "__cpu_features2"}


def declared(root):
    names = set()
    for path in quality.files(root, "include/pawl", suffixes={".h"}):
        text = re.sub(r"^[ \t]*#.*$", "", quality.strip_c(quality.text_of(root, path)), flags=re.M)
        names |= set(re.findall(r"\bPAWL_API\b[^;(]*?(\w+)\s*\(", text))
    return names


def mapped(root):
    text = re.sub(r"/\*.*?\*/", "", (root / "src/api/pawl.map").read_text(encoding="utf-8"),
                  flags=re.DOTALL)
    return set(re.findall(r"(\w+);", text.split("local:")[0]))


def defined(library, *options):
    """Names of the functions and data that others can link with."""
    lines = subprocess.run(["nm", "--defined-only", *options, library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = set()
    for line in lines:
        fields = line.split()
        if len(fields) == 3 and fields[1] != "A" and not fields[2].startswith("__"):
            names.add(fields[2].partition("@")[0])
    return names


def compare(found, where, expected):
    for name in sorted(found - expected):
        yield f"{where}: {name} is there, but no header declares it"
    for name in sorted(expected - found):
        yield f"{where}: {name} is missing"


def writable_data(table):
    """(file, symbol) for each object in .data or .bss, out of `objdump --syms` text."""
    source = ""
    for line in table.splitlines():
        fields = line.split()
        if "*ABS*" in fields and " df " in line:
            source = fields[-1]
        match = re.search(r" (\.data|\.bss|\.tdata|\.tbss)\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", line)
        if match and match.group(2) not in COMPILERS_OWN:
            yield source, match.group(2)


def check_data(table, where):
    for source, symbol in writable_data(table):
        if source not in WRITABLE_FILES:
            yield f"{where}: {symbol} in {source} can change; the library keeps no state of its own"


def self_test():
    assert list(compare({"a"}, "x", {"a"})) == []
    assert "no header" in next(compare({"a", "b"}, "x", {"a"}))
    assert "missing" in next(compare(set(), "x", {"a"}))
    good = {"include/pawl/a.h": "#define PAWL_API x(y)\n/* PAWL_API int no(void); */\n"
                                "PAWL_API const char *pawl_a(int b,\n int (*c)(void));\n",
            "src/api/pawl.map": "/* gone; */ P {\nglobal:\n pawl_a;\nlocal:\n *;\n};\n"}
    found = quality.problems_of(lambda root: [declared(root), mapped(root)], good)
    assert found == [{"pawl_a"}, {"pawl_a"}], found
    table = ("0 l    df *ABS*\t0 %s\n0 l     O .bss\t4 flag\n0 l     O .rodata\t4 table\n"
             "0 l     O .data.rel.ro\t4 names\n0 l    df *ABS*\t0 crtstuff.c\n"
             "0 l     O .bss\t1 completed.0\n")
    assert not list(check_data(table % "preemption.c", "x"))
    assert "flag in engine.c" in next(check_data(table % "engine.c", "x"))
    print("self-test: extra, missing and writable symbols are found")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--shared")
    parser.add_argument("--archive")
    parser.add_argument("--writable", action="store_true", help="look for data that can change")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    expected = declared(arguments.root)
    problems = list(compare(mapped(arguments.root), "src/api/pawl.map", expected))
    problems += compare(defined(arguments.shared, "--dynamic"), "libpawl.so", expected)
    problems += compare(defined(arguments.archive, "--extern-only"), "libpawl.a", expected)
    if arguments.writable:
        table = subprocess.run(["objdump", "--syms", arguments.shared], check=True,
                               capture_output=True, text=True).stdout
        problems += check_data(table, "libpawl.so")
    for problem in problems:
        print(problem)
    print(f"{len(expected)} functions, {len(problems)} problems")
    sys.exit(1 if problems or not expected else 0)


if __name__ == "__main__":
    main()
