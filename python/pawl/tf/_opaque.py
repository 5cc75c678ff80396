# SPDX-License-Identifier: Apache-2.0
"""What only TensorFlow can make bytes of, and something of bytes: iterators, tables, strings, a PythonState."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy
import tensorflow

from .._error import Damaged, Unsupported, UsageError

logger = logging.getLogger("pawl.tf")

#: Tensors of one object, at most.
_MAX_TENSORS = 1024


def _words(why: BaseException) -> str:
    """What an exception says, without the names that TensorFlow gives to nodes of its graphs."""
    return str(getattr(why, "message", why)).replace("{{function_node", "").split("}} ")[-1].strip()


def _refuse(name: str, found: Any, why: BaseException) -> Unsupported:
    text = _words(why)
    error = Unsupported(f"{name} is a {type(found).__name__}, of which TensorFlow cannot make bytes: {text}")
    error.entry = name
    if "stateful" in text:
        error.next = (
            "an iterator over from_generator, py_function or another function of Python has no position that can be "
            "saved: leave it out, and continue with dataset.skip(batches)"
        )
    else:
        error.next = "leave it out of the checkpoint"
    return error


def _tensors_of(name: str, found: Any) -> dict[str, Any]:
    if isinstance(found, tensorflow.Variable):
        return {"value": found.read_value()}
    try:
        tensors = found._serialize_to_tensors()
    except (tensorflow.errors.OpError, NotImplementedError) as why:
        raise _refuse(name, found, why) from why
    listed: dict[str, Any] = {}
    for key, tensor in tensors.items():
        if not isinstance(tensor, tensorflow.Tensor):
            raise _refuse(name, found, TypeError(f"{key!r} is in parts, a {type(tensor).__name__}"))
        listed[str(key)] = tensor
    return listed


def to_bytes(name: str, found: Any) -> bytes:
    """A line of JSON with names and lengths of tensors, then these as TensorFlow serialises them.

    Raises:
        Unsupported: TensorFlow cannot, and says why.
    """
    pieces = []
    for key, tensor in _tensors_of(name, found).items():
        try:
            pieces.append((key, tensor.dtype.name, tensorflow.io.serialize_tensor(tensor).numpy()))
        except tensorflow.errors.OpError as why:
            raise _refuse(name, found, why) from why
    head = json.dumps([[key, dtype, len(data)] for key, dtype, data in pieces]).encode() + b"\n"
    return head + b"".join(data for _, _, data in pieces)


def _damaged(name: str, why: object) -> Damaged:
    error = Damaged(f"{name}: it is not what was saved there ({why})")
    error.entry = name
    return error


def tensors_from(name: str, data: bytes) -> dict[str, Any]:
    """The tensors that `to_bytes` was given. Nothing of the bytes is trusted.

    Raises:
        Damaged: they are something else.
    """
    head, newline, rest = data.partition(b"\n")
    try:
        listed = json.loads(head)
        if not newline or not isinstance(listed, list) or len(listed) > _MAX_TENSORS:
            raise ValueError("its first line is no list")
        found, at = {}, 0
        for key, dtype, length in listed:
            if not isinstance(key, str) or type(length) is not int or not 0 <= length <= len(rest) - at:
                raise ValueError("a tensor is cut off")
            piece = rest[at : at + length]
            found[key] = tensorflow.io.parse_tensor(piece, tensorflow.as_dtype(dtype))
            at += length
        if at != len(rest):
            raise ValueError("there is more than its tensors")
    except (ValueError, TypeError, RecursionError, tensorflow.errors.OpError) as why:
        raise _damaged(name, why) from None
    return found


def tensors_of_bundle(name: str, found: Any, entries: dict[str, Any]) -> dict[str, Any]:
    """The same out of the entries that a bundle of TensorFlow has of the object, by their names."""
    if isinstance(found, tensorflow.Variable):
        value = entries.get(name)
        return {} if value is None else {"value": tensorflow.constant(value, tensorflow.string)}
    tensors: dict[str, Any] = {}
    for entry, value in entries.items():
        key = entry[len(name) + 1 :]
        key = key.removeprefix("table") if key.startswith("table-") else key
        text = isinstance(value, (str, bytes, list))
        tensors[key] = tensorflow.constant(value if text else numpy.asarray(value), tensorflow.string if text else None)
    return tensors


def put(name: str, found: Any, tensors: dict[str, Any]) -> None:
    """Gives an object back what it was.

    Raises:
        UsageError: it is another kind of object now.
    """
    try:
        if isinstance(found, tensorflow.Variable):
            found.assign(tensors["value"])
        elif isinstance(found, tensorflow.train.experimental.PythonState):
            found.deserialize(tensors["py_state"].numpy())
        else:
            found._restore_from_tensors(tensors)
    except (tensorflow.errors.OpError, KeyError, TypeError, ValueError, NotImplementedError) as why:
        error = UsageError(
            f"{name}: TensorFlow does not take what was saved into a {type(found).__name__}: "
            f"{type(why).__name__}: {_words(why)}".rstrip(": ")
        )
        error.entry = name
        error.next = "restore into the same kind of object, made in the same way"
        raise error from why


def put_all(listed: list[tuple[str, Any, dict[str, Any]]]) -> None:
    """Gives objects back what they were, each with its name and tensors; where one fails, all get what they had.

    Raises:
        UsageError: one is another kind of object now. `safe` names those that could not get what they had.
    """
    before: list[tuple[str, Any, dict[str, Any] | None]] = []
    for name, found, tensors in listed:
        before.append((name, found, _held(name, found)))
        try:
            put(name, found, tensors)
        except UsageError as why:
            changed = [one for one, was, held in reversed(before) if not _put_back(one, was, held)]
            why.safe = f"all but {', '.join(changed)} is as it was" if changed else "nothing was restored"
            raise


def _held(name: str, found: Any) -> dict[str, Any] | None:
    """What an object has now; None: TensorFlow cannot make bytes of it."""
    try:
        return _tensors_of(name, found)
    except Unsupported:
        return None


def _put_back(name: str, found: Any, held: dict[str, Any] | None) -> bool:
    try:
        if held is not None:
            put(name, found, held)
    except UsageError as why:
        logger.error("what %s had before the restore could not be put back: %s", name, why)
        return False
    return held is not None
