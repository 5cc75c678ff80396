# SPDX-License-Identifier: Apache-2.0
"""pawl for TensorFlow: the idioms of ``tf.train``, with pawl's promises.

::

    checkpoint = pawl.tf.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(0))
    with pawl.tf.CheckpointManager(checkpoint, "runs/a", max_to_keep=3) as manager:
        manager.restore_or_initialize()
        ...
        manager.save()                      # returns at once; writing goes on in the background
"""

from ._check import check_optimizer, check_scope
from ._checkpoint import Checkpoint, Restored
from ._manager import CheckpointManager

__all__ = ["Checkpoint", "CheckpointManager", "Restored", "check_optimizer", "check_scope"]
