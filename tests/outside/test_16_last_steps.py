#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command names every step up to 2^63 - 1, and blames a number that is no step, not a directory."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

MOST = 2**63 - 1
STEPS = [0, 5, MOST - 7, MOST - 6, MOST - 1, MOST]
NO_STEPS = [str(MOST + 1), "9223372036854775810", "18446744073709551615", "18446744073709551621",
            "9" * 40, "-1", "-0", "+5", " 5", "\t5", "5x", "5 ", "0x5", "5.0", "1e3"]


def pawl(*words):
    done = subprocess.run([args.pawl, *words], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class LastSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pawl-16-")
        cls.run_path = os.path.join(cls.folder.name, "run")
        steps = ",".join(str(step) for step in STEPS)
        subprocess.run([args.make_run, cls.run_path, f"--steps={steps}"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_step_can_be_shown(self):
        for step in STEPS:
            with self.subTest(step):
                code, out, err = pawl("show", "--json", "--structure", f"{self.run_path}@{step}")
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(json.loads(out)["step"], step)

    def test_the_last_steps_can_be_verified_and_compared(self):
        self.assertEqual(pawl("verify", f"{self.run_path}@{MOST}")[0], 0)
        code, out, _ = pawl("diff", "--json", f"{self.run_path}@{MOST - 1}", f"{self.run_path}@{MOST}")
        self.assertEqual(code, 3)
        self.assertEqual((json.loads(out)["a"]["step"], json.loads(out)["b"]["step"]),
                         (MOST - 1, MOST))

    def test_what_is_no_step_is_blamed_itself(self):
        for word in NO_STEPS:
            for verb in ("show", "verify", "rm", "rebuild", "diff"):
                with self.subTest(verb=verb, step=word):
                    operand = f"{self.run_path}@{word}"
                    code, out, err = pawl(verb, *[operand] * (2 if verb == "diff" else 1))
                    self.assertEqual((code, out), (2, ""), err)
                    shown = word.replace("\t", "\\x09")
                    self.assertIn(f"'{shown}' is not a step: ", err)
                    self.assertIn(str(MOST), err)

    def test_a_whole_run_is_asked_for_with_any_number(self):
        for word in ("7", str(MOST), str(MOST + 1), "-1"):
            code, _, err = pawl("ls", f"{self.run_path}@{word}")
            self.assertEqual(code, 2)
            self.assertIn("takes a whole run", err)

    def test_a_directory_of_such_a_name_is_named_with_a_slash(self):
        for word in ("7", str(MOST + 1), "5x", "+5"):
            named = f"{self.folder.name}/other@{word}"
            os.symlink(self.run_path, named)
            code, out, err = pawl("show", "--json", "--structure", named + "/")
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["step"], MOST)

    def test_a_directory_whose_name_only_has_an_at_is_a_directory(self):
        for word in ("home", "v2", "", "-", "5/run"):
            code, _, err = pawl("show", f"{self.folder.name}/none@{word}")
            self.assertEqual(code, 4, err)

    def test_a_step_that_is_not_there_is_named_in_full(self):
        code, _, err = pawl("show", f"{self.run_path}@{MOST - 3}")
        self.assertEqual(code, 4)
        self.assertIn(str(MOST - 3), err)

    def test_other_numbers_are_as_strict(self):
        for words in (["show", "--edge", "+5"], ["show", "--edge", " 5"], ["rm", "--wait", "-0"],
                      ["rm", "--wait", "0x10"], ["rm", "--wait", " 1"], ["doctor", "--rank", "+1"],
                      ["doctor", "--need", "9223372036854775808"], ["doctor", "--need", "9.3EB"]):
            code, _, err = pawl(*words, f"{self.run_path}")
            self.assertEqual(code, 2, words)
            self.assertIn(f"'{words[2]}'", err)

    def test_a_size_is_exact_to_the_last_byte(self):
        code, out, err = pawl("doctor", "--json", "--need", str(MOST), self.run_path)
        self.assertEqual(code, 3, err)
        self.assertIn("a checkpoint needs", json.dumps(json.loads(out)["findings"]))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1])
