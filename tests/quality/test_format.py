# SPDX-License-Identifier: Apache-2.0
"""tools/format changes nothing. Skipped where clang-format 14 is not installed: other versions format
differently."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    command = [ROOT / "tools/format", "--check"]
    if sys.argv[1:] == ["--self-test"]:
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder) / "bad.c"
            bad.write_text("int  f( void ){return 1;}\n", encoding="utf-8")
            code = subprocess.run([*command, bad], check=False).returncode
        if code == 0:
            sys.exit("tools/format --check accepts a file that is not formatted")
        sys.exit(77 if code == 77 else 0)
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
