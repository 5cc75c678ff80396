# SPDX-License-Identifier: Apache-2.0
"""What keeps a job from saving or restoring, before it runs."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _abi
from ._abi import DoctorPart, Severity, Status
from ._callbacks import Callbacks
from ._error import check, decode, error_handle, in_python
from ._group import Group, calling
from ._handle import fill_options, path_bytes, real_number, whole_number
from ._library import lib
from ._report import Report, take_report
from ._restore import restore_options
from ._state import State

Path = str | os.PathLike[str]
#: What is restored into: a state, or the entries of one by their names; or where a description of it is.
Model = State | Mapping[str, Any] | Path

# What is trained with, by the names of their distributions: none of them is imported to be asked.
_FRAMEWORKS = (
    "tensorflow", "keras", "torch", "jax", "jaxlib", "flax", "orbax-checkpoint", "lightning", "transformers",
    "accelerate", "numpy", "safetensors", "h5py",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Finding:
    """What the doctor found.

    Attributes:
        id: of the catalogue of failures: "P02", "S06", ...; "ok" for what is fine; "E01" to "E03" for limits
            and the clock.
        severity: "note", "warning" or "error".
        text: one sentence.
        next: what to do, or None.
        evidence: what that was concluded from, or None.
        command: `next` as a line for a shell, or None.
        part: what was looked at: "path", "checkpoint", "restore", "environment" or "job".
    """

    id: str
    severity: str
    text: str
    next: str | None
    evidence: str | None = None
    command: str | None = None
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.severity} {self.id}: {self.text}" + (f"; next: {self.next}" if self.next else "")


class Findings(list[Finding]):
    """All that was found, in the order of looking; ``str()`` has a line for each.

    Attributes:
        report: what restoring into `model` would report; None where no model was given, or there is no checkpoint.
        versions: of the frameworks that are installed, by the names of their distributions.
    """

    def __init__(
        self, found: Iterable[Finding] = (), report: Report | None = None, versions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(found)
        self.report = report
        self.versions = dict(versions or {})

    @property
    def healthy(self) -> bool:
        """There is no warning, and no error."""
        return not self.troubles

    @property
    def troubles(self) -> list[Finding]:
        """The warnings and errors."""
        return [one for one in self if one.severity != "note"]

    @property
    def able_to_save(self) -> bool:
        """Nothing that was found of the path is an error."""
        return not any(one.severity == "error" and one.part in (None, "path") for one in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def _finding(it: Any) -> Finding:
    return Finding(
        decode(it.id) or "",
        Severity(it.severity).name.lower(),
        decode(it.text) or "",
        in_python(decode(it.next)),
        decode(it.evidence),
        decode(it.command),
        decode(it.part),
    )


def _environment() -> Any:
    lines = [b"%s=%s" % (os.fsencode(name), os.fsencode(value)) for name, value in os.environ.items()]
    return (ctypes.c_char_p * (len(lines) + 1))(*lines, None)


def _versions() -> dict[str, str]:
    found = {}
    for name in _FRAMEWORKS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _tell_versions(versions: Mapping[str, str]) -> Finding:
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return Finding("ok", "note", f"{python}; {told or 'no framework'}", None, part="environment")


@contextlib.contextmanager
def _model(options: _abi.DoctorOptions, model: Model | None) -> Iterator[None]:
    """Sets the model, and keeps a state open meanwhile."""
    if isinstance(model, Mapping) and not isinstance(model, State):
        model = State(model)
    if isinstance(model, State):
        with model._held() as pointer:
            options.state = pointer.value
            yield
        return
    if model is not None:
        options.model = path_bytes(model)
    yield


def _restore(*, model_only: bool = False, renames: Mapping[str, str] | None = None, **policies: str) -> Any:
    known = ("missing", "unexpected", "cast", "hyperparameter", "batch", "per_rank")
    for name in policies:
        if name not in known:
            raise TypeError(f"doctor() got an unexpected keyword argument {name!r}")
    return restore_options(None, policies, {"model_only": model_only}, renames)


def _seconds(name: str, value: float | None) -> float:
    return 0.0 if value is None else real_number(name, value, "a number of seconds")


def doctor(
    path: Path,
    *,
    need_bytes: int = 0,
    model: Model | None = None,
    step: int | None = None,
    ranks: int = 0,
    group: Group | None = None,
    group_deadline_s: float | None = None,
    every_s: float | None = None,
    mtbf_s: float | None = None,
    budget_bytes: int = 0,
    probe: bool = True,
    verify: bool = False,
    read_only: bool = False,
    answer_s: float | None = None,
    **restore: Any,
) -> Findings:
    """Finds out what keeps a job from saving at `path`, or from restoring what is there; leaves nothing behind.

    ::

        print(pawl.doctor("runs/a", need_bytes=40 << 30, model=state))

    Args:
        path: a run, which need not exist yet, or a checkpoint of any format; or a SavedModel of TensorFlow, of which is
            found out instead what an accelerator could not run (J03, J07).
        need_bytes: size of a future checkpoint [that of the newest one].
        model: what would be restored into, of which nothing is changed: a `State`, or its entries by their names; the
            path of a checkpoint of any format; or that of a ``.json`` file of names, shapes and dtypes.
        step: of a run: the checkpoint to look at [the newest].
        ranks: of the job, whether or not this is one of them [as many as `group` has].
        group: the ranks of the job, all of which make this call: whether they see the same directory.
        group_deadline_s: how long they wait for each other, in seconds [30].
        every_s: seconds between saves [what the run's events say].
        mtbf_s: seconds between failures of the job, on average; then it says how often to save.
        budget_bytes: staging memory of a save [256 MiB].
        probe: write, sync and read back up to 64 MiB, for about a second.
        verify: read all of the newest checkpoint, instead of what a second is enough for.
        read_only: write nothing.
        answer_s: seconds that the filesystem has for its first answers [5].
        restore: of the restore into `model`, as of `Run.restore`: `missing`, `unexpected`, `cast`,
            `hyperparameter`, `batch`, `per_rank`, `model_only`, `renames`.
    """
    parts = DoctorPart.ALL if probe and not read_only else DoctorPart.ALL & ~DoctorPart.PROBE
    report = ctypes.c_void_p()
    how = _restore(**restore)
    options = _abi.DoctorOptions(restore=ctypes.pointer(how), report=ctypes.pointer(report))
    fill_options(
        options,
        {
            "need_bytes": need_bytes,
            "parts": int(parts),
            "read_only": int(read_only),
            "verify_s": -1.0 if verify else 0.0,
            "budget_bytes": budget_bytes,
            "ranks": ranks,
            "environment": _environment(),
            "step": None if step is None else ctypes.pointer(ctypes.c_int64(whole_number("step", step))),
            "group": None if group is None else ctypes.pointer(group._struct),
        },
    )
    times = {"every_s": every_s, "mtbf_s": mtbf_s, "answer_s": answer_s, "group_deadline_s": group_deadline_s}
    fill_options(options, {name: _seconds(name, value) for name, value in times.items()})
    found = Findings(versions=_versions())
    status = _ask(path, options, model, group, found)
    found.report = take_report(report)
    check(status)
    found.append(_tell_versions(found.versions))
    return _in_python(found)


def _in_python(found: Findings) -> Findings:
    """The library tells what to do about a difference in C's words."""
    said = {} if found.report is None else {item.description: item.next for item in found.report.items}
    for i, one in enumerate(found):
        if one.part == "restore" and one.text in said:
            found[i] = dataclasses.replace(one, next=said[one.text])
    return found


def _ask(path: Path, options: _abi.DoctorOptions, model: Model | None, group: Group | None, found: Findings) -> Status:
    with Callbacks() as callbacks, calling(group), _model(options, model):

        def each(finding: Any) -> None:
            found.append(_finding(finding.contents))

        tell = _abi.FINDING_FUNCTION(callbacks.kept(1, each))
        options.stop = callbacks.stop
        status = lib.pawl_doctor(path_bytes(path), ctypes.byref(options), tell, None, None, error_handle())
        callbacks.raise_kept()
    return Status(status)
