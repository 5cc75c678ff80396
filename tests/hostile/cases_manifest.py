# SPDX-License-Identifier: Apache-2.0
"""Manifests whose checksum fits, and whose text lies."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from case import Scene, add, case
from pawlformat import Raw, Step, manifest_body

UNKNOWN_DATA = "data-4309a3945dc8-3-%05d-of-%05d.safetensors"


def manifest(name: str, purpose: str, edit: Callable[[dict[str, Any], Step], bytes | None],
             cpu_s: float = 0, mib: int = 0) -> None:
    """Changes members, or returns another body."""

    def damage(scene: Scene) -> None:
        step = scene.step()
        step.put_manifest(edit(step.manifest, step))

    add(name, purpose, damage, cpu_s, mib)


def member(name: str, purpose: str, key: str, value: Any, cpu_s: float = 0, mib: int = 0) -> None:
    """Another value of one member."""

    def edit(members: dict[str, Any], _: Step) -> None:
        members[key] = value

    manifest(name, purpose, edit, cpu_s, mib)


def data_name(name: str, purpose: str, value: str) -> None:
    """Another name of the first data file."""

    def edit(members: dict[str, Any], _: Step) -> None:
        members["files"][0]["name"] = value

    manifest(name, purpose, edit)


data_name("man_file_dotdot", "a data file of another step",
          "../step-00000020/data-4309a3945dc8-2-00000-of-00001.safetensors")
data_name("man_file_abs", "a data file with an absolute path", "/etc/passwd")
data_name("man_file_slash", "a data file in a directory below", "a/b")
data_name("man_file_nul", "a data file whose name has a NUL", "data\0x")
data_name("man_file_empty", "a data file without a name", "")
data_name("man_file_tag", "a data file whose attempt is no number",
          "data-zzzzzzzzzzzz-1-00000-of-00001.safetensors")
data_name("man_file_manifest", "a data file that is the manifest", "manifest.json")
data_name("man_file_big", "a data file whose name is longer than names can be", "data-" + "a" * 5000)
data_name("man_file_esc", "a data file whose name clears a terminal", "data-\x1b[2J.safetensors")
data_name("man_file_num", "a data file of a save whose number wraps",
          "data-4309a3945dc8-99999999999999999999-00000-of-00001.safetensors")

member("man_step_other", "the step of another directory", "step", 31)
member("man_step_neg", "a negative step", "step", -1)
member("man_step_big", "a step of thirty digits", "step", Raw("9" * 30))
member("man_step_float", "a step with a fraction", "step", Raw("30.0"))
member("man_step_str", "a step that is a text", "step", "30")
member("man_entries_big", "2^63 - 1 entries", "entries", 2**63 - 1)
member("man_entries_2_64", "2^64 entries", "entries", Raw(str(2**64)))
member("man_entries_neg", "fewer than no entries", "entries", -5)
member("man_entries_1", "one entry, where there are more", "entries", 1)
member("man_ws0", "no ranks", "world_size", 0)
member("man_ws_big", "2^31 ranks", "world_size", 2**31)
member("man_ws_100001", "a rank more than there may be", "world_size", 100001)
member("man_ws_max", "as many ranks as there may be, and values of one", "world_size", 100000)
member("man_time_neg", "the earliest time", "unix_time_ns", -2**63)
member("man_time_max", "the latest time", "unix_time_ns", 2**63 - 1)
member("man_ver0", "version 0", "format_version", 0)
member("man_ver2", "a newer version", "format_version", 2)
member("man_verbig", "a version that is a huge float", "format_version", Raw("1e308"))
member("man_fmt", "another format", "format", "x")
member("man_att", "an attempt that is a path", "attempt", "../../../../x")
member("man_att_esc", "an attempt that clears a terminal", "attempt", "\x1b[2J")
member("man_fw_esc", "a framework with everything a terminal acts on", "framework",
       "\x1b[2J\u202e\r\n\x9b")
member("man_fw_big", "a framework of two million bytes", "framework", "A" * 2000000, mib=16)
member("man_wr", "a writer that sets a terminal's title", "writer", "\x1b]0;x\x07")
member("man_metrics_esc", "metrics whose names and values a terminal acts on", "metrics",
       {"\x1b[2J": "\x1b[31m", "\u202ex": 1})
member("man_metrics_deep", "metrics nested deeply", "metrics",
       Raw('{"a":' + "[" * 120 + "]" * 120 + "}"))
member("man_metrics_deeper", "metrics nested two hundred thousand levels deep", "metrics",
       Raw('{"a":' + "[" * 200000 + "]" * 200000 + "}"))
member("man_metrics_list", "metrics that are a list", "metrics", [1])
member("man_hyper_dup", "a hyperparameter that is there twice", "hyperparameters",
       Raw('{"a":1,"a":2}'))
member("man_hyper_nan", "a hyperparameter that is no JSON number", "hyperparameters",
       Raw('{"a":NaN}'))
member("man_hyper_inf", "a hyperparameter beyond all doubles", "hyperparameters",
       Raw('{"a":1e9999}'))
member("man_files_none", "no data files, where entries are in some", "files", [])
member("man_files_null", "a batch signature that is null", "batch_signature", None)
member("man_unknown", "a member that nobody knows", "zzz", {"a": [1] * 100})


def sized(name: str, purpose: str, cpu_s: float, mib: int,
          change: Callable[[Scene, dict[str, Any]], bytes | None]) -> None:
    """A manifest whose size follows from how much a build is asked to bear."""

    def damage(scene: Scene) -> None:
        step = scene.step()
        step.put_manifest(change(scene, step.manifest))

    add(name, purpose, damage, cpu_s, mib)


sized("man_metrics_many", "300,000 metrics", 2, 64, lambda scene, members: members.update(
    metrics={f"m{i}": i for i in range(scene.many(300000))}))
sized("man_batch_big", "a batch signature of 20 MB", 2, 128, lambda scene, members: members.update(
    batch_signature=["x" * 1000] * scene.many(20000)))
sized("man_files_1m", "700,000 data files that there are not", 8, 512,
      lambda scene, members: members.update(files=unknown_files(scene.many(700000), 700000)))
sized("man_files_missing", "50,000 data files that there are not", 1, 64,
      lambda scene, members: members.update(files=unknown_files(scene.many(50000), 50000)))


def unknown_files(count: int, of: int) -> list[dict[str, Any]]:
    return [{"name": UNKNOWN_DATA % (i, of), "bytes": 1, "rank": 0} for i in range(count)]


def of_file(name: str, purpose: str, /, **change: int) -> None:
    """Another size or rank of the first data file."""

    def edit(members: dict[str, Any], _: Step) -> None:
        members["files"][0].update(change)

    manifest(name, purpose, edit)


def of_index(name: str, purpose: str, /, **change: Any) -> None:
    """Another name or size of the index."""

    def edit(members: dict[str, Any], _: Step) -> None:
        members["index"].update(change)

    manifest(name, purpose, edit)


def index_is_data(members: dict[str, Any], _: Step) -> None:
    members["index"]["name"] = members["files"][0]["name"]


def file_twice(members: dict[str, Any], _: Step) -> None:
    members["files"].append(dict(members["files"][0]))


of_file("man_bytes_neg", "a data file of fewer than no bytes", bytes=-1)
of_file("man_bytes_2_63", "a data file of the largest size", bytes=2**63 - 1)
of_file("man_bytes_2_64", "a data file whose size wraps", bytes=2**64)
of_file("man_rank", "a data file of a rank that there is not", rank=1)
of_file("man_rank_neg", "a data file of a negative rank", rank=-1)
of_index("man_index_dotdot", "an index outside of the run", name="../../etc/passwd")
of_index("man_index_bytes", "an index of the largest size", bytes=2**63 - 1)
of_index("man_index_40", "an index that is shorter than its footer", bytes=47)
manifest("man_file_twice", "a data file that is listed twice", file_twice)
manifest("man_index_data", "an index that is a data file", index_is_data)

# ---- other bytes ----------------------------------------------------------------------------------


def doubled_step(members: dict[str, Any], _: Step) -> bytes:
    return manifest_body(members).replace(b'  "step": 30,', b'  "step": 30,\n  "step": 30,')


manifest("man_dup_keys", "a member that is there twice", doubled_step)
manifest("man_nul", "zeros behind the last member", lambda m, _: manifest_body(m) + b"\0" * 100)
manifest("man_only_seal", "nothing but the line of the checksum", lambda m, _: b"")
manifest("man_utf8", "a text that is not UTF-8",
         lambda m, _: manifest_body(m).replace(b"charlm", b"\xff\xfe\xed\xa0\x80"))
sized("man_65m", "a manifest that is longer than manifests may be", 2, 192,
      lambda scene, m: manifest_body(m) + b" " * (65 << 20))
sized("man_63m_spaces", "a manifest that is nearly as long as they may be, of spaces", 4, 256,
      lambda scene, m: manifest_body(m) + b" " * scene.many(63 << 20))
manifest("man_63m_nest", "an unknown member that is nested deeply",
         lambda m, _: manifest_body({**m, "zzz": Raw("[" * 126 + "1" + "]" * 126)}))
sized("man_60m_list", "an unknown list of twenty million lists", 8, 256,
      lambda scene, m: manifest_body(
          {**m, "zzz": Raw("[" + "[]," * scene.many(20000000) + "1]")}))
sized("man_60m_obj", "five million metrics", 16, 512,
      lambda scene, m: manifest_body({**m, "metrics": Raw(
          "{" + ",".join(f'"{i:x}":0' for i in range(scene.many(5500000))) + "}")}))

# ---- other things than a file ---------------------------------------------------------------------


@case("a manifest without a byte")
def man_empty(scene: Scene) -> None:
    scene.manifest.write_bytes(b"")


@case("a manifest that is a directory")
def man_dir(scene: Scene) -> None:
    scene.manifest.unlink()
    scene.manifest.mkdir()


@case("a manifest that is a FIFO")
def man_fifo(scene: Scene) -> None:
    scene.manifest.unlink()
    os.mkfifo(scene.manifest)


@case("a manifest that is a symbolic link to one")
def man_symlink(scene: Scene) -> None:
    scene.manifest.rename(scene.run / "m")
    scene.manifest.symlink_to("../m")


@case("a manifest that is a device without end")
def man_dev(scene: Scene) -> None:
    scene.manifest.unlink()
    os.mknod(scene.manifest, 0o20666, os.makedev(1, 5))
