# SPDX-License-Identifier: Apache-2.0
"""Before any optimizer of this process changes anything, saves in flight let go of what they read."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


class Fenced(Protocol):
    """Something with a save that may be in flight."""

    def fence(self) -> None:
        """Returns when no save reads what an optimizer changes."""


_fenced: weakref.WeakSet[Any] = weakref.WeakSet()
_registered: list[Any] = []


def fence_before_steps(waiting: Fenced) -> None:
    """Calls ``waiting.fence()`` before each step of any ``torch.optim.Optimizer``, as long as it lives."""
    if not _registered:
        _registered.append(register_optimizer_step_pre_hook(_before_step()))
    _fenced.add(waiting)


def leave_steps_alone(waiting: Fenced) -> None:
    """The opposite of `fence_before_steps`."""
    _fenced.discard(waiting)


def _before_step() -> Callable[..., None]:
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def fence_saves(_optimizer: Any, _arguments: Any, _keywords: Any) -> None:
        for waiting in tuple(_fenced):
            waiting.fence()

    return fence_saves  # type: ignore[no-any-return]
