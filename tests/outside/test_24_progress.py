#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A command that waits for a writer on another host says so: one line, or on a terminal as it goes on."""

import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import unittest

LEASE_S = 6
WAITING = "waiting at most 6.0 s to see whether its writer is alive: host elsewhere, pid 4242"
RECORD = ('{"counter":"00000000000000000007","host":"elsewhere","pid":4242,"boot_id":"b",'
          '"pid_namespace":"p","time_namespace":"t","start_ticks":1,"attempt":"0123456789ab",'
          f'"lease_s":{LEASE_S}}}\n')


def read_all(descriptor):
    found = b""
    while True:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # what a terminal says that nobody has open any more
            return found.decode()
        if not piece:
            return found.decode()
        found += piece


class Progress(unittest.TestCase):
    """All wait at once: each is a run of its own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pawl-24-")
        cls.found = {}
        threads = [threading.Thread(target=cls.wait_for, args=one) for one in (
            ("gc", "gc", "RUN"), ("json", "gc", "--json", "RUN"), ("rm", "rm", "RUN@1000"),
            ("rebuild", "rebuild", "RUN@1000"), ("terminal", "gc", "RUN"),
            ("no progress", "gc", "--no-progress", "RUN"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def wait_for(cls, name, *words):
        """Exit code, stdout and stderr of a verb whose run has a silent writer elsewhere."""
        run = os.path.join(cls.folder.name, name)
        subprocess.run([args.make_run, run, "--steps=1000,2000"], check=True)
        with open(os.path.join(run, "owner-00000009"), "w", encoding="ascii") as file:
            file.write(RECORD)
        on_terminal = name in ("terminal", "no progress")
        ours, theirs = pty.openpty() if on_terminal else os.pipe()
        command = subprocess.Popen([args.pawl, *(word.replace("RUN", run) for word in words)],
                                   stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        err = read_all(ours)
        os.close(ours)
        out = command.stdout.read()
        command.stdout.close()
        cls.found[name] = (command.wait(), out, err)

    def test_off_a_terminal_it_is_one_line(self):
        for name in ("gc", "json", "rm", "rebuild"):
            with self.subTest(name):
                code, _, err = self.found[name]
                self.assertEqual(code, 0, err)
                self.assertEqual(len(err.splitlines()), 1, err)
                self.assertIn(WAITING, err)

    def test_results_stay_results(self):
        self.assertEqual(json.loads(self.found["json"][1])["dry_run"], False)
        self.assertEqual(self.found["rm"][1], "removed step 1000\n")

    def test_on_a_terminal_it_goes_on_and_is_taken_away(self):
        code, _, err = self.found["terminal"]
        self.assertEqual(code, 0, err)
        self.assertIn(WAITING, err)
        self.assertIn("\r\033[Kwaiting for host elsewhere, pid 4242: silent for 5.", err)
        self.assertTrue(err.endswith("\r\033[K"), repr(err))

    def test_no_progress_is_none(self):
        _, _, err = self.found["no progress"]
        self.assertIn(WAITING, err)
        self.assertNotIn("\r\033[K", err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--make-run", required=True)
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
