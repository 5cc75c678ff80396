# SPDX-License-Identifier: Apache-2.0
"""A variable's value as memory that pawl reads, and memory that pawl has written as a variable's value.

TensorFlow never writes to the memory of a value that somebody holds: the next update of the variable
allocates anew. So a held value is a snapshot, and a save needs no fence; while it is held, the variable
has two copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow
from tensorflow.python.eager import context
from tensorflow.python.ops import gen_resource_variable_ops

from .._abi import Dtype
from .._error import UsageError
from .._memory import Array
from ._tpu import initialize, on_first_core

#: TensorFlow takes the addresses of its own memory to be multiples of this: the first matrix product of
#: a tensor that DLPack has brought from elsewhere ends the process otherwise.
ALIGNMENT = 64

#: So often all variables are read again where some have changed meanwhile.
_TRIES = 20

#: Types that DLPack, or NumPy's part of it, does not know, and TensorFlow can reinterpret.
_REINTERPRETED = {
    tensorflow.bfloat16: numpy.uint16,
    tensorflow.qint8: numpy.int8,
    tensorflow.quint8: numpy.uint8,
    tensorflow.qint16: numpy.int16,
    tensorflow.quint16: numpy.uint16,
    tensorflow.qint32: numpy.int32,
}
#: Types that NumPy hands over by DLPack as they are.
_HANDED = frozenset(
    {
        tensorflow.bool,
        tensorflow.int8,
        tensorflow.int16,
        tensorflow.int32,
        tensorflow.int64,
        tensorflow.uint8,
        tensorflow.uint16,
        tensorflow.uint32,
        tensorflow.uint64,
        tensorflow.float16,
        tensorflow.float32,
        tensorflow.float64,
        tensorflow.complex64,
        tensorflow.complex128,
    }
)


def variable_of(variable: Any) -> Any:
    """TensorFlow's variable: of one of Keras the one that it stands for, without its cast to another type."""
    for _ in range(4):  # tf_keras' variables that cast, a strategy's that aggregate
        if type(variable).__name__ == "AutoCastVariable":
            variable = variable._variable
        elif type(variable).__name__ == "AggregatingVariable":
            variable = variable._v
        elif not isinstance(variable, tensorflow.Variable) and isinstance(
            getattr(variable, "_value", None), tensorflow.Variable
        ):
            variable = variable._value
        else:
            break
    return variable


def replicas_of(variable: Any) -> tuple[Any, ...]:
    """The variable of each replica of a strategy; of others the variable itself."""
    variable = variable_of(variable)
    if isinstance(variable, tensorflow.distribute.DistributedValues):
        return tuple(variable.values)
    return (variable,)


def is_on_read(variable: Any) -> bool:
    """Has each replica of a strategy its own value, of which one is made when it is read?"""
    variable = variable_of(variable)
    if not isinstance(variable, tensorflow.distribute.DistributedValues):
        return False
    return bool(on_first_core(variable.values[0]).synchronization == tensorflow.VariableSynchronization.ON_READ)


def _read(variable: Any) -> Any:
    return gen_resource_variable_ops.read_variable_op(variable.handle, variable.dtype)


def tensor_of(variable: Any) -> Any:
    """The present value as TensorFlow's tensor, which no update changes.

    Of a variable that a strategy keeps per replica it is the first replica's, or, where each replica
    has its own (ON_READ), one of all, by the variable's aggregation.
    """
    variable = variable_of(variable)
    one = on_first_core(replicas_of(variable)[0])
    initialize(one)
    if is_on_read(variable):
        return variable.read_value()
    handle = getattr(one, "handle", None)
    if handle is None:
        return one.read_value()
    # After a sparse update reading would copy; from now on updates do, where somebody holds the value.
    gen_resource_variable_ops.disable_copy_on_read(handle)
    return _read(one)


def hold(variable: Any) -> Any:
    """The present value in host memory, as a read-only array that no update of the variable changes.

    Nothing is copied where the variable is in host memory. The memory lives as long as the array does.

    Args:
        variable: TensorFlow's or of Keras (on TensorFlow), of any dtype and shape, mirrored or not.

    Returns:
        numpy.ndarray of the variable's shape. Types that NumPy lacks (bfloat16, float8, int4) are those of
        ml_dtypes; of 4 bits and less each element has a byte. Strings are objects (bytes), which are copied.
    """
    return _array_of(tensor_of(variable))


def _array_of(tensor: Any) -> Any:
    array = numpy.asarray(tensor)
    array.flags.writeable = False  # NumPy is told of some types that it may write
    return array


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0]) if array.size > 0 else 0


def _in_place(variable: Any) -> Any:
    """The variable whose memory `hold` gives as it is; None: it makes a copy, or one value of several."""
    one = on_first_core(replicas_of(variable)[0])
    initialize(one)
    if is_on_read(variable):
        return None
    if getattr(one, "handle", None) is None or one.dtype == tensorflow.string:
        return None
    here = context.context().host_address_space()  # on a parameter server it is elsewhere
    return one if one.device.startswith(here) and "device:CPU" in one.device else None


def hold_all(variables: Sequence[tuple[str, Any]]) -> list[Any]:
    """`hold` of many: all values that they had at one moment, whatever other threads do.

    All are read, and then it is looked at whether each still has the memory that it had: while that is held,
    no other value can be in it. What a step of another thread has done by half is not seen: save on the thread
    that trains, or when it waits.

    Args:
        variables: with the names of their entries.

    Raises:
        UsageError: names one that changed each time that they were read.
    """
    alone = [_in_place(variable) for _, variable in variables]
    found = [
        hold(variable) if one is None else _array_of(_read(one))
        for (_, variable), one in zip(variables, alone, strict=True)
    ]
    moved = ""
    for _ in range(_TRIES):
        moved = ""
        for i, one in enumerate(alone):
            # It has changed, or reading it copies.
            if one is not None and _address(numpy.asarray(_read(one))) != _address(found[i]):
                found[i] = hold(one)
                moved = variables[i][0]
        if not moved:
            return found
    error = UsageError(f"{moved} changes while it is read for a save: another thread trains")
    error.entry = moved
    error.next = "save on the thread that trains, between two steps; writing goes on in the background"
    raise error


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """New memory to restore into, which `assign` hands over without a copy.

    Args:
        shape: elements per dimension.
        dtype: NumPy's, or one of TensorFlow.

    Returns:
        numpy.ndarray of zeros, dense and row-major, at a multiple of 64 bytes.
    """
    element = numpy.dtype(dtype.as_numpy_dtype if isinstance(dtype, tensorflow.DType) else dtype)
    count = 1
    for extent in shape:
        count *= extent
    memory = Array(Dtype.U8, (count * element.itemsize,), count * element.itemsize)
    return numpy.frombuffer(memory.buffer, dtype=element).reshape(shape)


def _may_be_handed(array: Any) -> bool:
    return (
        array.size > 0
        and array.ctypes.data % ALIGNMENT == 0
        and bool(array.flags.c_contiguous)
        and bool(array.flags.writeable)  # others DLPack refuses
    )


def tensor_from(array: Any, dtype: Any) -> Any:
    """The array as TensorFlow's tensor of the type `dtype`, in host memory.

    Shares the memory where that is safe, which is then TensorFlow's: do not write to it any more.
    """
    if _may_be_handed(array):
        given = _REINTERPRETED.get(dtype)
        if given is not None:
            shared = tensorflow.experimental.dlpack.from_dlpack(array.view(given).__dlpack__())
            return tensorflow.bitcast(shared, dtype)
        if dtype in _HANDED:
            return tensorflow.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tensorflow.constant(array, dtype=dtype)


def assign(variable: Any, array: Any) -> None:
    """Makes the array the variable's value, on all replicas of a strategy.

    What is held of the value before stays as it is: the variable gets other memory. Memory of
    `aligned` is handed over, without a copy, and must not be written to any more; TensorFlow does not
    write to it either. Other memory is copied.

    Of a variable of which each replica has its own value, and which is read as their sum, each gets
    an equal part, as TensorFlow does it.

    Args:
        variable: as of `hold`.
        array: numpy.ndarray of the variable's shape and type.

    Raises:
        ValueError: shape or type are not the variable's.
    """
    variable = variable_of(variable)
    dtype = tensorflow.as_dtype(variable.dtype)
    if array.dtype != numpy.dtype(dtype.as_numpy_dtype):
        raise ValueError(f"{variable.name}: a value of {array.dtype} for a variable of {dtype.name}")
    replicas = replicas_of(variable)
    with tensorflow.device("CPU:0"):
        value = tensor_from(array, dtype)
        if is_on_read(variable) and variable.aggregation == tensorflow.VariableAggregation.SUM:
            value = tensorflow.cast(value / len(replicas), dtype)
    for one in replicas:
        one.assign(value, read_value=False)
