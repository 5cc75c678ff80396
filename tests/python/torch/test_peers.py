# SPDX-License-Identifier: Apache-2.0
"""Ranks of which one fails, dies or hangs: the others are told which one, and what is there stays whole."""

import json

import support  # first: it finds the package

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
        self.assertRegex(said[1, 1], "^TypeError must be real number")
        self.assertRegex(said[0, 1], r"^PeerFailed .*: rank 1 \(.*\): .*: TypeError: must be real number")
        self.assertRegex(said[1, 2], r"^PeerFailed .*: rank 0 \(.*\): .*: TypeError: must be real number")
        self.assertEqual(self.saved(), [3])


if __name__ == "__main__":
    support.main()
