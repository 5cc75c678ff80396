#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small GPT that learns to predict the next character. Stop it however you like, start it again: it goes on.

    python3 train.py                                            # the licence texts of a Debian machine
    torchrun --nproc-per-node=2 train.py --text moby.txt        # two ranks, DistributedDataParallel
    torchrun --nproc-per-node=2 train.py --shard                # two ranks, parameters in shards (FSDP2)

All that pawl needs is marked with "pawl:".
"""

import argparse
import hashlib
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torchdata.stateful_dataloader import StatefulDataLoader

import pawl.torch

LICENCES = pathlib.Path("/usr/share/common-licenses")


def read_text(paths):
    """The characters of the files as a tensor of numbers; a character is a byte."""
    if not paths:
        paths = sorted(path for path in LICENCES.iterdir() if path.is_file() and not path.is_symlink())
    return torch.frombuffer(bytearray(b"".join(pathlib.Path(path).read_bytes() for path in paths)), dtype=torch.uint8)


class Windows(torch.utils.data.Dataset):
    """Every window of `length` characters, and the character after each."""

    def __init__(self, text, length):
        self.text, self.length = text, length

    def __len__(self):
        return len(self.text) - self.length

    def __getitem__(self, i):
        window = self.text[i : i + self.length + 1].long()
        return window[:-1], window[1:]


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, length, width))
        return x + functional.dropout(self.mlp(self.norm2(x)), self.dropout, self.training)


class GPT(nn.Module):
    def __init__(self, width, layers, heads, length, dropout=0.1):
        super().__init__()
        self.characters, self.positions = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        self.head.weight = self.characters.weight  # tied

    def forward(self, characters):
        x = self.characters(characters) + self.positions.weight[: characters.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parallel(model, shard):
    """The model as the ranks of this job train it."""
    if not dist.is_initialized():
        return model
    if not shard:
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def digest(model, optimizer):
    """A checksum of all weights and moments, alike on all ranks."""
    found = hashlib.sha256()
    slots = [optimizer.state[parameter] for parameter in model.parameters()]
    for tensor in [*model.parameters(), *(slot for of in slots for slot in of.values())]:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        found.update(bytes(whole.detach().contiguous().view(-1).view(torch.uint8).tolist()))
    return found.hexdigest()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default="gpt-run", help="of the checkpoints [gpt-run]")
    parser.add_argument("--text", action="append", default=[], help="a file to learn from; may be given again")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--shard", action="store_true", help="parameters in shards over the ranks (FSDP2)")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0

    model = parallel(GPT(options.width, options.layers, 4, options.length), options.shard)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    order = torch.Generator().manual_seed(2 + rank)
    windows = Windows(read_text(options.text), options.length)
    loader = StatefulDataLoader(windows, batch_size=options.batch, sampler=Shuffled(len(windows), order))

    # pawl: what is saved, where, and how often
    with pawl.torch.Checkpointer(
        options.directory,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        loader=loader,
        every=options.save_every,
        keep_last=2,
    ) as ckpt:
        ckpt.restore()  # pawl: goes on where a checkpoint is
        say(rank, f"begins at step {ckpt.steps}")
        batches = iter(loader)
        while ckpt.steps < options.steps and not ckpt.preempted:
            characters, following = next(batches)
            loss = functional.cross_entropy(model(characters).flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # pawl: waits here, if a save still reads the weights
            scheduler.step()
            ckpt.step()  # pawl: counts, and saves when it is time
            say(rank, f"step {ckpt.steps} loss {loss.item():.4f}")
    found = digest(model, optimizer)
    say(rank, f"ends at step {ckpt.steps} digest {found}")
    if dist.is_initialized():
        dist.barrier()
        os._exit(0)  # PyTorch 2.13 aborts now and then while it takes FSDP2 down


class Shuffled(torch.utils.data.Sampler):
    """Numbers of samples in random order, without end. It knows where it is."""

    def __init__(self, size, generator):
        self.size, self.generator = size, generator

    def __iter__(self):
        return self

    def __next__(self):
        return int(torch.randint(self.size, (), generator=self.generator))

    def state_dict(self):
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])


def say(rank, text):
    if rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
