# SPDX-License-Identifier: Apache-2.0
"""Records of tensors: places, shapes, dtypes, versions, kinds, roles, flags."""

from __future__ import annotations

from case import KERNEL, add, record_edit
from pawlformat import Record, Step, make_record


def place(name: str, purpose: str, /, **change: int) -> None:
    """Another file, rank or offset of the kernel's only piece."""

    def edit(record: Record, _: Step) -> None:
        for what, value in change.items():
            setattr(record.pieces[0], what, value)

    add(name, purpose, record_edit(KERNEL, edit))


place("off_huge", "a piece begins at the largest offset", offset=2**63 - 1)
place("off_2_64", "a piece's offset and size wrap around 64 bits", offset=2**64 - 1)
place("off_header", "a piece lies in the header of its file", offset=0)
place("off_other_entry", "a piece lies where another entry's bytes are", offset=4096 + 16)
place("off_unaligned", "a piece begins in the middle of an element", offset=4097)
place("file_99", "a piece is in a file that there is not", file=99)
place("file_2_32", "the number of a file wraps around 32 bits to a good one", file=2**32)
place("file_2_62", "the number of a file, doubled, is nearly 64 bits long", file=2**62)
place("rank_neg", "the rank of a piece is negative as 32 bits", rank=2**31)
place("rank_high", "the rank of a piece is not below the world size", rank=77)


def at_the_end(record: Record, step: Step) -> None:
    record.pieces[0].offset = step.manifest["files"][0]["bytes"] - 100


add("off_end", "a piece begins in its file and ends behind it", record_edit(KERNEL, at_the_end))


def shaped(name: str, purpose: str, shape: list[int], dtype: int | None = None) -> None:
    """Another shape, or dtype, of the kernel, F32 [512, 16]."""

    def edit(record: Record, _: Step) -> None:
        record.shape = shape
        record.dtype = record.dtype if dtype is None else dtype

    add(name, purpose, record_edit(KERNEL, edit))


shaped("shape_neg", "an extent is negative as 64 bits", [2**64 - 16, 16])
shaped("shape_m1", "an extent is 2^63", [2**63, 1])
shaped("shape_max", "an extent is the largest there is", [2**63 - 1, 1])
shaped("shape_ovf", "the elements of two extents wrap to 0", [2**32, 2**32])
shaped("shape_ovf2", "the elements of three extents wrap", [2**31, 2**31, 2**31])
shaped("shape_zero", "no elements, beside a huge extent", [0, 2**62])
shaped("shape_zero2", "no elements, behind extents whose product wraps", [2**62, 2**62, 0])
shaped("shape_e62", "2^62 elements of 4 bytes", [2**62])
shaped("shape_e60", "2^60 elements of 4 bytes", [2**60])
shaped("shape_e40", "four terabytes in a file of some kilobytes", [2**40])
shaped("shape_dims32", "as many dimensions as there may be, the same elements", [1] * 31 + [8192])
shaped("shape_dims33", "a dimension too many", [1] * 33)
shaped("shape_dims255", "as many dimensions as a byte can say", [1] * 255)
shaped("shape_flat", "the same elements in one dimension", [8192])
shaped("shape_more", "a row more than there are bytes for", [513, 16])
shaped("shape_less", "a row less than was written", [511, 16])
shaped("shape_scalar", "one element instead of all", [])
for number in (0, 1, 2, 3, 4, 5, 9, 12, 20, 22, 23, 255):
    shaped(f"dtype_{number}", f"the number of the dtype is {number}", [512, 16], number)
shaped("dtype_u8_grown", "the same bytes as four times as many U8", [512 * 4, 16], 5)
shaped("dtype_f4", "the same bytes as eight times as many packed F4", [512 * 8, 16], 2)
shaped("dtype_f6_odd", "packed elements that do not fill whole bytes", [3], 3)


for number in (0, 2, 3, 255):
    add(f"rec_version_{number}", f"a record of version {number}",
        record_edit(KERNEL, lambda r, _, n=number: setattr(r, "version", n)))
for number in (0, 8, 255):
    add(f"rec_kind_{number}", f"an entry of kind {number}, which there is not",
        record_edit(KERNEL, lambda r, _, n=number: bytes([1, n]) + make_record(r)[2:]))
add("rec_kind_json", "the record of a tensor says that it is JSON",
    record_edit(KERNEL, lambda r, _: bytes([1, 7]) + make_record(r)[2:]))
add("rec_role_9", "a role that there is not", record_edit(KERNEL, lambda r, _: setattr(r, "role", 9)))
add("rec_flags", "flags that there are not",
    record_edit(KERNEL, lambda r, _: setattr(r, "flags", 0xFF)))
add("rec_per_rank", "a tensor that is per rank",
    record_edit(KERNEL, lambda r, _: setattr(r, "flags", 1)))
add("rec_empty", "a record without a byte", record_edit(KERNEL, lambda r, _: b""))
add("rec_trunc", "a record that lacks its last byte",
    record_edit(KERNEL, lambda r, _: make_record(r)[:-1]))
add("rec_tail", "a record with a byte too many",
    record_edit(KERNEL, lambda r, _: make_record(r) + b"\0"))
