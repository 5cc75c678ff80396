# SPDX-License-Identifier: Apache-2.0
"""Programs that use torch.distributed.checkpoint save through pawl without a change."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("pawl")

#: Torch's classes that make objects of pawl's.
_served: list[Any] = []


def install(*, unexpected: str = "error", cast: str = "error") -> None:
    """Makes ``torch.distributed.checkpoint`` save and load through pawl, also inside Accelerate, Lightning, TorchTitan.

    Calls of ``FileSystemWriter`` and ``FileSystemReader`` make `pawl.torch.Writer` and `pawl.torch.Reader`, wherever
    the classes were imported, and also where torch makes them: ``dcp.save(..., checkpoint_id=path)``. A program's own
    subclass of ``FileSystemReader`` reads both what pawl and what torch has saved; its own subclass of
    ``FileSystemWriter`` goes on as it is, with a warning. Calling it again changes the options.

    Args:
        unexpected: a load of less than was saved: "error", or "allow".
        cast: a load into another float type: "error", or "allow" converts.
    """
    from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter

    from ._dcp import Reader, Writer

    class InstalledReader(Reader):
        """Reader, with the options of install()."""

        _unexpected = unexpected
        _cast = cast

        def __init__(self, path: Any, *arguments: Any, **named: Any) -> None:
            super().__init__(path, *arguments, **{"unexpected": unexpected, "cast": cast, **named})

        def __reduce__(self) -> Any:
            return _make_again, (FileSystemReader,), self.__getstate__()

    @functools.cache
    def writer_for(cls: type) -> type:
        if cls is FileSystemWriter:
            return Writer
        if not _is_known(cls, FileSystemWriter):
            logger.warning("%s.%s saves as torch does, not through pawl", cls.__module__, cls.__qualname__)
        return cls

    @functools.cache
    def reader_for(cls: type) -> type:
        if cls is FileSystemReader:
            return InstalledReader
        if _is_known(cls, FileSystemReader):
            return cls
        names = {
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__reduce__": lambda self: (_make_again, (cls,), self.__getstate__()),
        }
        return type(cls.__name__, (cls, InstalledReader), names)  # its super() is ours

    _let_make(FileSystemWriter, writer_for)
    _let_make(FileSystemReader, reader_for)
    _served[:] = (FileSystemWriter, FileSystemReader)


def uninstall() -> None:
    """Lets ``torch.distributed.checkpoint`` save and load by itself again."""
    while _served:
        _let_make(_served.pop(), lambda cls: cls)  # a class that had a __new__ cannot do without one


def _make_again(cls: type) -> Any:
    """Out of a pickle: what a call of the class would make here, without its ``__init__``."""
    return cls.__new__(cls, None)


def _let_make(theirs: Any, choose: Callable[[type], type]) -> None:
    """Calls of a class, and of those made of it, make objects of the class that is chosen instead."""

    def new(cls: type, *arguments: Any, **named: Any) -> Any:
        # Without arguments it is no call: something is copied, or comes out of a pickle.
        return object.__new__(choose(cls) if arguments or named else cls)

    theirs.__new__ = staticmethod(new)


def _is_known(cls: type, theirs: type) -> bool:
    """Is a subclass of theirs by torch, which stores elsewhere or otherwise, or by pawl?"""
    own = cls.__mro__[: cls.__mro__.index(theirs)]
    return any(one.__module__.partition(".")[0] in ("torch", "pawl") for one in own)
