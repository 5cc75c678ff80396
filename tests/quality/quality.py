# SPDX-License-Identifier: Apache-2.0
"""What the checks of the tree share: which files there are, C text without comments and strings, and
a main that either checks the tree or, with --self-test, proves that the check can fail."""

import argparse
import pathlib
import re
import sys
import tempfile

LEFT_OUT = {".git", "build", "__pycache__", "node_modules", ".venv"}
C_SUFFIXES = {".c", ".h"}

_C_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def files(root, *folders, suffixes=None):
    """Paths relative to `root`, sorted, of the regular files below the folders (default: all)."""
    found = []
    pending = [root / folder for folder in folders] if folders else [root]
    while pending:
        folder = pending.pop()
        if not folder.is_dir():
            continue
        for path in folder.iterdir():
            if path.is_symlink() or path.name in LEFT_OUT:  # of a git worktree, .git is a file
                continue
            if path.is_dir():
                pending.append(path)
            elif suffixes is None or path.suffix in suffixes:
                found.append(path.relative_to(root))
    return sorted(found)


def text_of(root, path):
    """The file's text, or None for a file that is not text."""
    data = (root / path).read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def strip_c(text, keep_strings=False):
    """C text with comments (and strings) blanked out; lines stay where they are."""
    def blank(match):
        token = match.group(0)
        if keep_strings and token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)
    return _C_TOKEN.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def problems_of(check, tree):
    """What `check` says of a tree given as {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return check(root)


def prove(check, good, bad):
    """`good` is a tree without problems. Each of `bad` is (files to add to it, words that the one
    problem it then has must contain)."""
    found = problems_of(check, good)
    assert not found, f"the good tree has problems: {found}"
    for extra, words in bad:
        found = problems_of(check, {**good, **extra})
        assert len(found) == 1, f"{sorted(extra)}: expected one problem with {words!r}, got {found}"
        assert words in found[0], f"{sorted(extra)}: {words!r} is not in {found[0]!r}"
    print(f"self-test: {len(bad)} kinds of problem are found")


def main(check, self_test):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return
    problems = check(arguments.root.resolve())
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)
