# SPDX-License-Identifier: Apache-2.0
"""Values of Keras's variables as memory that pawl reads and writes, on each backend.

TensorFlow and JAX never write to a value that somebody holds: it is saved from where it is, while
training goes on. PyTorch changes variables in place: their values are copied when a save begins.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy
from keras import backend, ops

from .._entry import Entry
from .._error import UsageError


class Values(Protocol):
    """How a backend's variables are read and written."""

    #: Is what `hold` gives memory that changes with the variable, so that a save has to copy it?
    copied: bool

    def hold(self, name: str, variable: Any) -> Any:
        """The present value, as an array in host memory. `name` is for messages."""

    def new(self, name: str, variable: Any, keep: bool) -> tuple[Any, Any]:
        """Memory to restore into: for `put`, and as an array that pawl takes. `keep`: with the present value."""

    def put(self, variable: Any, value: Any, *, again: bool = False) -> None:
        """Makes what `new` gave the variable's value; `again`: it is put another time, and stays as it is."""


class _TensorFlow:
    copied = False

    def __init__(self) -> None:
        from ..tf import _values

        self._values = _values

    def hold(self, name: str, variable: Any) -> Any:
        del name
        return self._values.hold(variable)

    def new(self, name: str, variable: Any, keep: bool) -> tuple[Any, Any]:
        now = self.hold(name, variable)
        memory = self._values.aligned(now.shape, now.dtype)
        if keep:  # else it is not touched before it is read: new pages cost more than what is read into them
            memory[...] = now
        return memory, memory

    def put(self, variable: Any, value: Any, *, again: bool = False) -> None:
        memory = value
        if again:  # what TensorFlow is given by `assign` is its own from then on
            memory = self._values.aligned(value.shape, value.dtype)
            memory[...] = value
        self._values.assign(variable, memory)


class _Jax:
    copied = False

    def hold(self, name: str, variable: Any) -> Any:
        value = variable.value
        if not getattr(value, "is_fully_addressable", True):
            error = UsageError(f"{name}: this process has only a part of it")
            error.entry = name
            error.next = "a model that is distributed over several processes is not saved by pawl.keras"
            raise error
        # While the view is held JAX does not donate the array to the next step.
        return numpy.asarray(value)

    def new(self, name: str, variable: Any, keep: bool) -> tuple[Any, Any]:
        now = self.hold(name, variable)
        memory = numpy.array(now) if keep else numpy.empty(now.shape, now.dtype)
        return memory, memory

    def put(self, variable: Any, value: Any, *, again: bool = False) -> None:
        del again
        import jax

        variable.assign(jax.numpy.array(value, copy=True))


class _Torch:
    copied = True

    def __init__(self) -> None:
        from ..torch import _tensors

        self._tensors = _tensors

    def hold(self, name: str, variable: Any) -> Any:
        return self._tensors.memory_of(name, variable.value.detach().cpu().contiguous())

    def new(self, name: str, variable: Any, keep: bool) -> tuple[Any, Any]:
        import torch

        now = variable.value.detach().cpu().contiguous()
        memory = now.clone() if keep else torch.empty_like(now)
        return memory, self._tensors.memory_of(name, memory)

    def put(self, variable: Any, value: Any, *, again: bool = False) -> None:
        del again
        import torch

        with torch.no_grad():
            variable.value.copy_(value)


_KINDS: dict[str, type[_TensorFlow] | type[_Jax] | type[_Torch]] = {
    "tensorflow": _TensorFlow,
    "jax": _Jax,
    "torch": _Torch,
}
_made: dict[str, Values] = {}


def values_of(variable: Any) -> Values:
    """How this variable is read and written: of Keras's variables as the backend does it.

    Raises:
        UsageError: the backend cannot train.
    """
    kind = "tensorflow" if type(variable).__module__.startswith("tensorflow.") else backend.backend()
    if kind not in _made:
        if kind not in _KINDS:
            raise UsageError(f"Keras's backend {kind!r} cannot be saved; use tensorflow, jax or torch")
        _made[kind] = _KINDS[kind]()
    return _made[kind]


def array_for(found: Entry) -> Any:
    """Memory for something that is not in use in this process: it is read, and dropped."""
    from .._abi import Dtype
    from .._memory import Array

    return Array(Dtype[found.dtype or "U8"], tuple(found.shape or ()), found.bytes)


def as_numpy(value: Any) -> Any:
    """What `new` of a backend gave, as an array of NumPy."""
    return numpy.array(ops.convert_to_numpy(value) if not isinstance(value, numpy.ndarray) else value)
