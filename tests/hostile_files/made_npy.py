# SPDX-License-Identifier: Apache-2.0
"""Files of NumPy."""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAGIC = b"\x93NUMPY"


def npy_of(header: bytes, data: bytes = b"", version: bytes = b"\1\0",
           length: int | None = None) -> bytes:
    said = len(header) if length is None else length
    return MAGIC + version + struct.pack("<H" if version[0] == 1 else "<I", said) + header + data


def npy(descr: str, shape: Sequence[int], data: bytes) -> bytes:
    sizes = "".join(f"{n}," for n in shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return npy_of(header, data)
