# SPDX-License-Identifier: Apache-2.0
"""Groups: ranks that save and restore together, through files and through callbacks of the program."""

import json
import os
import socket
import subprocess
import sys
import threading
import unittest

import support  # first: it finds the package

import pawl

# Ranks meet through files; each holds its rows of x.
RANK = """
import json, os, sys
import pawl
path, rank, size, launch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
group = pawl.Group(rank, size, launch=launch)

def state_of(fill):
    rows = 12 // size
    part = memoryview(bytearray([fill]) * (rows * 8)).cast("B", (rows, 8))
    return part, pawl.State({"x": pawl.Tensor([pawl.Box((rank * rows, 0), part)], shape=(12, 8)), "step": 0})

part, state = state_of(0)
with pawl.Run(path, group=group, group_deadline_s=40) as run:
    if sys.argv[5] == "save":
        part, state = state_of(rank + 1)
        run.save(state, 3)
        run.wait()
    run.meet()
    report = run.restore(state)
with pawl.open(path) as checkpoint:
    part, state = state_of(0)
    again = checkpoint.restore(state, group=group, group_deadline_s=40)
print(json.dumps([report.step, again.step, list(part.tobytes()[::8])]))
"""


class Files(support.InDirectory):
    def ranks(self, size, what, launch="start-1"):
        """Starts them all, and returns what they print."""
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
        started = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, str(self.run_path), str(rank), str(size), launch, what],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        said = [process.communicate(timeout=100) for process in started]
        self.assertEqual([process.returncode for process in started], [0] * size, said)
        return [json.loads(out) for out, _ in said]

    def test_saved_by_three_ranks_restored_by_two(self):
        self.assertEqual([found[:2] for found in self.ranks(3, "save")], [[3, 3]] * 3)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual((checkpoint.world_size, checkpoint.entry("x").shape), (3, (12, 8)))
        rows = [found[2] for found in self.ranks(2, "restore", "start-2")]
        self.assertEqual(rows, [[1, 1, 1, 1, 2, 2], [2, 2, 3, 3, 3, 3]])

    def test_a_rank_that_does_not_come(self):
        group = pawl.Group(0, 2, launch="alone")
        with self.assertRaises((pawl.PeerFailed, pawl.Timeout)) as caught:
            pawl.Run(self.run_path, group=group, group_deadline_s=0.5)
        self.assertIn("1", str(caught.exception))


class Wire:
    """Rank 0 and rank 1 of this process, on two threads, over a pair of sockets."""

    def __init__(self):
        self.ends = socket.socketpair()

    def group(self, rank, gather=None, broadcast=None):
        return pawl.Group(rank, 2, gather=gather or self.gather(rank), broadcast=broadcast or self.broadcast(rank))

    def receive(self, rank, n, deadline_s):
        end, found = self.ends[rank], b""
        end.settimeout(deadline_s)
        while len(found) < n:
            found += end.recv(n - len(found))
        return found

    def gather(self, rank):
        def call(mine, deadline_s):
            if rank == 1:
                self.ends[1].sendall(mine)
                return None
            try:
                return [mine, self.receive(0, len(mine), deadline_s)]
            except TimeoutError:
                return [mine, None]

        return call

    def broadcast(self, rank):
        def call(data, n, deadline_s):
            if rank == 0:
                self.ends[0].sendall(data)
                return data
            return self.receive(1, n, deadline_s)

        return call

    def close(self):
        for end in self.ends:
            end.close()


class Callbacks(support.InDirectory):
    def setUp(self):
        super().setUp()
        self.wire = Wire()
        self.addCleanup(self.wire.close)

    def both(self, call):
        """call(rank) on two threads; what each returned or raised."""
        found = [None, None]

        def run(rank):
            try:
                found[rank] = call(rank)
            except BaseException as why:
                found[rank] = why

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found

    def test_save_and_restore(self):
        def rank(rank):
            data = memoryview(bytearray([rank + 1]) * 4)
            state = pawl.State({"x": pawl.Tensor([pawl.Box((4 * rank,), data)], shape=(8,))})
            with pawl.Run(self.run_path, group=self.wire.group(rank), group_deadline_s=20) as run:
                run.save(state, 1)
                run.wait()
                data[:] = bytes(4)
                run.meet()
                run.restore(state)
            return bytes(data)

        self.assertEqual(self.both(rank), [b"\1" * 4, b"\2" * 4])

    def test_a_rank_that_cannot_begin_a_save_tells_the_others(self):
        """Nobody waits for it, and their later saves meet, although they raise at different steps."""

        def rank(rank):
            state, said = pawl.State({"step": 0}), []
            with pawl.Run(self.run_path, group=self.wire.group(rank), deadline_s=3000, group_deadline_s=3000) as run:
                for step in (1, 2, 3):
                    try:
                        run.save(state, step, metrics={"loss": "low" if (rank, step) == (1, 1) else 0.5})
                    except (pawl.Error, TypeError) as why:
                        said.append((step, type(why), why.args[0]))
            return said

        with self.assertLogs("pawl"):
            found = self.both(rank)
        [[(asked, kind, told)], [(failed, own_kind, _)]] = found
        self.assertEqual((failed, own_kind, asked, kind), (1, TypeError, 2, pawl.PeerFailed))
        self.assertRegex(told, r"rank 1 \(.*TypeError: metrics")
        self.assertEqual([info.step for info in pawl.ls(self.run_path) if info.status == "committed"], [3])

    def test_what_a_callback_raises_is_the_cause(self):
        def broken(_mine, _deadline_s):
            raise OSError("no cable")

        with self.assertLogs("pawl", "ERROR") as logged, self.assertRaises(pawl.PeerFailed) as caught:
            pawl.Run(self.run_path, group=self.wire.group(0, gather=broken), group_deadline_s=1)
        self.assertEqual(str(caught.exception.__cause__), "no cable")
        self.assertIn("rank 0: gather of the group failed: OSError: no cable", logged.output[0])

    def test_ctrl_c_in_a_callback_is_raised(self):
        def interrupted(_mine, _deadline_s):
            raise KeyboardInterrupt

        with self.assertLogs("pawl", "ERROR"), self.assertRaises(KeyboardInterrupt):
            pawl.Run(self.run_path, group=self.wire.group(0, gather=interrupted), group_deadline_s=1)

    def test_what_a_callback_returns_is_looked_at(self):
        for wrong, said in ((None, "not None"), ([b""], "not 1 parts"), ([b"", b""], "0 bytes of rank 0")):
            group = self.wire.group(0, gather=lambda _mine, _deadline_s, wrong=wrong: wrong)
            with self.subTest(said), self.assertLogs("pawl", "ERROR"), self.assertRaises(pawl.PeerFailed) as caught:
                pawl.Run(self.run_path, group=group, group_deadline_s=1)
            self.assertIn(said, str(caught.exception.__cause__))

    def test_a_rank_that_does_not_come_is_named(self):
        with self.assertRaises(pawl.PeerFailed) as caught:
            pawl.Run(self.run_path, group=self.wire.group(0), group_deadline_s=0.3)
        self.assertRegex(str(caught.exception), r"rank 1\b|\b1\b")

    def test_arguments(self):
        with self.assertRaisesRegex(pawl.UsageError, "both callbacks"):
            pawl.Group(0, 2, gather=self.wire.gather(0))
        with self.assertRaisesRegex(TypeError, "rank='0' is of the wrong type"):
            pawl.Group("0", 2)
        with self.assertRaises(pawl.UsageError):
            pawl.Run(self.run_path, group=pawl.Group(2, 2, launch="a"))
        with self.assertRaises(pawl.UsageError):
            pawl.Run(self.run_path, group=pawl.Group(0, 2))


class Discovering(unittest.TestCase):
    def test_torchrun(self):
        found = pawl.discover(
            {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "j7",
             "TORCHELASTIC_RESTART_COUNT": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
        )  # fmt: skip
        self.assertEqual((found.rank, found.world_size, found.local_rank, found.local_size), (2, 4, 0, 2))
        self.assertEqual(found.source, "torchrun")
        self.assertIn("j7", found.launch or "")
        self.assertEqual((found.group().rank, found.group().world_size), (2, 4))

    def test_nothing(self):
        found = pawl.discover({})
        self.assertEqual((found.rank, found.world_size, found.local_rank, found.local_size), (0, 1, None, None))
        self.assertEqual((found.source, found.launch), ("none", None))

    def test_nonsense(self):
        with self.assertRaises(pawl.UsageError):
            pawl.discover({"RANK": "-1", "WORLD_SIZE": "4", "LOCAL_RANK": "0"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
