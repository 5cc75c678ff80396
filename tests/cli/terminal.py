#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of 60 columns of its own and prints what it wrote, escapes visible."""

import fcntl
import os
import pty
import struct
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
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
print(written.decode().replace("\r\n", "\n").replace("\033", "^["), end="")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
