# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all: written under a temporary name, synced, checked, renamed.

At every instant the name has what it had before, or all that was written; when `File.close` returns, the
file is durable. A writer that fails removes what it wrote. What one leaves that is killed nobody holds the
lock of: a process of that host that writes in that directory removes it, with its first file there or
within a minute.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import inspect
import io
import os
import re
import secrets
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ._abi import Status
from ._error import Error, NoSpace, PermissionDenied, StorageError, UsageError

_HOST = re.sub(r"[^A-Za-z0-9.]", "-", os.uname().nodename)[:64]
#: What a file is called while it is written; its writer holds a lock on it.
TEMPORARY = re.compile(r"\.pawl-write-(?P<host>.+)-[0-9]+-[0-9a-f]{16}")
_STEP = re.compile(r"step-[0-9]{8,}")
_OWNER = re.compile(r"owner-[0-9]{8,}")
BLOCK = 1 << 20
LOOK_EVERY_S = 60.0
_MOST_LOOKED = 1000
#: When this process last looked for leftovers in a directory.
_looked: dict[str, float] = {}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
#: What callers of fsspec ask for by Python's own names.
_PLAIN = (Error, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_UNTOUCHED = "what was there before is untouched"


@contextlib.contextmanager
def explained(attempt: str, path: str, safe: str = _UNTOUCHED) -> Iterator[None]:
    """Raises what the system refuses as this package's errors."""
    try:
        yield
    except _PLAIN:
        raise
    except OSError as why:
        text = f"{attempt}: {why.strerror}"
        error: Error
        if why.errno in _FULL:
            error = NoSpace(text)
            error.status, error.next = Status.ENOSPACE, "free space or raise the limit (df -h, df -i, ulimit -f)"
        elif why.errno in _FORBIDDEN:
            error = PermissionDenied(text)
            error.status, error.next = Status.EPERMISSION, "let this user write there, or give another path"
        else:
            error = StorageError(text)
            error.status, error.next = Status.EIO, f"see what the storage lacks: pawl doctor {os.path.dirname(path)}"
        error.path, error.safe, error.errno = path, safe, why.errno
        raise error from why


def refusal(what: str, path: str, then: str) -> UsageError:
    """The error for what is not done at all."""
    error = UsageError(what)
    error.path, error.safe, error.next = path, _UNTOUCHED, then
    return error


def sync_directory(path: str) -> None:
    """Makes durable which names a directory has."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some storage syncs no directories
            raise
    finally:
        os.close(directory)


def refuse_in_steps(path: str, what: str) -> None:
    """Refuses to change anything in the directory of a run's step, or the directory itself."""
    path = os.path.realpath(path)
    while path != (above := os.path.dirname(path)):
        if _STEP.fullmatch(os.path.basename(path)) and os.path.isdir(above) and is_run(above):
            then = f"pawl rm {above}@{int(path.rpartition('-')[2])} removes the step; write files elsewhere"
            raise refusal(f"{what}: it belongs to a checkpoint of the run {above}", path, then)
        path = above


def is_run(path: str) -> bool:
    """Whether a directory is a run: it has an owner, or a committed step."""

    def belongs(name: str) -> bool:
        manifest = os.path.join(path, name, "manifest.json")
        return bool(_OWNER.fullmatch(name) or (_STEP.fullmatch(name) and os.path.isfile(manifest)))

    return any(map(belongs, os.listdir(path)))


def _remove_leftovers(directory: str) -> None:
    """Removes what killed processes of this host left: nobody holds the lock. What cannot be removed stays.

    Looks once a minute: a large directory is not read again for each of its files.
    """
    now = time.monotonic()
    if now - _looked.get(directory, -LOOK_EVERY_S) < LOOK_EVERY_S:
        return
    if len(_looked) >= _MOST_LOOKED:
        _looked.clear()
    _looked[directory] = now
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(directory)
    for name in names:
        match = TEMPORARY.fullmatch(name)
        if match and match["host"] == _HOST:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
                finally:
                    os.close(fd)


def _create(directory: str) -> tuple[str, int]:
    """A new file under a temporary name, locked: its path and descriptor."""
    while True:
        name = f".pawl-write-{_HOST}-{os.getpid()}-{secrets.token_hex(8)}"
        path = os.path.join(directory, name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # without locks nobody removes it, either
            fcntl.flock(fd, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):  # somebody else had the lock first, and removed it
            if os.path.samestat(os.stat(path), os.fstat(fd)):
                return path, fd
        os.close(fd)


def _arguments(frame: FrameType) -> list[Any]:
    """Of the function that runs in a frame; those behind a star one by one."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    values = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & inspect.CO_VARARGS:
        values.extend(frame.f_locals.get(code.co_varnames[count], ()))
    return values


def _leaving(before: BaseException | None) -> BaseException | None:
    """The exception by which a ``with`` block is being left whose end closes the file.

    Objects that have a file, such as fsspec's ``OpenFile``, close it in their ``__exit__``, and do not say why.
    ``ExitStack`` does: what it has caught itself is an exception no more.
    """
    error, frame = sys.exc_info()[1], sys._getframe(1).f_back
    while error is not None and error is not before and frame is not None:
        if frame.f_code is contextlib.ExitStack.__exit__.__code__:
            return None
        if frame.f_code.co_name == "__exit__" and any(value is error for value in _arguments(frame)):
            return error
        frame = frame.f_back
    return None


class _Bytes(io.FileIO):
    """The bytes of a new file: knows how long it must be, and what went wrong."""

    mode = "wb"  # by which pyarrow, for one, tells what a file is for
    failure: OSError | None = None

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, "r+b", closefd=False)
        self.name, self.end = path, 0  # type: ignore[misc]

    def write(self, data: Any) -> int:
        with self._kept():
            count = super().write(data)
            self.end = max(self.end, self.tell())
        return count

    def truncate(self, size: int | None = None) -> int:
        with self._kept():
            self.end = super().truncate(size)
        return self.end

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            with explained(f"{self.name} is not written", self.name):
                yield
        except OSError as error:
            self.failure = error
            raise


class File(io.BufferedRandom):
    """A file that is written: published by `close`, or by `commit` where a transaction decides."""

    raw: _Bytes
    _fd = -1

    def __init__(self, path: str, exclusive: bool, autocommit: bool) -> None:
        self.path = os.path.realpath(path)  # a link stays; what it leads to is replaced
        self._what = f"{path} is not written"
        self._exclusive, self._autocommit, self._pid = exclusive, autocommit, os.getpid()
        self._before = sys.exc_info()[1]
        self._directory = os.path.dirname(self.path)
        with explained(self._what, self.path):
            refuse_in_steps(self.path, self._what)
            found = self._find()
            if not os.path.isdir(self._directory):
                raise FileNotFoundError(errno.ENOENT, "no such directory", self._directory)
            _remove_leftovers(self._directory)
            self._temporary, self._fd = _create(self._directory)
        try:
            if found is not None:
                os.fchmod(self._fd, stat.S_IMODE(found.st_mode))
            super().__init__(_Bytes(self._fd, path), BLOCK)  # type: ignore[arg-type]
        except BaseException:
            self.discard()
            raise

    @property
    def temporary(self) -> str:
        """Where its bytes are until it appears."""
        return self._temporary

    def is_of(self, path: str) -> bool:
        """Is it complete, and to appear under that name?"""
        return self.closed and self._fd >= 0 and self.path == os.path.realpath(path)

    def _find(self) -> os.stat_result | None:
        """What is to be replaced."""
        if not os.path.lexists(self.path):
            return None
        if self._exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        found = os.stat(self.path)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        if not stat.S_ISREG(found.st_mode):
            raise refusal(f"{self._what}: it is no regular file", self.path, "write to it by Python's own open")
        if not os.access(self.path, os.W_OK):  # a rename would not ask
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path)
        return found

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._give_up(error)
        self._close(None)

    def __del__(self) -> None:
        try:
            if self._fd >= 0 and self._pid == os.getpid():
                what = "committed" if self.closed else "closed"
                warnings.warn(f"{self._what}: it was never {what}; {_UNTOUCHED}", RuntimeWarning, stacklevel=2)
        finally:  # a warning may be an error
            self.discard()

    def close(self) -> None:
        """Makes the file durable, and lets it appear unless a transaction does."""
        self._close(_leaving(self._before))

    def _close(self, error: BaseException | None) -> None:
        if self._fd < 0 or self.closed:
            return
        if error is not None:
            self._give_up(error)
            return
        try:
            self._complete()
            if self._autocommit:
                self._publish()
        except BaseException:
            self.discard()
            raise

    def _give_up(self, error: BaseException) -> None:
        failure = None if self.closed else self.raw.failure
        self.discard()
        if failure is not None and failure is not error and isinstance(error, Exception):
            raise failure  # torch.save, for one, replaces it by "unexpected pos 704 vs 598"

    def _complete(self) -> None:
        self._require_own()
        if self.raw.failure is not None:
            raise self.raw.failure
        self.flush()
        with explained(self._what, self.path):
            os.fsync(self._fd)
            found = os.fstat(self._fd)
            if found.st_nlink == 0:
                raise OSError(errno.EIO, f"somebody removed {self._temporary}")
            if found.st_size < self.raw.end:
                raise OSError(errno.EIO, f"it has {found.st_size} bytes where {self.raw.end} were written")
        self.raw.close()

    def _require_own(self) -> None:
        if self._pid != os.getpid():
            raise refusal(f"{self._what}: another process opened it", self.path, "close it where it was opened")

    def _publish(self) -> None:
        self._require_own()
        with explained(self._what, self.path):
            if self._exclusive:
                self._link()
            else:
                os.replace(self._temporary, self.path)
        with explained(f"{self.path} may not be durable", self.path, "the new file or the old one, whole"):
            if self._exclusive:
                os.unlink(self._temporary)
            sync_directory(self._directory)
        self._let_go()

    def _link(self) -> None:
        try:
            os.link(self._temporary, self.path)
        except OSError as why:
            if why.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            then = 'write it with mode "wb", which replaces what another writer has made meanwhile'
            what = f'{self._what}: mode "xb" needs hard links, and this filesystem has none'
            raise refusal(what, self.path, then) from why

    def commit(self) -> None:
        """Lets the file appear, for a transaction; one that failed does not."""
        self.close()
        if self._fd >= 0:
            try:
                self._publish()
            except BaseException:
                self.discard()
                raise

    def discard(self) -> None:
        """Gives the file up: what was there before stays."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                if self._pid == os.getpid():
                    os.unlink(self._temporary)
            self._let_go()

    def _let_go(self) -> None:
        fd, self._fd, self._before = self._fd, -1, None
        with contextlib.suppress(AttributeError, ValueError):  # not made yet
            self.raw.close()
        os.close(fd)
