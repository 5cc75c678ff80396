# SPDX-License-Identifier: Apache-2.0
"""The documented way to fuzz is the one that `make fuzz` takes, and what once stopped fuzz_mounts
is in its corpus."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUT = b"\\000a"  # a mount point whose name begins with what looks like a NUL


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def problems():
    comment = read("tests/fuzz/CMakeLists.txt")
    tool = read("tools/fuzz")
    sanitize = re.search(r"-DPAWL_SANITIZE=(\S+)", comment).group(1)
    made = re.search(r'"address": "([^"]+)"', tool).group(1) + ",fuzzer-no-link"
    if sanitize != made:
        yield f"tests/fuzz/CMakeLists.txt says -DPAWL_SANITIZE={sanitize}, tools/fuzz uses {made}"
    for word in ("-DPAWL_FUZZ=ON", "-DCMAKE_C_COMPILER="):
        if word not in comment or word not in tool:
            yield f"{word} is not both in tests/fuzz/CMakeLists.txt and in tools/fuzz"
    if not re.search(r"^fuzz:\n\t@tools/setup .*\bfuzz\b\n\t.*tools/fuzz", read("Makefile"), re.M):
        yield "the Makefile's fuzz does not install the group fuzz and run tools/fuzz"
    if not re.search(r"fuzz\) echo clang-14 .*libclang-rt-14-dev", read("tools/setup")):
        yield "tools/setup has no group fuzz with clang 14 and its runtime"
    corpus = ROOT / "tests" / "fuzz" / "corpus" / "mounts"
    if not any(INPUT in item.read_bytes() for item in corpus.iterdir()):
        yield f"no input of {corpus} has {INPUT!r}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pawl")
    parser.add_argument("--make-run")
    parser.parse_args()
    found = list(problems())
    print("\n".join(found))
    return 1 if found else 0


sys.exit(main())
