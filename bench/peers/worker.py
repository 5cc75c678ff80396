# SPDX-License-Identifier: Apache-2.0
"""A peer as bench.py drives it: python worker.py PEER, where PEER is a module of this folder. Takes
commands of bench_engine: state, save, restore, same.

A peer module has
    prepare()                        what a training job does once; returns a context
    adopt(context, tensors, arrays)  the state as this library's users hold it
    save(context, state, directory)  returns when training may go on; the value is None, or a
                                     function that waits until the peer says the save has ended
    scramble(state)                  for peers that load in place
    load(context, state, directory)  every byte in memory, in the library's own objects
    arrays_of(state, loaded)         {name: array or bytes} of what was loaded
BF16 arrives as uint16: numpy has no name for it."""

import ctypes
import gc
import importlib
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
import states  # noqa: E402

DTYPES = {"F32": numpy.float32, "BF16": numpy.uint16, "U8": numpy.uint8}


def random_arrays(tensors, seed):
    """(tensor, array) in the order of the list; the same for the same seed."""
    generator = numpy.random.Generator(numpy.random.SFC64(seed))
    for tensor in tensors:
        words = generator.integers(0, 1 << 64, (tensor.bytes + 7) // 8, numpy.uint64)
        data = words.view(numpy.uint8)[:tensor.bytes]
        yield tensor, data.view(DTYPES[tensor.dtype]).reshape(tensor.shape)


# ---- memory ---------------------------------------------------------------------------------------

def status_bytes(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def processes():
    """This one and those it started."""
    listed = pathlib.Path("/proc/self/task").glob("*/children")
    return [os.getpid(), *(int(pid) for path in listed for pid in path.read_text().split())]


def resident_bytes():
    """Over this process and those it started; memory that they share is counted once."""
    pids = processes()
    own = sum(status_bytes(pid, "RssAnon") for pid in pids)
    return own + max(status_bytes(pid, "RssShmem") for pid in pids)


class Peak:
    """Peak of resident memory above what is resident now. Of one process the kernel keeps it; of
    several it is sampled a hundred times a second."""

    def __init__(self):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5\n", encoding="ascii")
        self._alone = len(processes()) == 1
        self._before = status_bytes("self", "VmRSS") if self._alone else resident_bytes()
        self._peak = self._before
        self._end = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        if not self._alone:
            self._sampler.start()

    def _sample(self):
        while not self._end.wait(0.01):
            self._peak = max(self._peak, resident_bytes())

    def extra_bytes(self):
        if self._alone:
            self._peak = status_bytes("self", "VmHWM")
        else:
            self._end.set()
            self._sampler.join()
        return self._peak - self._before


# ---- commands -------------------------------------------------------------------------------------

class Job:
    def __init__(self, peer):
        self.peer = peer
        self.context = peer.prepare()
        self.state = self.loaded = self.tensors = self.seed = None

    def adopt(self, tensors, seed):
        arrays = (array for _, array in random_arrays(tensors, seed))  # one at a time: memory
        return self.peer.adopt(self.context, tensors, arrays)

    def warm_up(self):
        """Imports, threads and caches that a job has after its first save."""
        tensors = states.many(2, 4096)
        state = self.adopt(tensors, 0)
        with tempfile.TemporaryDirectory(dir=os.environ["BENCH_SCRATCH"]) as directory:
            wait = self.peer.save(self.context, state, pathlib.Path(directory))
            if wait:
                wait()
            self.peer.load(self.context, state, pathlib.Path(directory))

    def do_state(self, path, seed):
        self.warm_up()
        self.tensors, self.seed = states.read(path), int(seed)
        self.state = self.adopt(self.tensors, self.seed)
        return {"bytes": states.bytes_of(self.tensors), "entries": len(self.tensors)}

    def do_save(self, directory):
        peak = Peak()
        began = time.monotonic()
        wait = self.peer.save(self.context, self.state, pathlib.Path(directory))
        stall = time.monotonic() - began
        if wait:
            wait()
        ended = time.monotonic() - began
        harness.sync_tree(directory)
        durable = time.monotonic() - began
        return {"stall_s": stall, "ended_s": ended, "durable_s": durable,
                "extra_bytes": peak.extra_bytes()}

    def do_scramble(self):
        self.loaded = None
        self.peer.scramble(self.state)
        return {}

    def do_restore(self, directory):
        self.loaded = None
        peak = Peak()
        began = time.monotonic()
        self.loaded = self.peer.load(self.context, self.state, pathlib.Path(directory))
        seconds = time.monotonic() - began
        return {"seconds": seconds, "extra_bytes": peak.extra_bytes()}

    def do_same(self):
        found = self.peer.arrays_of(self.state, self.loaded)
        for tensor, want in random_arrays(self.tensors, self.seed):
            have = numpy.ascontiguousarray(found[tensor.name])
            if have.nbytes != tensor.bytes or not numpy.array_equal(
                    have.reshape(-1).view(numpy.uint8), want.reshape(-1).view(numpy.uint8)):
                return {"same": False, "first": tensor.name}
        return {"same": True}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print
    try:
        job = Job(importlib.import_module(sys.argv[1]))
        for line in sys.stdin:
            command, *words = line.split()
            print(json.dumps(getattr(job, "do_" + command)(*words)), file=answers, flush=True)
    except Exception as error:  # whatever a peer raises is an answer
        text = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        print(json.dumps({"error": text}), file=answers, flush=True)
        raise


if __name__ == "__main__":
    main()
