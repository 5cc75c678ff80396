# SPDX-License-Identifier: Apache-2.0
"""The enumerations of libpawl, as in include/pawl; tests/python/package/test_abi.py compares them."""

from __future__ import annotations

import enum


class Number(enum.IntEnum):
    """An enumeration that may have grown: what a newer library adds is named by its number."""

    @classmethod
    def _missing_(cls, value: object) -> Number | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"UNKNOWN_{value}", value
        return member


class Status(Number):
    """``pawl_status``: the category of a failure."""

    OK = 0
    EUSAGE = 1
    ENOTFOUND = 2
    EMISMATCH = 3
    EDAMAGED = 4
    EUNSUPPORTED = 5
    EBUSY = 6
    ENOSPACE = 7
    EPERMISSION = 8
    EIO = 9
    ETIMEOUT = 10
    ECANCELED = 11
    ENOMEM = 12
    ELIMIT = 13
    EINTERNAL = 14
    EPEER = 15


class ErrorPart(Number):
    """``pawl_error_part``: the parts of an error's text."""

    ATTEMPT = 0
    PATH = 1
    ENTRY = 2
    EXPECTED = 3
    FOUND = 4
    SYSTEM = 5
    SAFE = 6
    NEXT = 7


class LogLevel(Number):
    """``pawl_log_level``."""

    NONE = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


class Dtype(Number):
    """``pawl_dtype``: types of elements, by their names in safetensors files."""

    BOOL = 1
    F4 = 2
    F6_E2M3 = 3
    F6_E3M2 = 4
    U8 = 5
    I8 = 6
    F8_E5M2 = 7
    F8_E4M3 = 8
    F8_E8M0 = 9
    F8_E4M3FNUZ = 10
    F8_E5M2FNUZ = 11
    I16 = 12
    U16 = 13
    F16 = 14
    BF16 = 15
    I32 = 16
    U32 = 17
    F32 = 18
    C64 = 19
    F64 = 20
    I64 = 21
    U64 = 22


class Kind(Number):
    """``pawl_kind``: what an entry is."""

    TENSOR = 1
    BOOL = 2
    INT64 = 3
    FLOAT64 = 4
    STRING = 5
    BYTES = 6
    JSON = 7


class Role(Number):
    """``pawl_role``: what an entry is for."""

    MODEL = 0
    SLOT = 1
    HYPERPARAMETER = 2
    STEP = 3
    RNG = 4
    DATA_POSITION = 5
    BATCH_SIGNATURE = 6
    OTHER = 7


class OnBusy(Number):
    """``pawl_on_busy``: what a save does while the previous one is being written."""

    WAIT = 0
    SKIP = 1
    ERROR = 2


class Io(Number):
    """``pawl_io``: how bytes reach the storage."""

    AUTO = 0
    URING = 1
    THREADS = 2
    BUFFERED = 3


class IoPriority(Number):
    """``pawl_io_priority``."""

    DEFAULT = 0
    LOW = 1
    IDLE = 2


class Policy(Number):
    """``pawl_policy``: what a restore does with a difference."""

    DEFAULT = 0
    ERROR = 1
    ALLOW = 2
    CHECKPOINT = 3
    CALLER = 4


class Difference(Number):
    """``pawl_difference``: kinds of difference between a checkpoint and a state."""

    SHAPE = 1
    DTYPE = 2
    MISSING = 3
    UNEXPECTED = 4
    RENAMED = 5
    OPTIMIZER = 6
    SLOT = 7
    HYPERPARAMETER = 8
    KIND = 9
    BATCH = 10
    RANKS = 11


class Severity(Number):
    """``pawl_severity``."""

    NOTE = 1
    WARNING = 2
    ERROR = 3


class DoctorPart(Number):
    """``pawl_doctor_part``: what the doctor looks at; a set is their sum."""

    PATH = 1
    PROBE = 2
    CHECKPOINT = 4
    ENVIRONMENT = 8
    ALL = 15


class DiffKind(Number):
    """``pawl_diff_kind``."""

    ONLY_IN_A = 1
    ONLY_IN_B = 2
    DIFFERS_IN_KIND = 3
    DIFFERS_IN_DTYPE = 4
    DIFFERS_IN_SHAPE = 5
    DIFFERS_IN_ROLE = 6
    DIFFERS_IN_HYPERPARAMETER = 7
    DIFFERS_IN_VALUE = 8
    DIFFERS_IN_NUMBERS = 9


class Fate(Number):
    """``pawl_convert_fate``."""

    CONVERTED = 1
    LEFT_OUT = 2
    DROPPED = 3


class StepStatus(Number):
    """``pawl_step_status``."""

    COMMITTED = 1
    UNFINISHED = 2
    DAMAGED = 3
    UNREADABLE = 4


class EventKind(Number):
    """``pawl_event_kind``."""

    SAVE_BEGUN = 1
    SAVE_PROGRESS = 2
    SAVE_ENDED = 3
    RESTORED = 4
