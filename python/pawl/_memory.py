# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as memory: where it is, what is in it, how it is laid out.

Anything with ``__array_interface__`` (NumPy, ml_dtypes), the buffer protocol (bytearray, array,
mmap, JAX on CPU) or ``__dlpack__`` (PyTorch, CuPy, TensorFlow, JAX) will do. Nothing is copied.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import sys
from typing import Any, NamedTuple, Protocol

from ._abi import Dtype
from ._error import OutOfMemory, UsageError
from ._library import lib

# ---- types of elements ---------------------------------------------------------------------------

#: Type strings of NumPy's array interface, without the byte order.
_OF_TYPESTR = {
    "b1": Dtype.BOOL,
    "u1": Dtype.U8,
    "i1": Dtype.I8,
    "i2": Dtype.I16,
    "u2": Dtype.U16,
    "f2": Dtype.F16,
    "i4": Dtype.I32,
    "u4": Dtype.U32,
    "f4": Dtype.F32,
    "c8": Dtype.C64,
    "f8": Dtype.F64,
    "i8": Dtype.I64,
    "u8": Dtype.U64,
}
_TYPESTR_OF = {dtype: name for name, dtype in _OF_TYPESTR.items()}

#: Names of the types that ml_dtypes adds to NumPy (JAX, TensorFlow) and of PyTorch's.
_OF_NAME = {
    "bfloat16": Dtype.BF16,
    "float8_e4m3fn": Dtype.F8_E4M3,
    "float8_e4m3fnuz": Dtype.F8_E4M3FNUZ,
    "float8_e5m2": Dtype.F8_E5M2,
    "float8_e5m2fnuz": Dtype.F8_E5M2FNUZ,
    "float8_e8m0fnu": Dtype.F8_E8M0,
}

#: struct formats of the buffer protocol.
_OF_FORMAT = {
    "?": Dtype.BOOL,
    "B": Dtype.U8,
    "c": Dtype.U8,
    "b": Dtype.I8,
    "h": Dtype.I16,
    "H": Dtype.U16,
    "e": Dtype.F16,
    "i": Dtype.I32,
    "I": Dtype.U32,
    "f": Dtype.F32,
    "Zf": Dtype.C64,
    "d": Dtype.F64,
    "q": Dtype.I64,
    "Q": Dtype.U64,
    "l": Dtype.I64 if ctypes.sizeof(ctypes.c_long) == 8 else Dtype.I32,
    "L": Dtype.U64 if ctypes.sizeof(ctypes.c_long) == 8 else Dtype.U32,
}

#: (code, bits) of DLPack 1.1.
_OF_DLPACK = {
    (6, 8): Dtype.BOOL,
    (1, 8): Dtype.U8,
    (0, 8): Dtype.I8,
    (0, 16): Dtype.I16,
    (1, 16): Dtype.U16,
    (2, 16): Dtype.F16,
    (4, 16): Dtype.BF16,
    (0, 32): Dtype.I32,
    (1, 32): Dtype.U32,
    (2, 32): Dtype.F32,
    (5, 64): Dtype.C64,
    (2, 64): Dtype.F64,
    (0, 64): Dtype.I64,
    (1, 64): Dtype.U64,
    (10, 8): Dtype.F8_E4M3,
    (11, 8): Dtype.F8_E4M3FNUZ,
    (12, 8): Dtype.F8_E5M2,
    (13, 8): Dtype.F8_E5M2FNUZ,
    (14, 8): Dtype.F8_E8M0,
    (17, 4): Dtype.F4,
}
#: F4 comes two to a byte: one element of two lanes (PyTorch's float4_e2m1fn_x2).
_LANES = {Dtype.F4: 2}
_DLPACK_OF = {dtype: code for code, dtype in _OF_DLPACK.items()}

#: The parts of complex types that safetensors has not, complex128 and PyTorch's complex32: kept with a last dimension
#: of 2, the real part and the imaginary, which is how they lie in memory.
PARTS = {"complex128": Dtype.F64, "complex32": Dtype.F16}
_PARTS_OF = {"c16": Dtype.F64, "Zd": Dtype.F64, (5, 128): Dtype.F64, (5, 32): Dtype.F16}


@functools.cache
def dtype_bits(dtype: Dtype) -> int:
    """Bits of one element: 4 to 64."""
    bits: int = lib.pawl_dtype_bits(dtype)
    return bits


def typestr_of(dtype: Dtype) -> str | None:
    """The type string of NumPy's array interface; None for types that NumPy does not have."""
    name = _TYPESTR_OF.get(dtype)
    return None if name is None else ("|" if name[1] == "1" else "<") + name


# ---- memory --------------------------------------------------------------------------------------


class Provider(Protocol):
    """Copies a tensor to host memory in its own way."""

    @property
    def address(self) -> int:
        """Of its ``pawl_memory``."""


class Memory(NamedTuple):
    """Memory of somebody else's array.

    Attributes:
        dtype: type of its elements.
        shape: elements per dimension.
        strides: bytes per dimension; None: dense and row-major.
        address: of the first element; 0 where there are no elements.
        writable: may a restore write to it?
        owner: what keeps the memory alive as long as it is referenced.
        parts: its elements are the parts of complex numbers: the array has no last dimension of 2,
            `shape` has.
        provider: copies it, or tells when a copy of it is complete; None: it is read as it is.
    """

    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int
    writable: bool
    owner: object
    parts: bool = False
    provider: Provider | None = None

    @property
    def bytes(self) -> int:
        """Of all its elements."""
        return math.prod(self.shape) * dtype_bits(self.dtype) // 8


def _of_parts(memory: Memory) -> Memory:
    """The parts of complex numbers, described as if each number were one part."""
    strides = None if memory.strides is None else (*memory.strides, dtype_bits(memory.dtype) // 8)
    return memory._replace(shape=(*memory.shape, 2), strides=strides, parts=True)


def _refuse(name: str, what: str) -> UsageError:
    error = UsageError(f"{name}: {what}")
    error.entry = name
    return error


def _dense(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides, step = [], item
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


#: Names of types of elements, by the type, which take NumPy longer than all else that is asked of an array.
_names: dict[Any, str] = {}
_MAX_NAMES = 64


def _name_of(dtype: Any) -> str:
    try:
        return _names[dtype]
    except TypeError:  # it has no hash
        return str(dtype)
    except KeyError:
        named = str(dtype)
    if len(_names) < _MAX_NAMES:
        _names[dtype] = named
    return named


def _of_array_interface(name: str, array: Any, interface: dict[str, Any]) -> Memory:
    typestr = interface["typestr"]
    order, kind = typestr[0], typestr[1:]
    if order == (">" if sys.byteorder == "little" else "<"):
        raise _refuse(name, f"its elements ({typestr}) are not in this machine's byte order; convert it first")
    named = _name_of(getattr(array, "dtype", ""))
    parts = _PARTS_OF.get(kind)
    dtype = parts or _OF_NAME.get(named) or _OF_TYPESTR.get(kind)
    if dtype is None:
        raise _refuse(name, f"elements of type {named or typestr} cannot be saved")
    if interface.get("mask") is not None or type(array).__name__ == "MaskedArray":
        raise _refuse(name, "it has a mask, which is not saved; save its data and its mask as two tensors")
    data = interface.get("data")
    if data is None:
        raise _refuse(name, "its array interface does not say where its memory is")
    owner: object = (array, interface)  # who makes an array for this call alone holds it by the interface
    if isinstance(data, tuple):
        address, read_only = data
    else:
        held = _HeldBuffer(data)
        owner, read_only = (array, held), bool(held.view.readonly)
        address = (held.view.buf or 0) + interface.get("offset", 0)
    strides = interface.get("strides")
    memory = Memory(dtype, tuple(interface["shape"]), strides and tuple(strides), address, not read_only, owner)
    return memory if parts is None else _of_parts(memory)


class _Buffer(ctypes.Structure):
    """``Py_buffer``."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


_RECORDS_READ_ONLY = 0x0018 | 0x0004  # PyBUF_STRIDES | PyBUF_FORMAT
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_release_buffer.restype = None


class _HeldBuffer:
    """A buffer that its exporter neither moves nor resizes until this object is gone."""

    def __init__(self, exporter: object) -> None:
        self.view = _Buffer()
        self._pointer = ctypes.byref(self.view)
        self._release = _release_buffer  # which a module that is being torn down has no more
        _get_buffer(exporter, self._pointer, _RECORDS_READ_ONLY)

    def __del__(self) -> None:
        self._release(self._pointer)  # of one that was not got it does nothing


def _of_buffer(name: str, array: object) -> Memory:
    held = _HeldBuffer(array)
    view = held.view
    text = (view.format or b"B").decode()
    if text[0] in "<=>!@":
        if text[0] in (">!" if sys.byteorder == "little" else "<"):
            raise _refuse(name, f"its elements ({text}) are not in this machine's byte order; convert it first")
        text = text[1:]
    parts = _PARTS_OF.get(text)
    dtype = parts or _OF_FORMAT.get(text)
    if dtype is None or dtype_bits(dtype) * (1 if parts is None else 2) != view.itemsize * 8:
        raise _refuse(name, f"elements of format {text!r} cannot be saved")
    shape = tuple(view.shape[i] for i in range(view.ndim))
    strides = tuple(view.strides[i] for i in range(view.ndim)) if view.strides else None
    memory = Memory(dtype, shape, strides, view.buf or 0, not view.readonly, held)
    return memory if parts is None else _of_parts(memory)


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    ]


_READ_ONLY = 1  # a flag of DLPack 1.0
_CPU, _CUDA_HOST = 1, 3  # kinds of device whose memory the processor can read
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def _dlpack_tensor(array: Any) -> tuple[object, _DLTensor, bool]:
    """A capsule, the tensor in it, and may it be written to?

    The capsule is held, never consumed: when it goes, so does its hold on the memory.
    """
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # of before DLPack 1.0, which cannot say that memory is read-only
        capsule = array.__dlpack__()
    if _is_capsule(capsule, b"dltensor_versioned"):
        versioned = _DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        return capsule, versioned.dl_tensor, versioned.flags & _READ_ONLY == 0
    return capsule, _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), True


def _of_lanes(name: str, memory: Memory, lanes: int) -> Memory:
    """Packed elements one by one, described by bytes of so many; they have to be dense."""
    if not memory.shape or (memory.strides is not None and memory.strides != _dense(memory.shape, 1)):
        raise _refuse(name, "its packed elements do not lie one after the other; make it contiguous first")
    return memory._replace(shape=(*memory.shape[:-1], memory.shape[-1] * lanes), strides=None)


def _of_dlpack(name: str, array: Any) -> Memory:
    device, number = array.__dlpack_device__()
    if device not in (_CPU, _CUDA_HOST):
        raise _refuse(
            name, f"it is on a device (DLPack type {int(device)}, number {number}); copy it to host memory first"
        )
    capsule, tensor, writable = _dlpack_tensor(array)
    code = (tensor.dtype.code, tensor.dtype.bits)
    parts = _PARTS_OF.get(code)
    dtype = parts or _OF_DLPACK.get(code)
    lanes = 1 if dtype is None else _LANES.get(dtype, 1)
    if dtype is None or tensor.dtype.lanes != lanes:
        raise _refuse(name, f"elements of DLPack type {code}, {tensor.dtype.lanes} lanes, cannot be saved")
    item = code[1] * lanes // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * item for i in range(tensor.ndim)) if tensor.strides else None
    memory = Memory(dtype, shape, strides, (tensor.data or 0) + tensor.byte_offset, writable, capsule)
    if lanes > 1:
        return _of_lanes(name, memory, lanes)
    return memory if parts is None else _of_parts(memory)


def memory_of(name: str, array: Any) -> Memory:
    """Where the elements of `array` are; of a `Memory` itself. `name` is for messages.

    Raises:
        UsageError: it is no array, is on a device, or has elements that pawl has no type for.
    """
    if isinstance(array, Memory):
        return array
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        try:
            found = _of_array_interface(name, array, interface)
        except UsageError:
            raise
        except (KeyError, IndexError, TypeError, ValueError) as why:
            raise _refuse(name, f"its __array_interface__ is not one: {why!r}") from why
    elif hasattr(array, "__dlpack__"):
        try:
            found = _of_dlpack(name, array)
        except UsageError:
            raise
        except (BufferError, RuntimeError, TypeError, ValueError) as why:
            raise _refuse(name, f"its __dlpack__ gives no tensor: {why}") from why
    else:
        try:
            memoryview(array)
        except TypeError:
            raise _refuse(
                name,
                f"{type(array).__module__}.{type(array).__qualname__} is no array: it has neither "
                "__array_interface__ nor __dlpack__ nor a buffer",
            ) from None
        found = _of_buffer(name, array)
    item = dtype_bits(found.dtype) // 8
    if found.strides is not None and found.strides == _dense(found.shape, item):
        found = found._replace(strides=None)
    return found


# ---- arrays that this package makes --------------------------------------------------------------


class _DLManagedTensor(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [
    ("dl_tensor", _DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _DELETER),
]
_CAPSULE_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CAPSULE_DESTRUCTOR]
_new_capsule.restype = ctypes.py_object
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_capsule_valid.restype = ctypes.c_int
_raw_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

#: What consumers of DLPack hold, by the address of the managed tensor.
_exported: dict[int, tuple[Any, ...]] = {}


@_DELETER  # type: ignore[untyped-decorator]
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_CAPSULE_DESTRUCTOR  # type: ignore[untyped-decorator]
def _destroy_capsule(capsule: int) -> None:
    """Of a capsule that nobody consumed: a consumer renames it."""
    if _capsule_valid(capsule, b"dltensor"):
        _exported.pop(_raw_capsule_pointer(capsule, b"dltensor"), None)


def _ml_dtype(dtype: Dtype) -> Any:
    name = next((name for name, known in _OF_NAME.items() if known == dtype), None)
    try:
        import ml_dtypes

        return getattr(ml_dtypes, str(name))
    except (ImportError, AttributeError):
        raise TypeError(
            f"NumPy has no type {dtype.name}"
            + ("; install ml_dtypes, which has it" if name is not None else "")
            + "; the attribute buffer has the bytes"
        ) from None


#: Fresh pages of the system are zero: so many need not be written twice.
_PAGES_FROM = 1 << 20


def _new_memory(nbytes: int) -> ctypes.Array[ctypes.c_uint8]:
    """Zeros."""
    if nbytes < _PAGES_FROM:
        return (ctypes.c_uint8 * nbytes)()
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise OutOfMemory(f"there is no memory for {nbytes} bytes") from None
    return (ctypes.c_uint8 * nbytes).from_buffer(pages)


class Array:
    """Elements read from a checkpoint, dense and row-major, in memory of its own.

    Hand it to any library: ``numpy.asarray(array)``, ``torch.from_dlpack(array)``,
    ``jax.dlpack.from_dlpack(array)``, ``memoryview(array.buffer)``. They share its memory.

    Attributes:
        dtype: name of the type of its elements, as in safetensors files: "F32", "BF16", ...
        shape: elements per dimension.
        nbytes: bytes of all elements.
    """

    __slots__ = ("__weakref__", "_address", "_dtype", "_memory", "nbytes", "shape")

    def __init__(self, dtype: Dtype, shape: tuple[int, ...], nbytes: int) -> None:
        self._dtype = dtype
        self.shape = shape
        self.nbytes = nbytes
        alignment = 64  # what the users of DLPack may expect
        self._memory = _new_memory(nbytes + alignment)
        self._address = -(-ctypes.addressof(self._memory) // alignment) * alignment

    @property
    def dtype(self) -> str:
        """Its type of elements by the name that safetensors has for it, "BF16"."""
        return self._dtype.name

    @property
    def buffer(self) -> memoryview:
        """Its bytes, writable."""
        begin = self._address - ctypes.addressof(self._memory)
        return memoryview(self._memory).cast("B")[begin : begin + self.nbytes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For ``numpy.asarray``: shares the memory. The types that NumPy lacks need ml_dtypes.

        Raises:
            TypeError: neither NumPy nor ml_dtypes has this type.
        """
        import numpy

        own = typestr_of(self._dtype)
        if own is None:
            own = _ml_dtype(self._dtype)
        array = numpy.frombuffer(self.buffer, dtype=own).reshape(self.shape)
        if dtype is not None and numpy.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"{self.dtype} as {dtype} is a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0

    def __dlpack__(self, *, stream: object = None, **newer: object) -> object:
        """A capsule of DLPack; its consumer shares the memory. Other arguments are ignored."""
        del stream, newer
        code = _DLPACK_OF.get(self._dtype)
        if code is None:
            raise BufferError(f"DLPack has no type {self.dtype}; use buffer")
        ndim, lanes = len(self.shape), _LANES.get(self._dtype, 1)
        shape = (ctypes.c_int64 * ndim)(*self.shape)
        if lanes > 1 and (not shape or shape[-1] % lanes != 0):
            raise BufferError(f"{self.dtype} {list(self.shape)} has rows that end within a byte; use buffer")
        if lanes > 1:
            shape[-1] //= lanes
        managed = _DLManagedTensor()
        managed.dl_tensor.data = self._address
        managed.dl_tensor.device = _DLDevice(_CPU, 0)
        managed.dl_tensor.ndim = ndim
        managed.dl_tensor.dtype = _DLDataType(code[0], code[1], lanes)
        managed.dl_tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = _delete
        address = ctypes.addressof(managed)
        _exported[address] = (self._memory, shape, managed)
        return _new_capsule(address, b"dltensor", _destroy_capsule)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<pawl.Array {self.dtype} {list(self.shape)}>"
