# SPDX-License-Identifier: Apache-2.0
"""The workers of a strategy of TensorFlow as ranks that save together."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import tensorflow

from .._error import UsageError
from .._group import Group
from ._tpu import is_tpu_strategy
from ._values import variable_of


def strategy_of(variables: list[Any]) -> Any:
    """The strategy whose variables these are, or in whose scope the caller is; None: there is none."""
    for variable in variables:
        strategy = getattr(variable_of(variable), "distribute_strategy", None)
        if strategy is not None:
            return strategy
    return tensorflow.distribute.get_strategy() if tensorflow.distribute.has_strategy() else None


def place_of(cluster: Mapping[str, Any], task_type: str | None, task_id: int | None) -> tuple[int, int]:
    """Rank and number of ranks: the chief, then the workers; of others, and with parameter servers, 0 of 1.

    Args:
        cluster: addresses by the type of their task, as of ``ClusterSpec.as_dict()``.
        task_type: of this process: "chief", "worker", ...
        task_id: its number among those.
    """
    chiefs = len(cluster.get("chief", ())) + len(cluster.get("master", ()))
    workers = len(cluster.get("worker", ()))
    if "ps" in cluster or task_type not in ("chief", "master", "worker") or task_id is None:
        return 0, 1
    return (task_id if task_type != "worker" else chiefs + task_id), max(chiefs + workers, 1)


def group_of(strategy: Any) -> Group | None:
    """The workers of a ``MultiWorkerMirroredStrategy`` as a group; None: one process saves.

    All workers call it. They meet through files in the directory of the run, which all of them see. The hosts
    of TPUs are no such workers: one program runs them.
    """
    if is_tpu_strategy(strategy):
        return None
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None:
        return None
    rank, size = place_of(resolver.cluster_spec().as_dict(), resolver.task_type, resolver.task_id)
    if size == 1:
        return None
    if not isinstance(strategy, tensorflow.distribute.MultiWorkerMirroredStrategy):
        raise UsageError(
            f"{type(strategy).__name__} runs on {size} workers, and pawl does not know how they meet: give group="
        )
    return Group(rank, size, launch=f"tf:{_same_number(strategy, rank):016x}")


def _same_number(strategy: Any, rank: int) -> int:
    """A number that the first worker has drawn, told to all by a sum."""
    bits = secrets.randbits(62) if rank == 0 else 0

    @tensorflow.function  # type: ignore[untyped-decorator]
    def total(own: Any) -> Any:
        def told() -> Any:
            context = tensorflow.distribute.get_replica_context()
            first = tensorflow.cast(context.replica_id_in_sync_group == 0, tensorflow.int64)
            return context.all_reduce(tensorflow.distribute.ReduceOp.SUM, own * first)

        return strategy.run(told)

    found = total(tensorflow.constant(bits, tensorflow.int64))
    return int(strategy.experimental_local_results(found)[0])
