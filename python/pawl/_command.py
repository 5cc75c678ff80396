# SPDX-License-Identifier: Apache-2.0
"""The command ``pawl``, which the wheel has inside."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the command, with this process's arguments."""
    command = pathlib.Path(__file__).parent / "bin" / "pawl"
    if not command.exists():
        sys.exit(f"pawl: the command is not at {command}; it comes with the wheel, and with make install")
    os.execv(command, ["pawl", *sys.argv[1:]])
