# SPDX-License-Identifier: Apache-2.0
"""What the powerloss rig takes for wrong: one history each, with what a crash left of it. And: of a
recording, what was flushed is in every image, and the rest as the crash says."""

import pathlib
import struct
import tempfile

import images
import model

COMMITTED = "STEP {} committed {} {}\n"


def problems(keep, history, left):
    run = model.Run(keep)
    for line in history:
        rank, what, *numbers = line.split()
        run.take(int(rank), what, [int(n) for n in numbers])
    found = list(run.problems(model.Seen.parse(left)))
    assert len(found) < 2, found
    return found[0] if found else ""


def left(*steps, newest=None):
    text = "".join(COMMITTED.format(*step) for step in steps)
    return text + f"NEWEST {newest if newest is not None else max([s[0] for s in steps], default=-1)}\n"


SAVED = ["0 begin 1 11 0", "0 durable 1 11"]
AGAIN = [*SAVED, "0 begin 1 12 0"]


def test_saves():
    assert problems(0, SAVED, left((1, 0, 11))) == ""
    assert "is not there" in problems(0, SAVED, left())
    assert "holds version 12" in problems(0, SAVED, left((1, 0, 12)))
    assert problems(0, SAVED[:1], left()) == "" == problems(0, SAVED[:1], left((1, 0, 11)))
    assert "holds version 9" in problems(0, SAVED, left((1, 0, 11), (2, 0, 9)))
    assert "and 1 was found" in problems(0, [*SAVED, "0 begin 2 21 0"],
                                         left((1, 0, 11), (2, 0, 21), newest=1))
    assert "damaged" in problems(0, SAVED[:1], "STEP 1 damaged 0 0\nNEWEST -1\n")
    assert problems(0, SAVED[:1], "STEP 1 unfinished 0 0\nNEWEST -1\n") == ""


def test_steps_saved_again():
    assert problems(0, AGAIN, left((1, 0, 11))) == "" == problems(0, AGAIN, left((1, 0, 12)))
    assert "is not there" in problems(0, AGAIN, left())
    assert "holds version 11" in problems(0, [*AGAIN, "0 durable 1 12"], left((1, 0, 11)))
    assert "holds version 12" in problems(0, [*AGAIN, "0 cancelled 1 12"], left((1, 0, 12)))
    # Rank 1 hears of the first save after rank 0 has begun the second, or removed it.
    assert problems(0, [*AGAIN, "1 durable 1 11"], left((1, 0, 12))) == ""
    assert problems(0, [*SAVED, "0 remove 1", "1 durable 1 11"], left()) == ""


def test_removing():
    assert problems(0, [*SAVED, "0 remove 1"], left()) == ""
    assert problems(0, [*SAVED, "0 remove 1"], left((1, 0, 11))) == ""
    assert "holds version 11" in problems(0, [*SAVED, "0 remove 1", "0 removed 1"], left((1, 0, 11)))
    newer = [*SAVED, "0 begin 2 21 0"]
    assert problems(1, newer, left((2, 0, 21))) == ""
    assert "is not there" in problems(2, newer, left((2, 0, 21)))
    assert "is not there" in problems(1, [*SAVED, "0 pin 1 1", "0 pinned 1 1", *newer[2:]],
                                      left((2, 0, 21)))


def test_pins():
    pinned = [*SAVED, "0 pin 1 1"]
    assert problems(0, pinned, left((1, 0, 11))) == "" == problems(0, pinned, left((1, 1, 11)))
    assert "is pinned: 0" in problems(0, [*pinned, "0 pinned 1 1"], left((1, 0, 11)))
    assert "is pinned: 1" in problems(0, SAVED, left((1, 1, 11)))


def record(kind, offset=0, data=b""):
    return struct.pack("<QII", offset, len(data), kind) + data


def image_of(folder, crash, records):
    (folder / "log").write_bytes(b"".join(records))
    (folder / "base").write_bytes(bytes(16384))
    disk = images.Disk(images.Log(folder / "log"), folder / "base")
    pending = disk.cut(crash, folder / "image")
    return pending, (folder / "image").read_bytes()


def test_images():
    mark, write, flush = images.Kind.MARK, images.Kind.WRITE, images.Kind.FLUSH
    records = [record(mark, data=b"- START\n"), record(write, 0, b"a" * 4096), record(flush),
               record(write, 0, b"b" * 8192), record(write, 8192, b"c" * 100), record(flush),
               record(mark, data=b"- END\n")]
    with tempfile.TemporaryDirectory() as name:
        def cut(point, how, share, seed=1):
            return image_of(pathlib.Path(name), images.Crash(point, how, share, seed), records)
        assert cut(2, "whole", 0.0) == (1, bytes(16384))
        assert cut(3, "whole", 0.0) == (0, b"a" * 4096 + bytes(12288))
        assert cut(5, "whole", 0.0) == (2, b"a" * 4096 + bytes(12288))
        assert cut(5, "in order", 1.0) == (2, b"b" * 8192 + b"c" * 100 + bytes(8092))
        assert cut(6, "torn", 0.0) == (0, b"b" * 8192 + b"c" * 100 + bytes(8092))
        torn = {cut(4, "torn", 0.5, seed)[1][:8192] for seed in range(64)}
        zero, old, new = bytes(4096), b"a" * 4096, b"b" * 4096
        assert torn == {old + zero, old + new, new + zero, new + new}


if __name__ == "__main__":
    test_saves()
    test_steps_saved_again()
    test_removing()
    test_pins()
    test_images()
