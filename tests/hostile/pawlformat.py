# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the format, from docs/format.md alone: reads what is whole, writes anything.

Nothing here checks what it writes: a writer of hostile runs must be able to write what no pawl would.
"""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

BLOCK_BYTES = 16384
BLOCKS_PER_RECORD = 1024
DATA_BLOCK_BYTES = 32768
FOOTER_BYTES = 48
MAX_READ = 1 << 28  # of a file whose size nobody vouches for
MAGIC = bytes.fromhex("57fb808b247547db")
TENSOR = 1
SLOT = 1
PER_RANK, REPLICATED, VALUE = 1, 2, 4

# Number of pawl_dtype: its name in data files, and its bits.
DTYPES: dict[int, tuple[str, int]] = {
    1: ("BOOL", 8), 2: ("F4", 4), 3: ("F6_E2M3", 6), 4: ("F6_E3M2", 6), 5: ("U8", 8), 6: ("I8", 8),
    7: ("F8_E5M2", 8), 8: ("F8_E4M3", 8), 9: ("F8_E8M0", 8), 10: ("F8_E4M3FNUZ", 8),
    11: ("F8_E5M2FNUZ", 8), 12: ("I16", 16), 13: ("U16", 16), 14: ("F16", 16), 15: ("BF16", 16),
    16: ("I32", 32), 17: ("U32", 32), 18: ("F32", 32), 19: ("C64", 64), 20: ("F64", 64),
    21: ("I64", 64), 22: ("U64", 64)}

# ---- checksums ------------------------------------------------------------------------------------

_isal = ctypes.CDLL("libisal.so.2")
_isal.crc32_iscsi.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint]
_isal.crc32_iscsi.restype = ctypes.c_uint


def crc32c(data: bytes, before: int = 0) -> int:
    """Castagnoli's, as in RFC 3720; `before` goes on from an earlier part."""
    return _isal.crc32_iscsi(bytes(data), len(data), before ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """As it stands behind a block of a table."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---- numbers --------------------------------------------------------------------------------------


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


# ---- the table ------------------------------------------------------------------------------------

Item = tuple[bytes, bytes]
Handle = tuple[int, int]
# What the index block says of a data block: key and handle.
IndexItem = tuple[bytes, Handle]


def block(items: Iterable[Item], interval: int = 16) -> bytes:
    """Items with a restart point every `interval`, without the trailer."""
    out = bytearray()
    restarts: list[int] = []
    before = b""
    for n, (key, value) in enumerate(items):
        shared = 0
        if n % interval == 0:
            restarts.append(len(out))
        else:
            limit = min(len(key), len(before))
            while shared < limit and key[shared] == before[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return bytes(out) + restart_points(restarts or [0])


def restart_points(offsets: list[int]) -> bytes:
    return struct.pack(f"<{len(offsets)}I", *offsets) + struct.pack("<I", len(offsets))


def parse_block(data: bytes) -> list[Item]:
    count = struct.unpack("<I", data[-4:])[0]
    end = len(data) - 4 - 4 * count
    at = 0
    key = b""
    items: list[Item] = []
    while at < end:
        shared, at = read_varint(data, at)
        further, at = read_varint(data, at)
        size, at = read_varint(data, at)
        key = key[:shared] + data[at:at + further]
        at += further
        items.append((key, data[at:at + size]))
        at += size
    return items


def sealed(data: bytes, kind: int = 0) -> bytes:
    """A block with its trailer."""
    typed = data + bytes([kind])
    return typed + struct.pack("<I", masked(crc32c(typed)))


def footer(meta: Handle, index: Handle) -> bytes:
    handles = b"".join(varint(n) for n in meta + index)
    return handles[:40].ljust(40, b"\0") + MAGIC


def finish_table(blocks: bytes, index: list[IndexItem]) -> bytes:
    """Metaindex, index and footer behind data blocks."""
    meta = block([])
    index_block = block(((key, varint(at) + varint(size)) for key, (at, size) in index), 1)
    out = blocks + sealed(meta)
    index_at = len(out)
    out += sealed(index_block)
    return out + footer((len(blocks), len(meta)), (index_at, len(index_block)))


def write_table(items: list[Item], per_block: int | None = None,
                edit_index: Callable[[list[IndexItem]], list[IndexItem]] | None = None) -> bytes:
    """Cuts the items, in the order that they have, into blocks as pawl does, or of so many items."""
    out = bytearray()
    index: list[IndexItem] = []
    part: list[Item] = []
    size = 0

    def end_block() -> None:
        nonlocal size
        if part:
            data = block(part)
            index.append((part[-1][0], (len(out), len(data))))
            out.extend(sealed(data))
            part.clear()
            size = 0

    for key, value in items:
        part.append((key, value))
        size += len(key) + len(value) + 6
        if size >= DATA_BLOCK_BYTES or (per_block is not None and len(part) >= per_block):
            end_block()
    end_block()
    return finish_table(bytes(out), edit_index(index) if edit_index else index)


def table_of_block(data: bytes, last_key: bytes) -> bytes:
    """A table whose only data block has these bytes."""
    return finish_table(sealed(data), [(last_key, (0, len(data)))])


def read_table(data: bytes) -> list[Item]:
    handles: list[int] = []
    at = 0
    for _ in range(4):
        number, at = read_varint(data[-FOOTER_BYTES:], at)
        handles.append(number)
    items: list[Item] = []
    for _, handle in parse_block(data[handles[2]:handles[2] + handles[3]]):
        begin, at = read_varint(handle, 0)
        size, _ = read_varint(handle, at)
        items += parse_block(data[begin:begin + size])
    return items


# ---- records --------------------------------------------------------------------------------------

Box = tuple[list[int], list[int]]


@dataclass
class Piece:
    """Where a part of an entry lies. A tensor's without a box is all of it; a value's has `size`."""

    file: int
    rank: int
    offset: int
    box: Box | None = None
    size: int = 0


@dataclass
class Record:
    """What the index says of an entry."""

    kind: int
    role: int = 0
    flags: int = 0
    version: int = 1
    slot_of: bytes = b""
    slot: bytes = b""
    dtype: int = 0
    shape: list[int] = field(default_factory=list)
    value: bytes = b""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def tensor(self) -> bool:
        return self.kind == TENSOR


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_varint(data, at)
    return data[at:at + size], at + size


def _read_numbers(data: bytes, at: int, n: int) -> tuple[list[int], int]:
    numbers: list[int] = []
    for _ in range(n):
        number, at = read_varint(data, at)
        numbers.append(number)
    return numbers, at


def parse_record(data: bytes) -> Record:
    r = Record(version=data[0], kind=data[1], role=data[2], flags=data[3])
    at = 4
    if r.role == SLOT:
        r.slot_of, at = _read_bytes(data, at)
        r.slot, at = _read_bytes(data, at)
    if r.tensor:
        r.dtype = data[at]
        r.shape, at = _read_numbers(data, at + 2, data[at + 1])
    if r.flags & VALUE:
        r.value, at = _read_bytes(data, at)
    count, at = read_varint(data, at)
    for _ in range(count):
        (place, rank, offset), at = _read_numbers(data, at, 3)
        piece = Piece(place >> 1, rank, offset)
        if not r.tensor:
            piece.size, at = read_varint(data, at)
        elif not place & 1:
            numbers, at = _read_numbers(data, at, 2 * len(r.shape))
            piece.box = (numbers[:len(r.shape)], numbers[len(r.shape):])
        r.pieces.append(piece)
    if at != len(data):
        raise ValueError("bytes are left over")
    return r


def make_piece(r: Record, piece: Piece) -> bytes:
    whole = r.tensor and piece.box is None
    out = varint(piece.file * 2 + whole) + varint(piece.rank) + varint(piece.offset)
    if not r.tensor:
        return out + varint(piece.size)
    return out + b"".join(varint(n) for part in piece.box or () for n in part)


def make_record(r: Record, piece_count: int | None = None) -> bytes:
    """`piece_count`: what is said of how many pieces follow."""
    out = bytes([r.version, r.kind, r.role, r.flags])
    if r.role == SLOT:
        out += varint(len(r.slot_of)) + r.slot_of + varint(len(r.slot)) + r.slot
    if r.tensor:
        out += bytes([r.dtype, len(r.shape) & 255]) + b"".join(varint(n) for n in r.shape)
    if r.flags & VALUE:
        out += varint(len(r.value)) + r.value
    out += varint(len(r.pieces) if piece_count is None else piece_count)
    return out + b"".join(make_piece(r, piece) for piece in r.pieces)


def checksum_key(file: int, record: int) -> bytes:
    return b"c" + struct.pack(">II", file, record)


def checksums_of(data: bytes, file: int) -> list[Item]:
    """The records of the blocks of a data file."""
    sums = [crc32c(data[at:at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES)]
    return [(checksum_key(file, at // BLOCKS_PER_RECORD),
             struct.pack(f"<{len(part)}I", *part))
            for at in range(0, len(sums), BLOCKS_PER_RECORD)
            for part in [sums[at:at + BLOCKS_PER_RECORD]]]


# ---- the manifest ---------------------------------------------------------------------------------


class Raw(str):
    """Text that stands in the manifest as it is."""


def json_text(value: Any) -> str:
    return str(value) if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


def manifest_body(members: dict[str, Any]) -> bytes:
    """What stands before the line of the checksum."""
    lines = ["{\n"]
    for name, value in members.items():
        if name == "crc32c":
            continue
        if name == "files" and isinstance(value, list):
            listed = ",\n".join("    " + json_text(f) for f in value)
            lines.append(f'  "files": [\n{listed}\n  ],\n')
        else:
            lines.append(f"  {json.dumps(name)}: {json_text(value)},\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def seal_manifest(body: bytes) -> bytes:
    return body + b'  "crc32c": "%08x"\n}\n' % crc32c(body)


# ---- data files -----------------------------------------------------------------------------------


@dataclass
class DataFile:
    """A data file, its header taken apart."""

    header: dict[str, Any]
    body: bytes

    def about(self) -> dict[str, Any]:
        """What it says of itself."""
        return json.loads(self.header["__metadata__"]["pawl"])

    def say(self, about: dict[str, Any] | str) -> None:
        text = about if isinstance(about, str) else json.dumps(about, separators=(",", ":"))
        self.header["__metadata__"]["pawl"] = text


def parse_data_file(data: bytes) -> DataFile:
    size = struct.unpack("<Q", data[:8])[0]
    return DataFile(json.loads(data[8:8 + size]), data[8 + size:])


def data_sum(data: bytes, header_end: int) -> int:
    """The sum of all its bytes, where the digits are dashes."""
    blocks = -(-header_end // BLOCK_BYTES)
    edge = min(BLOCK_BYTES * blocks, len(data))
    numbers = [crc32c(data[:header_end]), crc32c(data[header_end:edge])]
    numbers += [crc32c(data[at:at + BLOCK_BYTES])
                for at in range(blocks * BLOCK_BYTES, len(data), BLOCK_BYTES)]
    return crc32c(struct.pack(f"<{len(numbers)}I", *numbers))


def make_data_file(file: DataFile) -> bytes:
    """With its sum, where it says what it is; the header fills whole pages."""
    header = dict(file.header)
    metadata = header.get("__metadata__")
    summed = isinstance(metadata, dict) and "pawl_sum" in metadata
    if summed:
        header["__metadata__"] = {**metadata, "pawl_sum": "--------"}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 4096)
    out = struct.pack("<Q", len(text)) + text + file.body
    if summed:
        digits = b"%08x" % data_sum(out, 8 + len(text))
        at = out.index(b"--------")
        out = out[:at] + digits + out[at + 8:]
    return out


# ---- a step ---------------------------------------------------------------------------------------


class Step:
    """A committed step that is taken apart, changed, and put together again with right checksums."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest: dict[str, Any] = json.loads((directory / "manifest.json").read_bytes())
        self.index_path = directory / self.manifest["index"]["name"]
        self.items: dict[bytes, bytes] = dict(read_table(self.index_path.read_bytes()))

    def sorted_items(self) -> list[Item]:
        return sorted(self.items.items())

    def entry_keys(self) -> list[bytes]:
        return sorted(key for key in self.items if key[:1] == b"e")

    def record(self, key: bytes) -> Record:
        return parse_record(self.items[key])

    def data_path(self, number: int = 0) -> Path:
        return self.directory / self.manifest["files"][number]["name"]

    def put_index(self, table: bytes | None = None) -> None:
        """Writes a table, by default of the items, and says so in the manifest."""
        table = write_table(self.sorted_items()) if table is None else table
        self.index_path.write_bytes(table)
        self.manifest["index"].update(bytes=len(table), crc32c=f"{crc32c(table):08x}",
                                      footer_crc32c=f"{crc32c(table[-FOOTER_BYTES:]):08x}")

    def put_manifest(self, body: bytes | None = None) -> None:
        body = manifest_body(self.manifest) if body is None else body
        (self.directory / "manifest.json").write_bytes(seal_manifest(body))

    def put_sums(self) -> None:
        """Takes the data files as they are now for what was written."""
        for key in [key for key in self.items if key[:1] == b"c"]:
            del self.items[key]
        for number, file in enumerate(self.manifest["files"]):
            data = (self.directory / file["name"]).read_bytes()
            file["bytes"] = len(data)
            self.items.update(checksums_of(data, number))

    def put(self) -> None:
        self.put_index()
        self.put_manifest()


# ---- reading a whole step -------------------------------------------------------------------------


def _strides(extent: list[int]) -> list[int]:
    strides = [1] * len(extent)
    for d in range(len(extent) - 2, -1, -1):
        strides[d] = strides[d + 1] * extent[d + 1]
    return strides


def _place(out: bytearray, shape: list[int], box: Box, data: bytes, item: int) -> None:
    """Puts the bytes of a box where they belong in a row-major tensor, row by row."""
    offset, extent = box
    if not shape:
        out[:] = data
        return
    strides = _strides(shape)
    row = extent[-1] * item
    index = [0] * (len(shape) - 1)
    for at in range(0, len(data), row) if row else ():
        to = sum((o + i) * s for o, i, s in zip(offset, [*index, 0], strides)) * item
        out[to:to + row] = data[at:at + row]
        for d in range(len(index) - 1, -1, -1):
            index[d] += 1
            if index[d] < extent[d]:
                break
            index[d] = 0


def _elements(extent: list[int]) -> int:
    n = 1
    for size in extent:
        n *= size
    return n


def read_entry(record: Record, files: Sequence[bytes] | Mapping[int, bytes]) -> bytes:
    """All bytes of an entry: a tensor row-major, a value as it is, those per rank by rank."""
    if not record.tensor:
        return b"".join(files[p.file][p.offset:p.offset + p.size] for p in record.pieces)
    bits = DTYPES[record.dtype][1]
    out = bytearray(_elements(record.shape) * bits // 8)
    for piece in record.pieces:
        box = piece.box or ([0] * len(record.shape), list(record.shape))
        data = files[piece.file][piece.offset:piece.offset + _elements(box[1]) * bits // 8]
        if box[1] == record.shape:
            out[:] = data
        else:
            _place(out, record.shape, box, data, bits // 8)
    return bytes(out)


def read_step(directory: Path) -> dict[str, bytes]:
    """The bytes of every entry, by name."""
    step = Step(directory)
    files = [(directory / f["name"]).read_bytes() for f in step.manifest["files"]]
    return {key[1:].decode(): read_entry(step.record(key), files) for key in step.entry_keys()}


def _regular(path: Path) -> bytes:
    """What lies there. Reading a FIFO or a device would not end."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_READ:
        raise ValueError(f"{path.name} is no regular file of a size to be read")
    return path.read_bytes()


def read_sound_entry(directory: Path, name: bytes) -> tuple[bytes, bytes]:
    """One entry of a step that may be damaged elsewhere: its bytes in the data files, and in the
    index, which has a copy of values. ValueError where a checksum of what is read does not fit."""
    step = Step(directory)
    record = step.record(b"e" + name)
    if f"{crc32c(_regular(step.index_path)):08x}" != step.manifest["index"]["crc32c"]:
        raise ValueError("the index does not fit its checksum")
    files = {p.file: _regular(step.data_path(p.file)) for p in record.pieces}
    for p in record.pieces:
        size = p.size
        if record.tensor:
            extent = p.box[1] if p.box else record.shape
            size = _elements(extent) * DTYPES[record.dtype][1] // 8
        if size > MAX_READ or p.offset + size > len(files[p.file]):
            raise ValueError(f"a piece ends behind file {p.file}")
        fit = dict(checksums_of(files[p.file], p.file))
        for number in range(p.offset // BLOCK_BYTES, -(-(p.offset + size) // BLOCK_BYTES)):
            key = checksum_key(p.file, number // BLOCKS_PER_RECORD)
            at = number % BLOCKS_PER_RECORD * 4
            if step.items.get(key, b"")[at:at + 4] != fit[key][at:at + 4]:
                raise ValueError(f"block {number} of file {p.file} does not fit its checksum")
    data = read_entry(record, files)
    return data, record.value if record.flags & VALUE else data


def with_pieces(record: Record, pieces: list[Piece]) -> Record:
    return replace(record, pieces=pieces)
