#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verifies can be restored, found and shown: indexes whose checksums all fit, and which `verify`
took for good while a restore, or a search, could do nothing with them.

The hostile suite (tests/hostile) asserts it of all its cases; these are the ones that broke it.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hostile"))
from pawlformat import (Piece, Step, make_record, restart_points, block,  # noqa: E402
                        table_of_block, write_table)

ARGUMENTS = argparse.Namespace()
KERNEL = "model/dense/kernel"  # F32 [4, 3]
ROW_BYTES = 3 * 4
DAMAGED = 3


class Verified(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="pawl-outside-")
        self.run_path = pathlib.Path(self.place.name) / "run"
        subprocess.run([ARGUMENTS.make_run, self.run_path], check=True)
        self.step = Step(self.run_path / "step-00001000")

    def tearDown(self):
        self.place.cleanup()

    def pawl(self, *words):
        return subprocess.run([ARGUMENTS.pawl, *words], capture_output=True, text=True, check=False)

    def change_kernel(self, *boxes):
        """The kernel in these boxes of rows, one behind the other in its file."""
        key = b"e" + KERNEL.encode()
        record = self.step.record(key)
        at = record.pieces[0].offset
        record.pieces = []
        for first, rows in boxes:
            record.pieces.append(Piece(0, 0, at, ([first, 0], [rows, 3])))
            at += rows * ROW_BYTES
        self.step.items[key] = make_record(record)
        self.step.put()

    def check_damaged(self, words, *show):
        verified = self.pawl("verify", self.run_path)
        self.assertEqual(verified.returncode, DAMAGED, verified.stdout + verified.stderr)
        self.assertIn(words, verified.stdout)
        shown = self.pawl("show", self.run_path, *show)
        self.assertEqual(shown.returncode, DAMAGED, shown.stdout + shown.stderr)

    def test_a_piece_twice_leaves_a_hole(self):
        """As many elements as there should be, half of them twice."""
        self.change_kernel((0, 2), (0, 2))
        self.check_damaged("pieces of a tensor", KERNEL)

    def test_pieces_that_overlap_leave_a_hole(self):
        """Rows 1 and 2 overlap, and row 3 is in no piece."""
        self.change_kernel((0, 2), (1, 2))
        self.check_damaged("do not make up the whole of it", KERNEL)

    def test_pieces_that_fit_are_good(self):
        """What is cut otherwise than pawl would is whole all the same."""
        self.change_kernel((0, 1), (1, 2), (3, 1))
        self.assertEqual(self.pawl("verify", self.run_path).returncode, 0)
        self.assertEqual(self.pawl("show", self.run_path, KERNEL).returncode, 0)

    def test_an_index_that_a_search_cannot_use(self):
        """A walk finds every entry, a search none: all keys of the index are greater than theirs."""
        self.step.put_index(write_table(
            self.step.sorted_items(), 3,
            lambda index: [(b"zz%03d" % n, handle) for n, (_, handle) in enumerate(index)]))
        self.step.put_manifest()
        self.check_damaged("as its index says", KERNEL)

    def test_restart_points_that_are_no_entries(self):
        """A search begins at restart points, a walk does not: they must see one table."""
        items = self.step.sorted_items()
        entries = block(items, 10**9)[:-8]
        first = len(block(items[:6], 10**9)) - 8
        self.step.put_index(table_of_block(entries + restart_points([0, first]), items[-1][0]))
        self.step.put_manifest()
        self.check_damaged("shares more bytes than there are")

    def test_a_value_that_is_two(self):
        """A restore takes the index's copy, a rebuild the data file's."""
        record = self.step.record(b"estep")
        record.value = b"\7" * 8
        self.step.items[b"estep"] = make_record(record)
        self.step.put()
        verified = self.pawl("verify", self.run_path)
        self.assertEqual(verified.returncode, DAMAGED, verified.stdout + verified.stderr)
        self.assertIn("not the one in its data file", verified.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pawl", required=True)
    parser.add_argument("--make-run", required=True)
    parser.parse_args(namespace=ARGUMENTS)
    unittest.main(argv=[sys.argv[0], "-v"])


if __name__ == "__main__":
    main()
