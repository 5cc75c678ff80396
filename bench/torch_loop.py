#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What saving costs a real training loop in PyTorch: a GPT with AdamW, saved every few steps, by pawl and by others.

    build/torch/bin/python3 bench/torch_loop.py --size-mib 512 --rounds 3

Each contender trains in a process of its own, in turns, rounds times. Columns, medians with quartiles:

    call      seconds that the call which saves takes
    stall     seconds by which a save makes the loop longer, all that follows included
    durable   seconds from the call until it is durable
    restore   seconds until model and optimizer are restored, the files not in the page cache
    memory    MiB by which the process was larger than the one that saved nothing
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONTENDERS = ("nothing", "pawl", "torch.save", "dcp.save", "dcp.async_save", "torch_checkpointing")


# ---- the job: a process of its own ---------------------------------------------------------------


def gpt(size_mib):
    """A model that has, with AdamW's moments, about so many MiB; its width follows."""
    import torch
    from torch import nn

    layers = 6
    width = max(64, int((size_mib * 2**20 / 12 / (12 * layers)) ** 0.5) // 64 * 64)
    block = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Embedding(256, width), nn.TransformerEncoder(block, layers), nn.Linear(width, 256))
    return model, torch.optim.AdamW(model.parameters(), foreach=True)


class Saver:
    """Saves nothing."""

    def __init__(self, model, optimizer, directory):
        self.model, self.optimizer, self.directory = model, optimizer, directory

    def save(self, step):
        """Starts to save."""

    def lock(self):
        """What the optimizer's step is made under."""
        return contextlib.nullcontext()

    def wait(self):
        """Returns when what was saved is durable."""

    def restore(self):
        """Brings model and optimizer back."""


class Pawl(Saver):
    def __init__(self, model, optimizer, directory):
        super().__init__(model, optimizer, directory)
        import pawl.torch

        self.ckpt = pawl.torch.Checkpointer(directory / "run", model=model, optimizer=optimizer, keep_last=1)

    def save(self, step):
        self.ckpt.steps = step
        self.ckpt.save()

    def wait(self):
        self.ckpt.wait()

    def restore(self):
        self.ckpt.restore()


class TorchSave(Saver):
    def save(self, step):
        import torch

        path = self.directory / f"{step}.pt"
        with path.open("wb") as file:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        for old in self.directory.glob("*.pt"):
            if old != path:
                old.unlink()

    def restore(self):
        import torch

        found = torch.load(next(self.directory.glob("*.pt")), weights_only=True)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])


class Dcp(Saver):
    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state(), checkpoint_id=str(self.directory / "dcp"))

    def restore(self):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = self.state()
        dcp.load(state, checkpoint_id=str(self.directory / "dcp"))
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )


class DcpAsync(Dcp):
    def __init__(self, model, optimizer, directory):
        super().__init__(model, optimizer, directory)
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{directory}/group", rank=0, world_size=1)
        self.future = None

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        self.wait()
        self.future = dcp.async_save(self.state(), checkpoint_id=str(self.directory / "dcp"))

    def wait(self):
        if self.future is not None:
            self.future.result()


class TorchCheckpointing(Saver):
    """As its pages have it for hosts without a GPU, and two directories in turns, since it writes in place.

    Without direct I/O, with which version 0.1.1 fails on ext4 (EINVAL); it never syncs its files, so that is
    done here.
    """

    def __init__(self, model, optimizer, directory):
        super().__init__(model, optimizer, directory)
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.config import AsyncCheckpointSaverConfig
        from torch_checkpointing.staging import CheckpointStagerConfig
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        staging = CheckpointStagerConfig(use_pinned_memory=False, use_non_blocking_copy=False)
        save = AsyncCheckpointSaverConfig(staging_config=staging)
        storage = LocalFileSystemStorageConfig(use_direct_io=False)
        self.manager = CheckpointManager.Config(save=save, storage_config=storage).build()
        self.future = self.path = None

    def save(self, step):
        self.wait()
        self.path = self.directory / f"step-{step % 2}"
        shutil.rmtree(self.path, ignore_errors=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.future = self.manager.save(str(self.path), state)

    def lock(self):
        return self.manager.lock()

    def wait(self):
        if self.future is not None:
            self.future.result()
            self.future = None
            for path in self.path.rglob("*"):
                file = os.open(path, os.O_RDONLY)
                os.fsync(file)
                os.close(file)

    def restore(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        found = self.manager.load(str(self.path), into=state)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])


SAVERS = dict(zip(CONTENDERS, (Saver, Pawl, TorchSave, Dcp, DcpAsync, TorchCheckpointing), strict=True))


def leave_page_cache(directory):
    """Asks the system to forget the files."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            with contextlib.suppress(OSError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def work(options):
    """Trains, saves, restores; prints what it cost as JSON."""
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    directory = pathlib.Path(options.directory)
    model, optimizer = gpt(options.size_mib)
    batch = torch.randint(256, (4, 32))
    saver = Saver(model, optimizer, directory)

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten()).backward()
        with saver.lock():
            optimizer.step()
        return time.perf_counter() - begin

    for _ in range(3):
        step()
    plain = [step() for _ in range(options.every)]
    saver = SAVERS[options.worker](model, optimizer, directory)
    saver.save(0)  # not counted: memory is got, threads are started
    saver.wait()
    found = {"plain": statistics.median(plain), "call": [], "stall": [], "durable": []}
    for number in range(1, options.saves + 1):
        begin = time.perf_counter()
        saver.save(number)
        found["call"].append(time.perf_counter() - begin)
        took = found["call"][-1] + sum(step() for _ in range(options.every))
        found["stall"].append(took - options.every * found["plain"])
        saver.wait()
    begin = time.perf_counter()
    saver.save(options.saves + 1)
    saver.wait()
    found["durable"].append(time.perf_counter() - begin)
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    leave_page_cache(directory)
    begin = time.perf_counter()
    saver.restore()
    found["restore"] = [time.perf_counter() - begin]
    print(json.dumps(found), flush=True)
    os._exit(0)


# ---- the table -----------------------------------------------------------------------------------


def turn(options, contender):
    directory = pathlib.Path(options.directory) / contender
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    library = ROOT / "build" / "release" / "src" / "libpawl.so"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PAWL_LIBRARY": str(library)}
    command = [sys.executable, __file__, "--worker", contender, "--directory", str(directory)]
    for name in ("size-mib", "every", "saves", "threads"):
        command += [f"--{name}", str(getattr(options, name.replace("-", "_")))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    shutil.rmtree(directory, ignore_errors=True)
    if done.returncode != 0:
        sys.exit(f"torch_loop: {contender} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def spread(values):
    if not values:
        return "-"
    if len(values) < 2:
        return f"{values[0]:.3f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f}..{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=512, help="of model and moments [512]")
    parser.add_argument("--every", type=int, default=8, help="steps between two saves [8]")
    parser.add_argument("--saves", type=int, default=4, help="of each contender in a round [4]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch [1]")
    parser.add_argument("--only", default=",".join(CONTENDERS), help="contenders, by name")
    parser.add_argument("--directory", default=str(ROOT / "build" / "bench-data"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
    contenders = options.only.split(",")
    results = {contender: [] for contender in contenders}
    for _ in range(options.rounds):
        for contender in contenders:
            results[contender].append(turn(options, contender))
    base = min((one["peak_mib"] for one in results.get("nothing", [])), default=0.0)
    print(f"{'':20}{'step':26}{'call':26}{'stall':26}{'durable':26}{'restore':26}memory")
    for contender, found in results.items():
        cells = [[one["plain"] for one in found]]
        for column in ("call", "stall", "durable", "restore"):
            cells.append([value for one in found for value in one[column]])
        memory = statistics.median(one["peak_mib"] for one in found) - base
        print(f"{contender:20}" + "".join(f"{spread(values):26}" for values in cells) + f"{memory:.0f}")


if __name__ == "__main__":
    main()
