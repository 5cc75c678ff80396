#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb of the overview explains itself, and refuses what it does not know with exit code 2."""

import re
import subprocess
import sys
import unittest

PAWL = sys.argv.pop(1)
USAGE = 2


def pawl(*words):
    return subprocess.run([PAWL, *words], capture_output=True, text=True, timeout=60, check=False)


def verbs():
    listed = pawl("help").stdout.split("VERBS\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def options(verb):
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)(?: ([A-Z]+))?$", pawl("help", verb).stdout, re.M)


class Options(unittest.TestCase):
    def test_the_overview_lists_all_verbs(self):
        self.assertEqual(
            verbs(), ["ls", "top", "show", "verify", "diff", "convert", "rm", "gc", "rebuild", "doctor",
                      "help"])

    def test_help_of_every_verb_ends_with_its_exit_codes(self):
        for verb in verbs():
            got = pawl(verb, "--help")
            self.assertEqual((got.returncode, got.stderr), (0, ""), verb)
            last = got.stdout.split("\nEXIT STATUS\n")[1].splitlines()
            for line in last:
                self.assertRegex(line, r"^ +\d+  \S|^      \S", verb)

    def test_help_fits_eighty_columns(self):
        for verb in verbs():
            for line in pawl("help", verb).stdout.splitlines():
                self.assertLess(len(line), 81, line)

    def test_an_unknown_option_is_refused_by_every_verb(self):
        for verb in verbs():
            got = pawl(verb, "--no-such-option", "x")
            self.assertEqual((got.returncode, got.stdout), (USAGE, ""), verb)
            self.assertIn(f"pawl: {verb}: there is no option '--no-such-option'", got.stderr)
            self.assertIn(f"pawl {verb} --help", got.stderr)

    def test_missing_operands_are_refused(self):
        for verb in verbs():
            if verb != "help":
                got = pawl(verb)
                self.assertEqual((got.returncode, got.stdout), (USAGE, ""), verb)
                self.assertIn("is missing", got.stderr)

    def test_an_operand_too_many_is_refused(self):
        for verb in verbs():
            got = pawl(verb, "a@1" if verb in ("rm", "rebuild") else "help", "b", "c", "d")
            self.assertEqual((got.returncode, got.stdout), (USAGE, ""), verb)
            self.assertIn("one argument too many", got.stderr)

    def test_every_option_with_a_value_insists_on_it(self):
        for verb in verbs():
            for name, value in options(verb):
                if value:
                    got = pawl(verb, name)
                    self.assertEqual(got.returncode, USAGE, f"{verb} {name}")
                    self.assertIn(f"{name} needs a value: {value}", got.stderr)
                    self.assertEqual(pawl(verb, name, "-", "x").returncode, USAGE)


if __name__ == "__main__":
    unittest.main()
