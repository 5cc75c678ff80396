# SPDX-License-Identifier: Apache-2.0
"""Whatever in src takes bytes apart is reached by a fuzz target: each function of a header that does
is called by one; so is something of each file that does it for itself, or of the file that is named
here as the way to it."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A function that takes something apart, by its name; and readers that are called otherwise.
PARSER = re.compile(r"^(static )?(?:bool|void|int|char|pawl_status) +\*?"
                    r"(\w*(?:decode|parse)\w*|take_\w+(?=\(cursor)|owner_read|data_files_read|plan_cover|"
                    r"wire_take_\w+|plan_layout_gather|json_skip|"
                    r"group_discover|structure_explain|run_rebuild|token_read)\("
                    r"[^)]*\b(?:uint8_t|char|buffer|cursor|decoder|json_reader|meet_card|void \*)", re.M)
FUNCTION = re.compile(r"^(?!static )(?:[a-z_]\w* )+\*?(\w+)\(", re.M)
# Reached through the functions of another file.
THROUGH = {
    "src/checkpoint/checkpoint.c": "src/run/rebuild.c",
    "src/checkpoint/checksums.c": "src/run/rebuild.c",
    "src/checkpoint/data_files.c": "src/run/rebuild.c",
    "src/format/block.c": "src/format/table_read.c",
    "src/format/record_metadata.c": "src/format/safetensors.c",
    **{f"src/foreign/hdf5/{name}.c": "src/foreign/hdf5/read.c"
       for name in ("chunk_index", "chunks", "dense", "group", "layout", "type", "value")},
    "src/foreign/streams_packed.c": "src/foreign/numpy/npz.c",
    "src/foreign/unpack.c": "src/foreign/numpy/npz.c",
    "src/foreign/tensorflow/protobuf.c": "src/foreign/tensorflow/bundle.c",
    "src/group/launchers.c": "src/group/discover.c",
    "src/votes/merge_entry.c": "src/votes/merge.c",
    "src/ranks/meet.c": "src/ranks/notes.c",
    "src/votes/vote_table.c": "src/votes/merge.c",
    "src/ranks/wire.c": "src/ranks/meet_bytes.c",
    "src/restore/joint.c": "src/run/restore.c",
    "src/run/restore_decide.c": "src/run/restore.c",
}
# Not from a file of a run, nor from another rank.
ELSEWHERE = {
    "src/base/platform.c": "what the kernel says of a process",
    "src/path/syntax.c": "a path that the user gives; its tests have every case",
}


def sources():
    for path in sorted((ROOT / "src").rglob("*.c")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pawl")
    parser.add_argument("--make-run")
    parser.parse_args()
    targets = "\n".join(p.read_text(encoding="utf-8")
                        for p in (ROOT / "tests" / "fuzz").glob("fuzz_*.c"))
    called = set(re.findall(r"\b(\w+)\(", targets))
    called |= {f"{name}_read" for name in re.findall(r"&format_(\w+)", targets)}
    texts = dict(sources())
    reached = {name for name, text in texts.items() if called & set(FUNCTION.findall(text))}
    failures = []
    for name in [*THROUGH, *THROUGH.values(), *ELSEWHERE]:
        if name not in texts:
            failures.append(f"{name} is named here, and is not there")
    for name, text in texts.items():
        parsers = [(m.group(1), m.group(2)) for m in PARSER.finditer(text)]
        if not parsers or name in ELSEWHERE or THROUGH.get(name) in reached:
            continue
        missing = [parser for static, parser in parsers if not static and parser not in called]
        if missing or name not in reached:
            what = missing or [parser for _, parser in parsers]
            failures.append(f"{name}: {', '.join(what)}: no fuzz target calls it")
    print("\n".join(failures) or f"{len(reached)} files of src are called by fuzz targets")
    return 1 if failures else 0


sys.exit(main())
