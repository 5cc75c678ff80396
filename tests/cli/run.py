#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of the command: runs DIR/cmd and compares what it wrote with DIR/stdout, stderr, exit.

cmd is a shell script. It runs in an empty directory, with these on PATH: `pawl`; the fixture maker
`make_run`; `unprivileged` (root's: runs a command as nobody); `in_terminal` (runs it on a
terminal of 60 columns, or as many as WIDTH says). Exit code 77 skips the test. Each `pawl` must end
with an exit code that its verb's help lists, and each command that an error advises leads on: it is run after the
script.
--set-exact-output writes what came out as what is expected.
"""

import argparse
import difflib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/figures"))
import figures  # noqa: E402

SKIPPED = 77
TIMEOUT_S = 100

# What differs from run to run and from machine to machine. Where a table may hold it, the replacement
# is as wide as what it replaces.
RULES = [
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "YYYY-MM-DD hh:mm:ss"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "YYYY-MM-DDThh:mm:ssZ"),
    (r'("unix_time_ns": ?)\d+', r"\1TIME"),
    (r"\b(pid |kill )\d+", r"\1PID"),
    (r"\bheartbeat \d+ s ago", "heartbeat N s ago"),
    (r'\b(data-|index-|attempt |attempt": ?")[0-9a-f]{12}\b', r"\1ATTEMPT_HERE"),
    (r'(CRC32C |crc32c": ")[0-9a-f]{8}', r"\1CHECKSUM"),
    (r"\bwith [\d.]+ [kMGT]?B/s", "with N MB/s"),
    (r"\b[\d.]+ [kMGTP]?B of memory are left", "N GB of memory are left"),
    (r'(of memory are left.*"evidence": )"[^"]*"', r'\1"WHERE"'),
    (r"\bLinux [^ ,]+, \w+, \d+ processors?", "Linux VERSION, MACHINE, N processors"),
]

# What the directory for scratch itself lies on is not the tests' matter: it may be a container's layer.
STORAGE = r"\(mounted at (?!SCRATCH)"
RULES += [
    (rf"(?m)^(warning|note   )  P0[79]  .*{STORAGE}.*\n( +next: .*\n)?", ""),
    (rf'(?m)^  {{"id": "P0[79]".*{STORAGE}.*\n', ""),
]

UNPRIVILEGED = """#!/bin/sh
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""


# Notes verb and exit code of each call. $1 is the verb, or what comes instead of one.
PAWL = """#!/bin/sh
"{pawl}" "$@"
code=$?
echo "$code $1" >>"{log}"
exit $code
"""


def normalise(data, scratch):
    text = data.decode("utf-8", "backslashreplace").replace(scratch, "SCRATCH")
    text = re.sub(rf"\b(host |on ){re.escape(socket.gethostname())}\b", r"\1HOST", text)
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


def script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def tools(args, where):
    os.mkdir(where)
    log = os.path.join(where, "codes")
    with open(log, "w", encoding="utf-8"):
        os.chmod(log, 0o666)
    script(os.path.join(where, "pawl"), PAWL.format(pawl=os.path.abspath(args.pawl), log=log))
    os.symlink(os.path.abspath(args.make_run), os.path.join(where, "make_run"))
    terminal = os.path.join(os.path.dirname(os.path.abspath(__file__)), "terminal.py")
    script(os.path.join(where, "unprivileged"), UNPRIVILEGED)
    script(os.path.join(where, "in_terminal"),
           f'#!/bin/sh\nexec "{sys.executable}" "{terminal}" "$@"\n')


def environment(scratch, bin_folder):
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    path = bin_folder + ":/usr/local/bin:/usr/bin:/bin"
    return dict(kept, PATH=path, HOME=scratch, LC_ALL="C.UTF-8", TZ="UTC", TERM="xterm")


def listed_codes(pawl, verb):
    """What EXIT STATUS of the verb's help has."""
    words = [pawl, "help"] + ([verb] if re.fullmatch("[a-z]+", verb) else [])
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    status = told.partition("EXIT STATUS\n")[2]
    return {int(code) for code in re.findall(r"^ {1,4}(\d+)  ", status, re.M)} or {0, 2}


def unlisted(pawl, log):
    """The calls that ended with a code that no help tells of, as text; signals have their own."""
    calls = {tuple(line.split(maxsplit=1)) for line in read(log).splitlines()}
    wrong = [(int(code), verb[0] if verb else "") for code, *verb in calls]
    return "".join(f"pawl {verb} ended with {code}, which its help does not list\n"
                   for code, verb in sorted(wrong)
                   if code < 128 and code not in listed_codes(pawl, verb))


# A command as an error advises it, up to where the sentence goes on: verb, options, paths.
ADVISED = re.compile(r"\bpawl (?P<verb>[a-z]+)(?P<rest>(?: (?:--[a-z-]+|/[^\s;,]+))+)")
ENDED = re.compile(r"^  (?:next|safe): .*$", re.M)


def advised_commands(stderr):
    """What the errors of a script say to run next, each once: lists of words."""
    found = []
    for line in ENDED.findall(stderr):
        for command in ADVISED.finditer(line):
            words = [command["verb"], *(word.rstrip(".:") for word in command["rest"].split())]
            found += [words] if words not in found else []
    return found


def dead_ends(args, script_text, stderr, scratch, env):
    """The advised commands that do not lead on, as text.

    They are run after the script, on what that has left, but for those that it runs itself. To show what is damaged (3)
    leads on; another wrong call (2), another failure (1), nothing there (4) do not.
    """
    wrong = []
    for words in advised_commands(stderr):
        if " ".join(["pawl", *words]).replace(scratch + "/", "") in script_text:
            continue
        done = subprocess.run([os.path.abspath(args.pawl), *words], cwd=scratch, env=env, capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode not in (0, 3):
            wrong.append(f"advised: pawl {' '.join(words)}\nended with {done.returncode}: {done.stderr}")
    return "".join(wrong)


def end_session(leader):
    """Ends what the script left in the background."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def execute(args, command):
    """The script's exit code, stdout and stderr; and what is wrong with any of its calls."""
    outer = os.path.realpath(tempfile.mkdtemp(prefix="pawl-cli-"))
    scratch = os.path.join(outer, "w")
    os.mkdir(scratch)
    os.chmod(outer, 0o755)
    bin_folder = os.path.join(outer, "bin")
    tools(args, bin_folder)
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                ["sh", command], cwd=scratch, env=environment(scratch, bin_folder),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(timeout=TIMEOUT_S)
            finally:
                end_session(process.pid)
            out.seek(0)
            err.seek(0)
            told = err.read()
            env = environment(scratch, bin_folder)
            return {"exit": f"{code}\n", "stdout": normalise(out.read(), scratch),
                    "stderr": normalise(told, scratch),
                    "advice": dead_ends(args, read(command), told.decode("utf-8", "replace"), scratch, env),
                    "figures": "".join(f"{one}\n" for one in figures.check(scratch)[1]),
                    "codes": unlisted(os.path.abspath(args.pawl), os.path.join(bin_folder, "codes"))}
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def compare(folder, got):
    """The differences as text; "" when there are none."""
    parts = []
    for name in ("stdout", "stderr", "exit", "figures", "codes", "advice"):
        wanted = read(os.path.join(folder, name))
        parts += difflib.unified_diff(wanted.splitlines(True), got[name].splitlines(True),
                                      f"{name} expected", f"{name} found")
    return "".join(parts)


def run(args, folder):
    got = execute(args, os.path.abspath(os.path.join(folder, "cmd")))
    if got["exit"] == f"{SKIPPED}\n":
        print(f"skipped: {got['stdout']}", end="")
        return SKIPPED
    if args.set_exact_output:
        for name, text in got.items():
            if name in ("figures", "codes", "advice"):
                continue
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return 0
    difference = compare(folder, got)
    if difference:
        print(f"{folder}: run it with --set-exact-output if this is right\n{difference}")
    return 1 if difference else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--make-run", required=True)
    parser.add_argument("--set-exact-output", action="store_true")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    sys.exit(max(run(args, folder) for folder in args.folders))


if __name__ == "__main__":
    main()
