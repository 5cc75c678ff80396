# SPDX-License-Identifier: Apache-2.0
"""Says, where training begins anew in a run, that there are checkpoints of other tools in its directory."""

from __future__ import annotations

import glob
import logging
import os

#: How TensorFlow and Keras name what they save.
_NAMES = ("*.index", "*.h5", "*.keras", "*/*.index", "*/*.h5")


def warn_of_others(directory: str | os.PathLike[str], logger: logging.Logger, how: str) -> None:
    """A warning, if a run that has no checkpoint yet is where another tool has saved.

    Args:
        directory: of the run.
        logger: of the package that begins.
        how: what restores such a checkpoint.
    """
    beginning = glob.escape(os.fspath(directory))
    found = [path for name in _NAMES for path in glob.glob(os.path.join(beginning, name))]
    if found:
        logger.warning(
            "%s has no checkpoint of pawl: training begins anew. There are %d files of other tools, the newest is "
            "%s; to continue from it, restore it first (%s)",
            os.fspath(directory),
            len(found),
            max(found, key=os.path.getmtime),
            how,
        )
