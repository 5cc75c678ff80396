#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What show, diff and ls print on a terminal is never wider than it, whatever names hold; in a pipe, and
with --full, nothing is left out."""

import argparse
import fcntl
import os
import pty
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata
import unittest

WIDTHS = [20, 40, 41, 79, 80, 132, 200]
LETTERS = ["a", "_", "-", ".", "\u00e9", "e\u0301", "\u6a21", "\uac00", "\U0001f600", "\u0e01\u0e34",
           "\u202e", "\u200d", "\u0430"]


def width(line):
    plain = re.sub("\033\\[[0-9;]*m", "", line)
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


def on_terminal(columns, *words, locale="C.UTF-8"):
    """What the command prints on a terminal of so many columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.update(LC_ALL=locale, TERM="xterm")
        os.execv(args.pawl, [args.pawl, *words])
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    os.waitpid(pid, 0)
    return written.decode().replace("\r\n", "\n")


def in_pipe(*words, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    return subprocess.run([args.pawl, *words], capture_output=True, text=True, timeout=60,
                          check=False, env=dict(environment, **variables)).stdout


class Fits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pawl-22-")
        cls.runs = [os.path.join(cls.folder.name, name) for name in "ab"]
        r = random.Random(22)
        cls.names = []
        for run in cls.runs:
            names = {"/".join("".join(r.choices(LETTERS, k=r.randint(1, 40)))
                              for _ in range(r.randint(1, 5))) for _ in range(12)}
            names = [name for name in names if not re.search(r"(^|/)\.\.?(/|$)", name)]
            cls.names += names
            subprocess.run([args.make_run, run, "--steps=1,9223372036854775807",
                            "--text=" + "".join(r.choices(LETTERS, k=300)),
                            *(f"--add={name}" for name in names)], check=True)
        cls.commands = [["show", cls.runs[0]], ["diff", *cls.runs], ["ls", cls.runs[0]],
                        ["ls", "--stats", cls.runs[0]], ["show", cls.runs[0], "text/string"],
                        ["show", cls.runs[0], "model/dense/kernel"]]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, columns, words, **more):
        for line in on_terminal(columns, *words, **more).split("\n"):
            self.assertLessEqual(width(line), columns, line)

    def test_no_line_is_wider_than_the_terminal(self):
        for columns in WIDTHS:
            for words in self.commands:
                with self.subTest(columns=columns, words=words):
                    self.check(columns, words)

    def test_nor_where_the_locale_knows_no_widths(self):
        for columns in (40, 80):
            for words in self.commands:
                with self.subTest(columns=columns, words=words):
                    self.check(columns, words, locale="C")

    def test_nothing_is_cut_within_a_character(self):
        for columns in WIDTHS:
            for line in on_terminal(columns, "show", self.runs[0]).split("\n"):
                for after in re.findall("\u2026(.)", line):
                    self.assertNotIn(unicodedata.category(after), ("Mn", "Me"), line)

    def test_columns_is_for_pipes_that_ask_for_it(self):
        for words in self.commands:
            plain = in_pipe(*words)
            self.assertEqual(in_pipe(*words, COLUMNS=""), plain)
            self.assertEqual(in_pipe(*words, COLUMNS="x"), plain)
            for line in in_pipe(*words, COLUMNS="40", LC_ALL="C.UTF-8").split("\n"):
                self.assertLessEqual(width(line), 40, line)

    def test_full_and_pipes_leave_nothing_out(self):
        for text in (in_pipe("show", self.runs[0]),
                     on_terminal(40, "show", "--full", self.runs[0])):
            self.assertIn("ROLE", text)
            self.assertNotIn("not shown here", text)
        wide = in_pipe("show", self.runs[0])
        for name in self.names[:5]:
            last = name.rsplit("/", 1)[-1].replace("\u202e", "\\xe2\\x80\\xae")
            self.assertTrue(last in wide or last in in_pipe("show", self.runs[1]), last)

    def test_columns_that_are_left_out_are_named(self):
        text = on_terminal(40, "show", self.runs[0])
        self.assertIn("not shown here: ", text)
        for title in ("TYPE", "SIZE", "ROLE", "VALUE"):
            self.assertIn(title, text)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1])
