# SPDX-License-Identifier: Apache-2.0
"""torch_checkpointing's CheckpointManager with its asynchronous save. Its documentation has the
optimizer's step guarded by lock(), which waits until the state is copied: that wait belongs to the
stall. Direct I/O is off, as its troubleshooting page advises where a filesystem refuses it: ext4 refuses
its unaligned writes."""

from torch_checkpointing.checkpoint_manager import CheckpointManager
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

from dcp import arrays_of as _arrays_of
from torch_tensors import adopt, scramble  # noqa: F401


def prepare():
    config = CheckpointManager.Config.with_async_save()
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    return config.build()


def save(manager, state, directory):
    future = manager.save(str(directory / "checkpoint"), {"state": state})
    with manager.lock():
        return future.result


def load(manager, state, directory):
    return manager.load(str(directory / "checkpoint"), into={"state": state})["state"]


def arrays_of(state, loaded):
    return _arrays_of(state, loaded)
