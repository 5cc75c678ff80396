#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl top` on a terminal: goes on, follows the run, and leaves the terminal as it was."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

SANITIZER = sys.argv.pop()
MAKE_RUN = sys.argv.pop()
PAWL = sys.argv.pop()
DEADLINE_S = 60
ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"
SHOW_CURSOR, WRAP = b"\033[?25h", b"\033[?7h"


def event(kind, step, **members):
    text = "".join(f', "{key}": {value}' for key, value in members.items())
    return f'{{"event": "{kind}", "step": {step}, "unix_time_ns": {time.time_ns()}{text}}}\n'


class Terminal:
    """A command on a terminal of its own, and everything that it wrote."""

    def __init__(self, *command, rows=24, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.written = b""
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=dict(os.environ, TERM="xterm", TZ="UTC", NO_COLOR=""))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.written += os.read(self.master, 65536)

    def wait_for(self, words, since=0):
        end = time.monotonic() + DEADLINE_S
        while words not in self.written[since:]:
            if time.monotonic() > end:
                raise AssertionError(f"no {words} in {self.written[since:]}")
            self.read(1)

    def type(self, text):
        os.write(self.master, text)

    def end(self):
        end = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError("it does not end")
            self.read(0.1)
        self.read(0)
        return self.process.returncode

    def modes(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Top(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="pawl-top-")
        self.addCleanup(shutil.rmtree, self.scratch, True)
        self.run_path = os.path.join(self.scratch, "run")
        subprocess.run([MAKE_RUN, self.run_path, "--steps=1000"], check=True, timeout=DEADLINE_S)

    def start(self, *options, **size):
        terminal = Terminal(PAWL, "top", *options, self.run_path, **size)
        self.addCleanup(terminal.close)
        terminal.wait_for(b"q quits")
        return terminal

    def add(self, text):
        with open(os.path.join(self.run_path, "events.jsonl"), "a", encoding="utf-8") as file:
            file.write(text)

    def assert_left(self, terminal):
        self.assertEqual(terminal.modes(), terminal.before)
        self.assertGreater(terminal.written.rfind(LEAVE), terminal.written.rfind(ENTER))
        self.assertIn(SHOW_CURSOR, terminal.written)
        self.assertIn(WRAP, terminal.written)

    def test_q_ends_it_with_success(self):
        terminal = self.start()
        self.assertNotEqual(terminal.modes(), terminal.before)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_left(terminal)

    def test_ctrl_c_ends_it_as_it_ends_any_command(self):
        terminal = self.start()
        terminal.type(b"\x03")
        self.assertEqual(terminal.end(), -signal.SIGINT)
        self.assert_left(terminal)

    def test_sigterm_leaves_the_terminal_as_it_was(self):
        terminal = self.start()
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.end(), -signal.SIGTERM)
        self.assert_left(terminal)

    def test_it_follows_the_run(self):
        terminal = self.start("--interval=0.1")
        self.add(event("save_ended", 2000, status='"no space"', message='"it is full"'))
        terminal.wait_for(b"it is full")
        self.add(event("save_ended", 3000, status='"ok"'))
        terminal.wait_for(b"3000")
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_no_picture_is_higher_than_the_terminal(self):
        for step in range(100):
            self.add(event("save_ended", step, status='"ok"'))
        terminal = self.start("--interval=0.1", rows=12)
        for picture in terminal.written.split(b"\033[H")[1:]:
            self.assertLess(picture.count(b"\n"), 12)
        since = len(terminal.written)
        terminal.resize(20, 200)
        terminal.wait_for(b"RETRIES", since)  # there is room for all columns now
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_a_narrow_terminal_shows_whole_numbers(self):
        for columns, shown, left_out in ((80, b"STALL", None), (60, b"STALL", b"COMMIT"),
                                         (40, b"TOOK", b"STALL"), (30, b"VERDICT", b"TOOK")):
            terminal = self.start(columns=columns)
            terminal.type(b"q")
            self.assertEqual(terminal.end(), 0)
            self.assertIn(shown, terminal.written)
            if left_out:
                self.assertNotIn(left_out, terminal.written)
            row = next(line for line in terminal.written.split(b"\r\n")
                       if line.startswith(b"\033[K1000"))
            self.assertNotIn("…".encode(), row)

    def test_a_long_line_keeps_its_end(self):
        self.add(event("save_ended", 2000, status='"no space"',
                       message=f'"begin {"x" * 300} the very end"'))
        terminal = self.start(columns=80)
        terminal.wait_for(b"the very end")
        lines = terminal.written.replace(b"\033[K", b"").split(b"\r\n")
        failed = [line for line in lines if line.startswith(b"\033[1mfailed")]
        self.assertRegex(failed[0], rb"begin x+\xe2\x80\xa6x+ the very end")
        self.assertNotIn(b"the very end\033[K", terminal.written)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(self):
        # A shell that minds jobs: it notices the stop, and brings the command back at once.
        terminal = Terminal("sh", "-mc", '"$0" top "$1"; fg', PAWL, self.run_path)
        self.addCleanup(terminal.close)
        terminal.wait_for(b"q quits")
        terminal.type(b"\x1a")
        terminal.wait_for(LEAVE)
        since = terminal.written.index(LEAVE)
        terminal.wait_for(ENTER, since)
        terminal.wait_for(b"q quits", since)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_left(terminal)

    def test_a_resize_while_a_picture_is_written_breaks_nothing(self):
        for step in range(100):
            self.add(event("save_ended", step, status='"ok"'))
        terminal = self.start("--interval=0.1", rows=100, columns=200)
        time.sleep(2)  # nobody reads: a picture fills the terminal's buffer, and is waited for
        for columns in range(190, 200):
            terminal.resize(100, columns)
            time.sleep(0.05)
        since = len(terminal.written)
        terminal.wait_for(b"q quits", since)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_a_run_that_goes_away_is_told(self):
        terminal = self.start("--interval=0.1")
        os.rename(self.run_path, self.run_path + "-elsewhere")
        self.assertEqual(terminal.end(), 4)
        self.assert_left(terminal)
        self.assertIn(b"there is no such directory", terminal.written)


if __name__ == "__main__":
    if "thread" in SANITIZER:
        print("skipped: built with -fsanitize=thread, which puts signals off")
        sys.exit(77)
    unittest.main()
