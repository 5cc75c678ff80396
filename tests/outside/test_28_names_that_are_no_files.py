# SPDX-License-Identifier: Apache-2.0
"""What has the name of an owner's record or of a reader's mark and is no file is nobody's: it stays
where it is, and keeps nothing. A command whose own output is closed writes to no file of the run."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import unittest


def pawl(*words, closed=""):
    line = f'exec "$0" "$@" {closed}'
    done = subprocess.run(["sh", "-c", line, args.pawl, *words], capture_output=True, text=True,
                          timeout=100, check=False)
    return done.returncode, done.stdout + done.stderr


class NoFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run_ = os.path.join(self.folder.name, "run")
        subprocess.run([args.make_run, self.run_, "--steps=10,20,30"], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def inside(self, *names):
        return os.path.join(self.run_, *names)

    def test_what_is_no_record_of_an_owner_stays(self):
        os.mkfifo(self.inside("owner-00000099"))
        os.symlink("/etc/passwd", self.inside("owner-00000097"))
        os.mkdir(self.inside("owner-00000098"))
        for words in (["gc", "--dry-run"], ["gc"]):
            code, said = pawl(*words, self.run_)
            self.assertEqual(code, 0, said)
            for name in ("owner-00000097", "owner-00000098", "owner-00000099"):
                self.assertTrue(os.path.lexists(self.inside(name)), f"{words}: {name}")

    def test_a_socket_is_passed_over_like_a_pipe(self):
        with socket.socket(socket.AF_UNIX) as s:
            here = os.getcwd()
            os.chdir(self.run_)
            s.bind("owner-00000050")
            os.chdir(here)
        code, said = pawl("gc", self.run_)
        self.assertEqual(code, 0, said)

    def test_a_mark_that_is_no_file_keeps_nothing(self):
        os.mkfifo(self.inside("step-00000010", "reader-aaaaaaaaaaaa"))
        os.symlink("/etc/passwd", self.inside("step-00000020", "reader-aaaaaaaaaaaa"))
        for step in (10, 20):
            code, said = pawl("rm", f"{self.run_}@{step}")
            self.assertEqual(code, 0, said)

    def test_closed_descriptors_are_no_files_of_the_run(self):
        for closed in (">&- 2>&- <&-", "2>&- <&-", ">&- 2>&-"):
            for verb in (["rebuild", f"{self.run_}@30"], ["gc", self.run_]):
                pawl(*verb, closed=closed)
                code, said = pawl("verify", "--all", self.run_)
                self.assertEqual(code, 0, f"{closed} {verb}: {said}")
        self.assertEqual(pawl("ls", self.run_, closed=">&-")[0], 1)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1])
