# SPDX-License-Identifier: Apache-2.0
"""Records of checksums that are missing, cut, too long, or wrong."""

from __future__ import annotations

from collections.abc import Callable

from case import add, editing
from pawlformat import Step, checksum_key

FIRST = checksum_key(0, 0)


def sums(name: str, purpose: str, edit: Callable[[bytes], bytes]) -> None:
    """Another record of the first file's checksums."""

    def change(step: Step) -> None:
        step.items[FIRST] = edit(step.items[FIRST])

    add(name, purpose, editing(change))


def missing(step: Step) -> None:
    del step.items[FIRST]


def extra(step: Step) -> None:
    step.items[checksum_key(0, 1)] = step.items[FIRST]


add("sum_missing", "a file without checksums", editing(missing))
add("sum_extra", "checksums of blocks behind a file's end", editing(extra))
sums("sum_short", "checksums that lack the last block's", lambda b: b[:-4])
sums("sum_odd", "checksums and a byte more", lambda b: b + b"x")
sums("sum_empty", "a record without checksums", lambda b: b"")
sums("sum_long", "fifty times as many checksums as blocks", lambda b: b * 50)
sums("sum_wrong", "checksums that are all zero", lambda b: bytes(len(b)))
