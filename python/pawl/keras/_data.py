# SPDX-License-Identifier: Apache-2.0
"""Data that training can continue in: how many batches there are, and all but the first so many of them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy

from .._error import UsageError

logger = logging.getLogger("pawl.keras")


class Fit(NamedTuple):
    """One call of ``fit``.

    Attributes:
        skip: batches of the data to leave out.
        offset: of these, those that are of the first epoch.
        initial_epoch: from 0.
        epochs: the epoch before which it ends.
        steps_per_epoch: of the argument of this name.
    """

    skip: int
    offset: int
    initial_epoch: int
    epochs: int
    steps_per_epoch: int | None


def fits_of(
    epoch: int, batch: int, epochs: int, batches: int | None, steps_per_epoch: int | None, each: bool = False
) -> list[Fit]:
    """The calls of ``fit`` after which a training is where one that was not interrupted is.

    Args:
        epoch: that goes on, or begins.
        batch: batches of it that are trained on.
        epochs: in all.
        batches: of the data; None: without end.
        steps_per_epoch: None: `batches`.
        each: one call for each epoch, since its data are its own.
    """
    if each:
        return [
            Fit(batch if at == epoch else 0, batch if at == epoch else 0, at, at + 1, steps_per_epoch)
            for at in range(epoch, epochs)
        ]
    if steps_per_epoch is None:
        first = [Fit(batch, batch, epoch, epoch + 1, None)] if batch else []
        return [fit for fit in (*first, Fit(0, 0, epoch + len(first), epochs, None)) if fit.initial_epoch < fit.epochs]
    # Keras goes on in the data where the epoch before has ended, and begins them again when they end.
    cycle = None if batches is None else -(-batches // steps_per_epoch)

    def begin(at: int) -> int:
        return (at if cycle is None else at % cycle) * steps_per_epoch

    fits = []
    if batch:
        of_epoch = steps_per_epoch if batches is None else min(steps_per_epoch, batches - begin(epoch))
        if batch < of_epoch:  # else the data have ended, and the epoch with them
            fits.append(Fit(begin(epoch) + batch, batch, epoch, epoch + 1, of_epoch - batch))
        epoch += 1
    while cycle is not None and epoch % cycle and epoch < epochs:  # the rest of the data, before they begin again
        of_epoch = min(steps_per_epoch, (batches or 0) - begin(epoch))
        fits.append(Fit(begin(epoch), 0, epoch, epoch + 1, of_epoch))
        epoch += 1
    if epoch < epochs:
        fits.append(Fit(begin(epoch), 0, epoch, epochs, steps_per_epoch))
    return fits


class Skipped(keras.utils.PyDataset):  # type: ignore[misc]
    """All batches of a ``PyDataset`` but the first.

    Args:
        inner: the data.
        skip: batches to leave out.
    """

    def __init__(self, inner: Any, skip: int) -> None:
        super().__init__(
            workers=inner.workers,
            use_multiprocessing=inner.use_multiprocessing,
            max_queue_size=inner.max_queue_size,
        )
        self._inner, self._skip = inner, skip

    def __len__(self) -> int:
        return max(int(self._inner.num_batches) - self._skip, 0)

    def __getitem__(self, index: int) -> Any:
        return self._inner[index + self._skip]

    def on_epoch_begin(self) -> None:
        """As of the data."""
        self._inner.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """As of the data."""
        self._inner.on_epoch_end()


class Arrays(keras.utils.PyDataset):  # type: ignore[misc]
    """Arrays in batches, in their order.

    Args:
        arrays: one, or a tuple or nested dictionaries of them, each with as many rows.
        batch_size: rows of a batch.
    """

    def __init__(self, arrays: Any, batch_size: int) -> None:
        super().__init__()
        self._arrays, self._batch_size = arrays, batch_size
        self._rows = len(keras.tree.flatten(arrays)[0])

    def __len__(self) -> int:
        return (self._rows + self._batch_size - 1) // self._batch_size

    def __getitem__(self, index: int) -> Any:
        begin = index * self._batch_size
        return keras.tree.map_structure(lambda array: array[begin : begin + self._batch_size], self._arrays)


@dataclasses.dataclass(frozen=True)
class _Spec:
    shape: tuple[int | None, ...]
    dtype: str


class Source:
    """Data of one kind that Keras takes.

    Attributes:
        data: for ``fit``.
        batches: how many there are; None: without end.
    """

    data: Any
    batches: int | None

    def skipped(self, batches: int) -> Any:
        """The data without the first so many batches."""
        raise NotImplementedError

    def specs(self) -> Any:
        """Shape and dtype of what a batch has, nested as it is."""
        raise NotImplementedError

    def signature(self) -> dict[str, Any]:
        """What a batch has, as a ``pawl.BatchCheck`` tells it, without the number of rows."""
        found = {}
        for way, spec in keras.tree.flatten_with_path(self.specs()):
            if isinstance(spec, _Spec):
                found["/".join(map(str, way)) or "batch"] = {"dtype": spec.dtype, "shape": list(spec.shape)[1:]}
        return found


class _TensorFlowData(Source):
    def __init__(self, data: Any, steps_per_epoch: int | None) -> None:
        self.data = data
        cardinality = int(data.cardinality())
        if cardinality == -2:
            error = UsageError(
                "the dataset does not know how many batches it has: at the end of each epoch Keras begins one step "
                "more, which finds no data but advances optimizer.iterations and the seeds of Dropout"
            )
            error.next = (
                "say how many there are: dataset.apply(tf.data.experimental.assert_cardinality(n)), or give "
                "dataset.repeat() with steps_per_epoch=n"
            )
            raise error
        self.batches = None if cardinality < 0 else cardinality
        if self.batches is None and steps_per_epoch is None:
            raise UsageError("the dataset has no end, so that an epoch has none: give steps_per_epoch=")

    def skipped(self, batches: int) -> Any:
        return self.data.skip(batches) if batches else self.data

    def specs(self) -> Any:
        def spec(one: Any) -> Any:
            if not hasattr(one, "shape") or one.shape.rank is None:
                return None
            return _Spec(tuple(one.shape.as_list()), one.dtype.name)

        return keras.tree.map_structure(spec, self.data.element_spec)

    def reshuffled(self) -> bool:
        """Has each epoch another order, by random numbers that begin anew in each process?"""
        queue, seen = [self.data], set()
        while queue:
            one = queue.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if type(one).__name__ == "_ShuffleDataset" and getattr(one, "_reshuffle_each_iteration", True) is not False:
                return True
            queue += list(one._inputs()) if hasattr(one, "_inputs") else []
        return False


class _PythonData(Source):
    def __init__(self, data: Any) -> None:
        if data.num_batches is None:
            raise UsageError(f"the {type(data).__name__} does not say how many batches it has: give it a __len__()")
        self.data, self.batches = data, int(data.num_batches)

    def skipped(self, batches: int) -> Any:
        return Skipped(self.data, batches) if batches else self.data

    def specs(self) -> Any:
        return keras.tree.map_structure(lambda one: _Spec(tuple(numpy.shape(one)), str(one.dtype)), self.data[0])

    def reshuffled(self) -> bool:
        """Does it change its order at the end of an epoch?"""
        return type(self.data).on_epoch_end is not keras.utils.PyDataset.on_epoch_end


def source_of(data: Any, steps_per_epoch: int | None, batch_size: int | None) -> _TensorFlowData | _PythonData:
    """Data as a `Source`.

    Raises:
        UsageError: data of which the first batches cannot be left out, by their kind, with what to use instead.
    """
    if hasattr(data, "element_spec") and hasattr(data, "skip") and hasattr(data, "cardinality"):
        return _TensorFlowData(data, steps_per_epoch)
    if isinstance(data, keras.utils.PyDataset):
        return _PythonData(data)
    leaves = keras.tree.flatten(data) if isinstance(data, (tuple, list, dict)) else [data]
    if leaves and all(isinstance(leaf, numpy.ndarray) for leaf in leaves):
        return _PythonData(Arrays(tuple(data) if isinstance(data, list) else data, batch_size or 32))
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    error = UsageError(f"the data is a {kind}, of which the batches that are trained on cannot be left out")
    error.next = (
        "give a tf.data.Dataset, a keras.utils.PyDataset, a tuple of NumPy arrays, or a function that gives one of "
        "these for the number of an epoch; a generator becomes a dataset by tf.data.Dataset.from_generator"
    )
    raise error


def warn_of_other_order(source: Any, epoch: int, continues: bool) -> None:
    """J06: what is shuffled anew in each epoch begins with the first epoch's order in a new process."""
    if not source.reshuffled():
        return
    what = f"in epoch {epoch + 1} they" if continues else "after it is continued they"
    logger.warning(
        "the data are shuffled anew in each epoch, by random numbers that begin anew in each process: %s come in the "
        "order of another epoch, and this is not the training that was not interrupted (J06); give "
        "shuffle(..., reshuffle_each_iteration=False), or resume a function of the epoch: "
        "lambda epoch: data.shuffle(n, seed=epoch).batch(...)",
        what,
    )


Data = Callable[[int], Any] | Any
