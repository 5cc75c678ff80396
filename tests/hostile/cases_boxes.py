# SPDX-License-Identifier: Apache-2.0
"""Pieces that do not make up their tensor, or do so in strange ways."""

from __future__ import annotations

from case import KERNEL, SPLIT, Scene, add, editing, record_edit
from pawlformat import Box, Piece, Record, Step, make_record

ROWS, COLUMNS = 512, 16  # of the kernel, F32
HALF_BYTES = 256 * COLUMNS * 4


def pieces(name: str, purpose: str, *parts: tuple[int, Box | None]) -> None:
    """Other pieces of the kernel: where they lie, from where it begins, and their boxes."""

    def edit(record: Record, _: Step) -> None:
        base = record.pieces[0].offset
        record.pieces = [Piece(0, i, base + at, box) for i, (at, box) in enumerate(parts)]

    add(name, purpose, record_edit(KERNEL, edit))


UPPER: Box = ([0, 0], [256, COLUMNS])
LOWER: Box = ([256, 0], [256, COLUMNS])
pieces("box_same_twice", "the upper half twice, and the lower half never", (0, UPPER), (0, UPPER))
pieces("box_overlap", "two halves that overlap, so that rows are left out", (0, UPPER),
       (HALF_BYTES, ([128, 0], [256, COLUMNS])))
pieces("box_gap", "the upper half alone", (0, UPPER))
pieces("box_out", "the lower half begins a row too late and ends outside", (0, UPPER),
       (HALF_BYTES, ([257, 0], [256, COLUMNS])))
pieces("box_neg", "a box that begins before the tensor", (0, ([2**64 - 1, 0], [256, COLUMNS])))
pieces("box_2_63", "a box that begins at the largest place", (0, ([2**63 - 1, 0], [256, COLUMNS])))
pieces("box_ext_2_63", "a box of the largest extent", (0, ([0, 0], [2**63 - 1, COLUMNS])))
pieces("box_wrap", "a box whose end wraps around 63 bits", (0, ([2**62, 0], [2**63 - 256, COLUMNS])))
pieces("box_empty", "all of it, and a piece without elements", (0, None),
       (0, ([0, 0], [0, COLUMNS])))
pieces("box_swap", "halves whose bytes are exchanged: strange, and whole",
       (0, LOWER), (HALF_BYTES, UPPER))
pieces("box_rows", "a piece for each row",
       *((row * COLUMNS * 4, ([row, 0], [1, COLUMNS])) for row in range(ROWS)))
pieces("box_elems", "a piece for each element",
       *((4 * (row * COLUMNS + column), ([row, column], [1, 1]))
         for row in range(ROWS) for column in range(COLUMNS)))
pieces("box_elems_rev", "a piece for each element, the last one first",
       *((4 * (row * COLUMNS + column), ([ROWS - 1 - row, COLUMNS - 1 - column], [1, 1]))
         for row in range(ROWS) for column in range(COLUMNS)))
pieces("box_pinwheel", "five pieces that interlock, as no cut along a dimension parts them",
       (0, ([0, 0], [200, 10])), (0, ([0, 10], [300, 6])), (0, ([300, 6], [212, 10])),
       (0, ([200, 0], [312, 6])), (0, ([200, 6], [100, 4])))
add("box_none", "a tensor without a piece",
    record_edit(KERNEL, lambda r, _: setattr(r, "pieces", [])))


def many_empty(scene: Scene) -> None:
    empty = Piece(0, 0, 0, ([0, 0], [0, 0]))
    record_edit(KERNEL, lambda r, _: r.pieces.extend([empty] * scene.many(200000)))(scene)


def many_same(scene: Scene) -> None:
    same = [Piece(0, 0, 4096, ([i % ROWS, 0], [1, 1])) for i in range(scene.many(32768))]
    record_edit(KERNEL, lambda r, _: setattr(r, "pieces", same))(scene)


def interlocking(scene: Scene) -> None:
    """Elements of a large tensor in no order, each many times."""
    side = 1 << 14
    count = scene.many(60000)
    record = Record(kind=1, dtype=5, shape=[side, side])
    record.pieces = [Piece(0, 0, 4096, ([i * 7919 % (side - 600), i * 104729 % (side - 600)],
                                        [1 + i % 599, 1 + i % 23])) for i in range(count)]

    def edit(step: Step) -> None:
        step.items[b"emodel/tangled"] = make_record(record)
        step.manifest["entries"] += 1

    editing(edit)(scene)


add("box_many_empty", "two hundred thousand pieces without elements", many_empty, mib=64)
add("box_many_same", "pieces of one element that lie on each other", many_same)
add("box_tangled", "sixty thousand boxes that overlap in ever new ways", interlocking)
add("box_count_lie", "a record says four billion pieces and has one",
    record_edit(KERNEL, lambda r, _: make_record(r, 2**32 - 1)))
add("box_count_1m", "a record says a million pieces and has one",
    record_edit(KERNEL, lambda r, _: make_record(r, 1000000)))


def swap_split(record: Record, _: Step) -> None:
    first, last = record.pieces[0], record.pieces[-1]
    first.box, last.box = last.box, first.box


def drop_split(record: Record, _: Step) -> None:
    record.pieces.pop()


def repeat_split(record: Record, _: Step) -> None:
    record.pieces[1] = record.pieces[0]


def widen_split(record: Record, _: Step) -> None:
    record.pieces = [Piece(p.file, p.rank, p.offset, ([0, 0], p.box[1]) if p.box else None)
                     for p in record.pieces]


add("split_swap", "two of four boxes in four files are exchanged", record_edit(SPLIT, swap_split))
add("split_hole", "one of four boxes in four files is gone", record_edit(SPLIT, drop_split))
add("split_twice", "one of four boxes in four files stands for another too",
    record_edit(SPLIT, repeat_split))
add("split_corner", "four boxes in four files all begin in the same corner",
    record_edit(SPLIT, widen_split))
