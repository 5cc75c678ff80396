# SPDX-License-Identifier: Apache-2.0
"""Which checkpoints there are below a directory."""

from __future__ import annotations

import ctypes
import dataclasses
import os

from . import _abi
from ._abi import StepStatus
from ._error import check, decode, error_handle
from ._handle import path_bytes
from ._library import lib
from ._run import log_options


@dataclasses.dataclass(frozen=True)
class Found:
    """A run, or a checkpoint of another tool.

    Attributes:
        path: relative to the directory; ".": the directory itself.
        format: "pawl", "safetensors", "TensorFlow", ...; None: nothing says which.
        status: "committed": all is there that names and the heads of files ask for; "unfinished",
            "damaged" or "unreadable".
        why: why it is not committed, or None.
        step: of a run the newest; else a number in the name; None: there is none.
        steps: of a run: how many are committed; else 0.
        bytes: of its files; of a run: of the newest step.
        files: how many there are, as `bytes`.
        time: when one of these was changed last, in seconds since 1970; None: unknown.
    """

    path: str
    format: str | None
    status: str
    why: str | None
    step: int | None
    steps: int
    bytes: int
    files: int
    time: float | None


@dataclasses.dataclass(frozen=True)
class Survey:
    """What there is below a directory.

    Attributes:
        found: ascending by path, numbers in it by their value.
        left_out: what was not looked at, and why; None: all was.
    """

    found: tuple[Found, ...]
    left_out: str | None


def survey(path: str | os.PathLike[str]) -> Survey:
    """The checkpoints below a directory, of pawl and of other tools. None is opened, and no tensor is read.

    It looks six levels down, and at a bounded number of names.

    ::

        for found in pawl.survey("runs").found:
            print(found.path, found.format, found.step, found.status)

    Raises:
        NotFound: there is no such directory.
        UsageError: it is a file.
    """
    options, pointer = _abi.OpenOptions(log=ctypes.pointer(log_options())), ctypes.c_void_p()
    check(lib.pawl_survey_open(path_bytes(path), ctypes.byref(options), ctypes.byref(pointer), error_handle()))
    try:
        found = (_found(lib.pawl_survey_get(pointer, i).contents) for i in range(lib.pawl_survey_count(pointer)))
        return Survey(tuple(found), decode(lib.pawl_survey_left_out(pointer)))
    finally:
        lib.pawl_survey_free(pointer)


def _found(it: _abi.Found) -> Found:
    return Found(
        path=os.fsdecode(it.path),
        format=decode(it.format),
        status=StepStatus(it.status).name.lower(),
        why=decode(it.why),
        step=it.step if it.step >= 0 else None,
        steps=it.steps,
        bytes=it.bytes,
        files=it.files,
        time=it.unix_time_ns / 1e9 if it.unix_time_ns else None,
    )
