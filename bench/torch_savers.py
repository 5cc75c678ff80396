# SPDX-License-Identifier: Apache-2.0
"""The contenders of torch_loop.py: each saves a model and its optimizer as its own documentation has it.

On several ranks the model is sharded (FSDP2), and all ranks make the same calls. What `wait` returns from is
durable: files that a contender does not sync are synced here. Each checkpoint has a directory of its own; `tidy`
removes those of before while no clock runs. pawl removes them by itself, in what is measured.
"""

import contextlib
import os
import pathlib
import shutil
import time


class Saver:
    """Saves nothing."""

    def __init__(self, model, optimizer, directory, rank, ranks):
        self.model, self.optimizer = model, optimizer
        self.directory, self.rank, self.ranks = pathlib.Path(directory), rank, ranks
        self.path = None  # of the newest checkpoint
        self.waited = 0.0  # seconds that the trainer's thread stood still before optimizer's steps

    def save(self, step):
        """Starts to save."""

    def lock(self):
        """What the optimizer's step is made under."""
        return contextlib.nullcontext()

    def wait(self):
        """Returns when what was saved is durable."""

    def restore(self):
        """Brings model and optimizer back."""

    def tidy(self):
        """Removes the checkpoints before the newest."""
        if self.rank == 0:
            for old in self.directory.glob("step-*"):
                if old != self.path:
                    shutil.rmtree(old)

    def begin(self, step):
        self.path = self.directory / f"step-{step}"

    def local_state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def named_state(self, **options):
        """The state with names instead of numbers in the optimizer's."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer, options=StateDictOptions(**options))
        return {"model": model, "optimizer": optimizer}

    def set_named_state(self, state, **options):
        from torch.distributed.checkpoint import state_dict as dcp

        options = dcp.StateDictOptions(**options)
        dcp.set_model_state_dict(self.model, state["model"], options=options)
        dcp.set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"], options=options)


class Pawl(Saver):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        import pawl.torch

        run = self.directory / "run"
        self.ckpt = pawl.torch.Checkpointer(run, model=self.model, optimizer=self.optimizer, keep_last=1)
        fence = self.ckpt.fence

        def timed(*given):
            begin = time.perf_counter()
            fence(*given)
            self.waited += time.perf_counter() - begin

        self.ckpt.fence = timed  # the hook before optimizer's steps calls it

    def save(self, step):
        self.ckpt.steps = step
        self.ckpt.save()

    def wait(self):
        self.ckpt.wait()

    def restore(self):
        self.ckpt.restore()


class TorchSave(Saver):
    """One file. Of several ranks, rank 0 gathers the whole state and writes it while the others wait."""

    def save(self, step):
        import torch

        self.begin(step)
        state = self.local_state() if self.ranks == 1 else self.named_state(full_state_dict=True, cpu_offload=True)
        if self.rank == 0:
            self.path.mkdir()
            with (self.path / "state.pt").open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
        if self.ranks > 1:
            torch.distributed.barrier()

    def restore(self):
        import torch

        state = {"model": {}, "optimizer": {}}
        if self.rank == 0:
            state = torch.load(self.path / "state.pt", weights_only=True)
        if self.ranks == 1:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        else:
            self.set_named_state(state, full_state_dict=True, broadcast_from_rank0=True)


class Dcp(Saver):
    """Each rank its shards. It syncs its files."""

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        self.begin(step)
        dcp.save(self.named_state(), checkpoint_id=str(self.path))

    def restore(self):
        import torch.distributed.checkpoint as dcp

        state = self.named_state()
        dcp.load(state, checkpoint_id=str(self.path))
        self.set_named_state(state)


class DcpAsync(Dcp):
    """With a process group of its own, since its thread's messages must not mix with the training's."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("gloo", init_method=f"file://{self.directory}/group", rank=0, world_size=1)
        self.group = dist.new_group(backend="gloo")
        self.future = None

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        self.wait()
        self.begin(step)
        self.future = dcp.async_save(self.named_state(), checkpoint_id=str(self.path), process_group=self.group)

    def wait(self):
        if self.future is not None:
            self.future.result()


class TorchCheckpointing(Saver):
    """As its pages have it for hosts without a GPU; on several ranks with its barrier.

    Without direct I/O, with which version 0.1.1 fails on ext4 (EINVAL), and without its resharder, which fails on
    several ranks without CUDA; as many ranks load what they saved without one. It never syncs its files: that is
    done here, by the ranks together.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.barriers import DefaultStoreBarrierConfig
        from torch_checkpointing.checkpoint_writer import CheckpointWriterConfig
        from torch_checkpointing.config import AsyncCheckpointSaverConfig
        from torch_checkpointing.staging import CheckpointStagerConfig
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        staging = CheckpointStagerConfig(use_pinned_memory=False, use_non_blocking_copy=False)
        writer = CheckpointWriterConfig(barrier_config=DefaultStoreBarrierConfig() if self.ranks > 1 else None)
        save = AsyncCheckpointSaverConfig(staging_config=staging, writer_config=writer)
        storage = LocalFileSystemStorageConfig(use_direct_io=False)
        self.manager = CheckpointManager.Config(save=save, storage_config=storage).build()
        self.future = None

    def save(self, step):
        self.wait()
        self.begin(step)
        self.future = self.manager.save(str(self.path), self.local_state())

    @contextlib.contextmanager
    def lock(self):
        begin = time.perf_counter()
        with self.manager.lock():
            self.waited += time.perf_counter() - begin
            yield

    def wait(self):
        if self.future is None:
            return
        self.future.result()
        self.future = None
        if self.ranks > 1:  # all have written, and rank 0's writer has renamed the directory
            import torch

            torch.distributed.barrier()
        for path in [*sorted(self.path.rglob("*")), self.path][self.rank :: self.ranks]:
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.close(file)

    def restore(self):
        found = self.manager.load(str(self.path), into=self.local_state())
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])


SAVERS = {
    "nothing": Saver,
    "pawl": Pawl,
    "torch.save": TorchSave,
    "dcp.save": Dcp,
    "dcp.async_save": DcpAsync,
    "torch_checkpointing": TorchCheckpointing,
}
