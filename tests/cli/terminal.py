#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own and prints what it wrote, escapes visible.

It has WIDTH columns, 60 unless that is set. Says which lines were wider, which is a failure.
"""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import unicodedata

COLUMNS = int(os.environ.get("WIDTH", "60"))


def width(line):
    """The columns that a line takes, as Unicode has it."""
    plain = re.sub("\033\\[[0-9;?]*[A-Za-z]", "", line)
    return sum(0 if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf")
               else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
written = b""
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    written += piece
text = written.decode().replace("\r\n", "\n")
print(text.replace("\033", "^["), end="")
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
for number, line in enumerate(text.split("\n"), 1):
    if width(line) > COLUMNS:
        print(f"line {number} takes {width(line)} columns of {COLUMNS}")
        code = 99
sys.exit(code)
