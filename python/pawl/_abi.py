# SPDX-License-Identifier: Apache-2.0
"""The interface of libpawl as ctypes sees it: enumerations and structs, as in include/pawl.

Each struct is declared here and nowhere else. tests/python/test_abi.py compiles a C program that
prints the size of each and the offset of each member, and compares.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_ubyte, c_uint64, c_void_p
from typing import Any

from ._enums import Difference as Difference
from ._enums import DiffKind as DiffKind
from ._enums import DoctorPart as DoctorPart
from ._enums import Dtype as Dtype
from ._enums import ErrorPart as ErrorPart
from ._enums import EventKind as EventKind
from ._enums import Fate as Fate
from ._enums import Io as Io
from ._enums import IoPriority as IoPriority
from ._enums import Kind as Kind
from ._enums import LogLevel as LogLevel
from ._enums import OnBusy as OnBusy
from ._enums import Policy as Policy
from ._enums import Role as Role
from ._enums import Severity as Severity
from ._enums import Status as Status
from ._enums import StepStatus as StepStatus


class Struct(ctypes.Structure):
    """A struct that begins with ``struct_size``, which is set as it is made."""

    def __init__(self, **members: Any) -> None:
        super().__init__(**members)
        self.struct_size = ctypes.sizeof(self)


LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
STOP_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p)
PROGRESS_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
GC_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_char_p)


class Log(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("write", LOG_FUNCTION),
        ("context", c_void_p),
        ("level", c_int),
    ]


class Box(ctypes.Structure):
    _fields_ = [
        ("offset", POINTER(c_int64)),
        ("extent", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("data", c_void_p),
    ]


class Tensor(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_int),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("strides", POINTER(c_int64)),
        ("nboxes", c_size_t),
        ("boxes", POINTER(Box)),
        ("box_size", c_size_t),
        ("replicated", c_int),
        ("role", c_int),
        ("slot_of", c_char_p),
        ("slot", c_char_p),
        ("replica", c_int),
        ("replica_count", c_int),
        ("memory", c_void_p),
        ("copied", c_int64),
    ]


# Are the copies complete? 1: yes; 0: not yet; less than 0: they failed.
READY_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p)


# context, copies, how many, ticket, error.
START_OUT_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p)


class Memory(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("context", c_void_p),
        ("start_out", c_void_p),
        ("start_in", c_void_p),
        ("wait", c_void_p),
        ("in_flight", c_size_t),
        ("allocate", c_void_p),
        ("release", c_void_p),
    ]


class Shadow(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("ready", READY_FUNCTION),
        ("context", c_void_p),
        ("complete", c_int),
    ]


class Retention(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("keep_last", c_int64),
        ("keep_every_steps", c_int64),
        ("keep_every_hours", c_double),
        ("keep_best", c_int64),
        ("metric", c_char_p),
        ("metric_max", c_int),
    ]


# Both: 0, or a failure. Rank 0 gets n bytes of each rank; every rank gets the n bytes of rank 0.
GATHER_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_ubyte), c_double)
BROADCAST_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_double)


class Group(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int),
        ("world_size", c_int),
        ("launch", c_char_p),
        ("context", c_void_p),
        ("gather", GATHER_FUNCTION),
        ("broadcast", BROADCAST_FUNCTION),
    ]


class GroupFound(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int),
        ("world_size", c_int),
        ("local_rank", c_int),
        ("local_size", c_int),
        ("source", c_char_p),
        ("launch", c_char * 256),
        ("text", c_char * 1024),
    ]


class RunOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("must_exist", c_int),
        ("framework", c_char_p),
        ("lease_s", c_double),
        ("takeover_wait_s", c_double),
        ("deadline_s", c_double),
        ("budget_bytes", c_size_t),
        ("on_busy", c_int),
        ("checking", c_int),
        ("save_every_steps", c_int64),
        ("save_every_s", c_double),
        ("retention", POINTER(Retention)),
        ("log", POINTER(Log)),
        ("storage", c_void_p),
        ("io", c_int),
        ("in_flight_bytes", c_size_t),
        ("bandwidth_bytes_per_s", c_uint64),
        ("io_priority", c_int),
        ("cpus", POINTER(c_int)),
        ("cpu_count", c_size_t),
        ("hang_deadline_s", c_double),
        ("group", POINTER(Group)),
        ("group_deadline_s", c_double),
        ("event", c_void_p),
        ("event_context", c_void_p),
        ("no_event_file", c_int),
        ("budget_ready", c_int),
        ("interrupted", STOP_FUNCTION),
        ("interrupted_context", c_void_p),
    ]


class Metric(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class SaveOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("metrics", POINTER(Metric)),
        ("metric_count", c_size_t),
        ("metric_size", c_size_t),
        ("pin", c_int),
        ("deadline_s", c_double),
    ]


class SaveStats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("skipped", c_int),
        ("bytes", c_uint64),
        ("files", c_uint64),
        ("total_s", c_double),
        ("busy_wait_s", c_double),
        ("prepare_s", c_double),
        ("write_s", c_double),
        ("sync_s", c_double),
        ("commit_s", c_double),
        ("group_wait_s", c_double),
        ("tidy_s", c_double),
        ("fence_copy_s", c_double),
        ("fence_wait_s", c_double),
        ("fence_copied_bytes", c_uint64),
        ("budget_bytes", c_size_t),
        ("budget_wanted_bytes", c_uint64),
        ("retries", c_uint64),
        ("io", c_char_p),
        ("written_bytes", c_uint64),
    ]


class OpenOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("storage", c_void_p),
        ("log", POINTER(Log)),
        ("step", POINTER(c_int64)),
    ]


class Rename(ctypes.Structure):
    _fields_ = [("from_", c_char_p), ("to", c_char_p)]


class Remedy(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("option", c_char_p),
        ("policy", c_int),
        ("value", c_char_p),
        ("from_", c_char_p),
        ("to", c_char_p),
        ("before", c_char_p),
        ("effect", c_char_p),
        ("remain", c_int64),
    ]


class ReportItem(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("difference", c_int),
        ("severity", c_int),
        ("name", c_char_p),
        ("other_name", c_char_p),
        ("checkpoint", c_char_p),
        ("state", c_char_p),
        ("dimension", c_int),
        ("count", c_uint64),
        ("text", c_char_p),
        ("description", c_char_p),
        ("change", c_char_p),
        ("remedies", POINTER(POINTER(Remedy))),
        ("remedy_count", c_size_t),
        ("saved_as", c_char_p),
        ("remains", c_int64),
    ]


class ReportAdvice(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("remedies", POINTER(POINTER(Remedy))),
        ("remedy_count", c_size_t),
        ("remain", c_int64),
    ]


class ReportCounts(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("restored", c_uint64),
        ("kept", c_uint64),
        ("ignored", c_uint64),
        ("cast", c_uint64),
        ("cast_overflows", c_uint64),
        ("bytes", c_uint64),
        ("fallbacks", c_uint64),
    ]


class StepInfo(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("status", c_int),
        ("bytes", c_uint64),
        ("files", c_uint64),
        ("entries", c_uint64),
        ("unix_time_ns", c_int64),
        ("world_size", c_int),
        ("pinned", c_int),
        ("being_read", c_int),
        ("metrics_json", c_char_p),
        ("why", c_char_p),
    ]


class Found(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("path", c_char_p),
        ("format", c_char_p),
        ("status", c_int),
        ("why", c_char_p),
        ("step", c_int64),
        ("steps", c_uint64),
        ("bytes", c_uint64),
        ("files", c_uint64),
        ("unix_time_ns", c_int64),
    ]


class CheckpointInfo(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("format_version", c_int),
        ("unix_time_ns", c_int64),
        ("world_size", c_int),
        ("entries", c_uint64),
        ("data_files", c_uint64),
        ("data_bytes", c_uint64),
        ("index_bytes", c_uint64),
        ("attempt", c_char_p),
        ("framework", c_char_p),
        ("path", c_char_p),
        ("manifest_json", c_char_p),
        ("metrics_json", c_char_p),
        ("format", c_char_p),
    ]


class EntryInfo(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("role", c_int),
        ("slot_of", c_char_p),
        ("slot", c_char_p),
        ("per_rank", c_int),
        ("replicated", c_int),
        ("dtype", c_int),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("bytes", c_uint64),
        ("pieces", c_uint64),
        ("value", c_void_p),
        ("type", c_char_p),
    ]


# 1: it has set the tensor's memory; 0: it has none for it; else the restore is given up.
SUPPLY_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64, POINTER(EntryInfo), POINTER(Tensor))


class RestoreOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", POINTER(c_int64)),
        ("no_fallback", c_int),
        ("missing", c_int),
        ("unexpected", c_int),
        ("cast", c_int),
        ("hyperparameter", c_int),
        ("batch", c_int),
        ("model_only", c_int),
        ("renames", POINTER(Rename)),
        ("rename_count", c_size_t),
        ("rename_size", c_size_t),
        ("per_rank", c_int),
        ("share_on_node", c_int),
        ("group", POINTER(Group)),
        ("group_deadline_s", c_double),
        ("supply", SUPPLY_FUNCTION),
        ("supply_context", c_void_p),
        ("interrupted", STOP_FUNCTION),
        ("interrupted_context", c_void_p),
        ("progress", PROGRESS_FUNCTION),
        ("progress_context", c_void_p),
    ]


class Problem(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("file", c_char_p),
        ("entry", c_char_p),
        ("offset", c_uint64),
        ("length", c_uint64),
        ("text", c_char_p),
    ]


PROBLEM_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Problem))


class VerifyOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("problem", PROBLEM_FUNCTION),
        ("progress", PROGRESS_FUNCTION),
        ("context", c_void_p),
        ("max_problems", c_uint64),
        ("stop", STOP_FUNCTION),
    ]


class VerifyResult(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("files", c_uint64),
        ("bytes", c_uint64),
        ("entries", c_uint64),
        ("problems", c_uint64),
        ("unverified", c_char_p),
    ]


class Distances(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("elements", c_uint64),
        ("differing", c_uint64),
        ("nan_on_one_side", c_uint64),
        ("max_abs", c_double),
        ("mean_abs", c_double),
        ("compared", c_int),
    ]


class DiffItem(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("name", c_char_p),
        ("a", POINTER(EntryInfo)),
        ("b", POINTER(EntryInfo)),
        ("distances", POINTER(Distances)),
        ("ranks", c_int),
        ("of_ranks", c_int),
        ("transposed", c_int),
    ]


DIFFERENCE_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, POINTER(DiffItem))


class DiffOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("difference", DIFFERENCE_FUNCTION),
        ("progress", PROGRESS_FUNCTION),
        ("context", c_void_p),
        ("structure_only", c_int),
        ("stop", STOP_FUNCTION),
        ("renames", POINTER(Rename)),
        ("rename_size", c_size_t),
        ("rename_count", c_size_t),
        ("transpose", POINTER(c_char_p)),
        ("transpose_count", c_size_t),
    ]


class DiffResult(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("same", c_uint64),
        ("different", c_uint64),
        ("only_a", c_uint64),
        ("only_b", c_uint64),
        ("uncompared", c_uint64),
        ("max_abs", c_double),
    ]


class ConvertItem(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("fate", c_int),
        ("from_", POINTER(EntryInfo)),
        ("name", c_char_p),
        ("dtype", c_int),
        ("why", c_char_p),
    ]


CONVERT_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, POINTER(ConvertItem))


class ConvertOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("to", c_char_p),
        ("only", POINTER(c_char_p)),
        ("only_count", c_size_t),
        ("renames", POINTER(Rename)),
        ("rename_size", c_size_t),
        ("rename_count", c_size_t),
        ("cast", c_int),
        ("drop", c_int),
        ("shard_bytes", c_uint64),
        ("step", POINTER(c_int64)),
        ("dry_run", c_int),
        ("item", CONVERT_FUNCTION),
        ("progress", PROGRESS_FUNCTION),
        ("context", c_void_p),
        ("stop", STOP_FUNCTION),
    ]


class ConvertResult(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("format", c_char_p),
        ("tensors", c_uint64),
        ("values", c_uint64),
        ("renamed", c_uint64),
        ("cast", c_uint64),
        ("left_out", c_uint64),
        ("dropped", c_uint64),
        ("bytes", c_uint64),
        ("overflows", c_uint64),
        ("unverified", c_char_p),
        ("described", c_uint64),
    ]


class Event(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("step", c_int64),
        ("unix_time_ns", c_int64),
        ("status", c_int),
        ("message", c_char_p),
        ("done_bytes", c_uint64),
        ("of_bytes", c_uint64),
        ("seconds", c_double),
        ("stats", POINTER(SaveStats)),
        ("json", c_char_p),
    ]


class Finding(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("id", c_char_p),
        ("severity", c_int),
        ("text", c_char_p),
        ("next", c_char_p),
        ("evidence", c_char_p),
        ("command", c_char_p),
        ("part", c_char_p),
    ]


class Array(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("instead", c_char_p),
    ]


FINDING_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Finding))


class DoctorOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("need_bytes", c_uint64),
        ("group", POINTER(Group)),
        ("group_deadline_s", c_double),
        ("storage", c_void_p),
        ("parts", c_int64),
        ("read_only", c_int64),
        ("answer_s", c_double),
        ("verify_s", c_double),
        ("every_s", c_double),
        ("mtbf_s", c_double),
        ("budget_bytes", c_uint64),
        ("ranks", c_int64),
        ("environment", POINTER(c_char_p)),
        ("step", POINTER(c_int64)),
        ("model", c_char_p),
        ("model_step", POINTER(c_int64)),
        ("state", c_void_p),
        ("restore", POINTER(RestoreOptions)),
        ("report", POINTER(c_void_p)),
        ("stop", STOP_FUNCTION),
    ]


# The C name of each struct, for the test that compares them with a compiled program.
STRUCTS: dict[str, type[ctypes.Structure]] = {
    "pawl_log": Log,
    "pawl_box": Box,
    "pawl_tensor": Tensor,
    "pawl_memory": Memory,
    "pawl_shadow": Shadow,
    "pawl_retention": Retention,
    "pawl_group": Group,
    "pawl_group_found": GroupFound,
    "pawl_run_options": RunOptions,
    "pawl_metric": Metric,
    "pawl_save_options": SaveOptions,
    "pawl_save_stats": SaveStats,
    "pawl_open_options": OpenOptions,
    "pawl_rename": Rename,
    "pawl_restore_options": RestoreOptions,
    "pawl_remedy": Remedy,
    "pawl_report_advice": ReportAdvice,
    "pawl_report_item": ReportItem,
    "pawl_report_counts": ReportCounts,
    "pawl_step_info": StepInfo,
    "pawl_found": Found,
    "pawl_checkpoint_info": CheckpointInfo,
    "pawl_entry_info": EntryInfo,
    "pawl_problem": Problem,
    "pawl_verify_options": VerifyOptions,
    "pawl_verify_result": VerifyResult,
    "pawl_distances": Distances,
    "pawl_diff_item": DiffItem,
    "pawl_diff_options": DiffOptions,
    "pawl_diff_result": DiffResult,
    "pawl_convert_item": ConvertItem,
    "pawl_convert_options": ConvertOptions,
    "pawl_convert_result": ConvertResult,
    "pawl_event": Event,
    "pawl_finding": Finding,
    "pawl_array": Array,
    "pawl_doctor_options": DoctorOptions,
}
