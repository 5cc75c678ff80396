# SPDX-License-Identifier: Apache-2.0
"""pawl for TensorFlow: the idioms of ``tf.train``, with pawl's promises."""

from ._check import check_optimizer, check_scope

__all__ = ["check_optimizer", "check_scope"]
