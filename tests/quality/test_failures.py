# SPDX-License-Identifier: Apache-2.0
"""Each of the 47 failures of the catalogue (tests/failures/catalogue.txt) has a test at the user's level: one
that knows the public headers or the command alone, and carries the failure's id in its name.

A test is a function test_<id>_... that something also runs (one name may carry several ids), or a
golden directory tests/cli/<id>_..."""

import re

import quality

DUE = ("S01 S02 S03 S04 S05 S06 S07 S08 S09 S10 S11 S12 S13 S14 S15 "
       "R01 R02 R03 R04 R05 R06 R07 R08 R09 R10 R11 R12 R13 R14 "
       "P01 P02 P03 P04 P05 P06 P07 P08 P09 P10 P11 J01 J02 J03 J04 J05 "
       "J06 J07").split()
FOLDERS = ("tests/failures", "tests/unit/api", "tests/demo", "tests/hostile_files")
GOLDEN = "tests/cli"

_FUNCTION = re.compile(r"\btest((?:_[a-z]\d\d)+)_\w+")


def ids_of(text):
    return {part.upper() for part in text.split("_") if part}


def functions(root):
    """(file, name, ids, how often it is named in code) of each test function with an id."""
    for path in quality.files(root, *FOLDERS, suffixes={".c", ".py"}):
        text = quality.text_of(root, path)
        if path.suffix == ".c":
            text = quality.strip_c(text)
        names = {}
        for match in _FUNCTION.finditer(text):
            names.setdefault(match.group(0), [ids_of(match.group(1)), 0])[1] += 1
        for name, (ids, uses) in names.items():
            yield path, name, ids, uses


def golden(root):
    """Ids of the golden tests."""
    for path in quality.files(root, GOLDEN):
        match = re.fullmatch(r"([a-z]\d\d)_\w+", path.parent.name)
        if match and path.name == "cmd":
            yield match.group(1).upper()


def check(root):
    problems = []
    tested = set(golden(root))
    for path, name, ids, uses in functions(root):
        if path.suffix == ".c" and uses < 2:
            problems.append(f"{path}: {name} is not run by anything")
        else:
            tested |= ids
    for identity in DUE:
        if identity not in tested:
            problems.append(f"{identity}: no test in {', '.join((*FOLDERS, GOLDEN))} carries it")
    return problems


def self_test():
    body = "".join(f"void test_{i.lower()}_x(void) {{}}\nTEST(test_{i.lower()}_x);\n"
                   for i in DUE if i not in ("P02", "R01", "R06", "J05"))
    good = {"tests/failures/test_a.c": body + "void test_r01_r06_x(void) {}\n(test_r01_r06_x)\n",
            "tests/demo/test_b.py": "def test_j05_x(): pass\n",
            "tests/cli/p02_doctor/cmd": "pawl\n", "tests/unit/run/test_c.c": "int x;\n"}
    quality.prove(check, good, [
        ({"tests/cli/p02_doctor/cmd": "", "tests/demo/test_b.py": ""}, "J05: no test"),
        ({"tests/failures/test_d.c": "void test_s01_y(void) {}\n"}, "test_s01_y is not run"),
        ({"tests/failures/test_a.c": body + "/* (test_r01_x) (test_r01_x) */\n"
                                            "void test_r06_x(void) {}\n(test_r06_x)\n"}, "R01: no"),
    ])
    moved = {**good, "tests/unit/run/test_c.c": good["tests/failures/test_a.c"],
             "tests/failures/test_a.c": ""}
    assert len(quality.problems_of(check, moved)) == len(DUE) - 2


if __name__ == "__main__":
    quality.main(check, self_test)
