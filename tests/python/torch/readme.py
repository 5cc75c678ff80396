# SPDX-License-Identifier: Apache-2.0
"""Runs the Python of README.md that is of PyTorch, as it stands, in a program that has what it names.

Usage: readme.py README.md
"""

import pathlib
import re
import sys

import pawl.torch
import torch

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
loader = torch.randn(600, 8, 4)


def train(batch):
    """One step of a training loop."""
    optimizer.zero_grad()
    model(batch).square().sum().backward()
    optimizer.step()


blocks = re.findall(r"^```python\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), re.M | re.S)
blocks = [block for block in blocks if "pawl.keras" not in block]  # tests/python/keras/readme.py runs that
assert blocks, "README.md has no Python"
for block in blocks:
    exec(block)
print(*(info.step for info in pawl.ls("runs/a")))
