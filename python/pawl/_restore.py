# SPDX-License-Identifier: Apache-2.0
"""What restores share: options, memory for entries that a state lacks, the report."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

from . import _abi
from ._abi import Status
from ._callbacks import Callbacks
from ._entry import Entry, entry_of
from ._error import Mismatch, UsageError, error_handle, failure, raise_kept
from ._handle import call_back, fill_options, require_mapping, switch, text_bytes, whole_number
from ._interrupt import Interruptible
from ._library import lib
from ._progress import Progress, shown
from ._report import Report, policy, take_report
from ._state import State, Supplied, Tensor, describe

#: Gives memory for a tensor of the checkpoint that the state lacks, or None.
Supply = Callable[[Entry], Tensor | None]


class Supplying:
    """Hands what libpawl asks for to a function of Python, and the answers to the state afterwards."""

    def __init__(self, supply: Supply, options: _abi.RestoreOptions) -> None:
        self._supply = supply
        self._step = -1
        self._given: dict[str, Supplied] = {}
        self._error: BaseException | None = None
        self._function = _abi.SUPPLY_FUNCTION(self._answer)  # as long as the call
        options.supply = self._function

    def _answer(self, _context: int | None, step: int, found: object, tensor: object) -> int:
        try:
            if step != self._step:  # what was given for a step that is damaged is forgotten
                self._step = step
                self._given = {}
            entry = entry_of(found.contents)  # type: ignore[attr-defined]
            given = call_back(self._supply, entry)
            if given is None:
                return 0
            self._given[entry.name] = describe(entry.name, given, tensor.contents)  # type: ignore[attr-defined]
            return 1
        except BaseException as why:  # raised again by finish()
            self._error = why
            return -1

    def finish(self, state: State, step: int | None) -> None:
        """After the call: the state knows of its new entries; raises what the function raised.

        Args:
            state: what was restored.
            step: that was restored, or None. Nothing may have been asked for an older step that took
                the place of a damaged one: then nothing is given.
        """
        if self._error is not None:
            raise self._error
        if step is not None and step == self._step:
            state.take_supplied(self._given)


def restore_options(
    step: int | None, policies: Mapping[str, str], switches: Mapping[str, bool], renames: Mapping[str, str] | None
) -> _abi.RestoreOptions:
    """``pawl_restore_options`` from the arguments of a restore."""
    options = _abi.RestoreOptions()
    if step is not None:
        options.step = ctypes.pointer(ctypes.c_int64(whole_number("step", step)))
    fill_options(options, {name: policy(name, value) for name, value in policies.items()})
    fill_options(options, {name: switch(name, value) for name, value in switches.items()})
    if renames is not None:
        require_mapping("renames", "prefixes to prefixes", renames)
    if renames:
        rules = (_abi.Rename * len(renames))()
        for rule, (old, new) in zip(rules, renames.items(), strict=True):
            rule.from_, rule.to = text_bytes("the rename", old), text_bytes("the rename", new)
        options.renames = rules
        options.rename_count = len(rules)
        options.rename_size = ctypes.sizeof(_abi.Rename)
    return options


def restore_by(
    call: Callable[..., int],
    state: State,
    options: _abi.RestoreOptions,
    supply: Supply | None,
    progress: Progress | bool,
) -> Report:
    """Makes a restore, and returns its report; raises what it failed with.

    Args:
        call: gets options, report and error.
        state: what is restored.
        options: of the call.
        supply: asked for tensors that the state lacks.
        progress: called with the bytes read and those there are, or True: a line on a terminal.
    """
    if supply is not None and not callable(supply):
        raise TypeError(f"supply is a function of an entry, not {type(supply).__name__}: {supply!r}")
    supplying = None if supply is None else Supplying(supply, options)
    report = ctypes.c_void_p()
    with Callbacks() as callbacks, shown(progress, "restoring") as tell, state.being_restored():
        interruptible = Interruptible(options, callbacks.have_raised)
        options.progress = callbacks.progress(tell)
        status = call(ctypes.byref(options), ctypes.byref(report), error_handle())
    if supplying is not None:
        supplying.finish(state, int(lib.pawl_report_step(report)) if status == Status.OK else None)
    if status != Status.OK:
        interruptible.check()
        callbacks.raise_kept()
    interruptible.end()
    try:
        found = finish_restore(status, report)
    finally:
        raise_kept()
    callbacks.raise_kept()
    assert found is not None
    return found


def finish_restore(status: int, report: ctypes.c_void_p) -> Report | None:
    """The report of a restore; raises what it failed with, with the report."""
    error = None if status == Status.OK else failure(status)
    taken = take_report(report)
    if isinstance(error, Mismatch) and taken is not None:
        error.report = taken
        error.next = taken.next or error.next
    if error is not None:
        raise error
    return taken


def refuse_read_only(state: State) -> None:
    """A restore writes to the tensors' memory: some cannot be written to."""
    names = state.read_only()
    if names:
        error = UsageError(
            f"{names[0]}: its memory is read-only, so nothing can be restored into it"
            + (f" ({len(names) - 1} more are)" if len(names) > 1 else "")
            + "; give the state arrays that can be written to"
        )
        error.entry = names[0]
        raise error
