# SPDX-License-Identifier: Apache-2.0
"""How tests are called. A program of tests lies in test_<what>.c, and no other file is called so. A
function that is a test is called test_<sentence>, of two words at least; one that prepares a test or
clears up after it has set_up or tear_down in its name."""

import re

import quality

# cmocka calls functions with this signature alone.
FUNCTION = re.compile(r"^(?:static )?(?:inline )?(void|int) (\w+)\(void \*\*\w+\)", re.MULTILINE)
PROGRAM = re.compile(r"\bcmocka_run_group_tests")
TEST_FILE = re.compile(r"test_[a-z0-9]\w*\.c\Z")
# A test may begin with the requirements that it shows: test_s08_r14_a_sentence.
TEST = re.compile(r"test_(?:[a-z]\d\d_)*(?![a-z]\d\d_)[a-z0-9]+_[a-z0-9_]+\Z")
FIXTURE = re.compile(r"(?:\w+_)?(?:set_up|tear_down)(?:_\w+)?\Z")


def check_file(path, code):
    runs = PROGRAM.search(code) is not None
    if runs and not TEST_FILE.match(path.name):
        yield f"{path}: runs tests, but is not called test_<what>.c"
    if not runs and path.suffix == ".c" and path.name.startswith("test_"):
        yield f"{path}: is called test_<what>.c, but runs no tests"
    for match in FUNCTION.finditer(code):
        kind, name = match.groups()
        where = f"{path}:{quality.line_of(code, match.start())}: {name}"
        if kind == "void" and not TEST.match(name):
            yield f"{where} is a test that is not called test_<sentence>"
        if kind == "int" and not FIXTURE.match(name):
            yield f"{where} prepares or clears up, but has no set_up or tear_down in its name"


def check(root):
    problems = []
    for path in quality.files(root, "tests", suffixes=quality.C_SUFFIXES):
        problems += check_file(path, quality.strip_c(quality.text_of(root, path) or ""))
    return problems


def self_test():
    program = "int main(void) { return cmocka_run_group_tests(tests, NULL, NULL); }\n"
    good = {
        "tests/unit/run/test_save.c":
            "static int set_up(void **state) { return 0; }\n"
            "static int small_tear_down_all(void **state) { return 0; }\n"
            "static void test_s08_it_is_saved(void **state) { }\n"
            "/* static void old(void **state) */\n" + program,
        "tests/unit/run/saver.h": "static inline int saver_set_up(void **state) { return 0; }\n",
        "tests/lib/clock.c": "static void wind(void *state) { }\n",
    }

    def function(line):
        return {"tests/unit/run/test_other.c": line + " { }\n" + program}

    quality.prove(check, good, [
        ({"tests/unit/run/save.c": program}, "runs tests"),
        ({"tests/unit/run/Test_save.c": program}, "runs tests"),
        ({"tests/lib/test_clock.c": "void wind(void) { }\n"}, "runs no tests"),
        (function("static void it_is_saved(void **state)"), "it_is_saved is a test"),
        (function("static void test_saved(void **state)"), "test_saved is a test"),
        (function("static void test_s08_saved(void **state)"), "test_s08_saved is a test"),
        (function("static int setup(void **state)"), "setup prepares"),
        ({"tests/unit/run/saver.h": "static inline int saver_up(void **state) { return 0; }\n"},
         "saver_up prepares"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
