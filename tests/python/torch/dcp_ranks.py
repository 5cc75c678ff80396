# SPDX-License-Identifier: Apache-2.0
"""A rank of test_dcp.py: saves an FSDP2 model in every way into a directory, or loads it on any number of ranks."""

import pathlib
import sys

import support  # first: it finds the package
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pawl.torch import Reader, Writer

EXTRA = {"lr": 1e-3, "betas": (0.9, 0.95), "seen": {3, 4}, "none": None, "big": 2**100, "inf": float("inf")}
WAYS = ["plain", "no_collectives", "thread", "zero_copy", "process", "hsdp", "hsdp_no_collectives"]


def job(hsdp=False):
    """A model, its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 5))
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("copy", "shard")) if hsdp else None
    mesh = mesh or init_device_mesh("cpu", (ranks,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model, optimizer, steps):
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()


def whole(model, optimizer):
    """All tensors of the job, as every rank sees them."""
    parts = get_state_dict(model, optimizer)
    found = dict(parts[0])
    found |= {f"{name}.{slot}": value for name, slots in parts[1]["state"].items() for slot, value in slots.items()}
    return {k: (v.full_tensor() if hasattr(v, "full_tensor") else v).clone() for k, v in found.items()}


def save(directory, way):
    model, optimizer = job(hsdp="hsdp" in way)
    train(model, optimizer, 3)
    parts = get_state_dict(model, optimizer)
    state = {"model": parts[0], "optimizer": parts[1], "extra": EXTRA}
    expected = whole(model, optimizer)
    writer = Writer(directory / way, zero_copy=way == "zero_copy")
    options = {"storage_writer": writer, "use_collectives": "no_collectives" not in way}
    if way in ("thread", "zero_copy", "process"):
        kind = AsyncCheckpointerType.PROCESS if way == "process" else AsyncCheckpointerType.THREAD
        future = dcp.async_save(state, async_checkpointer_type=kind, **options)
        optimizer.step()  # what is saved is from before
        future.result()
    else:
        dcp.save(state, **options)
    if dist.get_rank() == 0:
        torch.save(expected, directory / f"{way}.pt")


def load(directory, way):
    model, optimizer = job()
    parts = get_state_dict(model, optimizer)
    state = {"model": parts[0], "optimizer": parts[1], "extra": dict.fromkeys(EXTRA)}
    dcp.load(state, storage_reader=Reader(directory / way))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    expected = torch.load(directory / f"{way}.pt")
    found = whole(model, optimizer)
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), (way, name)
    assert state["extra"] == EXTRA, state["extra"]
    if dist.get_rank() == 0:
        print("equal", way)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for way in WAYS:
        {"save": save, "load": load}[sys.argv[1]](pathlib.Path(sys.argv[2]), way)
        dist.barrier()
    support.end_rank()
