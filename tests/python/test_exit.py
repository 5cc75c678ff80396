# SPDX-License-Identifier: Apache-2.0
"""A Python program that saves through ctypes and ends with everything open, or forks: whatever it
leaves behind, neither it nor its children crash, hang, or touch what is the parent's."""

import _ctypes
import argparse
import atexit
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

FLOATS = 4 << 20
PAWL_OK, PAWL_EUSAGE = 0, 1
PAWL_F32 = 18


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int),
                ("ndim", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("nboxes", ctypes.c_size_t),
                ("boxes", ctypes.c_void_p), ("box_size", ctypes.c_size_t), ("replicated", ctypes.c_int),
                ("role", ctypes.c_int), ("slot_of", ctypes.c_char_p), ("slot", ctypes.c_char_p),
                ("replica", ctypes.c_int), ("replica_count", ctypes.c_int)]


class Pawl:
    """The library, a run, and a state of one tensor."""

    def __init__(self, library, path, address):
        self.pawl = ctypes.CDLL(library)
        self.pawl.pawl_error_new.restype = ctypes.c_void_p
        self.pawl.pawl_error_text.restype = ctypes.c_char_p
        self.err = ctypes.c_void_p(self.pawl.pawl_error_new())
        self.state = ctypes.c_void_p()
        self.run = ctypes.c_void_p()
        self.ok(self.pawl.pawl_state_new(ctypes.byref(self.state), self.err))
        shape = (ctypes.c_int64 * 1)(FLOATS)
        tensor = Tensor(struct_size=ctypes.sizeof(Tensor), name=b"weights", dtype=PAWL_F32, ndim=1,
                        shape=shape, data=address)
        self.ok(self.pawl.pawl_state_add_tensor(self.state, ctypes.byref(tensor), self.err))
        self.ok(self.pawl.pawl_run_open(path.encode(), None, ctypes.byref(self.run), self.err))

    def text(self):
        return self.pawl.pawl_error_text(self.err).decode()

    def ok(self, status):
        if status != PAWL_OK:
            sys.exit(self.text())

    def save(self, step):
        self.ok(self.pawl.pawl_save(self.run, self.state, ctypes.c_int64(step), None, self.err))

    def fence(self):
        return self.pawl.pawl_fence(self.run, ctypes.c_double(0.1), self.err)

    def wait(self):
        return self.pawl.pawl_wait(self.run, ctypes.c_double(0), None, self.err)

    def close(self):
        return self.pawl.pawl_run_close(self.run, ctypes.c_double(0), self.err)


def memory_that_stays():
    """Python does not know of it, so it does not free it before the process ends."""
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    return libc.calloc(FLOATS, 4)


def pause(number):
    time.sleep(random.Random(number).random() * 0.03)


def leave(library, path, number):
    """Ends with a save in flight and a thread of its own at work."""
    pawl = Pawl(library, path, memory_that_stays())
    pawl.save(number)
    threading.Thread(target=lambda: [pawl.text() for _ in iter(int, 1)], daemon=True).start()
    pause(number)
    if number % 2:
        sys.exit(0)


def leave_pythons_memory(library, path, number):
    """Python frees the tensor as it ends: the run is closed before that, as pawl/pawl.h says."""
    weights = (ctypes.c_float * FLOATS)()
    pawl = Pawl(library, path, ctypes.addressof(weights))
    atexit.register(pawl.close)
    pawl.save(number)
    globals()["kept"] = weights
    pause(number)


def unload(library, path, number):
    """Lets go of the library while its threads run: their code must stay."""
    pawl = Pawl(library, path, memory_that_stays())
    pawl.save(number)
    _ctypes.dlclose(pawl.pawl._handle)
    pause(number)


def fork(library, path, number):
    """A child that calls, and then ends as programs do, with all its parent has open."""
    pawl = Pawl(library, path, memory_that_stays())
    for step in range(8):
        pawl.save(1000 * number + step)
        pause(step)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            began = time.monotonic()
            status = pawl.fence() if step % 2 else pawl.close()
            took = time.monotonic() - began
            good = status == PAWL_EUSAGE and "this process was forked" in pawl.text() and took < 1
            sys.exit(0 if good else f"{status} after {took} s: {pawl.text()}")
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit(f"the child ended with wait status {status:#x}")
        pawl.ok(pawl.wait())
    pawl.ok(pawl.close())


LIVES = {"leave": leave, "leave_pythons_memory": leave_pythons_memory, "unload": unload,
         "fork": fork}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libpawl", required=True)
    parser.add_argument("--life", nargs=3, metavar=("NAME", "RUN", "NUMBER"))
    options = parser.parse_args()
    if options.life:
        name, path, number = options.life
        LIVES[name](options.libpawl, path, int(number))
        return
    failed = 0
    with tempfile.TemporaryDirectory(prefix="pawl-exit-") as folder:
        for name, times in (("leave", 40), ("leave_pythons_memory", 8), ("unload", 5),
                            ("fork", 2)):
            for number in range(times):
                command = [sys.executable, __file__, "--libpawl", options.libpawl,
                           "--life", name, f"{folder}/run", str(number)]
                code = subprocess.run(command, timeout=60, check=False).returncode
                failed += code != 0
                if code != 0:
                    print(f"{name}, number {number}: ended with {code}")
            print(f"{name}: {times} processes")
    sys.exit(f"{failed} failed" if failed else 0)


main()
