# SPDX-License-Identifier: Apache-2.0
"""Ranks of which one fails, dies or hangs: the others are told which one, and what is there stays whole."""

import json
import os
import signal
import subprocess
import sys

import support  # first: it finds the package
import torch

import pawl

# No rank is waited for until a deadline: those are longer than a test may take.
PATIENT = "group_deadline_s=3000.0, deadline_s=3000.0"

# argv: path, how each step ends ("wait" or "go on"), and for each step who cannot save it.
REFUSES = f"""
import json, sys, torch, torch.distributed as dist, support, pawl, pawl.torch

dist.init_process_group("gloo")
rank, notes, said = dist.get_rank(), {{}}, []
path, how, steps = sys.argv[1], sys.argv[2], sys.argv[3:]
torch.manual_seed(1)
model = torch.nn.Linear(40, 40)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
parts = {{"model": model, "optimizer": optimizer, "extra": {{"notes": notes}}}}
with pawl.torch.Checkpointer(path, **parts, {PATIENT}) as ckpt:
    for step, who in enumerate(steps, 1):
        ckpt.steps, metrics = step, {{"loss": 0.5}}
        notes["net"] = torch.nn.Linear(1, 1) if who == str(rank) else step
        if who == f"metrics of {{rank}}":
            metrics = {{"loss": "low"}}
        try:
            ckpt.save(metrics=metrics)
            if how == "wait":
                ckpt.wait()
            said.append("went well")
        except (pawl.Error, TypeError) as why:
            said.append(f"{{type(why).__name__}} {{why.args[0]}}")
        dist.barrier()
with open(f"{{path}}.{{rank}}", "w") as file:
    json.dump(said, file)
support.end_rank()
"""


class Refusing(support.InDirectory):
    def said(self, how, *steps, ranks=2):
        """What each rank said of each step."""
        self.program(REFUSES, self.run_path, how, *steps, ranks=ranks)
        said = [json.loads(self.run_path.with_suffix(f".{rank}").read_text()) for rank in range(ranks)]
        return {(rank, step): text for rank, texts in enumerate(said) for step, text in enumerate(texts, 1)}

    def saved(self):
        return [info.step for info in pawl.ls(self.run_path) if info.status == "committed"]

    def test_what_one_rank_cannot_save_is_told_to_all_at_once(self):
        said = self.said("wait", "none", "1", "none", "0", "none", ranks=3)
        own = "UsageError extra.notes.net is a torch.nn.modules.linear.Linear"
        for step, failed in ((2, 1), (4, 0)):
            for rank in range(3):
                told = own if rank == failed else rf"UsageError .*: rank {failed} \(.*\): .*: {own.split(' ', 1)[1]}"
                with self.subTest(step=step, rank=rank):
                    self.assertRegex(said[rank, step], f"^{told}")
        for rank in range(3):
            self.assertEqual([said[rank, step] for step in (1, 3, 5)], ["went well"] * 3)
        self.assertEqual(self.saved(), [1, 3, 5])

    def test_a_rank_that_waits_for_no_save_is_told_by_the_next(self):
        said = self.said("go on", "1", "none", "none", "none")
        self.assertRegex(said[1, 1], "^UsageError extra.notes.net")
        self.assertEqual(said[0, 1], "went well")
        self.assertRegex(said[0, 2], r"^UsageError .*: rank 1 \(.*\): .*: extra.notes.net")
        self.assertEqual([said[0, step] for step in (3, 4)], ["went well"] * 2)
        self.assertEqual([said[1, step] for step in (2, 3, 4)], ["went well"] * 3)
        self.assertEqual(self.saved(), [3, 4])

    def test_metrics_that_one_rank_cannot_save(self):
        said = self.said("wait", "metrics of 1", "metrics of 0", "none")
        own = r"TypeError{} metrics\[.loss.\] is a number, not"
        self.assertRegex(said[1, 1], "^" + own.format(""))
        for told, failed in ((said[0, 1], 1), (said[1, 2], 0)):
            self.assertRegex(told, rf"^PeerFailed .*: rank {failed} \(.*\): .*: {own.format(':')}")
        self.assertEqual(self.saved(), [3])


# argv: path, rank, port of the store, and where who goes: "save", "restore" or "nowhere", rank, signal.
# Rank `who` sends itself the signal while it saves step 2, or reads step 1; its part is written or read too slowly
# to be complete by then.
GOES = """
import json, os, sys, torch, torch.distributed as dist, support, pawl, pawl.torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

path, rank, port, where, who, number = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], *map(int, sys.argv[5:])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
local = torch.full((4, 1 << 18), 1.0 + rank)
model = torch.nn.Module()
model.weight = torch.nn.Parameter(DTensor.from_local(local, mesh, [Shard(0)]))
said = []


def go(*_progress):
    while rank == who:  # whoever lets it go on
        os.kill(os.getpid(), number)


def said_by(call):
    try:
        call()
        said.append("went well")
    except pawl.Error as why:
        said.append(f"{type(why).__name__} {why}")


def save():
    ckpt.save()
    if where == "save" and ckpt.steps == 2:
        go()
    ckpt.wait()


dist.barrier()
slow = {"bandwidth_bytes_per_s": 1 << 16} if where == "save" and rank == who else {}
deadline = 3000.0 if where == "nowhere" else 12.0
for step, options in ((1, {}), (2, slow)):
    with pawl.torch.Checkpointer(path, model=model, group_deadline_s=deadline, deadline_s=3000.0, **options) as ckpt:
        if where == "nowhere" or step == 2:
            local.zero_()
            said_by(lambda: ckpt.restore(progress=go if where == "restore" else False))
            said.append(sorted(set(local.flatten().tolist())))
        if where != "nowhere" or step == 2:
            ckpt.steps = step
            said_by(save)
with open(f"{path}.{rank}", "w") as file:
    json.dump(said, file)
os._exit(0)
"""


class Going(support.InDirectory):
    """Rank 0 or 1 is killed, or stopped, and no launcher ends the other one; the store is this process's."""

    def job(self, path, where, who=-1, number=0):
        """What the ranks have said; of the one that has gone nothing."""
        program = self.directory / "program.py"
        program.write_text(GOES, encoding="utf-8")
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        paths = [str(support.PACKAGE), str(support.SOURCE / "tests" / "python" / "torch")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        arguments = [where, str(who), str(int(number))]
        ranks = []
        for rank in range(2):
            command = [sys.executable, str(program), str(path), str(rank), str(store.port), *arguments]
            ranks.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        try:
            for rank in range(2):
                if rank != who:
                    self.assertEqual(ranks[rank].wait(timeout=200), 0)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        files = [path.with_suffix(f".{rank}") for rank in range(2)]
        return [json.loads(file.read_text()) if rank != who else None for rank, file in enumerate(files)]

    def goes(self, where, number):
        well = "went well"
        for who, other in ((0, 1), (1, 0)):
            path = self.directory / f"run-{who}"
            with self.subTest(who=who):
                saved, restored, values, last = self.job(path, where, who, number)[other]
                self.assertEqual(saved, well)
                if where == "save":
                    self.assertEqual((restored, values), (well, [other + 1.0]))
                    failed = last
                else:
                    self.assertIn("UsageError a restore ended in the middle", last)
                    failed = restored
                self.assertTrue(failed.startswith("PeerFailed "), failed)
                self.assertIn(f"rank {who} (host ", failed)
                self.assertNotIn(f"rank {other} (host ", failed)
                self.assertEqual([info.step for info in pawl.ls(path) if info.status == "committed"], [1])
                self.assertTrue(pawl.verify(path).ok)
                again = self.job(path, "nowhere")
                self.assertEqual(again, [[well, [rank + 1.0], well, [rank + 1.0], well] for rank in range(2)])
                self.assertEqual([info.step for info in pawl.ls(path)], [1, 2])

    def test_a_rank_is_killed_while_it_saves_S11(self):
        self.goes("save", signal.SIGKILL)

    def test_a_rank_is_stopped_while_it_saves_S11(self):
        self.goes("save", signal.SIGSTOP)

    def test_a_rank_is_killed_while_it_restores(self):
        self.goes("restore", signal.SIGKILL)

    def test_a_rank_is_stopped_while_it_restores(self):
        self.goes("restore", signal.SIGSTOP)


if __name__ == "__main__":
    support.main()
