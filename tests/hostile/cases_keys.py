# SPDX-License-Identifier: Apache-2.0
"""Names of entries, and keys of the index that are none."""

from __future__ import annotations

from case import KERNEL, add, editing
from pawlformat import Step


def key(name: str, purpose: str, made: bytes) -> None:
    """The kernel's record once more, under another key."""

    def edit(step: Step) -> None:
        step.items[made] = step.items[KERNEL]
        step.manifest["entries"] += 1

    add(name, purpose, editing(edit))


key("key_dotdot", "a name that leads out of a directory", b"e../../x")
key("key_abs", "a name that is an absolute path", b"e/etc/passwd")
key("key_empty", "a name without a byte", b"e")
key("key_dot", "a name with a component that is a dot", b"emodel/./x")
key("key_slash", "a name with an empty component", b"emodel//x")
key("key_ctl", "a name that clears a terminal", b"emodel/\x1b[2J")
key("key_nul", "a name with a NUL", b"emodel/a\0b")
key("key_utf8", "a name that is not UTF-8", b"emodel/\xff")
key("key_long", "a name that is a byte longer than names may be", b"e" + b"a" * 1025)
key("key_max", "a name as long as names may be", b"e" + b"a" * 1024)
key("key_prefix", "a name that is a directory of other names", b"emodel")
key("key_prefix2", "a name below another entry's", b"emodel/dense1/kernel/sub")
key("key_bidi", "a name with a bidi override", "emodel/\u202etxt".encode())
key("key_c1", "a name with a C1 control", "emodel/\u009b31m".encode())
key("key_k4096", "a key as long as keys may be", b"e" + b"a" * 4095)
key("key_zzz", "a key of no kind of record", b"zzz")
key("key_cshort", "a key of checksums that is too short", b"c\0\0")
key("key_c9", "a key of checksums of a file that there is not", b"c" + b"\xff" * 8)
key("key_nokey", "a key without a byte", b"")
key("key_reserved", "a name that data files use for themselves", b"e__metadata__")
