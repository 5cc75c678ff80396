# SPDX-License-Identifier: Apache-2.0
"""What a restore found: every difference between a checkpoint and a state, as data."""

from __future__ import annotations

import ctypes
import dataclasses

from . import _abi
from ._abi import Difference, Policy, Severity
from ._error import UsageError, check, decode, error_handle, in_python
from ._library import lib

_SHOWN_RULES = 4


@dataclasses.dataclass(frozen=True)
class Remedy:
    """An argument of a restore that allows a difference.

    Attributes:
        option: name of the argument: "unexpected", "model_only", "renames", ...
        value: what to give it: "allow", "checkpoint", "caller", "1"; None for `renames`.
        rename: for `renames`, the rule to add: (from, to).
        before: what must be done as well, or None.
        effect: what it does, or None.
        remain: how many errors are left where it is passed, wherever it is offered, and nothing
            else; of renamed entries, with that difference's other remedies. None: not tried.
    """

    option: str
    value: str | None
    rename: tuple[str, str] | None
    before: str | None
    effect: str | None
    remain: int | None = None

    @property
    def argument(self) -> str:
        """As it is written in the call: "missing='allow'"."""
        if self.rename is not None:
            return f"renames={{{self.rename[0]!r}: {self.rename[1]!r}}}"
        return f"{self.option}={self.value == '1' if self.value in ('0', '1') else self.value!r}"

    def __str__(self) -> str:
        text = f"pass {self.argument}" + (f" to {self.effect}" if self.effect else "")
        return f"{self.before} and {text}" if self.before else text


def _together(remedies: tuple[Remedy, ...], whose: str) -> str:
    """How all of them are passed at a time: the rename rules as one dictionary."""
    rules = [remedy.rename for remedy in remedies if remedy.rename is not None]
    steps = []
    if rules:
        shown = ", ".join(f"{before!r}: {after!r}" for before, after in rules[:_SHOWN_RULES])
        more = f", and the {len(rules) - _SHOWN_RULES} more of {whose}" if len(rules) > _SHOWN_RULES else ""
        steps.append(f"pass renames={{{shown}{more}}}")
    steps += [str(remedy) for remedy in remedies if remedy.rename is None]
    return ", and ".join(steps)


@dataclasses.dataclass(frozen=True)
class Item:
    """One difference.

    Attributes:
        difference: its kind.
        severity: an error stops the restore.
        name: entry; where entries were renamed, the prefix in the checkpoint.
        other_name: a slot's variable; where entries were renamed, the prefix in the state.
        checkpoint: the checkpoint's side, such as "[64, 10] F32"; None when absent.
        state: the state's side; None when absent.
        dimension: the first dimension that differs, of shapes; else None.
        count: how many entries a rename rule would pair; otherwise 1.
        description: the difference alone.
        change: what to change in the program or the job, or None.
        remedies: each by itself allows the difference; of renamed entries all together.
        saved_as: the entry's name in the checkpoint, where a rename rule changed it.
        remains: it is an error that is left where all of the report's `advice` is passed.
    """

    difference: Difference
    severity: Severity
    name: str
    other_name: str | None
    checkpoint: str | None
    state: str | None
    dimension: int | None
    count: int
    description: str
    change: str | None
    remedies: tuple[Remedy, ...]
    saved_as: str | None
    remains: bool = False

    @property
    def next(self) -> str | None:
        """What to do: change the program, or allow the difference by an argument of the restore."""
        together = self.difference == Difference.RENAMED
        remedies = _together(self.remedies, "this difference") if together else ", or ".join(map(str, self.remedies))
        return (", " if together else ", or ").join(filter(None, (self.change, remedies))) or None

    def __str__(self) -> str:
        return f"{self.description}; {self.next}" if self.next else self.description


def _remedy(found: _abi.Remedy) -> Remedy:
    renamed = found.from_ is not None and found.to is not None
    return Remedy(
        option=decode(found.option) or "",
        value=decode(found.value),
        rename=(found.from_.decode(), found.to.decode()) if renamed else None,
        before=decode(found.before),
        effect=decode(found.effect),
        remain=found.remain if found.remain >= 0 else None,
    )


def _item(found: _abi.ReportItem) -> Item:
    return Item(
        difference=Difference(found.difference),
        severity=Severity(found.severity),
        name=decode(found.name) or "",
        other_name=decode(found.other_name),
        checkpoint=decode(found.checkpoint),
        state=decode(found.state),
        dimension=found.dimension if found.dimension >= 0 else None,
        count=found.count,
        description=decode(found.description) or "",
        change=in_python(decode(found.change)),
        remedies=tuple(_remedy(found.remedies[i].contents) for i in range(found.remedy_count)),
        saved_as=decode(found.saved_as),
        remains=found.remains != 0,
    )


@dataclasses.dataclass(frozen=True)
class Advice:
    """What was tried together, on the same checkpoint and state, when a restore was refused.

    Attributes:
        remedies: rename rules first, then the options that allow what is an error then.
        remain: how many errors that leaves; 0: it restores. None: not known, as with a group.
    """

    remedies: tuple[Remedy, ...]
    remain: int | None

    def __str__(self) -> str:
        return _together(self.remedies, "advice")


def _advice(pointer: ctypes.c_void_p) -> Advice | None:
    found = lib.pawl_report_next(pointer)
    if not found:
        return None
    advice = found.contents
    return Advice(
        remedies=tuple(_remedy(advice.remedies[i].contents) for i in range(advice.remedy_count)),
        remain=advice.remain if advice.remain >= 0 else None,
    )


@dataclasses.dataclass(frozen=True)
class Report:
    """What a restore did, or why it did nothing. ``str()`` has a line for each difference.

    Attributes:
        step: the step that was restored or matched; None when none was chosen.
        items: the differences, at most 4096 of each kind.
        restored: entries that were restored.
        kept: entries of the state that the checkpoint lacks, kept as they were.
        ignored: entries of the checkpoint that the state lacks, left out.
        cast: tensors that were converted to another float type.
        cast_overflows: finite values that became infinite in that.
        bytes: read.
        fallbacks: newer checkpoints that were passed over because they are damaged.
        json: the same for programs.
        advice: what to pass together, and what that leaves; None where nothing was refused.
    """

    step: int | None
    items: tuple[Item, ...]
    restored: int
    kept: int
    ignored: int
    cast: int
    cast_overflows: int
    bytes: int
    fallbacks: int
    json: str
    advice: Advice | None = None

    def __str__(self) -> str:
        return "\n".join(f"{item.severity.name.lower()}: {item}" for item in self.items)

    @property
    def next(self) -> str | None:
        """What to do about what stopped the restore.

        What was tried together, what that leaves, and what to do about the rest; before it, what to compare where names
        that match may be of other entries.
        """
        errors = [item for item in self.items if item.severity == Severity.ERROR]
        if not errors:
            return None
        renumbered = (item for item in self.items if item.difference == Difference.RENAMED and item not in errors)
        parts = [str(item) for item in renumbered if not self._is_tried(item)][:1]
        advised = self.advice is not None and bool(self.advice.remedies)
        if advised:
            otherwise = "if they were not, " if parts and self._asks_for_numbers() else ""
            parts.append(otherwise + self._tried(errors))
        left = dict.fromkeys(item.next for item in errors if item.next and (self.advice is None or item.remains))
        rest = "; ".join(list(left)[:3])
        if rest and advised and self.advice is not None and self.advice.remain:
            parts[-1] += f": {rest}"
        elif rest:
            parts.append(rest)
        return "; ".join(parts) or None

    def _is_tried(self, renamed: Item) -> bool:
        """Are the rules of renamed entries part of the advice? Others are a question."""
        return self.advice is not None and any(remedy in renamed.remedies[:1] for remedy in self.advice.remedies)

    def _asks_for_numbers(self) -> bool:
        """Is it asked whether entries were renumbered? Then what was tried is for those who say no."""
        return any(
            item.difference == Difference.RENAMED and item.severity == Severity.WARNING and item.remedies
            for item in self.items
        )

    def _tried(self, errors: list[Item]) -> str:
        """The advice, and what it leaves."""
        assert self.advice is not None
        allowed = [item for item in errors if not item.remains and item.remedies]
        alike = {item.remedies for item in allowed}
        text, one = str(self.advice), len(self.advice.remedies) == 1
        if one and self.advice.remedies[0].rename is None and len(alike) == 1 and allowed[0].next:
            if all(remedy.remain == self.advice.remain for remedy in allowed[0].remedies):
                text, one = allowed[0].next, len(allowed[0].remedies) == 1
        elif change := next((item.change for item in allowed if item.change), None):
            text = f"{change}, or {text}"
        if self.advice.remain is None:
            return text
        if self.advice.remain == 0:
            several = "these" if len(self.advice.remedies) > 1 else "one of these"
            return f"{text}; with {'this' if one else several} it restores"
        first = next((f", first that of {item.name!r}" for item in errors if item.remains), "")
        if self.advice.remain == 1:
            return f"{text}; then 1 difference remains{first.replace('first ', '')}"
        return f"{text}; then {self.advice.remain} differences remain{first}"


def take_report(pointer: ctypes.c_void_p) -> Report | None:
    """The report as Python's own data; frees the library's."""
    if not pointer:
        return None
    try:
        counts = _abi.ReportCounts()
        check(lib.pawl_report_totals(pointer, ctypes.byref(counts), error_handle()))
        step = lib.pawl_report_step(pointer)
        return Report(
            step=step if step >= 0 else None,
            items=tuple(_item(lib.pawl_report_get(pointer, i).contents) for i in range(lib.pawl_report_count(pointer))),
            restored=counts.restored,
            kept=counts.kept,
            ignored=counts.ignored,
            cast=counts.cast,
            cast_overflows=counts.cast_overflows,
            bytes=counts.bytes,
            fallbacks=counts.fallbacks,
            json=decode(lib.pawl_report_json(pointer)) or "",
            advice=_advice(pointer),
        )
    finally:
        lib.pawl_report_free(pointer)


def policy(argument: str, value: str) -> int:
    """A policy by its name: "error", "allow", "checkpoint", "caller"."""
    try:
        return int(Policy[value.upper()])
    except (AttributeError, KeyError):
        raise UsageError(f"{argument}={value!r}: it is 'error', 'allow', 'checkpoint' or 'caller'") from None
