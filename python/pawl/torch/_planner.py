# SPDX-License-Identifier: Apache-2.0
"""What torch's planner refuses before a reader sees the state dict, in the reader's words."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch.distributed.checkpoint import default_planner

#: Readers whose metadata a planner may have, by the id that is in it.
_readers: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def tell_reader(load_id: str, reader: Any) -> None:
    """Plans by the metadata with this id that torch refuses are told to ``reader.refused(state_dict, strict, why)``.

    It may raise another exception. Planners that do not plan as torch's do refuse in their own words.
    """
    _readers[load_id] = reader
    _hook()


@functools.cache
def _hook() -> None:
    theirs = default_planner.create_default_local_load_plan

    @functools.wraps(theirs)
    def create(state_dict: dict[str, Any], metadata: Any, strict: bool = True, *arguments: Any, **named: Any) -> Any:
        try:
            return theirs(state_dict, metadata, strict, *arguments, **named)
        except (RuntimeError, ValueError) as why:
            reader = _readers.get(getattr(metadata.storage_meta, "load_id", None) or "")
            if reader is not None:
                reader.refused(state_dict, strict, why)
            raise

    default_planner.create_default_local_load_plan = create
