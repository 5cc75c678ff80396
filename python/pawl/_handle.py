# SPDX-License-Identifier: Apache-2.0
"""Handles of libpawl: one thread at a time, not in a forked child, closed once."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NoReturn, TypeVar

from ._error import Error, UsageError

logger = logging.getLogger("pawl")

T = TypeVar("T")


class _Inside(threading.local):
    """How many functions of the program this thread is in that libpawl has called."""

    calls = 0


_inside = _Inside()


def call_back(call: Callable[..., T], *arguments: Any) -> T:
    """Calls what libpawl asks for: a handle whose call it is takes no other one.

    No context manager: what a signal handler raises between the two halves of one leaves the second
    undone for as long as somebody keeps the traceback.
    """
    before = _inside.calls
    try:
        _inside.calls = before + 1
        return call(*arguments)
    finally:
        _inside.calls = before


class Handle:
    """A pointer into libpawl, with a lock: calls of several threads come one after another."""

    _what: ClassVar[str] = "handle"
    _getpid = staticmethod(os.getpid)  # for finalizers: a module that is being torn down has it no more

    def __init__(self) -> None:
        self._pointer: ctypes.c_void_p | None = None
        self._lock = threading.RLock()  # entered in C: no signal handler runs between taking it and holding it
        self._pid = os.getpid()
        self._held_at: int | None = None  # how many of the program's functions this thread was in when it took it

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError(
                f"this {self._what} belongs to the process that opened it (pid {self._pid}); a forked child "
                "opens its own, or is started by spawn instead of fork"
            )

    @contextlib.contextmanager
    def _held(self) -> Iterator[ctypes.c_void_p]:
        """The pointer, for this thread alone."""
        self._check_process()
        with self._lock:
            self._refuse_inside()
            if self._pointer is None:
                raise UsageError(f"the {self._what} is closed")
            before = self._held_at
            try:
                self._held_at = _inside.calls if before is None else before
                yield self._pointer
            finally:
                self._held_at = before

    def _refuse_inside(self) -> None:
        """With the lock. Libpawl may be in a call of it, and have called what calls it now."""
        if self._held_at is not None and _inside.calls > self._held_at:
            raise UsageError(
                f"the {self._what} is in a call, which has called this function (progress=, supply=, or a handler of "
                "the log): use it when that call has returned"
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UsageError(
            f"a {self._what} can be neither pickled nor copied: a process that needs one makes its own, a worker of a "
            "DataLoader where it first reads an item"
        )

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def _take(self) -> ctypes.c_void_p | None:
        """The pointer, which is this handle's no more; None where it is closed, or a parent's."""
        if self._getpid() != self._pid:
            return None
        with self._lock:
            self._refuse_inside()
            pointer, self._pointer = self._pointer, None
            return pointer


def close_after(error: BaseException | None, close: Callable[[], None], path: str) -> None:
    """Closes, at the end of a ``with`` block; where that ended by an `error`, another failure is only logged."""
    try:
        close()
    except Error as why:
        if error is None:
            raise
        logger.error("closing %s after another failure: %s", path, why)


def fill_options(options: ctypes.Structure, values: dict[str, Any]) -> None:
    """Sets members that were given; None is "not given"."""
    for name, value in values.items():
        if value is None:
            continue
        try:
            setattr(options, name, value)
        except TypeError:
            wanted = "a number" if isinstance(getattr(options, name), float) else "a whole number"
            raise TypeError(f"{name}={value!r} is of the wrong type: {type(value).__name__}, not {wanted}") from None
        held = getattr(options, name)
        if isinstance(held, int) and held != value:
            raise _out_of_range(name, value, 8 * getattr(type(options), name).size)


# ctypes keeps the lower bits of a number that is too large, and says nothing.


def _out_of_range(what: str, number: object, bits: int) -> UsageError:
    return UsageError(f"{what}={number} is out of range: its place in the interface has {bits} bits")


def whole_number(what: str, value: object, of: type[ctypes.c_int64 | ctypes.c_int] = ctypes.c_int64) -> int:
    """A number that is handed to libpawl as a signed integer of that type."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{what}={value!r} is not a whole number") from None
    bits = 8 * ctypes.sizeof(of)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise _out_of_range(what, number, bits)
    return number


def whole_numbers(what: str, values: Iterable[int], of: type[ctypes.c_int64 | ctypes.c_int] = ctypes.c_int64) -> Any:
    """An array of them; of one element where there are none."""
    numbers = [whole_number(what, value, of) for value in values]
    return (of * max(len(numbers), 1))(*numbers)


def real_number(what: str, value: Any, wanted: str = "a number") -> float:
    """A number, or what converts itself to one, as NumPy's scalars and a tensor of one element do; text does not."""
    try:
        number: float = ctypes.c_double(value).value
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{what} is {wanted}, not {type(value).__name__}: {value!r}") from None
    except OverflowError:
        raise UsageError(f"{what} is out of range: it is too large for a float") from None
    return number


def seconds(what: str, value: Any) -> float:
    """A time that a call may take."""
    number = real_number(what, value, "a number of seconds")
    if math.isnan(number):
        raise UsageError(f"{what} is a number of seconds, not NaN")
    return number


def require_mapping(what: str, of: str, value: object) -> None:
    """An argument has items, as a dict has."""
    if not hasattr(value, "items"):
        raise TypeError(f"{what} is a mapping of {of}, not {type(value).__name__}: {value!r}")


def size(what: str, value: object) -> int:
    """A number of bytes, 0 or more."""
    number = whole_number(what, value)
    if number < 0:
        raise UsageError(f"{what}={number} is negative")
    return number


def switch(what: str, value: Any) -> int:
    """A truth value, which NumPy has, too, for an int of libpawl; text and None are none."""
    if not isinstance(value, int) and type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{what} is True or False, not {type(value).__name__}: {value!r}")
    return int(bool(value))


def texts(what: str, values: Iterable[str]) -> list[bytes]:
    """Names; one alone is given as a list, too."""
    if isinstance(values, (str, bytes)):
        raise UsageError(f"{what} is a list of names, not a string")
    if not isinstance(values, Iterable):
        raise TypeError(f"{what} is a list of names, not {type(values).__name__}: {values!r}")
    return [text_bytes(f"a name of {what}", value) for value in values]


def path_text(path: str | os.PathLike[str], what: str = "the path") -> str:
    """A path as text, or bytes as they are."""
    try:
        return os.fspath(path)
    except TypeError:
        raise TypeError(f"{what} is a str, bytes or os.PathLike, not {type(path).__name__}: {path!r}") from None


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path for libpawl, which takes any bytes but NUL."""
    path = path_text(path)
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise UsageError(f"the path {path!r} has half a surrogate pair in it, which no file name can have") from None
    if b"\0" in raw:
        raise UsageError(f"the path {path!r} has a NUL character in it")
    return raw


def text_bytes(what: str, text: str) -> bytes:
    """Text for libpawl."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}: {text!r}")
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} {text!r} has half a surrogate pair in it, which UTF-8 cannot write") from None
    if b"\0" in raw:
        raise UsageError(f"{what} {text!r} has a NUL character in it")
    return raw


def counted(n: int, one: str, many: str = "") -> str:
    """So many of something: "1 entry", "2 entries"; `many`: else `one` with an s."""
    return f"{n} {one if n == 1 else many or one + 's'}"
