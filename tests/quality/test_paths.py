# SPDX-License-Identifier: Apache-2.0
"""Every path of the project that a page or a comment names is there, and docs/map.md is what the
files say today."""

import re
import subprocess
import sys

import quality

FOLDERS = "src|tests|cli|include|docs|examples|bench|tools|cmake"
# "src/run/commit.c", "tests/outside", "`run/restore`" (as pages shorten src/run/restore.c).
PATH = re.compile(rf"(?<![\w/.<*-])(?:{FOLDERS})/[\w/.-]*\w")
SHORT = re.compile(r"`([a-z]+)/(\w+)(\.[ch])?`")
QUOTED = re.compile(r"(?<![\w/.-])([a-z]+)/(\w+\.[ch])\b")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
MADE = {"bench/results/latest.json"}
ENDINGS = ("", ".c", ".h", ".py")


def is_there(root, path):
    return path in MADE or any((root / (path + ending)).exists() for ending in ENDINGS)


def check_text(root, path, text):
    """`text`: the page, or the comments of a file."""
    layers = {folder.name for folder in (root / "src").iterdir() if folder.is_dir()}
    for match in PATH.finditer(text):
        if not is_there(root, match.group(0)):
            yield f"{path}: there is no {match.group(0)}"
    for pattern in (SHORT, QUOTED):
        for match in pattern.finditer(text):
            folder, name = match.group(1), match.group(2) + (match.group(3) or "" if
                                                             pattern is SHORT else "")
            if folder in layers and not is_there(root, f"src/{folder}/{name}"):
                yield f"{path}: there is no src/{folder}/{name}"


def check(root):
    problems = []
    pages = [path for path in quality.files(root, "docs", suffixes={".md"})]
    pages += [path for path in quality.files(root, suffixes={".md"})
              if path.name in ("README.md", "CONTRIBUTING.md") and path not in pages]
    for path in pages:
        problems += check_text(root, path, quality.text_of(root, path) or "")
    for path in quality.files(root, "src", "include", "tests", "cli", suffixes=quality.C_SUFFIXES):
        comments = "\n".join(COMMENT.findall(quality.text_of(root, path) or ""))
        problems += check_text(root, path, comments)
    if (root / "tools/map").is_file():
        made = subprocess.run([sys.executable, "-B", root / "tools/map", "--check", "--root", root],
                              stdout=subprocess.PIPE, encoding="utf-8", check=False)
        problems += made.stdout.splitlines()
    return sorted(set(problems))


def self_test():
    good = {
        "src/run/commit.c": "/* Invariants: src/run/commit.c, run/commit.c. */\n",
        "docs/page.md": "See `src/run/commit.c`, `run/commit` and tests/unit.\n",
        "tests/unit/test_a.c": '#include "gone/gone.h"\n',
    }
    quality.prove(check, good, [
        ({"docs/other.md": "see `src/run/gone.c`\n"}, "there is no src/run/gone.c"),
        ({"docs/other.md": "see `run/gone`\n"}, "there is no src/run/gone"),
        ({"README.md": "see tests/gone\n"}, "there is no tests/gone"),
        ({"src/run/other.c": "/* as in run/gone.h */\n"}, "there is no src/run/gone.h"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
