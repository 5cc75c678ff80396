# SPDX-License-Identifier: Apache-2.0
"""pawl for Keras 3: training that is saved while it goes on, and continues at the very batch.

::

    checkpoint = pawl.keras.Checkpoint("runs/a", every=500, keep_last=3)
    pawl.keras.resume(model, dataset, epochs=10, callbacks=[checkpoint])

On the TensorFlow, JAX and PyTorch backends.
"""

from ._checkpoint import Checkpoint
from ._resume import fits, resume

__all__ = ["Checkpoint", "fits", "resume"]
