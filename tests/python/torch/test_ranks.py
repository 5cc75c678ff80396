# SPDX-License-Identifier: Apache-2.0
"""Jobs of several ranks under torchrun: one checkpoint, restored by as many ranks, or by others."""

import json
import os
import socket
import subprocess
import sys

import support  # first: it finds the package

import pawl

# A job: plain under DistributedDataParallel, sharded under fully_shard. Prints a sum of bits of its parameters.
JOB = """
import hashlib, os, signal, sys, torch, torch.distributed as dist, support, pawl, pawl.torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

kind, path, total, save_at, policy = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
width, slow = int(os.environ.get("WIDTH", "33")), {} if "WIDTH" not in os.environ else {
    **support.SLOW, "bandwidth_bytes_per_s": 4 << 20
}
model = torch.nn.Sequential(
    torch.nn.Linear(10, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU(), torch.nn.Linear(width, 7, bias=False)
)
if kind == "compiled":
    model = torch.compile(model, backend="eager")
if kind in ("ddp", "compiled"):
    model = torch.nn.parallel.DistributedDataParallel(model)
elif kind == "hsdp":
    fully_shard(model, mesh=init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard")))
elif world > 1 or kind == "fsdp":
    for module in model:
        fully_shard(module)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
batches = torch.Generator()

with pawl.torch.Checkpointer(path, model=model, optimizer=optimizer, every=save_at, deadline_s=60.0, **slow) as ckpt:
    step = int(os.environ["STEP"]) if "STEP" in os.environ else None
    report = ckpt.restore(step=step, **({"per_rank": policy} if policy else {}))
    if rank == 0:
        print("restored", ckpt.steps if report else None, flush=True)
    while ckpt.steps < total and not ckpt.preempted:
        # every world size sees the same global batch, so that gradients, averaged, are the same
        batches.manual_seed(ckpt.steps)
        x = torch.randn(12, 10, generator=batches)
        mine = x if kind == "same" else x.chunk(world)[rank]
        optimizer.zero_grad()
        model(mine).pow(2).mean().backward()
        optimizer.step()
        if "BUFFERS" in os.environ and rank == 1:  # DistributedDataParallel mends it in the next forward
            model.module[1].running_mean.fill_(5.0)
        if os.environ.get("STOP") == f"{rank}:{ckpt.steps}":
            os.kill(os.getpid(), signal.SIGTERM)
        ckpt.step()
        if slow and ckpt.steps == 3:
            print("in flight", not ckpt.run.fenced(), flush=True)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


digest = hashlib.sha256()
for name, tensor in model.state_dict().items():
    digest.update(whole(tensor).detach().numpy().tobytes())
for parameter in model.parameters():
    for slot, tensor in sorted(optimizer.state[parameter].items()):
        digest.update(whole(tensor).detach().numpy().tobytes())
if "BUFFERS" in os.environ:
    print(f"\\nmeans {rank} {model.module[1].running_mean.tolist()}\\n", end="", flush=True)  # all ranks to one pipe
if rank == 0:
    print("digest", digest.hexdigest(), "steps", ckpt.steps, ckpt.preempted, flush=True)
support.end_rank()
"""


REFUSED = """
import sys, torch, torch.distributed as dist, support, pawl, pawl.torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
summed = torch.nn.Linear(4, 4, bias=False)
summed.weight = torch.nn.Parameter(DTensor.from_local(torch.ones(4, 4), mesh, [Partial()]))
plain = torch.nn.Linear(4, 4)
jobs = {
    "partial": lambda: {"model": summed},
    "zero": lambda: {"model": plain, "optimizer": ZeroRedundancyOptimizer(plain.parameters(), torch.optim.Adam)},
}
for name, make in jobs.items():
    try:
        with pawl.torch.Checkpointer(f"{sys.argv[1]}-{name}", **make(), deadline_s=20.0) as ckpt:
            ckpt.save()
    except pawl.Error as why:
        print(name, type(why).__name__, why.args[0], flush=True)
support.end_rank()
"""


# Each step takes a hundredth of a second or more, and each rank would save at other steps by its own clock.
BY_TIME = """
import json, sys, time, torch, torch.distributed as dist, support, pawl.torch

path, saved = sys.argv[1], []
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
every_s = [0.05, 3600.0, 0.001][rank]
with pawl.torch.Checkpointer(path, model=model, optimizer=optimizer, every_s=every_s, deadline_s=3000.0) as ckpt:
    save = ckpt.run.save

    def note(state, step, **options):
        saved.append(step)
        save(state, step, **options)

    ckpt.run.save = note
    while ckpt.steps < 40:
        model(torch.ones(2, 4)).pow(2).mean().backward()
        optimizer.step()
        time.sleep(0.01 * (1 + (ckpt.steps + rank) % 3))
        ckpt.step()
with open(f"{path}.{rank}", "w") as file:
    json.dump(saved, file)
support.end_rank()
"""


# Each rank reads its own data, in batches of its own, by as many workers as its number: what it has read, by step.
LOADER = """
import json, sys, torch, torch.distributed as dist, support, pawl.torch
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

path, total = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, seen = dist.get_rank(), {}
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
data = torch.arange(100.0)[:, None]
sampler = StatefulDistributedSampler(data, num_replicas=2, rank=rank, shuffle=True, seed=5)
loader = StatefulDataLoader(data, batch_size=2 + rank, sampler=sampler, num_workers=rank, drop_last=True)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
with pawl.torch.Checkpointer(path, **parts, every=4, deadline_s=3000.0) as ckpt:
    ckpt.restore()
    batches = iter(loader)
    while ckpt.steps < total:
        for _ in range(1 + rank):  # rank 1 reads more than rank 0
            batch = next(batches)
            seen.setdefault(ckpt.steps, []).append(batch.flatten().tolist())
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        ckpt.step()
weights = [parameter.flatten().tolist() for parameter in model.parameters()]
with open(f"{path}.{rank}", "w") as file:
    json.dump([seen, weights], file)
support.end_rank()
"""


class Ranks(support.InDirectory):
    def job(self, kind, ranks, total, save_at=3, path=None, policy="", **variables):
        done = self.program(
            JOB, kind, path or self.run_path, total, save_at, policy, ranks=ranks, variables=variables or None
        )
        return done.stdout

    def resumed(self, kind, ranks):
        """Saved at step 3 and killed by the end of the program, resumed to step 6, equal to 6 steps at once."""
        expected = self.job(kind, ranks, 6, 100, self.directory / "uninterrupted").split("digest ")[1]
        self.job(kind, ranks, 3)
        found = self.job(kind, ranks, 6)
        self.assertIn("restored 3", found)
        self.assertEqual(found.split("digest ")[1], expected)

    def resumed_from_a_save_in_flight(self, kind):
        """Training goes on while step 3 is written, reading what it changes; step 3 is what was there then."""
        width = "130000"  # 15 MB for each rank to write, with a budget of 8
        expected = self.job(kind, 2, 6, 100, self.directory / "uninterrupted", WIDTH=width).split("digest ")[1]
        found = self.job(kind, 2, 6, WIDTH=width)
        self.assertIn("in flight True", found)
        self.assertEqual(found.split("digest ")[1], expected)
        found = self.job(kind, 2, 6, 100, WIDTH=width, STEP="3")
        self.assertIn("restored 3", found)
        self.assertEqual(found.split("digest ")[1], expected)

    def test_buffers_that_are_broadcast_while_they_are_saved(self):
        self.resumed_from_a_save_in_flight("ddp")

    def test_shards_that_are_trained_while_they_are_saved(self):
        self.resumed_from_a_save_in_flight("fsdp")

    def test_buffers_that_differ_between_ranks_are_rank_0s(self):
        self.job("ddp", 2, 3, BUFFERS="1")
        found = self.job("ddp", 2, 3, BUFFERS="1")
        means = [line.split(" ", 2) for line in found.splitlines() if line.startswith("means")]
        self.assertEqual(sorted(rank for _, rank, _ in means), ["0", "1"])
        self.assertEqual(len({text for _, _, text in means}), 1)
        self.assertNotIn("5.0, 5.0", means[0][2])

    def test_names_are_without_wrappers(self):
        self.resumed("compiled", 2)
        with pawl.open(self.run_path) as checkpoint:
            names = [name for name in checkpoint if name.startswith(("model/", "optimizer/"))]
        self.assertIn("model/1/running_mean", names)
        self.assertIn("optimizer/3/weight/exp_avg", names)
        self.assertEqual([name for name in names if "module" in name or "_orig_mod" in name], [])

    def test_distributed_data_parallel(self):
        self.resumed("ddp", 2)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.world_size, 2)
            self.assertEqual(checkpoint.entry("model/0/weight").pieces, 1)

    def test_sharded_over_two_ranks(self):
        self.resumed("fsdp", 2)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.entry("model/0/weight").pieces, 2)

    def test_sharded_and_replicated(self):
        self.resumed("hsdp", 4)
        with pawl.open(self.run_path) as checkpoint:
            self.assertEqual(checkpoint.entry("model/0/weight").pieces, 2)

    def test_four_shards_are_restored_by_one_two_and_three_ranks(self):
        """Restored and not trained: the same bits, whoever holds them."""
        expected = self.job("fsdp", 4, 3).split("digest ")[1]
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                found = self.job("fsdp", ranks, 3, policy="caller")
                self.assertIn("restored 3", found)
                self.assertEqual(found.split("digest ")[1], expected)

    def test_another_number_of_ranks_has_to_be_allowed_R10(self):
        self.job("fsdp", 2, 3)
        done = self.program(JOB, "fsdp", self.run_path, 3, 3, "", ranks=1, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("per_rank='allow'", done.stderr)

    def test_all_ranks_stop_at_the_same_step_S13(self):
        found = self.job("ddp", 2, 50, 100, STOP="1:4")
        self.assertIn("steps 6 True", found)
        self.assertEqual([info.step for info in pawl.ls(self.run_path)], [6])

    def told(self, path, ranks):
        """What each rank has written beside the run."""
        return [json.loads(path.with_suffix(f".{rank}").read_text()) for rank in range(ranks)]

    def test_all_ranks_save_when_the_clock_of_rank_0_says_so(self):
        self.program(BY_TIME, self.run_path, ranks=3)
        steps, *others = self.told(self.run_path, 3)
        self.assertGreater(len(steps), 1)
        self.assertEqual(others, [steps, steps])
        self.assertEqual(
            [(info.step, info.status) for info in pawl.ls(self.run_path)], [(s, "committed") for s in steps]
        )

    def test_each_rank_goes_on_in_its_own_data(self):
        uninterrupted = self.directory / "uninterrupted"
        self.program(LOADER, uninterrupted, 7, ranks=2)
        self.program(LOADER, self.run_path, 5, ranks=2)  # a step more than was saved
        self.program(LOADER, self.run_path, 7, ranks=2)
        expected, found = self.told(uninterrupted, 2), self.told(self.run_path, 2)
        for rank in range(2):
            with self.subTest(rank=rank):
                (all_seen, weights), (seen, found_weights) = expected[rank], found[rank]
                self.assertEqual(seen, {step: all_seen[step] for step in ("4", "5", "6")})
                self.assertEqual(found_weights, weights)
        self.assertNotEqual(found[0][0], found[1][0])
        with pawl.open(self.run_path) as checkpoint:
            self.assertTrue(checkpoint.entry("loader").per_rank)
        done = self.program(LOADER, self.run_path, 9, ranks=1, check=False)
        self.assertRegex(
            done.stderr, r'each rank has its own "loader": the checkpoint is of 2 ranks, the state of 1 rank'
        )

    def launched(self, total, nodes, options):
        """The job, on two ranks, by a launcher on each node; what the first of them has printed."""
        program = self.directory / "program.py"
        program.write_text(JOB, encoding="utf-8")
        paths = [str(support.PACKAGE), str(support.SOURCE / "tests" / "python" / "torch")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={2 // nodes}"]
        job = [str(program), "ddp", str(self.run_path), str(total), "1", ""]
        started = []
        try:
            for node in range(nodes):
                rank = [f"--node-rank={node}"] if nodes > 1 else []
                started.append(
                    subprocess.Popen(
                        [*command, *rank, *options, *job], env=environment, stdout=subprocess.PIPE, text=True
                    )
                )
            said = [process.communicate(timeout=200)[0] for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()
        self.assertEqual([process.returncode for process in started], [0] * nodes, said)
        return said[0]

    def test_launchers_that_meet_at_an_address(self):
        """Two of them, each with one rank, at a static address; one that finds the address itself."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
        self.job("ddp", 2, 3)
        for restored, nodes, options in (
            (3, 2, ["--master-addr=127.0.0.1", f"--master-port={port}"]),
            (4, 1, ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=job"]),
        ):
            with self.subTest(options=options):
                said = self.launched(restored + 1, nodes, options)
                self.assertIn(f"restored {restored}\n", said)
                self.assertIn(f"steps {restored + 1} False", said)
                self.assertEqual(pawl.ls(self.run_path)[-1].step, restored + 1)

    def test_what_cannot_be_cut_is_refused_by_name(self):
        found = self.program(REFUSED, self.run_path, ranks=2).stdout
        self.assertEqual(found.count("partial UsageError model/weight: it is a sum"), 2, found)
        self.assertEqual(found.count("zero UsageError optimizer is a ZeroRedundancyOptimizer"), 2, found)


if __name__ == "__main__":
    support.main()
