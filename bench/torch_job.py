# SPDX-License-Identifier: Apache-2.0
"""One job of torch_loop.py, which starts it, alone or as each rank under torchrun: trains, saves, restores.

Rank 0 writes what it cost to a file, as JSON: of each save the seconds of the slowest rank, of memory the sum of the
ranks' peaks.
"""

import argparse
import ctypes
import json
import os
import pathlib
import resource
import signal
import statistics
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch_savers import SAVERS, Saver

PR_SET_PDEATHSIG = 1
TIMES = ("plain", "saving", "call", "stopped", "stall", "durable", "restore")


def gpt(size_mib):
    """A model that has, with AdamW's moments, about so many MiB; its width follows."""
    layers = 6
    width = max(64, int((size_mib * 2**20 / 12 / (12 * layers)) ** 0.5) // 64 * 64)
    block = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(256, width), encoder, nn.Linear(width, 256))


def shard(model, ranks):
    """FSDP2, layer by layer; gathered parameters stay until the backward pass: gloo moves them slowly."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model[1].layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Job:
    """The same model, optimizer and batch, on however many ranks."""

    def __init__(self, options):
        self.rank, self.ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if self.ranks > 1:
            dist.init_process_group("gloo")
        torch.manual_seed(1)
        torch.set_num_threads(options.threads)
        self.model = gpt(options.size_mib)
        if self.ranks > 1:
            shard(self.model, self.ranks)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)
        self.batch = torch.randint(256, (options.batch, 32))[self.rank :: self.ranks]
        self.saver = Saver(self.model, self.optimizer, options.directory, self.rank, self.ranks)

    def step(self):
        self.optimizer.zero_grad()
        found = self.model(self.batch).flatten(0, 1)
        nn.functional.cross_entropy(found, self.batch.flatten()).backward()
        with self.saver.lock():
            self.optimizer.step()

    def steps(self, count):
        """Seconds that so many steps take."""
        self.together()
        begin = time.perf_counter()
        for _ in range(count):
            self.step()
        return time.perf_counter() - begin

    def together(self):
        if self.ranks > 1:
            dist.barrier()

    def tensors(self):
        for parameter in self.model.parameters():
            yield local(parameter.detach())
            yield from (local(slot) for slot in self.optimizer.state[parameter].values() if torch.is_tensor(slot))

    def digest(self):
        return [tensor.double().sum().item() for tensor in self.tensors()]


def leave_page_cache(directory):
    """Asks the system to forget the files."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_saves(job, options, found):
    """Seconds of each save, every one beside as many steps without it."""
    for number in range(1, options.saves + 1):
        plain = job.steps(options.every)
        job.together()
        begin = time.perf_counter()
        job.saver.save(number)
        call = time.perf_counter() - begin
        job.saver.waited = 0.0
        for _ in range(options.every):
            job.step()
        took = time.perf_counter() - begin
        found["plain"].append(plain / options.every)
        found["saving"].append(took / options.every)
        found["call"].append(call)
        found["stopped"].append(call + job.saver.waited)
        found["stall"].append(took - plain)
        job.saver.wait()
        job.together()
        job.saver.tidy()


def measure_durable(job, options, found):
    """Seconds of saves beside which nothing is trained."""
    for number in range(options.saves + 1, options.saves + 3):
        job.step()
        job.together()
        begin = time.perf_counter()
        job.saver.save(number)
        job.saver.wait()
        found["durable"].append(time.perf_counter() - begin)
        job.together()
        job.saver.tidy()


def measure_restore(job, options, found):
    """Seconds to bring back a state that was lost, and whether it is that."""
    before = job.digest()
    for _ in range(3):
        if options.contender != "nothing":
            for tensor in job.tensors():
                tensor.zero_()
        job.together()
        if job.rank == 0:
            leave_page_cache(pathlib.Path(options.directory))
        job.together()
        begin = time.perf_counter()
        job.saver.restore()
        found["restore"].append(time.perf_counter() - begin)
        if job.digest() != before:
            raise RuntimeError(f"{options.contender}: another state was restored than the one that was saved")


def train(options):
    job = Job(options)
    found = {column: [] for column in TIMES}
    job.steps(2)
    job.saver = SAVERS[options.contender](job.model, job.optimizer, options.directory, job.rank, job.ranks)
    job.saver.save(0)  # not counted: memory is got, threads are started
    job.steps(1)
    job.saver.wait()
    measure_saves(job, options, found)
    measure_durable(job, options, found)
    peak = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])
    measure_restore(job, options, found)
    if job.ranks > 1:
        for column, values in found.items():
            slowest = torch.tensor(values, dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            found[column] = slowest.tolist()
        dist.all_reduce(peak)
    found["peak_mib"] = peak.item()
    if job.rank == 0:
        pathlib.Path(options.result).write_text(json.dumps(found), encoding="utf-8")
    job.together()


def look(options):
    """Seconds of Checkpointer.save() for so many parameters, nothing in flight, no tensor added or moved."""
    import pawl.torch

    torch.set_num_threads(options.threads)
    model = nn.ParameterList(torch.zeros(4) for _ in range(options.parameters))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for parameter in model:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    tensors = len(model) + sum(len(slots) for slots in optimizer.state.values())
    found = {"tensors": tensors, "idle": [], "training": []}
    directory = pathlib.Path(options.directory) / "run"
    with pawl.torch.Checkpointer(directory, model=model, optimizer=optimizer, keep_last=1) as ckpt:
        for way in ["idle", "training"] * (options.saves + 1):
            if way == "training":
                optimizer.step()
            ckpt.steps += 1
            begin = time.perf_counter()
            ckpt.save()
            found[way].append(time.perf_counter() - begin)
            ckpt.wait()
    for way in ("idle", "training"):
        found[way] = statistics.median(found[way][1:])  # the first makes what the others find
    pathlib.Path(options.result).write_text(json.dumps(found), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=[*SAVERS, "look"])
    for name in ("--directory", "--result"):
        parser.add_argument(name, required=True)
    for name in ("--size-mib", "--every", "--saves", "--batch", "--threads", "--parameters"):
        parser.add_argument(name, type=int, default=1)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with who started it, however that ends
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    if options.contender == "look":
        look(options)
    else:
        train(options)
    os._exit(0)  # PyTorch 2.13 aborts now and then while it takes FSDP2 down


if __name__ == "__main__":
    main()
