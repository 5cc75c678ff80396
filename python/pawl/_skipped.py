# SPDX-License-Identifier: Apache-2.0
"""Was a save skipped, because the one before was still being written?"""

from __future__ import annotations

import ctypes

from ._abi import SaveStats, Status
from ._enums import OnBusy
from ._error import check, error_handle
from ._library import lib
from ._run import Run


def was_skipped(run: Run) -> bool:
    """Was the save that was asked for last skipped, on this rank? It is not waited for.

    Raises:
        Error: why the save before it failed, or this one at once.
    """
    if run._on_busy != OnBusy.SKIP:
        return False
    stats = SaveStats()
    with run._held() as pointer:
        status = lib.pawl_wait(pointer, -1.0, ctypes.byref(stats), error_handle())
        if status != Status.ETIMEOUT:
            check(status)
    return bool(stats.skipped)
