# SPDX-License-Identifier: Apache-2.0
"""What the arguments of the callback mean, which are those of Keras's own."""

from __future__ import annotations

import re
from typing import Any

from .._error import UsageError
from .._handle import whole_number

_MAX = re.compile(r"acc|auc|precision|recall|f1|f_1|fbeta|iou|r2|similarity|top_k|sensitivity|specificity")
_MIN = re.compile(r"loss|err|mse|mae|mape|msle|deviation|divergence|crossentropy|entropy|hinge|poisson")


def larger_is_better(monitor: str, mode: str) -> bool:
    """Is more of what is monitored better, as Keras tells it by `mode` or by the name?"""
    if mode in ("min", "max"):
        return mode == "max"
    if mode != "auto":
        raise UsageError(f"mode={mode!r}: it is 'auto', 'min' or 'max'")
    name = monitor.removeprefix("val_")
    found = _MIN.search(name), _MAX.search(name)
    if bool(found[0]) == bool(found[1]):
        raise UsageError(
            f"monitor={monitor!r}: whether more of it is better cannot be told by its name; give mode='min' or 'max'"
        )
    return found[1] is not None


def frequencies(every: int | None, save_freq: Any) -> tuple[int | None, bool]:
    """Steps between saves, and whether the end of each epoch is saved."""
    if every is not None:
        every = whole_number("every", every)
    for name, value in (("every", every), ("save_freq", save_freq)):
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise UsageError(f"{name}={value}: saves are at least one step apart")
    if save_freq is None:
        return every, every is None
    if save_freq == "epoch":
        return every, True
    if save_freq is False:
        return every, False
    if not isinstance(save_freq, int) or isinstance(save_freq, bool) or every is not None:
        raise UsageError(
            f"save_freq={save_freq!r}: it is 'epoch', a number of steps, or False; a number is what every= is"
        )
    return save_freq, False
