# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence in one of its first two lines."""

import quality

SUFFIXES = {".c", ".h", ".py", ".sh", ".cmake", ".map", ".in", ".supp"}
NAMES = {"CMakeLists.txt", "Makefile", "run", "setup", "lint", "format"}
LEFT_OUT = {"pawl.pc.in"}
LINE = "SPDX-License-Identifier: Apache-2.0"


def is_source(path):
    """Scripts of golden tests are data: they show what a user types."""
    if "golden" in path.parts or path.name in LEFT_OUT:
        return False
    return path.suffix in SUFFIXES or path.name in NAMES


def check(root):
    problems = []
    for path in quality.files(root):
        if not is_source(path):
            continue
        text = quality.text_of(root, path)
        if text is not None and LINE not in "\n".join(text.split("\n")[:2]):
            problems.append(f"{path}: no '{LINE}' in its first two lines")
    if not (root / "LICENSE").is_file():
        problems.append("LICENSE is missing")
    return problems


def self_test():
    good = {
        "LICENSE": "Apache\n",
        "src/a.c": f"/* {LINE} */\n",
        "tools/setup": f"#!/bin/sh\n# {LINE}\n",
        "README.md": "pawl\n",
    }
    quality.prove(check, good, [
        ({"src/b.c": "/* what it is */\n"}, "src/b.c: no"),
        ({"tests/b.py": f'"""x\n\n\n{LINE}"""\n'}, "tests/b.py: no"),
        ({"tools/setup": "#!/bin/sh\n\n# late\n"}, "tools/setup: no"),
    ])


if __name__ == "__main__":
    quality.main(check, self_test)
