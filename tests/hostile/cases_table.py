# SPDX-License-Identifier: Apache-2.0
"""The container of the index: blocks, restart points, footer, order."""

from __future__ import annotations

import struct
from collections.abc import Callable

from case import EPOCH, KERNEL, Scene, add, case
from pawlformat import (FOOTER_BYTES, MAGIC, IndexItem, Step, block, footer, make_record,
                        restart_points, table_of_block, varint, write_table)

WITHOUT_RESTARTS = 10**9


def table(name: str, purpose: str, make: Callable[[Step], bytes], mib: int = 0) -> None:
    """Another table, sealed by a manifest that knows it."""

    def damage(scene: Scene) -> None:
        step = scene.step()
        step.put_index(make(step))
        step.put_manifest()

    add(name, purpose, damage, mib=mib)


def index_block(name: str, purpose: str,
                edit: Callable[[list[IndexItem]], list[IndexItem]] | None,
                per_block: int = 5) -> None:
    """Many small blocks, and another index block about them."""
    table(name, purpose, lambda step: write_table(step.sorted_items(), per_block, edit))


def swallow(index: list[IndexItem]) -> list[IndexItem]:
    key, (at, size) = index[-1]
    return [(key, (0, at + size))]


index_block("tab_plain", "small blocks, and nothing wrong", None)
index_block("tab_per1", "a block for each item, and nothing wrong", None, 1)
index_block("tab_blocks_same", "all keys of the index name the first block",
            lambda index: [(key, index[0][1]) for key, _ in index])
index_block("tab_blocks_rev", "the index names the blocks in reverse",
            lambda index: [(key, index[-1 - n][1]) for n, (key, _) in enumerate(index)])
index_block("tab_off_2_63", "blocks at 2^63",
            lambda index: [(key, (2**63, size)) for key, (_, size) in index])
index_block("tab_off_2_64", "blocks at the largest number",
            lambda index: [(key, (2**64 - 1, size)) for key, (_, size) in index])
index_block("tab_size_2_64", "blocks that end at the largest number",
            lambda index: [(key, (at, 2**64 - 1 - at)) for key, (at, _) in index])
index_block("tab_size_0", "blocks without a byte",
            lambda index: [(key, (at, 0)) for key, (at, _) in index])
index_block("tab_swallow", "one block that is all of them", swallow)
index_block("tab_idx_empty", "an index block that names no block", lambda index: [])
index_block("tab_idx_low", "keys of the index that are less than those of their blocks",
            lambda index: [(b"\0" + bytes([n]), handle) for n, (_, handle) in enumerate(index)])
index_block("tab_idx_one_key", "keys of the index that are greater than all keys: a walk works, a "
            "search does not",
            lambda index: [(b"zz" + bytes([n]), handle) for n, (_, handle) in enumerate(index)])
index_block("tab_idx_late", "one key of the index reaches into the block behind it",
            lambda index: [(key + b"\xff" if n == 2 else key, handle)
                           for n, (key, handle) in enumerate(index)])


def unsorted(step: Step) -> bytes:
    items = step.sorted_items()
    items[6], items[7] = items[7], items[6]
    return write_table(items)


def doubled(step: Step, per_block: int | None) -> bytes:
    items = step.sorted_items()
    items.insert(7, items[6])
    step.manifest["entries"] += 1
    return write_table(items, per_block)


table("tab_unsorted", "two keys in a block have changed places", unsorted)
table("tab_dup", "a key stands twice in a block", lambda step: doubled(step, None))
table("tab_dup_block", "a key ends a block and begins the next", lambda step: doubled(step, 7))
table("tab_footer_only", "a table that is a footer of zeros", lambda step: bytes(40) + MAGIC)


def with_footer(name: str, purpose: str, meta: tuple[int, int], index: tuple[int, int]) -> None:
    table(name, purpose, lambda step: write_table(step.sorted_items())[:-FOOTER_BYTES]
          + footer(meta, index))


with_footer("tab_foot_huge", "handles of the largest numbers", (2**64 - 1,) * 2, (2**64 - 1,) * 2)
with_footer("tab_foot_zero", "handles of zeros", (0, 0), (0, 0))
with_footer("tab_foot_wrap", "handles whose sums wrap to zero", (2**63,) * 2, (2**63,) * 2)


def restart_count(step: Step, count: int) -> bytes:
    items = step.sorted_items()
    return table_of_block(block(items)[:-4] + struct.pack("<I", count), items[-1][0])


for number in (0, 2**32 - 1, 2**30, 2**31, 400):
    table(f"tab_restarts_{number}", f"a block that says {number} restart points",
          lambda step, n=number: restart_count(step, n))


def middle_restarts(step: Step) -> bytes:
    items = step.sorted_items()
    entries = block(items, WITHOUT_RESTARTS)[:-8]
    return table_of_block(entries + restart_points([0, *range(3, len(entries), 7)]), items[-1][0])


def shared_restart(step: Step) -> bytes:
    """A restart point at an entry that shares bytes, so that a search reads another key there."""
    items = step.sorted_items()
    first = block(items[:12], WITHOUT_RESTARTS)[:-8]
    entries = block(items, WITHOUT_RESTARTS)[:-8]
    return table_of_block(entries + restart_points([0, len(first)]), items[-1][0])


table("tab_midrestart", "restart points within entries: a search sees another table than a walk",
      middle_restarts)
table("tab_shared_restart", "a restart point at an entry that shares bytes with the one before",
      shared_restart)


@case("400,000 entries that point to the same bytes", cpu_s=8, mib=256)
def tab_many_entries(scene: Scene) -> None:
    step = scene.step()
    record = step.items[EPOCH]
    count = scene.many(400000)
    for i in range(count):
        step.items[b"ex/%07d" % i] = record
    step.manifest["entries"] += count
    step.put()


def big_block(scene: Scene) -> None:
    """A record of zeros that fills the block."""
    step = scene.step()
    entries = block(step.sorted_items(), WITHOUT_RESTARTS)[:-8]
    size = scene.many(200 << 20)
    entries += varint(0) + varint(2) + varint(size) + b"zz" + bytes(size)
    step.put_index(table_of_block(entries + restart_points([0]), b"zz"))
    step.put_manifest()


add("tab_big_block", "a block of 200 MB", big_block, cpu_s=4, mib=512)


@case("the index of step 20 under step 30")
def xstep_entry(scene: Scene) -> None:
    step = scene.step()
    step.put_index(scene.step(20).index_path.read_bytes())
    step.put_manifest()


@case("an entry in another file than the one that says so, which holds the same name")
def two_files_swap(scene: Scene) -> None:
    step = scene.step()
    first = step.manifest["files"][0]
    names = [f["name"].replace("-of-00004", "-of-00005") for f in step.manifest["files"]]
    for file, name in zip(step.manifest["files"], names):
        (step.directory / file["name"]).rename(step.directory / name)
        file["name"] = name
    copy = first["name"].replace("-00000-of", "-00004-of")
    (step.directory / copy).write_bytes((step.directory / first["name"]).read_bytes())
    step.manifest["files"].append({**first, "name": copy})
    step.put_sums()
    record = step.record(KERNEL)
    record.pieces[0].file = 4
    step.items[KERNEL] = make_record(record)
    step.put()
