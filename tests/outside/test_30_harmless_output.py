#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever a run's files hold, what the command prints does nothing to a terminal, and each line of it
stays one line; a parser of its JSON reads the very text that is there."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIDI = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
C1 = "".join(chr(c) for c in range(0x80, 0xA0))
C0 = "\x1b[2J\x1b]0;title\x07\r\n\t\x01\x7f"
HOSTILE = "h" + C0 + C1 + BIDI + "t"
NAME = "h" + BIDI + "t"  # what may be in the name of an entry
HARMLESS = "harmless"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def rewrite_manifest(step, change):
    """Has `change` alter the manifest's text before its checksum, which is made anew."""
    path = os.path.join(step, "manifest.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    body = change(text[:text.rindex('  "crc32c"')]).encode()
    with open(path, "wb") as file:
        file.write(body + b'  "crc32c": "%08x"\n}\n' % crc32c(body))


def raw(text):
    """A JSON string that escapes only what it must: C1 and directions stand as they are."""
    return json.dumps(text, ensure_ascii=False)


def pawl(*words, where):
    done = subprocess.run([args.pawl, *words], capture_output=True, timeout=60, check=False,
                          cwd=where)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def as_host(text):
    """What of it can be in a record: one with control characters below 0x80 is none."""
    return re.sub("[\x00-\x1f\x7f]", "", text)


def make(folder, text, name):
    """A run with `text` in every field of every file that can have it."""
    run = os.path.join(folder, "run")
    subprocess.run([args.make_run, run, "--steps=1000,2000,3000", f"--text={text}",
                    f"--json={raw([text, {text: text}])}", f"--add=model/{name}"], check=True)
    rewrite_manifest(os.path.join(run, "step-00001000"), lambda body: body
                     .replace('"writer": "', f'"writer": {raw(text)[:-1]}')
                     .replace('"loss"', raw("loss" + text))
                     .replace('"optimizer/class": "adamw"', f'{raw(text)}: {raw(text)}')
                     .replace('"batch_signature": [', f'"batch_signature": [{raw(text)}, '))
    events = [{"event": "save_begun", "step": 1000, "unix_time_ns": 1, "of_bytes": 5},
              {"event": "save_ended", "step": 1000, "unix_time_ns": 2, "status": text,
               "message": text, "io": text, text: text, "done_bytes": 5, "seconds": 1},
              {"event": "save_ended", "step": 2000, "unix_time_ns": 3, "status": "storage failed",
               "message": text, "attempt": text, "path": text},
              {"event": "restored", "step": 2000, "unix_time_ns": 4, "status": "ok",
               "fallback_count": 1, "fallbacks": [{"step": 3000, "why": text}]}]
    with open(os.path.join(run, "events.jsonl"), "a", encoding="utf-8") as file:
        for event in events:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
    owner = {"counter": "0" * 19 + "1", "generation": 99, "host": as_host(text), "pid": 77,
             "boot_id": text, "pid_namespace": text, "time_namespace": text, "start_ticks": 1,
             "attempt": "a" * 12, "lease_s": 300}
    write(os.path.join(run, "owner-00000099"), json.dumps(owner, ensure_ascii=False))
    write(os.path.join(run, "step-00001000", "reader-aaaaaaaaaaaa"), json.dumps(owner))
    write(os.path.join(run, "latest"), text)
    for place in ("", "step-00002000"):
        write(os.path.join(run, place, text), "")
    os.mkdir(os.path.join(run, "step-" + text))
    flip(os.path.join(run, "step-00003000"))
    shutil.copytree(run, os.path.join(folder, text))
    shutil.copytree(os.path.join(run, "step-00002000"), os.path.join(folder, f"bare{text}", "step"))
    os.mkdir(os.path.join(folder, "others"))
    write(os.path.join(folder, "others", f"{text}.index"), "")
    os.mkdir(os.path.join(folder, "files"))
    write(os.path.join(folder, "files", text), "")
    os.mkdir(os.path.join(folder, "parent"))
    shutil.copytree(run, os.path.join(folder, "parent", text))
    os.symlink(text + "nowhere", os.path.join(folder, "link"))


def flip(step):
    """Damages the first byte of a data file's tensors."""
    name = next(n for n in os.listdir(step) if n.startswith("data-"))
    with open(os.path.join(step, name), "r+b") as file:
        at = 8 + int.from_bytes(file.read(8), "little")
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def commands(text, name):
    """Command lines over all verbs; none of them changes what the next one sees."""
    for run in ("run", text, f"bare{text}", "others", "files", "parent", "link", text + "/none"):
        yield ["ls", run]
        yield ["ls", "--stats", run]
        yield ["top", "--once", run]
        yield ["show", run]
        yield ["verify", run]
        yield ["verify", "--all", run]
        yield ["gc", "--dry-run", "--wait", "0", run]
        yield ["rm", "--wait", "0", f"{run}@1000"]
        yield ["rebuild", "--wait", "0", f"{run}@1000"]
        yield ["doctor", "--alone", run]
        yield ["diff", f"{run}@1000", "run@2000"]
    for step in (1000, 2000, 3000):
        yield ["show", f"run@{step}"]
        yield ["verify", f"run@{step}"]
        for entry in (f"model/{name}", "model", "text/string", "text/json", "text", text,
                      f"model/{name}x", ""):
            yield ["show", f"run@{step}", entry]
    yield ["help", text]
    yield ["show", f"--{text}", "run"]
    yield ["show", "--edge", text, "run"]
    yield ["show", f"run@5{text}"]
    yield ["ls", "run", text]


def as_json(words):
    return [words[0], "--json", *words[1:]]


class Harmless(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pawl-30-")
        cls.hostile = os.path.join(cls.folder.name, "hostile")
        cls.harmless = os.path.join(cls.folder.name, "harmless")
        for where, text, name in ((cls.hostile, HOSTILE, NAME), (cls.harmless, HARMLESS, HARMLESS)):
            os.mkdir(where)
            make(where, text, name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_nothing_that_is_printed_acts_and_a_line_stays_a_line(self):
        pairs = zip(commands(HOSTILE, NAME), commands(HARMLESS, HARMLESS))
        for hostile_words, words in pairs:
            with self.subTest(words):
                code, out, err = pawl(*hostile_words, where=self.hostile)
                twin = pawl(*words, where=self.harmless)
                self.assertIsNone(ACTS.search(out + err), out + err)
                self.assertEqual(code, twin[0], err + twin[2])
                if words[0] == "show" and words[-1] == "text/string":
                    continue  # of a value the lines are its own
                self.assertEqual((out.count("\n"), err.count("\n")),
                                 (twin[1].count("\n"), twin[2].count("\n")), out + err)

    def test_nothing_in_json_acts_and_it_parses(self):
        for words in commands(HOSTILE, NAME):
            with self.subTest(words):
                if words[0] == "help":
                    continue
                _, out, err = pawl(*as_json(words), where=self.hostile)
                self.assertIsNone(ACTS.search(out + err), out + err)
                json.loads(out)

    def read(self, *words):
        return json.loads(pawl(*as_json(list(words)), where=self.hostile)[1])

    def test_json_has_the_very_text(self):
        shown = self.read("show", "run@1000")
        self.assertEqual(shown["framework"], HOSTILE)
        self.assertEqual(shown["manifest"]["writer"][:len(HOSTILE)], HOSTILE)
        self.assertIn("loss" + HOSTILE, shown["manifest"]["metrics"])
        self.assertIn(HOSTILE, shown["manifest"]["batch_signature"])
        names = [entry["name"] for entry in shown["entries"]]
        self.assertIn(f"model/{NAME}", names)
        values = {entry["name"]: entry["value"] for entry in shown["entries"]}
        self.assertEqual(values["text/string"], HOSTILE)
        self.assertEqual(values["text/json"], [HOSTILE, {HOSTILE: HOSTILE}])
        self.assertEqual(self.read("ls", HOSTILE)["run"], HOSTILE)
        self.assertIn("loss" + HOSTILE, self.read("ls", "run")["steps"][0]["metrics"])
        self.assertIn(HOSTILE, self.read("ls", HOSTILE + "/none")["error"]["path"])
        self.assertEqual(self.read("top", "--once", "run")["owner"]["host"], as_host(HOSTILE))

    def test_a_host_stays_in_its_line(self):
        code, _, err = pawl("rm", "--wait", "0", "run@1000", where=self.hostile)
        self.assertEqual(code, 75, err)
        found = [line for line in err.splitlines() if line.startswith("  found:")]
        self.assertEqual(len(found), 1)
        self.assertIn("pid 77", found[0])
        self.assertNotRegex(found[0], ACTS)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pawl", required=True)
parser.add_argument("--make-run", required=True)
args = parser.parse_args()
unittest.main(argv=sys.argv[:1])
