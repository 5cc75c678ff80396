# SPDX-License-Identifier: Apache-2.0
"""Values that do not fit their kind, their copy, or a terminal."""

from __future__ import annotations

from case import EPOCH, KERNEL, OPTIMIZER, RANDOM, SIGNATURE, Scene, add, record_edit
from pawlformat import VALUE, Piece, Record, Step


def value(name: str, purpose: str, key: bytes, made: bytes) -> None:
    """Other bytes in the index; the piece has as many."""

    def edit(record: Record, _: Step) -> None:
        record.value = made
        record.pieces[0].size = len(made)

    add(name, purpose, record_edit(key, edit))


value("val_int_len", "an integer of 9 bytes", EPOCH, b"\1" * 9)
value("val_int_zero", "an integer of no bytes", EPOCH, b"")
value("val_mismatch", "an integer that is another one in its data file", EPOCH, b"\7" * 8)
value("val_str_nul", "a string with a NUL", OPTIMIZER, b"a\0b")
value("val_str_utf8", "a string that is not UTF-8", OPTIMIZER, b"\xff\xfe")
value("val_str_esc", "a string with sequences for a terminal", OPTIMIZER,
      b"\x1b[2J\x1b]0;pwn\x07AdamW\x9b31m")
value("val_str_esc_utf8", "the same in UTF-8, with bidi overrides and C1 controls", OPTIMIZER,
      "\x1b[31mX\u202eY\u009b2J\r\n".encode())
value("val_1m1", "a string that is a byte longer than values may be", OPTIMIZER,
      b"a" * (2**20 + 1))
value("val_1m", "a string that is as long as values may be", OPTIMIZER, b"a" * 2**20)
value("val_json_deep", "JSON nested half a million levels deep", SIGNATURE,
      b"[" * 500000 + b"]" * 500000)
value("val_json_127", "JSON nested as deep as readers go", SIGNATURE, b"[" * 127 + b"]" * 127)
value("val_json_bad", "JSON that ends in the middle", SIGNATURE, b'{"a":')
value("val_json_dup", "JSON with a key that is there twice", SIGNATURE, b'{"a":1,"a":2}')
value("val_json_bignum", "JSON with a number that no double has", SIGNATURE, b"1e999")
value("val_json_bigint", "JSON with an integer of a thousand digits", SIGNATURE, b"9" * 1000)
value("val_json_esc", "JSON with escapes for a terminal's controls", SIGNATURE,
      b'"\\u001b[2J\\u0000x"')


def piece(name: str, purpose: str, key: bytes, **change: int) -> None:
    """Another place or size of a value's only piece."""

    def edit(record: Record, _: Step) -> None:
        for what, number in change.items():
            setattr(record.pieces[0], what, number)

    add(name, purpose, record_edit(key, edit))


piece("val_huge", "bytes per rank that are an exabyte long", RANDOM, size=2**60)
piece("val_huge2", "bytes per rank that are a terabyte long", RANDOM, size=2**40)
piece("val_huge3", "bytes per rank that are two gigabytes long", RANDOM, size=2**31)
piece("val_2gb_rank", "bytes per rank that are all of their file", RANDOM, size=100000, offset=0)
piece("val_off", "a value at an offset beyond all files", EPOCH, offset=2**63)


def many_ranks(scene: Scene) -> None:
    def edit(record: Record, _: Step) -> None:
        first = record.pieces[0]
        record.pieces = [Piece(0, i, first.offset, None, first.size)
                         for i in range(scene.many(300000))]

    record_edit(RANDOM, edit)(scene)


def descending(record: Record, _: Step) -> None:
    first = record.pieces[0]
    record.pieces = [Piece(0, rank, first.offset, None, 32) for rank in (5, 3)]


def other_rank(record: Record, _: Step) -> None:
    record.pieces[0].rank = 1


def no_copy(record: Record, _: Step) -> None:
    record.flags &= ~VALUE


def slot_of_nothing(record: Record, _: Step) -> None:
    record.role, record.slot_of, record.slot = 1, b"model/nobody", b"adam/m"


def own_slot(record: Record, _: Step) -> None:
    record.role, record.slot_of, record.slot = 1, KERNEL[1:], b"adam/m"


add("val_many_ranks", "bytes of three hundred thousand ranks in one place", many_ranks, mib=64)
add("val_rank_desc", "bytes per rank whose ranks descend", record_edit(RANDOM, descending))
add("val_rank_other", "bytes of a rank that there is not, and none of the one there is",
    record_edit(RANDOM, other_rank))
add("val_no_copy", "a value that is not per rank has no copy in the index",
    record_edit(EPOCH, no_copy))
add("val_slot", "a value that says to be an optimizer's slot", record_edit(EPOCH, slot_of_nothing))
add("slot_of_nothing", "a slot of a variable that there is not",
    record_edit(KERNEL, slot_of_nothing))
add("slot_of_itself", "a slot of itself", record_edit(KERNEL, own_slot))
