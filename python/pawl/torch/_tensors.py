# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors as memory that libpawl reads and writes; nothing is copied."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .._abi import Dtype
from .._entry import Entry
from .._error import OutOfMemory, UsageError
from .._memory import Memory, dtype_bits
from .._shadow import Shadow
from .._state import Box, Tensor

#: PyTorch's types of elements and pawl's.
DTYPES: dict[torch.dtype, Dtype] = {
    torch.bool: Dtype.BOOL,
    torch.uint8: Dtype.U8,
    torch.int8: Dtype.I8,
    torch.int16: Dtype.I16,
    torch.uint16: Dtype.U16,
    torch.float16: Dtype.F16,
    torch.bfloat16: Dtype.BF16,
    torch.int32: Dtype.I32,
    torch.uint32: Dtype.U32,
    torch.float32: Dtype.F32,
    torch.complex64: Dtype.C64,
    torch.float64: Dtype.F64,
    torch.int64: Dtype.I64,
    torch.uint64: Dtype.U64,
    torch.float8_e4m3fn: Dtype.F8_E4M3,
    torch.float8_e4m3fnuz: Dtype.F8_E4M3FNUZ,
    torch.float8_e5m2: Dtype.F8_E5M2,
    torch.float8_e5m2fnuz: Dtype.F8_E5M2FNUZ,
    torch.float8_e8m0fnu: Dtype.F8_E8M0,
}
#: Complex types that pawl has not, and the type of their two parts: kept as tensors of it, with a last dimension of 2.
IN_PARTS = {torch.complex32: torch.float16, torch.complex128: torch.float64}
#: Two elements to a byte, which PyTorch counts as one; None: this PyTorch has no such type.
FLOAT4: torch.dtype | None = getattr(torch, "float4_e2m1fn_x2", None)
#: PyTorch's, by the names that checkpoints have.
TORCH_DTYPES = {dtype.name: of_torch for of_torch, dtype in DTYPES.items()}


def _refuse(name: str, what: str) -> UsageError:
    error = UsageError(f"{name}: {what}")
    error.entry = name
    return error


def kind_without_elements(tensor: torch.Tensor) -> str | None:
    """The kind of a tensor that is not one piece of memory with elements: sparse, quantized, nested; None: it is."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    return None if tensor.layout is torch.strided else str(tensor.layout).removeprefix("torch.")


def require_elements(name: str, tensor: torch.Tensor) -> None:
    """Refuses tensors that are not one piece of memory with elements."""
    kind = kind_without_elements(tensor)
    if kind is not None:
        raise _refuse(name, f"it is a tensor of the kind {kind}, which has no memory of elements; save its parts")


def is_dense(tensor: torch.Tensor) -> bool:
    """Does each element have a place of its own (no expand())?"""
    return all(stride != 0 or extent <= 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor, row-major."""
    flat = tensor.detach().cpu().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.nbytes) if flat.nbytes else b""


def empty(entry: Entry, device: torch.device | str = "cpu") -> torch.Tensor | None:
    """Memory for a tensor of a checkpoint; None: PyTorch has no such type of elements.

    Raises:
        OutOfMemory: there is not that much.
    """
    dtype, shape = TORCH_DTYPES.get(entry.dtype or ""), entry.shape
    if entry.dtype == "F4" and shape and shape[-1] % 2 == 0:
        dtype, shape = FLOAT4, (*shape[:-1], shape[-1] // 2)
    if dtype is None:
        return None
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except (RuntimeError, OverflowError) as why:
        error = OutOfMemory(f"{entry.name}: no memory for its {entry.bytes} bytes ({why})")
        error.entry = entry.name
        raise error from None


def memory_of(name: str, tensor: torch.Tensor) -> Memory:
    """Where the elements of a tensor in host memory are. `name` is for messages.

    Raises:
        UsageError: it is on a device, is not strided, or has elements that pawl has no type for.
    """
    require_elements(name, tensor)
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        raise _refuse(name, f"it is on the device {tensor.device}; copy it to host memory first")
    if tensor.is_conj() or tensor.is_neg():
        raise _refuse(name, "it is a conjugated or negated view; call resolve_conj().resolve_neg() first")
    if tensor.dtype in IN_PARTS:
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == FLOAT4:
        return _float4_memory(name, tensor)
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise _refuse(name, f"elements of type {tensor.dtype} cannot be saved")
    item = dtype_bits(dtype) // 8
    strides = None if tensor.is_contiguous() else tuple(stride * item for stride in tensor.stride())
    return Memory(dtype, tuple(tensor.shape), strides, tensor.data_ptr() if tensor.numel() else 0, True, tensor)


def _float4_memory(name: str, tensor: torch.Tensor) -> Memory:
    if not tensor.is_contiguous() or not tensor.ndim:
        raise _refuse(name, f"a tensor of {FLOAT4} is saved where it is dense and has a dimension; call contiguous()")
    shape = (*tensor.shape[:-1], 2 * tensor.shape[-1])
    return Memory(Dtype.F4, shape, None, tensor.data_ptr() if tensor.numel() else 0, True, tensor)


def refuse_float4(name: str, tensor: torch.Tensor) -> None:
    """Of parts of tensors: PyTorch's offsets count bytes, those of a checkpoint elements."""
    if tensor.dtype == FLOAT4:
        raise _refuse(name, f"parts of tensors of {FLOAT4} cannot be saved; save its bytes: view(torch.uint8)")


def is_sharded(tensor: torch.Tensor) -> bool:
    """Is it a DTensor, of which this process has a part?"""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in this process's memory: of a DTensor its part."""
    local: torch.Tensor = tensor._local_tensor if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return local


def replica_of(name: str, tensor: Any) -> tuple[int, int]:
    """Which copy of its part this process has, and of how many."""
    replica, count = 0, 1
    mesh = tensor.device_mesh
    for dimension, placement in enumerate(tensor.placements):
        if placement.is_partial():
            raise _refuse(name, "it is a sum that is not made yet (Partial); redistribute() it first")
        if placement.is_replicate():
            size = mesh.size(dimension)
            replica = replica * size + mesh.get_local_rank(dimension)
            count *= size
    return replica, count


def sharded(name: str, tensor: Any, local: torch.Tensor, shadow: Shadow | None = None, **what: Any) -> Tensor:
    """A DTensor as the box of it that this process holds, in the memory of `local`; `shadow`: completes it."""
    refuse_float4(name, tensor)
    replica, count = replica_of(name, tensor)
    chunks = tensor.__create_chunk_list__() if local.numel() > 0 else []
    if len(chunks) > 1:
        raise _refuse(name, f"this process holds {len(chunks)} parts of it; redistribute it to one")
    shape: tuple[int, ...] = tuple(tensor.shape)
    offset: tuple[int, ...] = tuple(chunks[0].offsets) if chunks else (0,) * len(shape)
    if tensor.dtype in IN_PARTS:
        shape, offset = (*shape, 2), (*offset, 0)
    memory = memory_of(name, local)._replace(provider=shadow)
    if not chunks:
        memory = memory._replace(shape=(0,) * len(shape), strides=None)
    return Tensor(
        [Box(offset, memory)],
        shape=shape,
        replicated=count > 1,
        replica=replica,
        replica_count=count if count > 1 else 0,
        **what,
    )
