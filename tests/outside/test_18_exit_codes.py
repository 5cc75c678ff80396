#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each verb ends with the code that its manual promises: 1 where its result cannot be written, 3 where
what it looked at is damaged or differs, and never with one that its manual does not list."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

CHANGING = ("rm", "gc", "rebuild")

# Words of the command, on a run with the steps 1 and 2, and another run that differs.
CALLS = {
    "ls": ["ls", "run"], "ls --json": ["ls", "--json", "run"], "ls --stats": ["ls", "--stats", "run"],
    "top": ["top", "--once", "run"], "top --json": ["top", "--json", "run"],
    "show": ["show", "run"], "show --json": ["show", "--json", "run"],
    "show entry": ["show", "run", "model/dense/kernel"],
    "verify": ["verify", "run"], "verify --all": ["verify", "--all", "run"],
    "verify --json": ["verify", "--json", "run"],
    "diff same": ["diff", "run", "run"], "diff other": ["diff", "run", "other"],
    "diff --json": ["diff", "--json", "run", "other"],
    "rm": ["rm", "--wait=0", "run@1"], "gc": ["gc", "--wait=0", "run"],
    "gc --json": ["gc", "--wait=0", "--json", "run"], "rebuild": ["rebuild", "--wait=0", "run@2"], "doctor": ["doctor", "run"],
    "doctor --json": ["doctor", "--json", "run"],
    "help": ["help"], "help ls": ["help", "ls"], "man": ["help", "--man"],
    "no such step": ["show", "--json", "run@77"], "version": ["--version"],
}


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def step(name):
    return os.path.join("run", "step-00000002", name)


def of_step(prefix):
    folder = os.path.dirname(step(""))
    return step(next(name for name in sorted(os.listdir(folder)) if name.startswith(prefix)))


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xff]))


def flip_last(path):
    flip(path, os.path.getsize(path) - 1)


def damage_manifest():
    flip(step("manifest.json"), 40)


def damage_data():
    flip_last(of_step("data-"))


def damage_index():
    flip(of_step("index-"), 30)


def lose_data():
    os.unlink(of_step("data-"))


def damage_owner():
    for name in os.listdir("run"):
        if name.startswith("owner-"):
            write(os.path.join("run", name), "no record\n")
    write(os.path.join("run", "owner-00000077"), "no record\n")


def damage_events():
    write(os.path.join("run", "events.jsonl"), "\x01\x02\x03\n" * 100)


def put_step_file():
    write(os.path.join("run", "step-00000003"), "no directory\n")


def lose_run():
    shutil.rmtree("run")


def be_another():
    shutil.rmtree("run")
    os.mkdir("run")
    write(os.path.join("run", "model.ckpt"), "of another tool\n")


# What happened to the run, and what some verbs then end with; the others with what they list.
HARMS = {
    "nothing": (lambda: None, {
        "ls": 0, "top": 0, "show": 0, "verify": 0, "verify --all": 0, "diff same": 0, "diff other": 3,
        "diff --json": 3, "rm": 0, "gc": 0, "rebuild": 0, "doctor": 0, "help": 0, "no such step": 4}),
    "manifest": (damage_manifest, {
        "ls": 3, "ls --json": 3, "ls --stats": 3, "show": 3, "verify": 3, "verify --all": 3,
        "diff same": 3, "top": 0}),
    "data": (damage_data, {"verify": 3, "verify --all": 3}),
    "index": (damage_index, {"show": 3, "verify": 3, "diff other": 3}),
    "lost data": (lose_data, {"ls": 3, "ls --json": 3, "verify": 3, "rebuild": 4}),
    "owner": (damage_owner, {"show": 0, "verify": 0}),
    "events": (damage_events, {"top": 0, "ls --stats": 0}),
    "file as a step": (put_step_file, {"ls": 0, "gc": 0}),
    "no run": (lose_run, {"ls": 4, "top": 4, "show": 4, "verify": 4, "rm": 4, "gc": 4, "rebuild": 4}),
    "another tool's": (be_another, {}),
}


def listed(pawl, verb):
    """The codes in EXIT STATUS of the verb's help."""
    words = [pawl, "help"] + ([verb] if verb.isalpha() else [])
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    status = told.partition("EXIT STATUS\n")[2]
    return {int(code) for code in re.findall(r"^ {1,4}(\d+)  ", status, re.M)}


class Runs:
    """The two runs, made once, and in place again for each call that changes them."""

    def __init__(self, args):
        self.args = args
        for name, more in (("run", ["--steps=1,2"]), ("other", ["--variant=changed"])):
            subprocess.run([args.make_run, name] + more, check=True)
        shutil.copytree("run", "kept")

    def again(self):
        shutil.rmtree("run", ignore_errors=True)
        shutil.copytree("kept", "run")

    def call(self, words, stdout):
        return subprocess.run([self.args.pawl] + words, stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.DEVNULL, timeout=60, check=False).returncode


def check_harm(runs, harm, codes):
    hurt, wanted = HARMS[harm]
    runs.again()
    hurt()
    for name in sorted(CALLS, key=lambda name: CALLS[name][0] in CHANGING):
        words = CALLS[name]
        if words[0] in CHANGING:
            runs.again()
            hurt()
        code = runs.call(words, subprocess.DEVNULL)
        if code not in codes[words[0]]:
            yield f"{harm}: pawl {' '.join(words)} ended with {code}, which its help does not list"
        if name in wanted and code != wanted[name]:
            yield f"{harm}: pawl {' '.join(words)} ended with {code}, not {wanted[name]}"


def check_full(runs):
    """A result that nobody can read is a failure, whatever it was."""
    for words in CALLS.values():
        runs.again()
        with open("/dev/full", "wb") as full:
            code = runs.call(words, full)
        if code != 1:
            yield f"pawl {' '.join(words)} >/dev/full ended with {code}, not 1"


def check(args):
    runs = Runs(args)
    codes = {words[0]: listed(args.pawl, words[0]) for words in CALLS.values()}
    problems = [one for harm in HARMS for one in check_harm(runs, harm, codes)]
    if os.path.exists("/dev/full"):
        problems += check_full(runs)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--make-run", required=True)
    args = parser.parse_args()
    args.pawl = os.path.abspath(args.pawl)
    args.make_run = os.path.abspath(args.make_run)
    with tempfile.TemporaryDirectory(prefix="pawl-outside-") as scratch:
        os.chdir(scratch)
        problems = check(args)
        os.chdir("/")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
