# SPDX-License-Identifier: Apache-2.0
"""A variable's value as memory that pawl reads, and memory that pawl has written as a variable's value.

TensorFlow never writes to the memory of a value that somebody holds: the next update of the variable
allocates anew. So a held value is a snapshot, and a save needs no fence; while it is held, the variable
has two copies.
"""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow

from .._abi import Dtype
from .._memory import Array

#: TensorFlow takes the addresses of its own memory to be multiples of this: the first matrix product of
#: a tensor that DLPack has brought from elsewhere ends the process otherwise.
ALIGNMENT = 64

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
    return (
        isinstance(variable, tensorflow.distribute.DistributedValues)
        and variable.synchronization == tensorflow.VariableSynchronization.ON_READ
    )


def tensor_of(variable: Any) -> Any:
    """The present value as TensorFlow's tensor, which no update changes.

    Of a variable that a strategy keeps per replica it is the first replica's, or, where each replica
    has its own (ON_READ), one of all, by the variable's aggregation.
    """
    variable = variable_of(variable)
    if is_on_read(variable):
        return variable.read_value()
    one = replicas_of(variable)[0]
    handle = getattr(one, "handle", None)
    if handle is None:
        return one.read_value()
    # After a sparse update reading would copy; from now on updates do, where somebody holds the value.
    tensorflow.raw_ops.DisableCopyOnRead(resource=handle)
    return one.value()


def hold(variable: Any) -> Any:
    """The present value in host memory, as a read-only array that no update of the variable changes.

    Nothing is copied where the variable is in host memory. The memory lives as long as the array does.

    Args:
        variable: TensorFlow's or of Keras (on TensorFlow), of any dtype and shape, mirrored or not.

    Returns:
        numpy.ndarray of the variable's shape. Types that NumPy lacks (bfloat16, float8, int4) are those of
        ml_dtypes; of 4 bits and less each element has a byte. Strings are objects (bytes), which are copied.
    """
    array = numpy.asarray(tensor_of(variable))
    array.flags.writeable = False  # NumPy is told of most types only that it may write
    return array


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
