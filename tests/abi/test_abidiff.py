# SPDX-License-Identifier: Apache-2.0
"""tools/abi goes red for what breaks programs that are compiled already, and stays green where the
interface grows: a toy library in the place of libpawl, changed in one way after the other.

Usage: test_abidiff.py --work FOLDER [--cc CC]
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = """\
#include <stddef.h>
typedef enum pawl_colour { PAWL_RED = 1, PAWL_GREEN = 2 } pawl_colour;
typedef struct pawl_toy {
    size_t struct_size;
    const char *name;
    long long length;
    pawl_colour colour;
} pawl_toy;
int pawl_toy_open(const pawl_toy *options);
int pawl_toy_close(pawl_toy *toy, int force);
"""
SOURCE = """\
#include "../include/pawl/toy.h"
int pawl_toy_open(const pawl_toy *options) { return options->colour == PAWL_RED; }
int pawl_toy_close(pawl_toy *toy, int force) { return toy->length > force; }
"""
MAP = "PAWL_0.2 { global: pawl_*; local: *; };\n"
LAST = "    pawl_colour colour;\n"
BREAKS, GROWS, SAME = "break", "grew", "is the one of"

# What is done to the header and the source, as (old, new), and what is to be said.
CASES = {
    "nothing": ([], SAME),
    "a_member_at_the_end": ([(LAST, LAST + "    long long weight;\n")], GROWS),
    "two_members_at_the_end": (
        [(LAST, LAST + "    double a;\n    void *b;\n")], GROWS),
    "a_member_in_padding": ([(LAST, LAST + "    int weight;\n")], BREAKS),
    "a_member_in_the_middle": ([("    long long length;\n",
                                 "    long long weight, length;\n")], BREAKS),
    "in_the_middle_and_at_the_end": (
        [("    long long length;\n", "    long long weight, length;\n"),
         (LAST, LAST + "    long long more;\n")], BREAKS),
    "another_type": ([("    long long length;\n", "    double length;\n")], BREAKS),
    "a_member_gone": ([(LAST, "    int colour;\n"), ("    const char *name;\n", "")], BREAKS),
    "members_exchanged": ([("    const char *name;\n    long long length;\n",
                            "    long long length;\n    const char *name;\n")], BREAKS),
    "another_number": ([("PAWL_GREEN = 2", "PAWL_GREEN = 3")], BREAKS),
    "an_enumerator_more": ([("PAWL_GREEN = 2", "PAWL_GREEN = 2, PAWL_BLUE = 3")], SAME),
    "an_enumerator_less": ([(", PAWL_GREEN = 2", "")], BREAKS),
    "a_function_more": ([("int pawl_toy_open(const pawl_toy *options);",
                          "int pawl_toy_open(const pawl_toy *options);\nint pawl_toy_sell(int to);"),
                         ("int pawl_toy_close(pawl_toy *toy, int force) {",
                          "int pawl_toy_sell(int to) { return to; }\n"
                          "int pawl_toy_close(pawl_toy *toy, int force) {")], GROWS),
    "a_function_gone": ([("int pawl_toy_close(pawl_toy *toy, int force) {",
                          "static inline int pawl_toy_closed(pawl_toy *toy, int force) {")], BREAKS),
    "a_parameter_more": ([("(pawl_toy *toy, int force)", "(pawl_toy *toy, int force, int loud)")],
                         BREAKS),
    "another_version_of_symbols": ([("PAWL_0.2", "PAWL_0.3")], BREAKS),
}


class Tree:
    """A project of one library, with the tool."""

    def __init__(self, folder, cc):
        self.folder, self.cc = folder, cc
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("tools", "include/pawl", "tests/abi", "build/release/src", "src"):
            (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "tools/abi", folder / "tools/abi")

    def build(self, changes=(), debug="-g"):
        for path, text in (("include/pawl/toy.h", HEADER), ("src/toy.c", SOURCE),
                           ("src/toy.map", MAP)):
            for old, new in changes:
                text = text.replace(old, new)
            (self.folder / path).write_text(text, encoding="utf-8")
        subprocess.run([self.cc, debug, "-shared", "-fPIC", "-o", "build/release/src/libpawl.so",
                        "-Wl,-soname,libpawl.so.0.2", "-Wl,--version-script=src/toy.map",
                        "src/toy.c"], check=True, cwd=self.folder)

    def compare(self, *options):
        done = subprocess.run(["tools/abi", *options], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


def problems_of(tree):
    for name, (changes, wanted) in CASES.items():
        tree.build(changes)
        code, said = tree.compare()
        if code != (1 if wanted == BREAKS else 0) or wanted not in said:
            yield f"{name}: exit code {code}, and nothing says {wanted!r}:\n{said}"
    tree.build(debug="-g0")
    code, said = tree.compare()
    if code != 2 or "debug information" not in said:
        yield f"without debug information: exit code {code}:\n{said}"
    tree.build(CASES["another_number"][0])
    code, said = tree.compare("--update")
    if code != 0 or "will notice" not in said or tree.compare()[0] != 0:
        yield f"a deliberate change is not accepted: exit code {code}:\n{said}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    if not (shutil.which("abidiff") and shutil.which("abidw")):
        print("SKIP: abidiff is not installed")
        sys.exit(77)
    tree = Tree(arguments.work / "toy", arguments.cc)
    tree.build()
    code, said = tree.compare("--update")
    assert code == 0, said
    problems = list(problems_of(tree))
    print("\n".join(problems) or f"{len(CASES) + 2} changes: red and green as they should be")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
