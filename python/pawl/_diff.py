# SPDX-License-Identifier: Apache-2.0
"""Comparing two checkpoints."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _abi
from ._abi import Kind
from ._callbacks import Callbacks
from ._checkpoint import Checkpoint
from ._entry import Entry, entry_of, value_of
from ._error import check, decode, error_handle
from ._handle import require_mapping, switch, text_bytes, texts
from ._library import lib
from ._progress import Progress, shown

Source = str | os.PathLike[str] | Checkpoint


@dataclasses.dataclass(frozen=True)
class Distances:
    """How far the numbers of two tensors of one dtype and shape are apart.

    Elements differ where their bits do: NaN is the same as a NaN of the same bits, 0.0 and -0.0
    differ by 0.

    Attributes:
        elements: of each; of packed types (F4, F6) bytes, here and in `differing`.
        differing: so many of them differ.
        nan_on_one_side: so many are NaN on one side alone.
        max_abs: the largest |a - b|, of complex numbers the magnitude; 0.0 for packed types.
        mean_abs: over all elements with a finite |a - b|.
        compared: False: not compared, of a type that pawl cannot read, or packed and above 256 MiB.
    """

    elements: int
    differing: int
    nan_on_one_side: int
    max_abs: float
    mean_abs: float
    compared: bool


@dataclasses.dataclass(frozen=True)
class Difference:
    """One way in which an entry differs.

    Attributes:
        kind: "only_a", "only_b", "kind", "dtype", "shape", "role", "hyperparameter", "value" or
            "numbers".
        name: of the entry; of one of the first, as it was renamed.
        a: what the first has, or None.
        b: what the second has, or None.
        value_a: the first's value, where kind is "value" or "hyperparameter"; else, and per rank, None.
        value_b: the second's.
        distances: where kind is "numbers"; else None.
        ranks: of a value per rank: it differs on so many; else 0.
        transposed: the first's tensor was transposed before it was compared.
    """

    kind: str
    name: str
    a: Entry | None
    b: Entry | None
    value_a: Any
    value_b: Any
    distances: Distances | None
    ranks: int
    transposed: bool = False


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        differences: ascending by name; an entry that differs in several ways comes once for each.
        same: entries that are the same in both.
        different: entries that both have, and that differ.
        only_a: entries that only the first has.
        only_b: entries that only the second has.
        uncompared: of the different ones: tensors whose numbers were not compared.
        max_abs: the largest |a - b| of all numbers.
    """

    differences: tuple[Difference, ...]
    same: int
    different: int
    only_a: int
    only_b: int
    uncompared: int
    max_abs: float

    @property
    def identical(self) -> bool:
        """Does nothing differ?"""
        return not (self.different or self.only_a or self.only_b)


def _distances(found: Any) -> Distances | None:
    if not found:
        return None
    it = found.contents
    return Distances(it.elements, it.differing, it.nan_on_one_side, it.max_abs, it.mean_abs, compared=it.compared != 0)


def _value(side: Any) -> Any:
    """None, too, for tensors and for values per rank."""
    it = side.contents if side else None
    return value_of(it) if it is not None and it.kind != Kind.TENSOR and not it.per_rank else None


def _difference(it: _abi.DiffItem) -> Difference:
    valued = it.kind in (_abi.DiffKind.DIFFERS_IN_VALUE, _abi.DiffKind.DIFFERS_IN_HYPERPARAMETER)
    return Difference(
        kind=decode(lib.pawl_diff_kind_name(it.kind)) or "",
        name=decode(it.name) or "",
        a=entry_of(it.a.contents) if it.a else None,
        b=entry_of(it.b.contents) if it.b else None,
        value_a=_value(it.a) if valued else None,
        value_b=_value(it.b) if valued else None,
        distances=_distances(it.distances),
        ranks=it.ranks,
        transposed=it.transposed != 0,
    )


def diff(
    a: Source,
    b: Source,
    *,
    structure_only: bool = False,
    renames: Mapping[str, str] | None = None,
    transpose: Iterable[str] = (),
    progress: Progress | bool = False,
) -> Comparison:
    """Compares two checkpoints, of pawl or of another tool that `open` opens, entry by entry.

    ::

        with pawl.open("runs/a", step=100) as a, pawl.open("runs/a", step=200) as b:
            found = pawl.diff(a, b)
        for difference in found.differences:
            print(difference.kind, difference.name, difference.distances)

    Args:
        a: a path, whose newest step is compared, or an open checkpoint.
        b: the other. Neither is used by anybody else meanwhile.
        structure_only: compare no numbers, and of values only hyperparameters.
        renames: {"model/dense": "fc"}: entries of the first get other names before they are compared,
            as in a restore.
        transpose: entries of the first, by their own names, and those below them, whose tensors of
            two axes are compared with the transposed ones of the second.
        progress: called now and then with the bytes done and those there are. True shows a line on
            standard error, where that is a terminal.

    Raises:
        NotFound: there is none at a path.
        Damaged: one of them is not what was written.
        UsageError: the rename rules give two entries one name, or a rule or a name fits no entry.
    """
    names = _names(transpose)
    rules = _rules(renames)
    with contextlib.ExitStack() as opened, shown(progress, "comparing") as tell:
        first = a if isinstance(a, Checkpoint) else opened.enter_context(Checkpoint(a))
        second = b if isinstance(b, Checkpoint) else opened.enter_context(Checkpoint(b))
        return _compare(
            first,
            second,
            _abi.DiffOptions(
                structure_only=switch("structure_only", structure_only),
                renames=rules if len(rules) else None,
                rename_size=ctypes.sizeof(_abi.Rename),
                rename_count=len(rules),
                transpose=names if len(names) else None,
                transpose_count=len(names),
            ),
            tell,
        )


def _rules(renames: Mapping[str, str] | None) -> ctypes.Array[_abi.Rename]:
    if renames is not None:
        require_mapping("renames", "prefixes to prefixes", renames)
    rules = [
        _abi.Rename(text_bytes("the rename", old), text_bytes("the rename", new))
        for old, new in (renames or {}).items()
    ]
    return (_abi.Rename * len(rules))(*rules)


def _names(transpose: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    names = texts("transpose", transpose)
    return (ctypes.c_char_p * len(names))(*names)


def _compare(a: Checkpoint, b: Checkpoint, options: _abi.DiffOptions, progress: Progress | None) -> Comparison:
    differences: list[Difference] = []
    with Callbacks() as callbacks:
        options.difference = _abi.DIFFERENCE_FUNCTION(
            callbacks.kept(1, lambda item: differences.append(_difference(item.contents)))
        )
        options.progress = callbacks.progress(progress)
        options.stop = callbacks.stop
        result = _abi.DiffResult()
        # Two threads that compare the same two take the locks in one order.
        first, second = sorted((a, b), key=id)
        with first._used(), second._used(), a._used() as pointer_a, b._used() as pointer_b:
            status = lib.pawl_checkpoint_diff(
                pointer_a, pointer_b, ctypes.byref(options), ctypes.byref(result), error_handle()
            )
            callbacks.raise_kept()
            check(status)
    return Comparison(
        tuple(differences),
        result.same,
        result.different,
        result.only_a,
        result.only_b,
        result.uncompared,
        result.max_abs,
    )
