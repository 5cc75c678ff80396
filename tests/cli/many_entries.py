#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command reads and how much memory it takes does not grow with the number of entries."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PAWL, MAKE_RUN, SANITIZE = sys.argv[1:4]
del sys.argv[1:4]

FEW, MANY = 2_000, 100_000
GROWTH_KB = 16 * 1024
BLOCKS_BYTES = 200 * 1024  # of index and data, for one entry


def measured(*words):
    """Exit code, lines printed, and the most memory it had, in kB."""
    with subprocess.Popen([PAWL, *words], stdout=subprocess.PIPE) as process:
        lines = sum(1 for _ in process.stdout)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, lines, usage.ru_maxrss


class ManyEntries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pawl-cli-")
        cls.few = os.path.join(cls.folder.name, "few")
        cls.many = os.path.join(cls.folder.name, "many")
        for run, entries in ((cls.few, FEW), (cls.many, MANY)):
            subprocess.run([MAKE_RUN, run, f"--entries={entries}", "--steps=1000,2000"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_one_entry_of_many_takes_a_few_blocks(self):
        name = f"group{MANY // 2000:03d}/tensor{MANY // 2:07d}"
        out = subprocess.run([PAWL, "show", "--json", self.many, name], check=True,
                             capture_output=True).stdout
        shown = json.loads(out)
        self.assertEqual(shown["entry"]["name"], name)
        self.assertLess(shown["read_bytes"], BLOCKS_BYTES)

    def grows_little(self, few_words, many_words, code):
        few_code, few_lines, few_kb = measured(*few_words)
        many_code, many_lines, many_kb = measured(*many_words)
        self.assertEqual((few_code, many_code), (code, code))
        self.assertLess(many_kb - few_kb, GROWTH_KB, f"{few_kb} kB to {many_kb} kB")
        return few_lines, many_lines

    def test_the_tree_streams(self):
        lines = self.grows_little(["show", self.few], ["show", self.many], 0)
        self.assertGreater(lines[1], MANY)

    def test_the_tree_as_json_streams(self):
        lines = self.grows_little(["show", "--json", self.few], ["show", "--json", self.many], 0)
        self.assertGreater(lines[1], MANY)

    def test_verify_streams(self):
        self.grows_little(["verify", self.few], ["verify", self.many], 0)

    def test_a_difference_in_every_entry_streams(self):
        few, many = ([f"{run}@1000", f"{run}@2000"] for run in (self.few, self.many))
        lines = self.grows_little(["diff", *few], ["diff", *many], 3)
        self.assertGreater(lines[1], MANY)


if __name__ == "__main__":
    if SANITIZE:
        print(f"skipped: built with -fsanitize={SANITIZE}, whose own memory would be measured")
        sys.exit(77)
    unittest.main()
