# SPDX-License-Identifier: Apache-2.0
"""Checks that a training loop may make while it runs: of batches, gradients, the position in the data."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import Any

from . import _abi
from ._error import Mismatch, UsageError, check, decode, error_handle
from ._handle import Handle, require_mapping, text_bytes, whole_number
from ._library import lib
from ._memory import Memory, memory_of
from ._state import State, require_state


def _listed(what: str, arrays: Mapping[str, Any], data: bool) -> tuple[Any, list[object]]:
    """Arrays as ``pawl_array``, and what they point to."""
    require_mapping(what, "names to arrays", arrays)
    listed = (_abi.Array * max(len(arrays), 1))()
    kept: list[object] = []
    for out, (name, array) in zip(listed, arrays.items(), strict=False):
        out.name = text_bytes("the name", name)
        if array is None:  # a gradient that is missing
            continue
        memory: Memory = memory_of(name, array)
        if data and memory.strides is not None and memory.address:
            raise UsageError(f"{name}: its elements are not dense and row-major; make it contiguous first")
        shape = (ctypes.c_int64 * max(len(memory.shape), 1))(*memory.shape)
        kept += [memory, shape]
        out.dtype = memory.dtype
        out.ndim = len(memory.shape)
        out.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        out.data = memory.address or ctypes.addressof(shape)  # of no elements: not missing
    return listed, kept


class BatchCheck(Handle):
    """Compares each batch with the first: the same entries, types and shapes.

    ::

        batches = pawl.BatchCheck()
        for batch in loader:
            batches.next({"images": images, "labels": labels})
        state.set_json("batch", batches.signature, role="batch_signature")  # and a restore compares it

    Threads: calls of several threads come one after another.
    """

    _what = "batch check"

    def __init__(self) -> None:
        super().__init__()
        pointer = ctypes.c_void_p()
        check(lib.pawl_batch_check_new(ctypes.byref(pointer), error_handle()))
        self._pointer = pointer
        self._free = lib.pawl_batch_check_free

    def __del__(self) -> None:
        pointer = self._take() if hasattr(self, "_pid") else None
        if pointer is not None:
            self._free(pointer)

    def next(self, batch: Mapping[str, Any]) -> None:
        """Looks at the next batch: name to array, of any library, in host memory.

        Raises:
            Mismatch: names the entry, the number of the batch and both sides, and says what to do.
        """
        listed, kept = _listed("batch", batch, data=False)
        with self._held() as pointer:
            size = ctypes.sizeof(_abi.Array)
            check(lib.pawl_batch_check_next(pointer, listed, len(batch), size, error_handle()))
        del kept

    @property
    def signature(self) -> Any:
        """The first batch's entries, types and shapes, for a state; None before the first batch."""
        with self._held() as pointer:
            text = decode(lib.pawl_batch_check_signature(pointer))
        return None if text is None else json.loads(text)


def check_gradients(variables: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
    """Do gradients fit variables: as many, of the same names, types and shapes, none missing, all finite?

    Args:
        variables: name to array, in host memory.
        gradients: name to array, dense and row-major, in host memory; None: there is none.

    Raises:
        Mismatch: names the variable and both sides.
    """
    of, kept = _listed("variables", variables, data=False)
    found, kept_too = _listed("gradients", gradients, data=True)
    for i, (name, gradient) in enumerate(gradients.items()):
        if gradient is None and name in variables:  # all but its data is as it should be
            variable = next(j for j, other in enumerate(variables) if other == name)
            found[i].dtype, found[i].ndim, found[i].shape = of[variable].dtype, of[variable].ndim, of[variable].shape
    size = ctypes.sizeof(_abi.Array)
    try:
        check(lib.pawl_check_gradients(of, len(variables), found, len(gradients), size, error_handle()))
    except Mismatch as why:
        if why.found == "a null pointer":  # which None has become
            why.found = "None"
            why.attempt = why.attempt.replace("it is a null pointer", "it is None")
            why.args = (why.attempt,)
        raise
    del kept, kept_too


def check_data_position(state: State, name: str, position: int) -> None:
    """After a restore: is the data loader where the checkpoint says?

    Args:
        state: restored.
        name: of its int entry that has the position.
        position: of the loader now.

    Raises:
        Mismatch: names both.
    """
    require_state(state)
    position = whole_number("position", position)
    with state._held() as pointer:
        check(lib.pawl_check_data_position(pointer, text_bytes("the name", name), position, error_handle()))
