# SPDX-License-Identifier: Apache-2.0
"""Zip files, of NumPy and others, whose directory lies."""

from __future__ import annotations

import struct
from pathlib import Path

from case import Scene, case
from made_npy import npy
from made_zip import DEFLATED, LINK, End, Member, deflate, zip64_end, zip_of

ARRAY = npy("<f4", (4,), bytes(16))


def put(scene: Scene, data: bytes) -> Path:
    return scene.put("model.npz", data)


@case
def overlapping_members(scene: Scene) -> Path:
    """Two members that begin at the same byte."""
    return put(scene, zip_of([Member("w.npy", ARRAY), Member("w.npy", ARRAY, offset=0)]))


@case
def overlapping_by_size(scene: Scene) -> Path:
    """A stored member whose size takes in the next one."""
    return put(scene, zip_of([Member("a.npy", ARRAY, bytes=len(ARRAY) + 40,
                                     packed_bytes=len(ARRAY) + 40), Member("b.npy", ARRAY)]))


@case
def quine_of_overlaps(scene: Scene) -> Path:
    """1000 names of one member that is deflated 1000:1."""
    packed = deflate(bytes(1 << 20))
    first = Member("0.npy", bytes(1 << 20), DEFLATED)
    more = [Member(f"{i}.npy", bytes(1 << 20), DEFLATED, packed=b"", offset=0,
                   packed_bytes=len(packed)) for i in range(1, 1000)]
    return put(scene, zip_of([first, *more]))


@case
def size_that_lies(scene: Scene) -> Path:
    """A deflated member that says that it is 16 TiB."""
    return put(scene, zip_of([Member("w.npy", ARRAY, DEFLATED, bytes=0xfffffffe)]))


@case
def size_that_differs_before_it(scene: Scene) -> Path:
    """Another size in the header before the member than in the directory."""
    return put(scene, zip_of([Member("w.npy", ARRAY, local_bytes=1)]))


@case
def name_that_differs_before_it(scene: Scene) -> Path:
    """Another name in the header before the member than in the directory."""
    return put(scene, zip_of([Member("w.npy", ARRAY, local_name="x.npy")]))


@case
def stored_size_that_differs(scene: Scene) -> Path:
    """A stored member that becomes more bytes than it has."""
    return put(scene, zip_of([Member("w.npy", ARRAY, bytes=1 << 30)]))


@case
def bomb_of_deflate(scene: Scene) -> Path:
    """An array of 1 GiB, deflated 1000:1: read by what verifies it, and never kept."""
    zeros = bytes(1 << 26)
    return put(scene, zip_of([Member("w.npy", npy("|u1", (len(zeros),), zeros), DEFLATED)]))


@case
def bomb_in_a_bomb(scene: Scene) -> Path:
    """A zip of zips: the inner ones are bytes, and nobody opens them."""
    inner = zip_of([Member("w.npy", bytes(1 << 24), DEFLATED)])
    outer = zip_of([Member(f"{i}.zip", inner, DEFLATED) for i in range(16)]
                   + [Member("w.npy", ARRAY)])
    return put(scene, outer)


@case
def bomb_that_is_larger_than_it_says(scene: Scene) -> Path:
    """64 MiB in a member that says 144 bytes."""
    return put(scene, zip_of([Member("w.npy", ARRAY, DEFLATED,
                                     packed=deflate(ARRAY + bytes(1 << 26)))]))


@case
def deflated_to_less(scene: Scene) -> Path:
    """Fewer bytes than the member says."""
    return put(scene, zip_of([Member("w.npy", ARRAY, DEFLATED, packed=deflate(ARRAY[:-4]))]))


@case
def deflated_by_nobody(scene: Scene) -> Path:
    """Bytes that nothing was deflated to."""
    return put(scene, zip_of([Member("w.npy", ARRAY, DEFLATED, packed=b"\xff" * 100)]))


@case
def other_checksum(scene: Scene) -> Path:
    """A CRC32 that is another one's."""
    return put(scene, zip_of([Member("w.npy", ARRAY, crc=0x12345678)]))


@case
def absolute_name(scene: Scene) -> Path:
    """A member that would be put at the root."""
    return put(scene, zip_of([Member("/etc/cron.d/w.npy", ARRAY)]))


@case
def name_that_leads_out(scene: Scene) -> Path:
    """A member that would be put beside the directory."""
    return put(scene, zip_of([Member("a/../../w.npy", ARRAY)]))


@case
def name_of_windows(scene: Scene) -> Path:
    """The same with the separator of Windows."""
    return put(scene, zip_of([Member("..\\..\\w.npy", ARRAY)]))


@case
def name_with_a_nul(scene: Scene) -> Path:
    """A name that ends earlier for programs in C."""
    return put(scene, zip_of([Member("w.npy\0.txt", ARRAY)]))


@case
def name_that_is_no_text(scene: Scene) -> Path:
    """A name that is no UTF-8."""
    return put(scene, zip_of([Member(b"\xff\xfe.npy", ARRAY)]))


@case
def link_to_a_file(scene: Scene) -> Path:
    """A symbolic link."""
    return put(scene, zip_of([Member("w.npy", b"/etc/passwd", attributes=LINK)]))


@case
def name_twice(scene: Scene) -> Path:
    """A name that is there twice: of which array is it?"""
    return put(scene, zip_of([Member("w.npy", ARRAY), Member("w.npy", ARRAY)]))


@case
def names_that_become_one(scene: Scene) -> Path:
    """w and w.npy, which numpy would call the same."""
    return put(scene, zip_of([Member("w", b"raw"), Member("w.npy", ARRAY)]))


@case
def encrypted(scene: Scene) -> Path:
    """An encrypted member."""
    return put(scene, zip_of([Member("w.npy", ARRAY, flags=1)]))


@case
def unknown_method(scene: Scene) -> Path:
    """A method of compression that there is not."""
    return put(scene, zip_of([Member("w.npy", ARRAY, method=98)]))


@case
def member_behind_the_end(scene: Scene) -> Path:
    """A member that begins at 4 GiB - 16."""
    return put(scene, zip_of([Member("w.npy", ARRAY, offset=0xfffffff0)]))


@case
def directory_behind_the_end(scene: Scene) -> Path:
    """A directory that begins behind the file."""
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(offset=0x7fffffff)))


@case
def directory_that_is_larger(scene: Scene) -> Path:
    """A directory of more bytes than the file."""
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(bytes=0x7fffffff)))


@case
def count_that_lies(scene: Scene) -> Path:
    """65534 members, in a directory of one."""
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(count=65534)))


@case
def zip64_of_many_members(scene: Scene) -> Path:
    """2^60 members, as zip64 says."""
    plain = zip_of([Member("w.npy", ARRAY)])
    at = len(plain) - 22
    size = at - plain.index(b"PK\1\2")
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(
        count=0xffff, between=zip64_end(1 << 60, size, at - size, at))))


@case
def zip64_behind_the_end(scene: Scene) -> Path:
    """The directory at 2^63, as zip64 says."""
    at = len(zip_of([Member("w.npy", ARRAY)])) - 22
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(
        offset=0xffffffff, between=zip64_end(1, 51, 1 << 63, at))))


@case
def zip64_that_leads_to_itself(scene: Scene) -> Path:
    """The end of zip64 where its own locator is."""
    at = len(zip_of([Member("w.npy", ARRAY)])) - 22
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(
        offset=0xffffffff, between=zip64_end(1, 51, 0, at + 56))))


@case
def zip64_size_of_a_member(scene: Scene) -> Path:
    """A member of 2^63 bytes, as its own zip64 says."""
    extra = struct.pack("<HHQQ", 1, 16, 1 << 63, 1 << 63)
    return put(scene, zip_of([Member("w.npy", ARRAY, bytes=0xffffffff, packed_bytes=0xffffffff,
                                     extra=extra)]))


@case
def bytes_behind_the_end(scene: Scene) -> Path:
    """Another file behind the zip."""
    return put(scene, zip_of([Member("w.npy", ARRAY)], behind=b"#!/bin/sh\n" * 10))


@case
def several_parts(scene: Scene) -> Path:
    """A part of several."""
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(disk=3)))


@case
def comment_with_another_end(scene: Scene) -> Path:
    """A comment that has the end of another zip in it: programs differ on which one counts."""
    other = zip_of([Member("x.npy", ARRAY)])
    return put(scene, zip_of([Member("w.npy", ARRAY)], End(comment=other)))


@case
def extra_that_is_longer(scene: Scene) -> Path:
    """An extra field that says that it is longer than all of them."""
    return put(scene, zip_of([Member("w.npy", ARRAY, bytes=0xffffffff,
                                     extra=struct.pack("<HH", 1, 0xffff))]))


@case
def a_hundred_thousand_members(scene: Scene) -> Path:
    """Empty members: 12 MiB that say nothing."""
    return put(scene, zip_of([Member(f"{i}") for i in range(60_000)]
                             + [Member("w.npy", ARRAY)]))
