# SPDX-License-Identifier: Apache-2.0
"""Entries of a checkpoint: what it says of each."""

from __future__ import annotations

import ctypes
import dataclasses
import json
from typing import Any

from . import _abi
from ._abi import Kind, Role
from ._error import decode


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a checkpoint says of an entry.

    Attributes:
        name: of the entry.
        kind: "tensor", "bool", "int64", "float64", "string", "bytes" or "json".
        role: what it is for: "model", "slot", ...
        slot_of: a slot's variable, or None.
        slot: a slot's name, or None.
        per_rank: each rank has its own bytes.
        replicated: the ranks that saved it held the same bytes.
        dtype: of a tensor: its elements' type: "F32", ..., or one that pawl cannot read; else None.
        shape: of a tensor: of all of it; else ().
        bytes: of the tensor or value.
        pieces: boxes that a tensor is stored in.
    """

    name: str
    kind: str
    role: str
    slot_of: str | None
    slot: str | None
    per_rank: bool
    replicated: bool
    dtype: str | None
    shape: tuple[int, ...]
    bytes: int
    pieces: int


def entry_of(found: _abi.EntryInfo) -> Entry:
    """``pawl_entry_info`` as Python's own data."""
    return Entry(
        name=decode(found.name) or "",
        kind=Kind(found.kind).name.lower(),
        role=Role(found.role).name.lower(),
        slot_of=decode(found.slot_of),
        slot=decode(found.slot),
        per_rank=found.per_rank != 0,
        replicated=found.replicated != 0,
        dtype=decode(found.type),
        shape=tuple(found.shape[i] for i in range(found.ndim)) if found.kind == Kind.TENSOR else (),
        bytes=found.bytes,
        pieces=found.pieces,
    )


def value_of(found: _abi.EntryInfo) -> Any:
    """The value of an entry that is none of tensors."""
    raw = ctypes.string_at(found.value, found.bytes) if found.value else b""
    if found.kind == Kind.BOOL:
        return raw != b"\0"
    if found.kind == Kind.INT64:
        return ctypes.c_int64.from_buffer_copy(raw).value
    if found.kind == Kind.FLOAT64:
        return ctypes.c_double.from_buffer_copy(raw).value
    if found.kind == Kind.STRING:
        return raw.decode()
    if found.kind == Kind.JSON:
        return json.loads(raw)
    return raw
