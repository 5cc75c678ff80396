# SPDX-License-Identifier: Apache-2.0
"""What verifies can be restored, found and shown: what is asserted of a verdict of the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pawlformat

BATCH_SIGNATURE = 6  # the role: where it differs the state keeps its own
NAMES_AS_LATIN_1 = "latin-1"  # the judge writes a name byte by byte


def independent_crcs(directory: Path) -> dict[str, int]:
    """What the files hold, by the second implementation."""
    return {name.encode().decode(NAMES_AS_LATIN_1): pawlformat.crc32c(data)
            for name, data in pawlformat.read_step(directory).items()}


def _packed_and_cut(entry: dict[str, Any]) -> bool:
    """Half elements cannot be addressed: such a tensor is read in the boxes it was saved in."""
    return entry["bits"] % 8 != 0 and entry["pieces"] > 1


def _entry_faults(entry: dict[str, Any], wanted: dict[str, int]) -> list[str]:
    name = entry["name"]
    if entry["find"] != "ok":
        return [f"{name} verifies and is not found: {entry['find']}"]
    if _packed_and_cut(entry):
        return [] if entry["read"] == "unsupported" else [f"{name}: read says {entry['read']}"]
    if entry["read"] != "ok":
        return [f"{name} verifies and cannot be read: {entry['read']}"]
    if not entry["per_rank"] and entry["crc32c"] != wanted.get(name):
        return [f"{name} is read otherwise than it stands in the files"]
    return []


def _restored_faults(verdict: dict[str, Any], how: str, wanted: dict[str, int],
                     of_one_rank: bool) -> list[str]:
    status = verdict[how]
    if status != "ok":
        return [f"it verifies, and {how} says {status}: {verdict.get(how + '_text', '')}"]
    faults = []
    entries = {entry["name"]: entry for entry in verdict["entries"]}
    for name, crc in verdict[how + "_crc32c"].items():
        entry = entries[name]
        kept = entry["role"] == BATCH_SIGNATURE or (entry["per_rank"] and not of_one_rank)
        if crc != wanted.get(name) and not kept:
            faults.append(f"{name} is restored ({how}) otherwise than it stands in the files")
    return faults


def faults_of(verdict: dict[str, Any], directory: Path) -> list[str]:
    """Empty: as promised. `directory` is the step's, as it was judged."""
    if "died" in verdict:
        return [f"the judge died: {verdict['died']}"]
    if verdict["open"] != "ok" or verdict["verify"] != "ok":
        return _unverified_faults(verdict)
    faults = [] if verdict["walk"] == "ok" else [f"it verifies, and a walk says {verdict['walk']}"]
    if faults or verdict.get("too_large"):
        return faults
    wanted = independent_crcs(directory)
    named = {entry["name"] for entry in verdict["entries"]}
    if named != set(wanted):
        faults.append(f"entries differ: {sorted(named ^ set(wanted))[:3]}")
    for entry in verdict["entries"]:
        faults += _entry_faults(entry, wanted)
    if any(_packed_and_cut(entry) for entry in verdict["entries"]):
        return faults
    of_one_rank = pawlformat.Step(directory).manifest["world_size"] == 1
    for how in ("restore", "halves"):
        faults += _restored_faults(verdict, how, wanted, of_one_rank)
    return faults


def _unverified_faults(verdict: dict[str, Any]) -> list[str]:
    """A defect of pawl's own is none of the answers to damage."""
    return [f"{what} says it is a defect: {verdict.get(what + '_text')}"
            for what in ("open", "verify", "walk", "restore", "halves", "job", "newest")
            if verdict.get(what) == "internal"]


def _sound_crcs(directory: Path, name: str) -> tuple[set[int], str]:
    """What the files say with checksums that fit; why nothing, where they do not. Of a value there are
    two copies: a job reads the index's alone, and only verify compares them."""
    try:
        copies = pawlformat.read_sound_entry(directory, name.encode(NAMES_AS_LATIN_1))
        return {pawlformat.crc32c(copy) for copy in copies}, "its files hold other ones"
    except Exception as error:  # pylint: disable=broad-except # whatever a damaged step leads to
        return set(), f"its files do not hold it: {error!r}"


def newest_faults(verdict: dict[str, Any], crcs: dict[int, dict[str, int]],
                  directory: Path) -> list[str]:
    """Of a job that restores the newest: each byte is the one that was saved in that step.
    `crcs`: of the steps as they were saved; `directory`: of the one that may be damaged since. Of
    that one a job may also get what its checksums say, all made to fit, that it holds now."""
    if verdict.get("newest") != "ok":
        return []
    step = verdict["newest_step"]
    if step not in crcs:
        return [f"step {step} was restored, which nobody saved"]
    faults = []
    for name, crc in verdict["newest_crc32c"].items():
        if crc == crcs[step].get(name) or name == "data/batch_signature":
            continue
        now, why = (_sound_crcs(directory, name) if step == int(directory.name[5:])
                    else (set(), "its files are as they were"))
        if crc not in now:
            faults.append(f"{name}: step {step} was restored with bytes that were not saved, and "
                          f"{why}; verify says {verdict.get('verify')}")
    return faults
