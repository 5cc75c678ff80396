# SPDX-License-Identifier: Apache-2.0
"""What the demonstrations share: processes that tell what they do, the pawl command, and checkpoints
read without pawl."""

import collections
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

POLL_S = 0.0005
WITHOUT_END = 10**9       # steps of a trainer that is going to be killed: however slow its storage is, and
                          # however late the one who watches it, it does not come to its end before
TOOL_TIMEOUT_S = 120.0  # for one pawl command


class Failure(Exception):
    """Ends the demonstration with a message."""


def leave_when_asked():
    """SIGTERM and SIGHUP end the program as Ctrl-C does: what has to be done at the end is done."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, Process.leave)


class EventFile:
    """The lines that a trainer adds to a file: [seconds, name, step, further words]."""

    def __init__(self, path):
        self.path = path
        self.seen = os.path.getsize(path) if os.path.exists(path) else 0
        self.rest = b""
        self.events = []

    def look(self):
        """Reads what came since the last look."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.seen)
                added = file.read()
        except FileNotFoundError:
            return
        self.seen += len(added)
        lines = (self.rest + added).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            seconds, name, step, *words = line.decode().split()
            self.events.append([float(seconds), name, int(step), *words])

    def named(self, name):
        return [event for event in self.events if event[1] == name]

    def last_step(self, name, otherwise=None):
        found = self.named(name)
        return found[-1][2] if found else otherwise


class Process:
    """A process whose output goes to a file, and which is watched while it works."""

    started_here = []
    starting = False
    asked_by = None  # the signal that came while a process was being started

    def __init__(self, command, output_path, **how):
        self.output_path = output_path
        self.started = time.monotonic()
        Process.starting = True  # what began and is not in the list yet would be left behind
        try:
            with open(output_path, "ab") as output:
                self.process = subprocess.Popen([str(word) for word in command],
                                                stdin=subprocess.DEVNULL, stdout=output,
                                                stderr=output, **how)
            Process.started_here.append(self)
        finally:
            Process.starting = False
        if Process.asked_by is not None:
            Process.leave(Process.asked_by)

    @staticmethod
    def leave(caught, _=None):
        """As the handler of a signal: ends the program, once what is being started can be ended, too."""
        if Process.starting:
            Process.asked_by = caught
        elif caught == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            sys.exit(128 + caught)

    @staticmethod
    def end_all():
        """Whatever happened, nothing that was started goes on."""
        for each in Process.started_here:
            if each.process.poll() is None:
                each.kill()

    def look(self):
        """Reads what is new of it."""

    def story(self):
        with open(self.output_path, "rb") as output:
            lines = output.read().decode(errors="replace").splitlines()
        return "its last lines were:\n    " + "\n    ".join(lines[-15:])

    def wait_until(self, happened, deadline_s, what):
        """Returns when `happened()` is true; fails when the trainer ends before, or in time."""
        limit = time.monotonic() + deadline_s
        while True:
            ended = self.process.poll()
            self.look()
            if happened():
                return
            if ended is not None:
                raise Failure(f"the trainer ended with code {ended} before {what}; {self.story()}")
            if time.monotonic() > limit:
                self.kill()
                raise Failure(f"waited {deadline_s:.0f} s for {what}, in vain; {self.story()}")
            time.sleep(POLL_S)

    def wait_for_end(self, deadline_s):
        """Returns when the trainer has ended by itself; fails unless it succeeded."""
        try:
            code = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"the trainer was not finished after {deadline_s:.0f} s; "
                          f"{self.story()}") from None
        self.look()
        if code != 0:
            raise Failure(f"the trainer ended with code {code}; {self.story()}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.look()


def empty(directory, names):
    """Removes what an earlier demonstration left of these runs, and nothing else."""
    os.makedirs(directory, exist_ok=True)
    for name in names:
        shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
        for found in os.listdir(directory):
            if found.startswith((name + ".events", name + ".output")):
                os.remove(os.path.join(directory, found))


def run_tool(pawl, *words, codes=(0,)):
    """Runs one pawl command that has to end with one of these codes; returns what it printed."""
    command = [pawl, *words]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S,
                                check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: not finished after {TOOL_TIMEOUT_S:.0f} s") from None
    if result.returncode not in codes:
        said = (result.stdout + result.stderr).splitlines()
        raise Failure(f"{' '.join(command)}: exit code {result.returncode}\n" + "\n".join(said[:30])
                      + ("\n..." if len(said) > 30 else ""))
    return result.stdout


# ---- checkpoints, read without pawl: their data files are safetensors -----------------------------

Piece = collections.namedtuple("Piece", "rank offset shape data")


class Entry:
    """An entry of a checkpoint, put together from the pieces that the ranks wrote."""

    def __init__(self, about, dtype, shape):
        self.about = about     # what pawl says of it: kind, role, ...
        self.dtype = dtype
        self.shape = shape     # of the whole
        self.pieces = []

    def is_tensor(self):
        return "kind" not in self.about

    def digest(self):
        """Of the whole, whatever its pieces are. Values per rank are one after the other."""
        if self.about.get("per_rank") or len(self.pieces) == 1:
            whole = b"".join(piece.data for piece in sorted(self.pieces))
        else:
            whole = self.assembled()
        return self.dtype, tuple(self.shape), hashlib.sha256(whole).hexdigest()

    def assembled(self):
        count = math.prod(self.shape)
        size = sum(len(piece.data) for piece in self.pieces) // count
        whole = bytearray(count * size)
        for piece in self.pieces:
            place_rows(whole, self.shape, piece, size)
        return bytes(whole)


def place_rows(whole, shape, piece, size):
    """Copies a piece to its place, a row of the last dimension at a time."""
    length = piece.shape[-1]
    for row in range(math.prod(piece.shape[:-1]) if length else 0):
        rest, at = row, 0
        for extent, offset, of in zip(piece.shape[-2::-1], piece.offset[-2::-1],
                                      strides(shape)[-2::-1]):
            at += (rest % extent + offset) * of
            rest //= extent
        at = (at + piece.offset[-1]) * size
        whole[at:at + length * size] = piece.data[row * length * size:(row + 1) * length * size]


def strides(shape):
    """In elements."""
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def step_directory(run, step):
    return os.path.join(run, f"step-{step:08d}")


def is_committed(run, step):
    """Does not depend on anybody's word: a checkpoint exists if and only if its manifest does."""
    return os.path.exists(os.path.join(step_directory(run, step), "manifest.json"))


def read_entries(run, step):
    """All entries of a checkpoint, by name."""
    directory = step_directory(run, step)
    with open(os.path.join(directory, "manifest.json"), "rb") as file:
        manifest = json.load(file)
    entries = {}
    for listed in manifest["files"]:
        with open(os.path.join(directory, listed["name"]), "rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_size))
            said = json.loads(header.pop("__metadata__")["pawl"])
            for name, tensor in header.items():
                about = said["entries"].get(name, {})
                shape = about.get("shape", tensor["shape"])
                entry = entries.setdefault(name, Entry(about, tensor["dtype"], shape))
                begin, end = tensor["data_offsets"]
                file.seek(8 + header_size + begin)
                entry.pieces.append(Piece(said["rank"], about.get("offset", [0] * len(shape)),
                                          tensor["shape"], file.read(end - begin)))
    return entries


def digests_of(entries):
    return {name: entry.digest() for name, entry in entries.items()}
