# SPDX-License-Identifier: Apache-2.0
"""Writing a checkpoint in another format."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi
from ._abi import Dtype, Fate
from ._callbacks import Callbacks
from ._checkpoint import Checkpoint
from ._entry import Entry, entry_of
from ._error import UsageError, check, decode, error_handle
from ._handle import path_bytes, require_mapping, size, switch, text_bytes, texts, whole_number
from ._library import lib
from ._progress import Progress, shown


@dataclasses.dataclass(frozen=True)
class Converted:
    """What became of an entry.

    Attributes:
        fate: "converted", "left_out" (`only` does not name it) or "dropped" (the format has no place for it).
        entry: as it was.
        name: its new name, where it is converted; else None.
        dtype: the new dtype of a tensor that is converted; else None.
        why: it is dropped, or as what else it is there; else None.
    """

    fate: str
    entry: Entry
    name: str | None
    dtype: str | None
    why: str | None


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What a conversion did.

    Attributes:
        format: that was written.
        entries: all of the source, ascending by name.
        tensors: that were converted.
        values: that were converted.
        renamed: of them.
        cast: of them.
        left_out: entries that `only` does not name.
        dropped: entries that the format has no place for.
        bytes: of the tensors, as they were written.
        overflows: numbers that a cast made infinite.
        unverified: what nothing in the source could show; None: every byte was compared with a checksum.
        described: values that were written as what describes them, and not as what they are.
    """

    format: str
    entries: tuple[Converted, ...]
    tensors: int
    values: int
    renamed: int
    cast: int
    left_out: int
    dropped: int
    bytes: int
    overflows: int
    unverified: str | None
    described: int


def formats() -> tuple[str, ...]:
    """The names of the formats that `convert` writes."""
    return tuple((decode(lib.pawl_convert_formats()) or "").split(", "))


def _converted(it: _abi.ConvertItem) -> Converted:
    return Converted(
        fate=Fate(it.fate).name.lower(),
        entry=entry_of(it.from_.contents),
        name=decode(it.name),
        dtype=Dtype(it.dtype).name if it.dtype else None,
        why=decode(it.why),
    )


def _dtype(name: str | None) -> int:
    if name is None:
        return 0
    if not isinstance(name, str) or name.upper() not in Dtype.__members__:
        raise UsageError(f'cast is "F64", "F32", "F16" or "BF16", not {name!r}')
    return Dtype[name.upper()].value


def _options(
    to: str | None, only: Iterable[str], rename: Mapping[str, str], cast: str | None, kept: list[Any]
) -> _abi.ConvertOptions:
    names = texts("only", only)
    require_mapping("rename", "names to names", rename)
    rules = [
        _abi.Rename(text_bytes("a name of rename", old), text_bytes("a name of rename", new))
        for old, new in rename.items()
    ]
    only_array = (ctypes.c_char_p * len(names))(*names)
    rule_array = (_abi.Rename * len(rules))(*rules)
    kept += [only_array, rule_array]
    return _abi.ConvertOptions(
        to=text_bytes("to", to) if to is not None else None,
        only=only_array if names else None,
        only_count=len(names),
        renames=rule_array if rules else None,
        rename_size=ctypes.sizeof(_abi.Rename),
        rename_count=len(rules),
        cast=_dtype(cast),
    )


def convert(
    source: str | os.PathLike[str] | Checkpoint,
    path: str | os.PathLike[str],
    *,
    to: str | None = None,
    only: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    cast: str | None = None,
    drop: bool = False,
    shard_bytes: int = 0,
    step: int | None = None,
    dry_run: bool = False,
    progress: Progress | bool = False,
) -> Conversion:
    """Writes what a checkpoint has, of pawl or of another tool that `open` opens, in another format.

    ::

        pawl.convert("runs/a", "model.safetensors", only=["model"], rename={"model": "", "/": "."}, cast="BF16")
        pawl.convert("weights.gguf", "runs/b")

    All of it is written under another name first, and made durable; what fails leaves nothing behind.

    Args:
        source: a path, whose newest step is converted, or an open checkpoint, which nobody else uses meanwhile.
        path: what is written; nothing of that name may be there, but for a run, which gets one more step.
        to: one of `formats`; None: what the ending of `path` says, else "pawl".
        only: these entries, and those below them; none: all.
        rename: old names, or beginnings of names up to a "/", and new ones; the first that fits counts.
            {"/": "."} besides makes every "/" of a name a ".", as PyTorch has its names.
        cast: "F64", "F32", "F16" or "BF16": what tensors of these types become.
        drop: leave out what the format has no place for, instead of failing.
        shard_bytes: several files of about so many bytes, in a directory, with an index; 0: one file.
        step: of a run: the step to save; None: that of the source, else 0.
        dry_run: only find out what would be done.
        progress: called now and then with the bytes done and those there are. True shows a line on
            standard error, where that is a terminal.

    Raises:
        NotFound: there is no checkpoint at `source`.
        Unsupported: the format has no place for an entry.
        UsageError: something is at `path`, or the run has that step; two entries would have one name, a name or
            a rule fits no entry, there is nothing to convert, or an argument is wrong.
        Busy: someone else has the run open, or was faster in making `path`.
        Damaged: the source is not what was written.
    """
    kept: list[Any] = []
    to_path = path_bytes(path)
    options = _options(to, only, {} if rename is None else rename, cast, kept)
    options.drop = switch("drop", drop)
    options.dry_run = switch("dry_run", dry_run)
    options.shard_bytes = size("shard_bytes", shard_bytes)
    if step is not None:
        options.step = ctypes.pointer(ctypes.c_int64(whole_number("step", step)))
    with contextlib.ExitStack() as opened, shown(progress, "converting") as tell:
        checkpoint = source if isinstance(source, Checkpoint) else opened.enter_context(Checkpoint(source))
        return _convert(checkpoint, to_path, options, tell)


def _convert(checkpoint: Checkpoint, path: bytes, options: _abi.ConvertOptions, tell: Progress | None) -> Conversion:
    entries: list[Converted] = []
    result = _abi.ConvertResult()
    with Callbacks() as callbacks, checkpoint._used() as pointer:
        options.item = _abi.CONVERT_FUNCTION(callbacks.kept(1, lambda item: entries.append(_converted(item.contents))))
        options.progress = callbacks.progress(tell)
        options.stop = callbacks.stop
        status = lib.pawl_convert(pointer, path, ctypes.byref(options), ctypes.byref(result), error_handle())
        callbacks.raise_kept()
        check(status)
        return Conversion(
            format=decode(result.format) or "",
            entries=tuple(entries),
            tensors=result.tensors,
            values=result.values,
            renamed=result.renamed,
            cast=result.cast,
            left_out=result.left_out,
            dropped=result.dropped,
            bytes=result.bytes,
            overflows=result.overflows,
            unverified=decode(result.unverified),
            described=result.described,
        )
