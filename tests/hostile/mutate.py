# SPDX-License-Identifier: Apache-2.0
"""Random changes of a step's structure, with every checksum made to fit: from a seed, always the same.

Each part of a step is changed by a function of its own: records, the table around them, the manifest,
checksums, headers of data files.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

from case import Scene
from pawlformat import (VALUE, DataFile, IndexItem, Piece, Record, Step, block, checksum_key,
                        make_data_file, make_record, manifest_body, parse_data_file, parse_record,
                        restart_points, table_of_block, write_table)

EDGES = (0, 1, 2, 3, 15, 16, 255, 511, 512, 513, 4095, 4096, 4097, 65535, 2**31 - 1, 2**31,
         2**32 - 1, 2**32, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


class Mutation:
    """One seed's changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self) -> int:
        """An edge, a small number, any number."""
        r = self.random
        return r.choice((r.choice(EDGES), r.randrange(1200), r.randrange(150000),
                         r.getrandbits(64)))

    def near(self, n: int) -> int:
        return max(0, n + self.random.choice((-2, -1, 1, 2, 16, -16, n, -n // 2)))

    # ---- records ----

    def extents(self, r: Record) -> None:
        if r.shape:
            d = self.random.randrange(len(r.shape))
            r.shape[d] = self.random.choice((self.number(), self.near(r.shape[d])))

    def dimensions(self, r: Record) -> None:
        if r.shape and self.random.random() < 0.5:
            r.shape.pop()
        else:
            r.shape.append(self.random.choice((1, self.number())))

    def place(self, r: Record) -> None:
        if r.pieces:
            piece = self.random.choice(r.pieces)
            what = self.random.choice(("offset", "rank", "file", "size"))
            value = getattr(piece, what)
            setattr(piece, what, self.random.choice((self.number() % 2**63, self.near(value))))

    def one_box(self, r: Record) -> None:
        if not r.pieces:
            return
        piece = self.random.choice(r.pieces)
        offset, extent = piece.box or ([0] * len(r.shape), list(r.shape))
        part = self.random.choice((offset, extent))
        if part:
            d = self.random.randrange(len(part))
            part[d] = self.random.choice((self.number(), self.near(part[d])))
        piece.box = (offset, extent)

    def rows(self, r: Record) -> None:
        """Cuts it along the first dimension, here and there a row too early or too late."""
        if not r.shape or not r.pieces:
            return
        count = self.random.randrange(1, 9)
        rows = max(1, r.shape[0] // count)
        first = r.pieces[0]
        slip = self.random.random() < 0.5
        r.pieces = []
        for i in range(count):
            at = max(0, i * rows + (self.random.randrange(-1, 2) if slip else 0))
            height = r.shape[0] - (count - 1) * rows if i == count - 1 else rows
            r.pieces.append(Piece(first.file, first.rank, first.offset + 8 * i,
                                  ([at] + [0] * (len(r.shape) - 1), [height] + r.shape[1:])))

    def boxes(self, r: Record) -> None:
        """Repeats, drops or exchanges pieces."""
        if not r.pieces:
            return
        i, k = self.random.randrange(len(r.pieces)), self.random.randrange(len(r.pieces))
        how = self.random.randrange(4)
        if how == 0:
            r.pieces.append(r.pieces[i])
        elif how == 1:
            r.pieces.pop(i)
        elif how == 2:
            r.pieces[i] = r.pieces[k]
        else:
            r.pieces[i].box, r.pieces[k].box = r.pieces[k].box, r.pieces[i].box

    def head(self, r: Record) -> None:
        how = self.random.randrange(5)
        if how == 0:
            r.dtype = self.random.randrange(26)
        elif how == 1:
            r.role = self.random.randrange(9)
            r.slot_of = r.slot_of or self.random.choice((b"model/dense1/kernel", b"model/x"))
            r.slot = r.slot or b"m"
        elif how == 2:
            r.flags ^= 1 << self.random.randrange(4)
        elif how == 3:
            r.kind = self.random.randrange(9)
        else:
            r.slot_of = self.random.choice((b"step", b"model/none", b"", r.slot))

    def value(self, r: Record) -> None:
        if r.flags & VALUE:
            size = self.random.choice((0, 1, 7, 8, 9, 40, len(r.value)))
            r.value = bytes(self.random.randrange(256) for _ in range(size))
            for piece in r.pieces:
                piece.size = self.random.choice((len(r.value), piece.size))

    def record(self, step: Step) -> None:
        keys = step.entry_keys()
        key = self.random.choice(keys)
        try:
            r = parse_record(step.items[key])
        except (ValueError, IndexError):
            return  # it was changed before
        how = self.random.randrange(11)
        if how == 0:
            step.items[self.random.choice(keys)] = step.items[key]
        elif how == 1:
            name = bytes(self.random.randrange(32, 256) for _ in range(self.random.randrange(9)))
            step.items[b"e" + name] = step.items[key]
        elif how == 2:
            data = bytearray(step.items[key])
            data[self.random.randrange(len(data))] = self.random.randrange(256)
            step.items[key] = bytes(data)
        else:
            edits = (self.extents, self.dimensions, self.place, self.one_box, self.rows, self.boxes,
                     self.head, self.value)
            self.random.choice(edits)(r)
            try:
                step.items[key] = make_record(r)
            except (ValueError, OverflowError):
                return  # what no byte can say
        step.manifest["entries"] = len(step.entry_keys())

    # ---- checksums ----

    def sums(self, step: Step) -> None:
        keys = [key for key in step.items if key[:1] == b"c"]
        if not keys:
            return
        key = self.random.choice(keys)
        data = step.items[key]
        how = self.random.randrange(5)
        if how == 0:
            del step.items[key]
        elif how == 1:
            step.items[key] = data[:self.random.randrange(len(data) + 1)]
        elif how == 2:
            step.items[checksum_key(self.random.randrange(6), self.random.randrange(3))] = data
        elif how == 3:
            step.items[key] = data + bytes(self.random.randrange(9))
        else:
            step.items[key[:self.random.randrange(9)]] = data

    # ---- the table ----

    def index_block(self, index: list[IndexItem]) -> list[IndexItem]:
        i = self.random.randrange(len(index))
        key, (at, size) = index[i]
        how = self.random.randrange(6)
        if how == 0:
            key = key + bytes([self.random.randrange(256)])
        elif how == 1:
            key = key[:-1]
        elif how == 2:
            at = self.random.choice((self.number(), self.near(at)))
        elif how == 3:
            size = self.random.choice((self.number(), self.near(size)))
        elif how == 4:
            return index[:i] + index[i + 1:]
        else:
            key = b"z" + bytes([i])
        return index[:i] + [(key, (at, size))] + index[i + 1:]

    def table(self, step: Step) -> bytes:
        items = step.sorted_items()
        how = self.random.randrange(6)
        if how == 0:
            i, k = self.random.randrange(len(items)), self.random.randrange(len(items))
            items[i], items[k] = items[k], items[i]
        elif how == 1:
            i = self.random.randrange(len(items))
            items.insert(i, items[i])
        elif how == 2:
            interval = self.random.randrange(1, 20)
            data = block(items, interval)
            end = self.random.choice((data[-4:], struct.pack("<I", self.number() % 2**32)))
            return table_of_block(data[:-4] + end, items[-1][0])
        elif how == 3:
            entries = block(items, 10**9)[:-8]
            places = sorted({self.random.randrange(len(entries)) for _ in range(3)} - {0})
            return table_of_block(entries + restart_points([0, *places]), items[-1][0])
        per_block = self.random.randrange(1, 9)
        table = write_table(items, per_block, self.index_block if how == 4 else None)
        if how == 5:
            data = bytearray(table)
            data[-self.random.randrange(1, 49)] = self.random.randrange(256)
            table = bytes(data)
        return table

    # ---- the manifest ----

    def manifest(self, step: Step) -> bytes | None:
        members: dict[str, Any] = step.manifest
        files = members["files"]
        file = self.random.choice(files)
        how = self.random.randrange(9)
        if how == 0:
            name = self.random.choice(("step", "entries", "world_size", "unix_time_ns",
                                       "format_version"))
            members[name] = self.random.choice((self.number(), -1, self.near(members[name])))
        elif how == 1:
            file["bytes"] = self.random.choice((self.number(), self.near(file["bytes"])))
        elif how == 2:
            file["rank"] = self.random.choice((1, self.number()))
        elif how == 3:
            files.append(dict(file))
        elif how == 4:
            files.remove(file)
        elif how == 5:
            self.random.shuffle(files)
        elif how == 6:
            file["name"] = self.random.choice(files)["name"]
        elif how == 7:
            name = self.random.choice(list(members))
            members[name] = self.random.choice((None, [], {}, "", 0, members["attempt"]))
        else:
            body = bytearray(manifest_body(members))
            body[self.random.randrange(len(body))] = self.random.randrange(256)
            return bytes(body)
        return None

    # ---- headers of data files ----

    def header(self, step: Step) -> None:
        """A rebuild reads these. The step's own index knows the bytes as they are then."""
        number = self.random.randrange(len(step.manifest["files"]))
        path = step.data_path(number)
        file = parse_data_file(path.read_bytes())
        self.random.choice((self.tensors, self.description))(file)
        path.write_bytes(make_data_file(file))
        step.put_sums()

    def tensors(self, file: DataFile) -> None:
        name = self.random.choice([key for key in file.header if key != "__metadata__"])
        tensor = file.header[name]
        how = self.random.randrange(5)
        if how == 0:
            tensor["shape"].append(self.random.choice((1, 2, self.number() % 2**63)))
        elif how == 1 and tensor["shape"]:
            tensor["shape"][0] = self.near(tensor["shape"][0])
        elif how == 2:
            tensor["dtype"] = self.random.choice(("F32", "U8", "BOOL", "F4", "X", "I64"))
        elif how == 3:
            end = self.random.randrange(2)
            tensor["data_offsets"][end] = self.near(tensor["data_offsets"][end])
        else:
            file.header[self.random.choice((name + "/x", "a//b", "", "z"))] = file.header.pop(name)

    def description(self, file: DataFile) -> None:
        said = file.about()
        names = [key for key in file.header if key != "__metadata__"]
        how = self.random.randrange(4)
        if how == 0:
            said[self.random.choice(("step", "rank", "world_size", "version"))] = self.near(1)
        elif how == 1:
            said["entries"].pop(self.random.choice(list(said["entries"]) or ["none"]), None)
        else:
            entry = said["entries"].setdefault(self.random.choice(names), {})
            member, value = self.random.choice((
                ("kind", "json"), ("kind", "int64"), ("role", "slot"), ("slot_of", "model/none"),
                ("slot", "m"), ("per_rank", True), ("replicated", True), ("shape", [4, 4]),
                ("offset", [0, 1]), ("shape", [self.number() % 2**63]), ("offset", [1])))
            entry[member] = value
        file.say(json.dumps(said))


def mutate(scene: Scene, seed: int) -> bool:
    """Changes the newest step; true where its manifest is gone, and only a rebuild can read it."""
    m = Mutation(seed)
    step = scene.step()
    part = m.random.choice(("record", "record", "record", "table", "manifest", "sums", "header"))
    change: dict[str, Callable[[Step], None]] = {"record": m.record, "sums": m.sums,
                                                 "header": m.header}
    for _ in range(m.random.choice((1, 1, 2, 4)) if part in change else 0):
        change[part](step)
    step.put_index(m.table(step) if part == "table" else None)
    step.put_manifest(m.manifest(step) if part == "manifest" else None)
    if part != "header" or m.random.random() < 0.5:
        return False
    scene.manifest.unlink()
    return True
