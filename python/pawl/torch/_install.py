# SPDX-License-Identifier: Apache-2.0
"""Programs that use torch.distributed.checkpoint save through pawl without a change."""

from __future__ import annotations

import importlib
from typing import Any

#: Modules that find the classes by these names when they save or load.
_MODULES = (
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.filesystem",
    "torch.distributed.checkpoint._storage_utils",
    "torch.distributed.checkpoint.format_utils",
)
_NAMES = ("FileSystemWriter", "FileSystemReader")

#: What was there before, by module and name.
_before: dict[tuple[str, str], Any] = {}


def install(*, unexpected: str = "error", cast: str = "error") -> None:
    """Makes ``torch.distributed.checkpoint`` save and load through pawl, also inside Accelerate, Lightning.

    ``FileSystemWriter`` and ``FileSystemReader`` become `pawl.torch.Writer` and `pawl.torch.Reader`, for
    ``dcp.save(..., checkpoint_id=path)``, too. What torch has saved is still loaded. Modules that have imported the
    classes themselves before keep torch's. Calling it again changes the options.

    Args:
        unexpected: a load of less than was saved: "error", or "allow".
        cast: a load into another float type: "error", or "allow" converts.
    """
    from ._dcp import Reader, Writer

    class InstalledReader(Reader):
        """Reader, with the options of install()."""

        def __init__(self, path: Any, *arguments: Any, **named: Any) -> None:
            super().__init__(path, *arguments, **{"unexpected": unexpected, "cast": cast, **named})

    for module in _MODULES:
        found = importlib.import_module(module)
        for name, ours in zip(_NAMES, (Writer, InstalledReader), strict=True):
            if hasattr(found, name):
                _before.setdefault((module, name), getattr(found, name))
                setattr(found, name, ours)


def uninstall() -> None:
    """Gives ``torch.distributed.checkpoint`` its own classes back."""
    while _before:
        (module, name), theirs = _before.popitem()
        setattr(importlib.import_module(module), name, theirs)
