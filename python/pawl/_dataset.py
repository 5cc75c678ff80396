# SPDX-License-Identifier: Apache-2.0
"""Looks at the batches of a job before it runs: the first, the last, and what in them no accelerator takes."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ._abi import Dtype
from ._batch import BatchEntry, entries_of, words_of
from ._check import BatchCheck
from ._doctor import Finding
from ._error import Mismatch, UsageError
from ._handle import whole_number

#: Batches that are read at the beginning.
Read = int | Literal["all"]


class _Sizes(NamedTuple):
    """How the examples of an epoch are divided.

    Attributes:
        batch: examples of each batch but the last.
        last: examples of the last one; None: unknown.
        batches: how many there are, the last one included; None: unknown, or without end.
        examples: of an epoch; None: unknown.
    """

    batch: int
    last: int | None
    batches: int | None
    examples: int | None


def _divided(examples: int, batch: int, drops: bool) -> _Sizes:
    rest = examples % batch
    if drops or rest == 0:
        return _Sizes(batch, batch, examples // batch, examples)
    return _Sizes(batch, rest, examples // batch + 1, examples)


class _Findings:
    """What was found, in the order in which it was."""

    def __init__(self, replicas: int, drop: str) -> None:
        self.found: list[Finding] = []
        self._replicas = replicas
        self.drop = drop

    def tell(self, identity: str, text: str, advice: str | None, severity: str = "warning") -> None:
        self.found.append(Finding(identity, severity, text, advice, part="job"))

    def entries(self, entries: Mapping[str, BatchEntry]) -> None:
        """J02: text, ragged and sparse entries, F64; J03: dimensions that are unknown, but for the first."""
        for name, entry in entries.items():
            if entry.dtype is None:
                self.tell("J02", f"`{name}` is {entry.instead}", _ADVICE.get(entry.instead or "", _NO_ARRAY))
            elif entry.dtype == Dtype.F64:
                self.tell("J02", f"`{name}` has dtype F64; accelerators compute it slowly or not at all", _F64)
            unknown = [i for i, extent in enumerate(entry.shape) if extent is None and i > 0]
            if unknown:
                listed = ", ".join(map(str, unknown))
                words = f"dimensions {listed} are unknown" if len(unknown) > 1 else f"dimension {listed} is unknown"
                self.tell("J03", f"`{name}` is {words_of(entry)}: {words}", _SHAPE)

    def sizes(self, sizes: _Sizes | None, unknown: str) -> None:
        """J01: the last batch, where it is known without reading all of them."""
        if sizes is None:
            self.tell("J01", f"the size of the last batch is unknown: {unknown}", self.drop, "note")
            return
        if sizes.batch % self._replicas != 0:
            advice = f"make batches of a multiple of {self._replicas}"
            self.tell("J01", f"batches of {sizes.batch} are not divided evenly by {self._replicas} replicas", advice)
        if sizes.batches == 0:
            text = f"{_count(sizes.examples or 0)} make no batch of {sizes.batch}, and what does not is dropped"
            self.tell("J01", text, "make smaller batches", "error")
        if sizes.last is None or sizes.last == sizes.batch:
            return
        which = "the last batch" if sizes.batches is None else f"batch {sizes.batches - 1}, the last one,"
        of = "" if sizes.examples is None else f": {sizes.examples} examples in batches of {sizes.batch}"
        text = f"{which} has {_count(sizes.last)}, the others have {sizes.batch}{of}"
        if sizes.batches == 1:
            text = f"the only batch has {_count(sizes.last)}, not {sizes.batch}"
        if sizes.last < self._replicas:
            without = self._replicas - sizes.last
            verb = "gets" if without == 1 else "get"
            text += f"; of {self._replicas} replicas {without} {verb} none, and a mean over nothing is NaN"
            self.tell("J01", text, self.drop, "error")
        else:
            self.tell("J01", text, self.drop)

    def batches(self, batches: Iterator[Any], read: Read) -> None:
        """Reads batches and compares each with the first one."""
        check, seen = BatchCheck(), 0
        for batch in batches:
            entries = entries_of(batch)
            if seen == 0:
                self.entries(entries)
            seen += 1
            dense = {name: entry for name, entry in entries.items() if entry.dtype not in (None, Dtype.F64)}
            try:
                check._next(dense)
            except Mismatch as why:
                last = "remainder" in (why.next or "")
                self.tell("J01" if last else "J02", why.attempt, self.drop if last else why.next)
                return
            if seen == read:
                return
        if seen == 0:
            self.tell("J01", "there is no batch", "look at what the dataset is made from", "error")

    def sides(self, first: Any, last: Any) -> None:
        """Compares two batches whose numbers of examples are known to differ, or not."""
        self.entries(entries_of(first))
        if last is None:
            return
        before = {name: entry._replace(shape=entry.shape[1:]) for name, entry in entries_of(first).items()}
        after = {name: entry._replace(shape=entry.shape[1:]) for name, entry in entries_of(last).items()}
        for name in sorted({*before, *after}):
            one, other = before.get(name), after.get(name)
            if one is None or other is None:
                side, rest = ("last", "first") if one is None else ("first", "last")
                self.tell("J02", f"`{name}` is in the {side} batch, not in the {rest}", "make all batches alike")
            elif one[:3] != other[:3]:
                text = f"`{name}`: an example is {words_of(one)} in the first batch, {words_of(other)} in the last"
                self.tell("J02", text, "pad or crop all examples to one shape, and convert them to one type")

    def end(self, what: str) -> list[Finding]:
        """All of it, or that all is well."""
        return self.found or [Finding("ok", "note", what, None, part="job")]


_NO_ARRAY = "a batch is made of arrays of one dtype and one shape"
_F64 = "convert it to F32 in the input (NumPy makes F64 unless told otherwise)"
_SHAPE = "give it one size in all batches: padded_batch(..., padded_shapes=), tf.ensure_shape, or crop"
_ADVICE = {
    "text": "turn text into numbers in the input pipeline, before batches are made",
    "ragged": "pad it to one length: to_tensor(shape=) of a ragged tensor, padded_batch, pad_sequence in collate_fn",
    "sparse": "make it dense in the input pipeline",
}


def _count(examples: int) -> str:
    return f"{examples} example" if examples == 1 else f"{examples} examples"


def _shape_of_first(entries: Mapping[str, BatchEntry]) -> int | None:
    sizes = {entry.shape[0] for entry in entries.values() if entry.dtype is not None and entry.shape}
    return sizes.pop() if len(sizes) == 1 else None


# ---- tf.data -------------------------------------------------------------------------------------

#: Steps of a pipeline behind which batches have the sizes that they had before.
_KEEPS_SIZES = {
    "_PrefetchDataset",
    "_MapDataset",
    "_ParallelMapDataset",
    "_OptionsDataset",
    "CacheDataset",
    "_CacheDataset",
    "_RepeatDataset",
    "_ShuffleDataset",
    "_AssertCardinalityDataset",
}
_DROP_TF = "drop it: batch(..., drop_remainder=True); or pad it, with weights of 0"


def _number(value: Any) -> int:
    return int(value.numpy())


def _tf_sizes(dataset: Any) -> tuple[_Sizes | None, str]:
    """By the pipeline's own steps: from its end back to the one that makes batches."""
    step = dataset
    while not hasattr(step, "_batch_size"):
        before = getattr(step, "_input_dataset", None)
        if before is None:
            return None, "no step of the pipeline makes batches of a size that it tells"
        if type(step).__name__ not in _KEEPS_SIZES:
            return None, f"a {type(step).__name__.strip('_')} comes after the batches were made"
        step = before
    batch, drops = _number(step._batch_size), bool(_number(step._drop_remainder))
    examples = _number(step._input_dataset.cardinality())
    if examples >= 0:
        return _divided(examples, batch, drops), ""
    if drops or examples == -1:  # without end
        return _Sizes(batch, batch, None, None), ""
    return None, "how many examples there are is not known before they are read"


def _look_at_tf(dataset: Any, found: _Findings, read: Read | None) -> None:
    entries = entries_of(dataset.element_spec)
    sizes, why = _tf_sizes(dataset)
    if read is None:
        found.entries(entries)
    else:
        found.batches(iter(dataset), read)
    if read == "all" or any(one.id == "J01" for one in found.found):
        return  # the last one has been seen, or another one
    if _shape_of_first(entries) is not None:  # the spec has the size, so all batches have it
        if sizes is not None:
            found.sizes(sizes, "")
    elif any(entry.shape for entry in entries.values()):
        found.sizes(sizes, why)
        if sizes is not None and sizes.last == sizes.batch:
            text = f"dimension 0 is unknown to TensorFlow, though all batches have {_count(sizes.batch)}"
            found.tell("J03", text, "batch(..., drop_remainder=True) makes it known, and drops nothing here", "note")


# ---- PyTorch -------------------------------------------------------------------------------------

_DROP_TORCH = "drop it: DataLoader(..., drop_last=True); or pad it in collate_fn, with weights of 0"


@contextlib.contextmanager
def _random_states_kept(generator: Any) -> Iterator[None]:
    """What examples draw is drawn again by the run."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    of_python, of_torch = random.getstate(), torch.get_rng_state()
    of_numpy = None if numpy is None else numpy.random.get_state()
    of_generator = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        random.setstate(of_python)
        torch.set_rng_state(of_torch)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        if generator is not None:
            generator.set_state(of_generator)


def _collated(found: _Findings, loader: Any, examples: Sequence[Any], which: str) -> Any:
    try:
        return loader.collate_fn(list(examples))
    except Exception as why:  # of any collate_fn
        line = " ".join(str(why).split())[:300]
        text = f"the examples of the {which} batch cannot be put together: {type(why).__name__}: {line}"
        found.tell("J02", text, "pad them to one length in collate_fn: torch.nn.utils.rnn.pad_sequence")
        return None


def _sampled(loader: Any) -> int | None:
    for source in (loader.sampler, loader.dataset):
        with contextlib.suppress(TypeError, NotImplementedError):
            return len(source)
    return None


def _look_at_mapped(loader: Any, found: _Findings) -> None:
    """A dataset whose examples have numbers: the first and the last ones, as the loader would put them together."""
    dataset, batch = loader.dataset, loader.batch_size
    count = len(dataset)
    if batch is None and loader.batch_sampler is None:  # it has batches already
        found.sides(loader.collate_fn(dataset[0]), loader.collate_fn(dataset[count - 1]) if count > 1 else None)
        sizes = [_shape_of_first(entries_of(loader.collate_fn(dataset[i]))) for i in (0, count - 1)]
        known = sizes[0] is not None and sizes[1] is not None
        found.sizes(_Sizes(sizes[0] or 0, sizes[1], count, None) if known else None, "examples are not counted")
        return
    if batch is None:
        found.sides(_collated(found, loader, [dataset[0]], "first"), None)
        found.sizes(None, f"{type(loader.batch_sampler).__name__} makes the batches")
        return
    sampled = _sampled(loader)
    sizes_of = None if sampled is None else _divided(sampled, batch, bool(loader.drop_last))
    first = _collated(found, loader, [dataset[i] for i in range(min(batch, count))], "first")
    rest = 0 if sizes_of is None or sizes_of.last is None else sizes_of.last % batch
    last = _collated(found, loader, [dataset[i] for i in range(count - rest, count)], "last") if rest else None
    if first is not None:
        found.sides(first, last)
    found.sizes(sizes_of, "the sampler does not tell how many examples it draws")


def _look_at_streamed(loader: Any, found: _Findings, read: Read | None) -> None:
    """A dataset that is read from its beginning."""
    length = None
    with contextlib.suppress(TypeError, NotImplementedError):
        length = len(loader.dataset)
    drops = bool(loader.drop_last)
    sizes = None if length is None or loader.batch_size is None else _divided(length, loader.batch_size, drops)
    if sizes is None and drops and loader.batch_size is not None:
        sizes = _Sizes(loader.batch_size, loader.batch_size, None, None)
    found.batches(iter(loader), 1 if read is None else read)
    if read != "all":
        found.sizes(sizes, "how many examples there are is not known before they are read")


def _look_at_loader(loader: Any, found: _Findings, read: Read | None) -> None:
    streamed = any(one.__name__ == "IterableDataset" for one in type(loader.dataset).__mro__)
    with _random_states_kept(loader.generator):
        if streamed or read is not None:
            _look_at_streamed(loader, found, read)
        elif len(loader.dataset) == 0:
            found.tell("J01", "there is no batch", "look at what the dataset is made from", "error")
        else:
            _look_at_mapped(loader, found)


# ---- anything else -------------------------------------------------------------------------------

_DROP = "drop it, or pad it with examples of weight 0"


def _look_at_arrays(arrays: Any, batch_size: int, found: _Findings) -> None:
    entries = entries_of(arrays)
    found.entries(entries)
    lengths = {name: entry.shape[0] for name, entry in entries.items() if entry.dtype is not None and entry.shape}
    counts = {length for length in lengths.values() if length is not None}
    if len(counts) > 1:
        listed = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        found.tell("J02", f"the arrays are not of one length: {listed}", "one row for each example", "error")
    elif counts:
        found.sizes(_divided(counts.pop(), batch_size, False), "")
    if not entries:
        found.tell("J01", "there are no arrays, so there is no batch", "give arrays by name", "error")
    for name, entry in entries.items():
        if entry.dtype is not None and not entry.shape:
            found.tell("J02", f"`{name}` is a number, not an array of examples", "one row for each example", "error")


def _lengths(entries: Mapping[str, BatchEntry]) -> dict[str, int | None]:
    return {name: entry.shape[0] for name, entry in entries.items() if entry.dtype is not None and entry.shape}


def _look_at_last(first: Any, last: Any, count: int, found: _Findings) -> None:
    """J01: the number of examples of the last batch, entry by entry where these do not agree."""
    before, after = entries_of(first), entries_of(last)
    size, size_of_last = _shape_of_first(before), _shape_of_first(after)
    if size is not None and size_of_last is not None:
        found.sizes(_Sizes(size, size_of_last, count, None), "")
        return
    lengths = _lengths(before)
    other = {name: n for name, n in _lengths(after).items() if name in lengths and lengths[name] != n}
    if other:
        listed = ", ".join(f"`{name}` {n}, in the first {lengths[name]}" for name, n in other.items())
        found.tell("J01", f"batch {count - 1}, the last one, has another number of examples: {listed}", found.drop)


def _look_at_numbered(batches: Any, found: _Findings, read: Read | None) -> None:
    """A sequence of batches: a list, a ``keras.utils.PyDataset``."""
    count = len(batches)
    if count == 0:
        found.tell("J01", "there is no batch", "look at what the dataset is made from", "error")
        return
    first, last = batches[0], batches[count - 1]
    if read is None:
        found.sides(first, last)
    else:
        found.batches((batches[i] for i in range(count)), read)
    if not any(one.id == "J01" for one in found.found):
        _look_at_last(first, last, count, found)


def _look_at_iterable(batches: Any, found: _Findings, read: Read | None) -> None:
    if not isinstance(batches, Iterable):
        raise UsageError(f"a {type(batches).__name__} is no dataset: there are no batches in it")
    begun = iter(batches)
    if begun is batches and read is None:
        raise UsageError(
            "an iterator gives its batches once, so looking at it would take them from the run; pass what it is "
            "made from, or read= for one that is not used again, or check each batch: BatchCheck.over(batches)"
        )
    found.batches(begun, 1 if read is None else read)
    if read != "all":
        found.sizes(None, "the last batch is known only when all were read: read='all'")


def _positive(name: str, value: object) -> None:
    if whole_number(name, value) < 1:
        also = " or 'all'" if name == "read" else ""
        raise UsageError(f"{name}={value!r}: it is a number from 1 on{also}")


def check_dataset(
    dataset: Any, *, batch_size: int | None = None, read: Read | None = None, replicas: int = 1
) -> list[Finding]:
    """Looks at the batches of a job before it runs: J01, J02, J03.

    ::

        for finding in pawl.check_dataset(dataset):
            print(finding.id, finding.text, finding.next)

    What is known without reading is not read. Of a ``tf.data.Dataset`` that is its ``element_spec`` and how its steps
    make batches; reading would move on the order of ``shuffle``. Of a torch ``DataLoader`` over a dataset with numbers
    the first and the last examples are put together by its ``collate_fn``, in this process, and all random states are
    put back. Of a sequence of batches (``keras.utils.PyDataset``) the first and the last one are looked at, of anything
    else that can be iterated the first.

    Args:
        dataset: a ``tf.data.Dataset``, a torch ``DataLoader``, batches, or, with `batch_size`, arrays by name.
        batch_size: `dataset` is arrays of examples, which are divided into batches of so many.
        read: read so many batches from the beginning, or ``"all"``, and compare each with the first one.
        replicas: each batch is divided among so many.

    Returns:
        Findings; the only one is ``ok`` where nothing is wrong.

    Raises:
        UsageError: a number below 1, or something that has no batches.
    """
    _positive("replicas", replicas)
    if batch_size is not None:
        _positive("batch_size", batch_size)
    if read is not None and read != "all":
        _positive("read", read)
    torch = sys.modules.get("torch")
    looks: Callable[[_Findings], None]
    if batch_size is not None:
        drop, what, looks = _DROP, "the arrays", lambda found: _look_at_arrays(dataset, batch_size, found)
    elif hasattr(dataset, "element_spec") and hasattr(dataset, "cardinality"):
        drop, what, looks = _DROP_TF, "the dataset", lambda found: _look_at_tf(dataset, found, read)
    elif torch is not None and isinstance(dataset, torch.utils.data.DataLoader):
        drop, what, looks = _DROP_TORCH, "the loader", lambda found: _look_at_loader(dataset, found, read)
    elif hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, Mapping):
        drop, what, looks = _DROP, "the batches", lambda found: _look_at_numbered(dataset, found, read)
    else:
        drop, what, looks = _DROP, "the batches", lambda found: _look_at_iterable(dataset, found, read)
    found = _Findings(replicas, drop)
    looks(found)
    return found.end(f"{what}: all batches have one shape, and entries that an accelerator takes")
