# SPDX-License-Identifier: Apache-2.0
"""pawl saves and restores the state of ML training: crash-consistent, sharded, asynchronous, verified.

::

    import numpy, pawl

    state = pawl.State({"model/kernel": kernel, "training/step": 0})
    with pawl.Run("runs/a", keep_last=3) as run:
        run.save(state, step=100)

    with pawl.open("runs/a") as checkpoint:
        kernel = numpy.asarray(checkpoint["model/kernel"])
"""

from ._check import BatchCheck, check_data_position, check_gradients
from ._checkpoint import (
    Checkpoint,
    Event,
    Problem,
    StepInfo,
    StoredTensor,
    Verification,
    events,
    ls,
    open,
    verify,
)
from ._convert import Conversion, Converted, convert, formats
from ._dataset import check_dataset
from ._diff import Comparison, Difference, Distances, diff
from ._doctor import Finding, Findings, doctor
from ._entry import Entry
from ._error import (
    Busy,
    Canceled,
    Damaged,
    Error,
    InternalError,
    LimitExceeded,
    Mismatch,
    NoSpace,
    NotFound,
    OutOfMemory,
    PeerFailed,
    PermissionDenied,
    StorageError,
    Timeout,
    Unsupported,
    UsageError,
)
from ._group import Discovered, Group, discover
from ._library import lib as _lib
from ._memory import Array
from ._report import Advice, Item, Remedy, Report
from ._run import Leftover, Run, SaveStats, preempted, unwatch_preemption, watch_preemption
from ._state import Box, State, Tensor
from ._survey import Found, Survey, survey

#: Version of libpawl, which this package is a part of.
__version__: str = _lib.pawl_version().decode()

__all__ = [
    "Advice",
    "Array",
    "BatchCheck",
    "Box",
    "Busy",
    "Canceled",
    "Checkpoint",
    "Comparison",
    "Conversion",
    "Converted",
    "Damaged",
    "Difference",
    "Discovered",
    "Distances",
    "Entry",
    "Error",
    "Event",
    "Finding",
    "Findings",
    "Found",
    "Group",
    "InternalError",
    "Item",
    "Leftover",
    "LimitExceeded",
    "Mismatch",
    "NoSpace",
    "NotFound",
    "OutOfMemory",
    "PeerFailed",
    "PermissionDenied",
    "Problem",
    "Remedy",
    "Report",
    "Run",
    "SaveStats",
    "State",
    "StepInfo",
    "StorageError",
    "StoredTensor",
    "Survey",
    "Tensor",
    "Timeout",
    "Unsupported",
    "UsageError",
    "Verification",
    "check_data_position",
    "check_dataset",
    "check_gradients",
    "convert",
    "diff",
    "discover",
    "doctor",
    "formats",
    "events",
    "ls",
    "open",
    "preempted",
    "survey",
    "unwatch_preemption",
    "verify",
    "watch_preemption",
]
