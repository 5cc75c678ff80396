# SPDX-License-Identifier: Apache-2.0
"""events.jsonl: what is not an event, is too much, or is no file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from case import Scene, add

LARGEST = 2**63 - 1


def events(name: str, purpose: str, make: Callable[[Scene, Path], Any], cpu_s: float = 0) -> None:
    add(name, purpose, lambda scene: make(scene, scene.run / "events.jsonl"), cpu_s)


def lines(name: str, purpose: str, *texts: bytes) -> None:
    events(name, purpose, lambda scene, path: path.write_bytes(b"".join(t + b"\n" for t in texts)))


def endless_line(scene: Scene, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"event":"')
    os.truncate(path, 1 << 30)


def replaced(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def linked(scene: Scene, path: Path) -> None:
    replaced(path, lambda p: p.symlink_to(scene.victim("events")))


def many(scene: Scene, path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(True)[2] * scene.many(60000))


events("ev_1gb_line", "a line of a gigabyte, of zeros", endless_line)
events("ev_no_newline", "a last line without its end",
       lambda scene, path: path.write_bytes(path.read_bytes().rstrip(b"\n")))
events("ev_1gb_nl", "three hundred million empty lines",
       lambda scene, path: path.write_bytes(b"\n" * scene.many(300 << 20)))
events("ev_sparse_15t", "events that are followed by 15 TB of holes",
       lambda scene, path: os.truncate(path, 15 << 40))
events("ev_fifo", "events that are a FIFO", lambda scene, path: replaced(path, os.mkfifo))
events("ev_symlink", "events that are a symbolic link to a file elsewhere", linked)
events("ev_dir", "events that are a directory", lambda scene, path: replaced(path, os.mkdir))
events("ev_zero", "events that are a device without end", lambda scene, path: replaced(
    path, lambda p: os.mknod(p, 0o20666, os.makedev(1, 5))))
events("ev_400k", "sixty thousand events", many)
lines("ev_garbage", "lines that are no events, and events of impossible numbers and texts",
      b"{}", b"[", b"\xff\xfe", b'{"event":1}', b'{"event":"save_ended","step":1e400}', b"[" * 60000,
      b'{"event":"save_ended","step":%d,"unix_time_ns":%d,"status":"\x1b[2J",'
      b'"message":"\\u001b[2J\\u202e","done_bytes":18446744073709551615,"of_bytes":1,'
      b'"seconds":1e308,"gb_per_s":-1}' % (LARGEST, LARGEST),
      b'{"event":"save_progress","step":-5,"unix_time_ns":-1}',
      b'{"event":"save_ended","step":5,"unix_time_ns":1,"status":"ok",'
      b'"message":"\\u0000\\u0007\\u009b31m","done_bytes":-1,"of_bytes":-1,"seconds":-0.0,'
      b'"gb_per_s":0,"files":-1,"io":"\\u001b]0;x\\u0007","retries":-1,'
      b'"phases":{"prepare_s":-1e308,"write_s":1e308,"sync_s":1e308,"commit_s":1e308},'
      b'"stall":{"busy_wait_s":1e308,"fence_copy_s":1e308,"fence_wait_s":0,'
      b'"fence_copied_bytes":18446744073709551615},'
      b'"budget":{"bytes":%d,"wanted_bytes":%d}}' % (LARGEST, LARGEST))
lines("ev_restored", "a restore of impossible numbers, with fallbacks that are none",
      b'{"event":"restored","step":7,"unix_time_ns":1795333114642296052,"status":"ok",'
      b'"done_bytes":%d,"seconds":1e-300,"gb_per_s":1e300,"entries":{"restored":%d,"kept":-1,'
      b'"ignored":0,"cast":0,"cast_overflows":0},"fallback_count":%d,'
      b'"fallbacks":[{"step":-1,"why":"\\u001b[2J"},1,null,{},{},{},{}]}' % ((LARGEST,) * 3))
lines("ev_negsec", "a save that begins after the end of time and goes on before its beginning",
      b'{"event":"save_begun","step":1,"unix_time_ns":%d,"of_bytes":%d}' % (LARGEST, LARGEST),
      b'{"event":"save_progress","step":1,"unix_time_ns":0,"done_bytes":%d,"of_bytes":1,'
      b'"seconds":1e300}' % LARGEST)
