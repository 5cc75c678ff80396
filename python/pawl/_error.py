# SPDX-License-Identifier: Apache-2.0
"""Failures as exceptions: the text is libpawl's own, the fields are data."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import TYPE_CHECKING

from ._abi import ErrorPart, Status
from ._library import lib

if TYPE_CHECKING:
    from ._report import Report


def printable(text: str) -> str:
    """Text with what a terminal would act on, and bytes that are not UTF-8, escaped."""
    return "".join(
        c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))
        for c in text
    )


class Error(Exception):
    """What went wrong, with the next step. ``str()`` is the whole text, a part a line.

    Attributes:
        status: the category.
        attempt: what was attempted and what went wrong.
        path: absolute path of the file or directory, or None.
        entry: name of the entry of the state, or None.
        expected: what should have been there, or None.
        found: what was there, or None.
        system: the system's own words, or None.
        safe: what is still safe, or None.
        next: what to do next, or None.
        errno: the system's error number, or None.
        step: the step that was saved or read, or None.
        range: (offset, length) in bytes of the damaged or unwritten part of ``path``, or None.
    """

    status: Status = Status.EUSAGE
    attempt: str = ""
    path: str | None = None
    entry: str | None = None
    expected: str | None = None
    found: str | None = None
    system: str | None = None
    safe: str | None = None
    next: str | None = None
    errno: int | None = None
    step: int | None = None
    range: tuple[int, int] | None = None

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.attempt = text

    def __str__(self) -> str:
        lines = [self.attempt]
        for name in ("path", "entry", "expected", "found", "system", "safe", "next"):
            part = getattr(self, name)
            if part is not None:
                lines.append(f"  {name + ':':9} {printable(part)}")
        return "\n".join(lines)


class UsageError(Error, ValueError):
    """The call itself is wrong: a bad argument, a bad name, a bad order."""


class NotFound(Error, KeyError):
    """No such run, step, entry or file."""


class Mismatch(Error):
    """Checkpoint and state do not fit each other.

    Attributes:
        report: every difference, where a restore was attempted; else None.
    """

    report: Report | None = None


class Damaged(Error):
    """Bytes are missing, or are not those that were written."""


class Unsupported(Error):
    """Of a newer format, or something that this build cannot do."""


class Busy(Error):
    """Someone else is using it: another writer, a save in flight, a reader."""


class NoSpace(Error, OSError):
    """Disk, quota, inodes or file-size limit exhausted."""


class PermissionDenied(Error, PermissionError):
    """The system refused access."""


class StorageError(Error, OSError):
    """The storage failed."""


class Timeout(Error, TimeoutError):
    """Time is up; what was waited for goes on."""


class Canceled(Error):
    """The caller cancelled it: a save, a verification."""


class OutOfMemory(Error, MemoryError):
    """Memory, threads or file descriptors exhausted."""


class LimitExceeded(Error):
    """A named maximum of the library or of the format was passed."""


class InternalError(Error):
    """A defect in libpawl; please report it."""


class PeerFailed(Error):
    """Another rank died, failed to answer, or did not answer in time."""


_CLASSES: dict[Status, type[Error]] = {
    Status.EUSAGE: UsageError,
    Status.ENOTFOUND: NotFound,
    Status.EMISMATCH: Mismatch,
    Status.EDAMAGED: Damaged,
    Status.EUNSUPPORTED: Unsupported,
    Status.EBUSY: Busy,
    Status.ENOSPACE: NoSpace,
    Status.EPERMISSION: PermissionDenied,
    Status.EIO: StorageError,
    Status.ETIMEOUT: Timeout,
    Status.ECANCELED: Canceled,
    Status.ENOMEM: OutOfMemory,
    Status.ELIMIT: LimitExceeded,
    Status.EINTERNAL: InternalError,
    Status.EPEER: PeerFailed,
}


class _OwnError:
    """A ``pawl_error``."""

    def __init__(self) -> None:
        self.handle: ctypes.c_void_p = lib.pawl_error_new()
        self._free = lib.pawl_error_free  # which a module that is being torn down has no more

    def __del__(self) -> None:
        self._free(self.handle)


class _ErrorOfThread(threading.local):
    """One for each thread. What a thread has here goes with it, but ``__del__`` of this class would not be called."""

    def __init__(self) -> None:
        self.error = _OwnError()
        self.kept: BaseException | None = None


_of_thread = _ErrorOfThread()


def error_handle() -> ctypes.c_void_p:
    """The error that calls of this thread fill."""
    return _of_thread.error.handle


def decode(text: bytes | None) -> str | None:
    """Text of the library; bytes that are not UTF-8, as names of files may have, are kept."""
    return None if text is None else text.decode("utf-8", "surrogateescape")


#: Calls and choices that messages advise, as this package has them.
_CALLS = {
    "pawl_run_open": "pawl.Run(...)",
    "pawl_run_close": "Run.close()",
    "pawl_run_gc": "Run.gc()",
    "pawl_run_pin": "Run.pin()",
    "pawl_run_rebuild": "Run.rebuild()",
    "pawl_run_remove": "Run.remove()",
    "pawl_cancel": "Run.cancel()",
    "pawl_fence": "Run.fence()",
    "pawl_restore": "Run.restore()",
    "pawl_save": "Run.save()",
    "pawl_save_final": "Run.save_final()",
    "pawl_wait": "Run.wait()",
    "pawl_meet": "Run.meet()",
    "pawl_checkpoint_open": "pawl.open()",
    "pawl_checkpoint_read": "Checkpoint[name][...]",
    "pawl_checkpoint_read_rank": "Checkpoint.read_rank()",
    "pawl_checkpoint_restore": "Checkpoint.restore()",
    "pawl_group": "pawl.Group",
    "pawl_restore_options": "the arguments of Run.restore()",
    "pawl_run_options": "the arguments of pawl.Run",
    "pawl_save_options": "the arguments of Run.save()",
    "pawl_state_add_tensor": "State[name] = ...",
    "PAWL_IO_AUTO": "io='auto'",
    "PAWL_ON_BUSY_WAIT": "on_busy='wait'",
    "PAWL_ROLE_SLOT": "'slot'",
}


#: Of advice alone, and not what is part of a path: users' names may be those of calls.
_CALL = re.compile(r"(?<![\w/.-])(?:pawl_[a-z_]+|PAWL_[A-Z_]+)(?![\w/-])")
_ADVICE = re.compile(r"^  (?:safe|next): .*$", re.MULTILINE)
#: An option as C sets it, a rename as C lists it, and where C's declarations are.
_SET = re.compile(r"\bset options\.([a-z_]+) = (?:PAWL_POLICY_([A-Z]+)|([01]))(?!\w)")
_RENAMES = re.compile(r'\badd ((?:\{"[^"]*", "[^"]*"\}(?:, )?)+)(.*?) to options\.renames\b')
_RENAME = re.compile(r'\{("[^"]*"), ("[^"]*")\}')
_OPTION = re.compile(r"(?<![\w/.\"'-])options\.([a-z_]+)")
_HEADER = re.compile(r"(?<=[a-z]) in pawl/[a-z]+\.h(?!\w)")


def _argument(found: re.Match[str]) -> str:
    option, policy, number = found.groups()
    return f"pass {option}=" + (f"'{policy.lower()}'" if policy else str(number == "1"))


def _renames(found: re.Match[str]) -> str:
    rules = ", ".join(f"{a[1:-1]!r}: {b[1:-1]!r}" for a, b in _RENAME.findall(found[1]))
    return f"pass renames={{{rules}}}{found[2]}"


def in_python(text: str | None) -> str | None:
    """Advice with the names of this package's own calls and arguments."""
    if not text:
        return text
    text = _OPTION.sub(r"\1", _RENAMES.sub(_renames, _SET.sub(_argument, text)))
    named = _CALL.sub(lambda call: _CALLS.get(call.group(), call.group()), text)
    return named if named == text else _HEADER.sub("", named)


def log_text(text: bytes) -> str:
    """What the library logs, its advice with the names of this package's own calls."""
    return _ADVICE.sub(lambda line: in_python(line.group()) or "", decode(text) or "")


def _part(handle: ctypes.c_void_p, part: ErrorPart) -> str | None:
    return decode(lib.pawl_error_get(handle, part))


def _range(handle: ctypes.c_void_p) -> tuple[int, int] | None:
    offset, length = ctypes.c_uint64(), ctypes.c_uint64()
    if lib.pawl_error_range(handle, ctypes.byref(offset), ctypes.byref(length)) == 0:
        return None
    return offset.value, length.value


def failure(status: int) -> Error:
    """The exception for a call of this thread that has just failed."""
    handle = error_handle()
    kind = Status(status)
    error = _CLASSES.get(kind, InternalError)(_part(handle, ErrorPart.ATTEMPT) or kind.name)
    error.status = kind
    error.path = _part(handle, ErrorPart.PATH)
    error.entry = _part(handle, ErrorPart.ENTRY)
    error.expected = _part(handle, ErrorPart.EXPECTED)
    error.found = _part(handle, ErrorPart.FOUND)
    error.system = _part(handle, ErrorPart.SYSTEM)
    error.safe = in_python(_part(handle, ErrorPart.SAFE))
    error.next = in_python(_part(handle, ErrorPart.NEXT))
    error.errno = lib.pawl_error_errno(handle) or None
    step = lib.pawl_error_step(handle)
    error.step = None if step < 0 else step
    error.range = _range(handle)
    return error


def keep(error: BaseException) -> None:
    """For a function that libpawl calls, which cannot raise: the call that this thread is in raises it."""
    _of_thread.kept = error


def raise_kept() -> None:
    """After a call."""
    error = _of_thread.kept
    if error is not None:
        _of_thread.kept = None
        raise error


def check(status: int) -> None:
    """Raises what a call of this thread has just reported, unless it succeeded."""
    raise_kept()
    if status != Status.OK:
        raise failure(status)
