# SPDX-License-Identifier: Apache-2.0
"""Names of a model's tensors: those of its ``state_dict()``, with "/" for "." and without wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .._error import UsageError

#: Modules that wrap a model under an attribute, which is no part of the model's own names.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


def escape(component: str) -> str:
    """A component of an entry's name, which has no "/", and is neither "." nor ".."."""
    escaped = "".join(f"%{ord(c):02X}" if c in "/%" or ord(c) < 0x20 or ord(c) == 0x7F else c for c in component)
    if escaped in (".", ".."):
        return escaped.replace(".", "%2E")
    return escaped or "%"


def unescape(component: str) -> str:
    """What `escape` made a component of."""
    parts = component.split("%")
    if component == "%":
        return ""
    return parts[0] + "".join(chr(int(part[:2], 16)) + part[2:] for part in parts[1:])


def entry_name(fqn: str) -> str:
    """The entry's name of what PyTorch names `fqn`, such as "layer.0.weight": layer/0/weight."""
    return "/".join(escape(component) for component in fqn.split("."))


def torch_name(entry: str) -> str:
    """The reverse of `entry_name`."""
    return ".".join(unescape(component) for component in entry.split("/"))


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside of what DistributedDataParallel, torch.compile and others have put around it."""
    while True:
        attribute = _WRAPPERS.get(type(module).__name__)
        inner = module._modules.get(attribute) if attribute is not None else None
        if inner is None:
            return module
        module = inner


class Leaf(NamedTuple):
    """A parameter or buffer of a model.

    Attributes:
        name: of its entry.
        owner: the module's dictionary that has it.
        key: its key there.
    """

    name: str
    owner: dict[str, Any]
    key: str

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor that the model has there now."""
        tensor: torch.Tensor = self.owner[self.key]
        return tensor


class Tree(NamedTuple):
    """A model's tensors and modules.

    Attributes:
        leaves: its parameters and persistent buffers; of one that has several names the first alone.
        names: of all its parameters, by ``id()``: the name of the entry.
        containers: all dictionaries of modules, parameters and buffers: as long as they hold the
            same objects, the leaves are right.
        extra: modules with ``get_extra_state``, by the name of the entry.
    """

    leaves: list[Leaf]
    names: dict[int, str]
    containers: list[dict[str, Any]]
    extra: dict[str, torch.nn.Module]


def _walk(module: torch.nn.Module, prefix: str, seen: set[int]) -> Iterator[tuple[str, torch.nn.Module]]:
    module = unwrap(module)
    if id(module) in seen:
        return
    seen.add(id(module))
    yield prefix, module
    for key, child in module._modules.items():
        if child is not None:
            yield from _walk(child, f"{prefix}/{escape(key)}", seen)


def tree_of(model: torch.nn.Module, prefix: str) -> Tree:
    """Every tensor of `model` that its ``state_dict()`` has, named below `prefix`.

    Raises:
        UsageError: names a parameter of a lazy module that is not built yet, or one on "meta".
    """
    tree = Tree([], {}, [], {})
    seen_tensors: set[int] = set()
    for path, module in _walk(model, prefix, set()):
        tree.containers.extend((module._modules, module._parameters, module._buffers))
        if type(module).get_extra_state is not torch.nn.Module.get_extra_state:
            tree.extra[f"{path}/_extra_state"] = module
        for buffer, owner in ((False, module._parameters), (True, module._buffers)):
            for key, tensor in owner.items():
                if tensor is None or (buffer and key in module._non_persistent_buffers_set):
                    continue
                name = f"{path}/{escape(key)}"
                _require_built(name, tensor)
                if id(tensor) not in seen_tensors:
                    seen_tensors.add(id(tensor))
                    tree.leaves.append(Leaf(name, owner, key))
                    tree.names[id(tensor)] = name
    return tree


def _require_built(name: str, tensor: torch.Tensor) -> None:
    what = ""
    if torch.nn.parameter.is_lazy(tensor):
        what = "belongs to a lazy module that has seen no input yet; run one batch through the model first"
    elif tensor.device.type == "meta":
        what = 'is on the device "meta", which has no memory; call model.to_empty(device=...) first'
    if what:
        error = UsageError(f"{name} {what}")
        error.entry = name
        raise error
