# SPDX-License-Identifier: Apache-2.0
"""Worker processes, rounds in changing order, and a page cache that is known to be cold or warm."""

import ctypes
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import time

MIB = 1 << 20
GIB = 1 << 30


class Failed(Exception):
    """A command failed, or took too long; has one line that says why."""


class Worker:
    """A process that answers each line of words with a line of JSON."""

    def __init__(self, argv, log, environment=None):
        self._log = log
        self._stderr = open(log, "ab")
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env={**os.environ, **(environment or {})}, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Ends it and everything it started; at once when something went wrong."""
        try:
            self._process.stdin.close()
            self._process.wait(20 if kind is None else 0)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        finally:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._process.stdout.close()
            self._stderr.close()

    def rest(self, quiet_s=0.5, limit_s=30):
        """Returns when its resident memory has not grown for a while."""
        end = time.monotonic() + limit_s
        before, now = -1, self._resident_kib()
        while now > before and time.monotonic() < end:
            time.sleep(quiet_s)
            before, now = now, self._resident_kib()

    def _resident_kib(self):
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0])

    def ask(self, *words, limit_s=600):
        line = " ".join(map(str, words)) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer below says that it is gone
        answer = self._answer(words[0], time.monotonic() + limit_s, limit_s)
        if "error" in answer:
            raise Failed(f"{words[0]}: {answer['error']}")
        return answer

    def _answer(self, command, end, limit_s):
        data = b""
        while not data.endswith(b"\n"):
            ready = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready[0]:
                os.killpg(self._process.pid, signal.SIGKILL)
                raise Failed(f"{command}: took more than {limit_s:.0f} s")
            more = os.read(self._process.stdout.fileno(), 65536)
            if not more:
                raise Failed(f"{command}: the process ended ({self._process.wait()}); "
                             f"{last_line(self._log)}")
            data += more
        return json.loads(data)


def last_line(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def shuffled(things, seed):
    order = list(things)
    random.Random(seed).shuffle(order)
    return order


def rounds(count, things, seed=0):
    """`count` times all of `things`, in an order that changes: a disk that is slow for a while is
    slow for each of them equally often."""
    for i in range(count):
        yield i, shuffled(things, seed + i)


def settle(seconds):
    """Nothing is left to write, and the disk has had a moment for its own work."""
    os.sync()
    time.sleep(seconds)


# ---- files ----------------------------------------------------------------------------------------

def files_below(directory):
    return [path for path in sorted(pathlib.Path(directory).rglob("*"))
            if path.is_file() and not path.is_symlink()]


def empty(directory):
    """Removes what is in it, so that the next save finds the same room."""
    for path in pathlib.Path(directory).iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def sync_tree(directory):
    """What makes the files below a directory, and their names, durable."""
    for path in [*files_below(directory), directory,
                 *(p for p in pathlib.Path(directory).rglob("*") if p.is_dir())]:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


# ---- the page cache -------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def cached_bytes(path):
    """Bytes of the file that are in the page cache, by mincore(2)."""
    size = os.path.getsize(path)
    page = os.sysconf("SC_PAGE_SIZE")
    if size == 0:
        return 0
    file = os.open(path, os.O_RDONLY)
    try:
        address = _libc.mmap(None, size, 1, 1, file, 0)  # PROT_READ, MAP_SHARED
    finally:
        os.close(file)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap", str(path))
    resident = ctypes.create_string_buffer((size + page - 1) // page)
    failed = _libc.mincore(address, size, resident)
    _libc.munmap(address, size)
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", str(path))
    pages = resident.raw
    return sum(pages.count(bytes([odd])) for odd in range(1, 256, 2)) * page


def make_cold(directory):
    """Drops the files below `directory` from the page cache, and makes sure of it."""
    os.sync()
    paths = files_below(directory)
    for attempt in range(3):
        for path in paths:
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
        left = sum(map(cached_bytes, paths))
        if left == 0:
            return
        if os.geteuid() == 0:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
        time.sleep(0.1 * attempt)
    if left > sum(path.stat().st_size for path in paths) / 100:
        raise Failed(f"{left / MIB:.0f} MiB stayed in the page cache")


def make_warm(directory):
    """Reads the files below `directory` through the page cache, and says whether they stayed."""
    paths = files_below(directory)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(4 * MIB):
                pass
    size = sum(path.stat().st_size for path in paths)
    return sum(map(cached_bytes, paths)) >= 0.99 * size


def available_bytes():
    """Memory that processes can still have."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
