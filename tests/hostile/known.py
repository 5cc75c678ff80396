# SPDX-License-Identifier: Apache-2.0
"""Defects that are known, and being mended elsewhere: patterns of case and of verb with story."""

from typing import NamedTuple


class Known(NamedTuple):
    case: str
    what: str
    why: str


KNOWN: tuple[Known, ...] = ()
