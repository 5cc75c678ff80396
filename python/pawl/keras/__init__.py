# SPDX-License-Identifier: Apache-2.0
"""pawl for Keras 3."""
