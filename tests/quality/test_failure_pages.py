# SPDX-License-Identifier: Apache-2.0
"""Each of the 47 failures of the catalogue has its message, its test and its section of docs/failures.md, which is what
tools/failures makes of the tests today; and each id that pawl prints has a section."""

import pathlib
import re
import subprocess
import sys
import tempfile

import quality
from test_failures import DUE

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/failures"
PAGE = "docs/failures.md"
PRINTS = ("src", "cli", "python/pawl")
PARTS = ("Elsewhere:\n", "pawl says:\n\n```text\n", "Way out: ", "Tests: ")

_ID = re.compile(r"\b[SRPJE]\d\d\b")
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
_FINDING = re.compile(r'^(?:error|warning|note) +([A-Z]\d\d) |"id": "([A-Z]\d\d)"', re.MULTILINE)


def run_tool(root, *options):
    done = subprocess.run([sys.executable, "-B", TOOL, "--root", root, *options],
                          stdout=subprocess.PIPE, encoding="utf-8", check=False)
    return done.stdout.splitlines()


def sections(root):
    path = root / PAGE
    parts = re.split(r"^### (\w+)\n", path.read_text(encoding="utf-8") if path.is_file() else "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def printed(root):
    """(file, id) of what the library, the command and the package print, and of what they are seen to print."""
    for path in quality.files(root, *PRINTS, suffixes={".c", ".h", ".py"}):
        text = quality.text_of(root, path) or ""
        if path.suffix != ".py":
            text = "\n".join(_LITERAL.findall(quality.strip_c(text, keep_strings=True)))
        for identity in set(_ID.findall(text)):
            yield path, identity
    for path in quality.files(root, "tests/cli"):
        if path.name == "stdout":
            for match in _FINDING.finditer(quality.text_of(root, path) or ""):
                yield path, match.group(1) or match.group(2)


def check(root):
    problems = run_tool(root, "--check")
    found = sections(root)
    for identity in DUE:
        if identity not in found:
            problems.append(f"{identity} has no section of {PAGE}")
        else:
            problems += [f"{PAGE}: {identity} has no {part!r}" for part in PARTS if part not in found[identity]]
    for path, identity in sorted(set(printed(root))):
        if identity not in (*found, *DUE):
            problems.append(f"{path} prints {identity}, which has no section of {PAGE}")
    return problems


# ---- a tree of its own ----

def catalogue(ids):
    return "# of a test\n\n" + "".join(
        f"{i} Title of {i}\ncause: A cause.\nelsewhere: tests/python/tf/test_x.py test_x\n  They say \"no {i}\".\n"
        f"says: {'tests/cli/p02_doctor/stdout' if i == 'P02' else 'tests/failures/test_a.c'}\n  message of {i}\n"
        f"out: A way.\n\n" for i in ids)


def tests_of(ids):
    return "".join(f"void test_{i.lower()}_x(void) {{\n    says(\"message \"\n         \"of {i}\\n  next: go\");\n}}\n"
                   for i in ids if i != "P02")


def tree_of(ids):
    return {
        "tests/failures/catalogue.txt": catalogue(ids),
        "tests/failures/test_a.c": tests_of(ids),
        "tests/python/tf/test_x.py": "def test_x():\n" + "".join(f"    they(r'no\\ {i}')\n" for i in ids),
        "tests/cli/p02_doctor/cmd": "pawl doctor\n",
        "tests/cli/p02_doctor/stdout": "error    P02  message of P02\n              next: go\n",
        "src/a.c": "".join(f"/* S99 */ say(\"{i}\", \"message of {i}\");\n" for i in ids),
    }


def with_page(tree):
    """The tree, with the page that the tool makes of it."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**tree, PAGE: ""}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        said = run_tool(root)
        assert not said, said
        return {**tree, PAGE: (root / PAGE).read_text(encoding="utf-8")}


def self_test():
    assert len(set(DUE)) == 47
    good = with_page(tree_of(DUE))
    texts = {path: good[path] for path in good}

    def changed(path, before, after):
        assert before in texts[path], (path, before)
        return {path: texts[path].replace(before, after)}

    file = "tests/failures/catalogue.txt"
    fewer = with_page(tree_of([i for i in DUE if i != "R05"]))
    quality.prove(check, good, [
        (changed("src/a.c", "message of S01", "words for S01"), "says: message of S01"),
        (changed("src/a.c", "say(\"S01\", \"message of S01\")", "/* \"message of S01\" */"),
         "says: message of S01"),
        (changed("tests/failures/test_a.c", "\"of S01", "\"of S02"), "expects nothing that says: message of S01"),
        (changed("tests/failures/test_a.c", "test_s01_x", "test_x"), "no test carries S01"),
        (changed("tests/failures/test_a.c", "of S01\\n  next: go", "of S01\\n  next: stay"), "run tools/failures"),
        (changed("tests/cli/p02_doctor/stdout", "next: go", "next: stay"), "run tools/failures"),
        (changed("tests/python/tf/test_x.py", "no\\ S01'", "yes'"), "does not have the words: no S01"),
        (changed(file, "test_x\n  They say \"no S01", "test_y\n  They say \"no S01"),
         "there is no tests/python/tf/test_x.py test_y"),
        (changed(PAGE, "Way out: A way.\n", "Way out: A way. \n"), "run tools/failures"),
        (changed(file, "message of S01\nout: A", "message of S01\nout: Call `pawl nothing`. A"), "is called nothing"),
        (changed(file, "S01 Title", "S001 Title"), "this is no part of a failure: S001"),
        (changed(file, "says: tests/failures/test_a.c\n  message of S01\n", ""), "S01 has no \"says\""),
        (changed(file, "message of S01\nout: A way.\n", "message of S01\n"), "S01 has 0 texts \"out\""),
        ({path: fewer[path] for path in (file, PAGE)}, "R05 has no section"),
        ({"src/b.c": "say(\"S98\"); /* S99 */\n"}, "src/b.c prints S98"),
        ({"python/pawl/b.py": "raise Refusal('E97: no')\n"}, "b.py prints E97"),
        ({"tests/cli/x/stdout": "warning  S96  why\n"}, "stdout prints S96"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
