# SPDX-License-Identifier: Apache-2.0
"""pawl for TensorFlow: the idioms of ``tf.train``, with pawl's promises."""
