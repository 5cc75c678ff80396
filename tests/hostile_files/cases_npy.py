# SPDX-License-Identifier: Apache-2.0
"""Files of NumPy: headers that lie, or that are Python."""

from __future__ import annotations

from pathlib import Path

from case import Scene, case
from made_npy import npy, npy_of


def put(scene: Scene, data: bytes) -> Path:
    return scene.put("w.npy", data)


def header(scene: Scene, text: str, data: bytes = bytes(16)) -> Path:
    return put(scene, npy_of(text.encode() + b"\n", data))


@case
def header_beyond_the_end(scene: Scene) -> Path:
    """A header of 65535 bytes in a file of 100."""
    return put(scene, npy_of(b"{'descr': '<f4'}", bytes(70), length=65535))


@case
def header_of_4_gib(scene: Scene) -> Path:
    """A header of 2^32 - 1 bytes, of version 2."""
    return put(scene, npy_of(b"{", bytes(70), version=b"\2\0", length=0xffffffff))


@case
def header_of_nothing(scene: Scene) -> Path:
    """A header of 0 bytes."""
    return put(scene, npy_of(b"", bytes(16)))


@case
def expression_for_a_header(scene: Scene) -> Path:
    """Python that eval would execute."""
    return header(scene, f"__import__('os').system('touch {scene.marker}') or "
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}")


@case
def expression_for_a_shape(scene: Scene) -> Path:
    """A shape that is to be computed."""
    return header(scene, "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,)}")


@case
def shape_that_overflows(scene: Scene) -> Path:
    """2^32 times 2^32 elements: 0, where nobody looks."""
    return put(scene, npy("<f4", (1 << 32, 1 << 32), bytes(16)))


@case
def shape_of_many_digits(scene: Scene) -> Path:
    """A dimension of 4000 digits."""
    return header(scene, "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 4000 + ",)}")


@case
def negative_shape(scene: Scene) -> Path:
    """A negative dimension."""
    return put(scene, npy("<f4", (-4,), bytes(16)))


@case
def more_than_it_has(scene: Scene) -> Path:
    """2^40 elements in 16 bytes."""
    return put(scene, npy("<f4", (1 << 40,), bytes(16)))


@case
def objects(scene: Scene) -> Path:
    """An array of objects, which is a pickle: shown, and not read."""
    return put(scene, npy("|O", (1,), b"cos\nsystem\n(X\x04\0\0\0evil" + b"tR."))


@case
def dimensions_without_end(scene: Scene) -> Path:
    """1000 dimensions of 1."""
    return put(scene, npy("<f4", (1,) * 1000, bytes(4)))


@case
def nested_type(scene: Scene) -> Path:
    """A type in a type, 10,000 deep."""
    inner = "[('a'," * 10_000 + "'<f4'" + ")]" * 10_000
    text = f"{{'descr': {inner}, 'fortran_order': False, 'shape': (1,)}}"
    return put(scene, npy_of(text.encode() + b"\n", bytes(4), version=b"\2\0"))


@case
def key_twice(scene: Scene) -> Path:
    """Two shapes: readers differ on which one counts."""
    return header(scene, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'shape': (2,)}")


@case
def huge_element(scene: Scene) -> Path:
    """Texts of 2^31 characters each."""
    return put(scene, npy("<U2147483647", (4,), bytes(16)))


@case
def unknown_version(scene: Scene) -> Path:
    """Version 9."""
    return put(scene, npy_of(b"{}", version=b"\x09\0"))
