# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libpawl, and declares its functions.

Calls that wait for storage or other processes release the interpreter's lock (``ctypes.CDLL``).
Short ones keep it (``ctypes.PyDLL``): letting it go and getting it back costs a hundred times what
they take where other threads are busy.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from typing import Any

from . import _abi

#: The interface that this package was written for: any library of the same minor version will do.
INTERFACE = "0.2"

_STATUS = c_int
_HANDLE = c_void_p
_TEXT = c_char_p
_OUT = POINTER(c_void_p)

_SHORT: dict[str, tuple[Any, list[Any]]] = {
    "pawl_version": (_TEXT, []),
    "pawl_error_new": (_HANDLE, []),
    "pawl_error_free": (None, [_HANDLE]),
    "pawl_error_errno": (c_int, [_HANDLE]),
    "pawl_error_step": (c_int64, [_HANDLE]),
    "pawl_error_range": (c_int, [_HANDLE, POINTER(c_uint64), POINTER(c_uint64)]),
    "pawl_error_get": (_TEXT, [_HANDLE, c_int]),
    "pawl_dtype_bits": (c_int, [c_int]),
    "pawl_shadow_memory": (_STATUS, [POINTER(_abi.Shadow), POINTER(_abi.Memory), _HANDLE]),
    "pawl_copy_failed": (_STATUS, [_HANDLE, c_int, c_void_p, _TEXT]),
    "pawl_state_new": (_STATUS, [_OUT, _HANDLE]),
    "pawl_state_free": (None, [_HANDLE]),
    "pawl_state_add_tensors": (_STATUS, [_HANDLE, POINTER(_abi.Tensor), c_size_t, _HANDLE]),
    "pawl_state_update_tensors": (_STATUS, [_HANDLE, POINTER(_abi.Tensor), c_size_t, _HANDLE]),
    "pawl_state_set_bool": (_STATUS, [_HANDLE, _TEXT, c_int, c_int, _HANDLE]),
    "pawl_state_set_int64": (_STATUS, [_HANDLE, _TEXT, c_int, c_int64, _HANDLE]),
    "pawl_state_set_float64": (_STATUS, [_HANDLE, _TEXT, c_int, c_double, _HANDLE]),
    "pawl_state_set_string": (_STATUS, [_HANDLE, _TEXT, c_int, _TEXT, _HANDLE]),
    "pawl_state_set_bytes": (_STATUS, [_HANDLE, _TEXT, c_int, _TEXT, c_size_t, _HANDLE]),
    "pawl_state_set_json": (_STATUS, [_HANDLE, _TEXT, c_int, _TEXT, _HANDLE]),
    "pawl_state_set_rank_bytes": (_STATUS, [_HANDLE, _TEXT, c_int, _TEXT, c_size_t, _HANDLE]),
    "pawl_state_get_bool": (_STATUS, [_HANDLE, _TEXT, POINTER(c_int), _HANDLE]),
    "pawl_state_get_int64": (_STATUS, [_HANDLE, _TEXT, POINTER(c_int64), _HANDLE]),
    "pawl_state_get_float64": (_STATUS, [_HANDLE, _TEXT, POINTER(c_double), _HANDLE]),
    "pawl_state_get_string": (_STATUS, [_HANDLE, _TEXT, POINTER(_TEXT), _HANDLE]),
    "pawl_state_get_bytes": (_STATUS, [_HANDLE, _TEXT, _OUT, POINTER(c_size_t), _HANDLE]),
    "pawl_state_remove": (_STATUS, [_HANDLE, _TEXT, _HANDLE]),
    "pawl_group_discover": (_STATUS, [POINTER(_TEXT), POINTER(_abi.GroupFound), _HANDLE]),
    "pawl_due": (c_int, [_HANDLE, c_int64]),
    "pawl_fenced": (c_int, [_HANDLE]),
    "pawl_fenced_tensors": (None, [_HANDLE, POINTER(_TEXT), c_size_t, POINTER(c_uint8)]),
    "pawl_preempted": (c_int, []),
    "pawl_preemption_watch": (_STATUS, [POINTER(c_int), c_size_t, _HANDLE]),
    "pawl_preemption_unwatch": (None, []),
    "pawl_batch_check_new": (_STATUS, [_OUT, _HANDLE]),
    "pawl_batch_check_free": (None, [_HANDLE]),
    "pawl_batch_check_next": (_STATUS, [_HANDLE, POINTER(_abi.Array), c_size_t, c_size_t, _HANDLE]),
    "pawl_batch_check_signature": (_TEXT, [_HANDLE]),
    "pawl_check_data_position": (_STATUS, [_HANDLE, _TEXT, c_int64, _HANDLE]),
    "pawl_report_free": (None, [_HANDLE]),
    "pawl_report_count": (c_size_t, [_HANDLE]),
    "pawl_report_get": (POINTER(_abi.ReportItem), [_HANDLE, c_size_t]),
    "pawl_report_step": (c_int64, [_HANDLE]),
    "pawl_report_totals": (_STATUS, [_HANDLE, POINTER(_abi.ReportCounts), _HANDLE]),
    "pawl_report_json": (_TEXT, [_HANDLE]),
    "pawl_report_next": (POINTER(_abi.ReportAdvice), [_HANDLE]),
    "pawl_diff_kind_name": (_TEXT, [c_int]),
    "pawl_convert_formats": (_TEXT, []),
    "pawl_survey_free": (None, [_HANDLE]),
    "pawl_survey_count": (c_size_t, [_HANDLE]),
    "pawl_survey_get": (POINTER(_abi.Found), [_HANDLE, c_size_t]),
    "pawl_survey_left_out": (_TEXT, [_HANDLE]),
    "pawl_catalog_free": (None, [_HANDLE]),
    "pawl_catalog_count": (c_size_t, [_HANDLE]),
    "pawl_catalog_get": (POINTER(_abi.StepInfo), [_HANDLE, c_size_t]),
    "pawl_checkpoint_describe": (_STATUS, [_HANDLE, POINTER(_abi.CheckpointInfo), _HANDLE]),
    "pawl_entries_free": (None, [_HANDLE]),
}

_WAITING: dict[str, tuple[Any, list[Any]]] = {
    "pawl_run_open": (_STATUS, [_TEXT, POINTER(_abi.RunOptions), _OUT, _HANDLE]),
    "pawl_run_close": (_STATUS, [_HANDLE, c_double, _HANDLE]),
    "pawl_save": (_STATUS, [_HANDLE, _HANDLE, c_int64, POINTER(_abi.SaveOptions), _HANDLE]),
    "pawl_save_final": (
        _STATUS,
        [_HANDLE, _HANDLE, c_int64, POINTER(_abi.SaveOptions), c_double, _HANDLE],
    ),
    "pawl_check_gradients": (
        _STATUS,
        [POINTER(_abi.Array), c_size_t, POINTER(_abi.Array), c_size_t, c_size_t, _HANDLE],
    ),
    "pawl_fence": (_STATUS, [_HANDLE, c_double, _HANDLE]),
    "pawl_wait": (_STATUS, [_HANDLE, c_double, POINTER(_abi.SaveStats), _HANDLE]),
    "pawl_meet": (_STATUS, [_HANDLE, c_double, _HANDLE]),
    "pawl_cancel": (_STATUS, [_HANDLE, c_double, _HANDLE]),
    "pawl_restore": (_STATUS, [_HANDLE, _HANDLE, POINTER(_abi.RestoreOptions), _OUT, _HANDLE]),
    "pawl_run_pin": (_STATUS, [_HANDLE, c_int64, c_int, _HANDLE]),
    "pawl_run_remove": (_STATUS, [_HANDLE, c_int64, c_int, _HANDLE]),
    "pawl_run_gc": (_STATUS, [_HANDLE, c_int, _abi.GC_FUNCTION, c_void_p, _HANDLE]),
    "pawl_run_rebuild": (_STATUS, [_HANDLE, c_int64, c_int, _HANDLE]),
    "pawl_survey_open": (_STATUS, [_TEXT, POINTER(_abi.OpenOptions), _OUT, _HANDLE]),
    "pawl_catalog_open": (_STATUS, [_TEXT, POINTER(_abi.OpenOptions), _OUT, _HANDLE]),
    "pawl_checkpoint_open": (_STATUS, [_TEXT, POINTER(_abi.OpenOptions), _OUT, _HANDLE]),
    "pawl_checkpoint_close": (None, [_HANDLE]),
    "pawl_checkpoint_find": (_STATUS, [_HANDLE, _TEXT, POINTER(_abi.EntryInfo), _HANDLE]),
    "pawl_checkpoint_read": (
        _STATUS,
        [_HANDLE, _TEXT, POINTER(c_int64), POINTER(c_int64), c_void_p, c_size_t, _HANDLE],
    ),
    "pawl_checkpoint_read_rank": (
        _STATUS,
        [_HANDLE, _TEXT, c_int, c_void_p, c_size_t, POINTER(c_size_t), _HANDLE],
    ),
    "pawl_checkpoint_restore": (
        _STATUS,
        [_HANDLE, _HANDLE, POINTER(_abi.RestoreOptions), _OUT, _HANDLE],
    ),
    "pawl_checkpoint_diff": (
        _STATUS,
        [_HANDLE, _HANDLE, POINTER(_abi.DiffOptions), POINTER(_abi.DiffResult), _HANDLE],
    ),
    "pawl_convert": (
        _STATUS,
        [_HANDLE, _TEXT, POINTER(_abi.ConvertOptions), POINTER(_abi.ConvertResult), _HANDLE],
    ),
    "pawl_checkpoint_verify": (
        _STATUS,
        [_HANDLE, POINTER(_abi.VerifyOptions), POINTER(_abi.VerifyResult), _HANDLE],
    ),
    "pawl_entries_open": (_STATUS, [_HANDLE, _TEXT, _OUT, _HANDLE]),
    "pawl_entries_next": (_STATUS, [_HANDLE, POINTER(_abi.EntryInfo), POINTER(c_int), _HANDLE]),
    "pawl_events_open": (_STATUS, [_TEXT, POINTER(_abi.OpenOptions), _OUT, _HANDLE]),
    "pawl_events_next": (_STATUS, [_HANDLE, POINTER(_abi.Event), POINTER(c_int), _HANDLE]),
    "pawl_events_close": (None, [_HANDLE]),
    "pawl_doctor": (
        _STATUS,
        [
            _TEXT,
            POINTER(_abi.DoctorOptions),
            _abi.FINDING_FUNCTION,
            c_void_p,
            POINTER(c_int),
            _HANDLE,
        ],
    ),
}


def _candidates() -> list[str]:
    """Where libpawl may be: the one named by PAWL_LIBRARY alone, else the wheel's, the system's."""
    named = os.environ.get("PAWL_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).parent / "lib"
    return [str(path) for path in sorted(here.glob("libpawl.so*"))] + ["libpawl.so.0.2"]


class Library:
    """The functions of libpawl, by their C names."""

    def __init__(self, path: str) -> None:
        waiting = ctypes.CDLL(path)
        short = ctypes.PyDLL(path)
        for library, functions in ((short, _SHORT), (waiting, _WAITING)):
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
                setattr(self, name, function)
        self.path = path

    def __getattr__(self, name: str) -> Any:  # for type checkers: functions are set as attributes
        raise AttributeError(f"libpawl has no function {name}")


def _load() -> Library:
    problems = []
    for path in _candidates():
        try:
            version = ctypes.PyDLL(path).pawl_version
        except (OSError, AttributeError) as why:
            problems.append(str(why))
            continue
        version.restype = c_char_p
        found = version().decode()
        if found.rsplit(".", 1)[0] == INTERFACE:
            return Library(path)
        problems.append(f"{path} is version {found}; this package needs {INTERFACE}")
    raise ImportError(
        "libpawl cannot be loaded: " + "; ".join(problems) + "; install the wheel of pawl, or name "
        "the library by the environment variable PAWL_LIBRARY"
    )


lib = _load()
