# SPDX-License-Identifier: Apache-2.0
"""A hostile file of another tool: how it is made, and what may be read of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """Where a case is made, and the command is called; and the file that its payload would leave
    there if anything executed it."""

    directory: Path
    marker: str = "executed"

    def put(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Scene], Path]


CASES: dict[str, Case] = {}


def case(make: Callable[[Scene], Path]) -> Callable[[Scene], Path]:
    """Makes it in the scene's directory; returns what is opened. Its docstring says what it is."""
    format_name = make.__module__.removeprefix("cases_")
    name = f"{format_name}_{make.__name__}"
    assert name not in CASES and make.__doc__, name
    CASES[name] = Case(name, make)
    return make
