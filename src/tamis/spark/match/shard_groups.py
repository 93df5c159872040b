"""Decide which shards a task maps: the whole index, or as many as fit in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from tamis.spark.index.layout import Shard, Version
from tamis.spark.match.options import MatchOptions

__all__ = ["group_shards"]


def group_shards(version: Version, options: MatchOptions) -> tuple[tuple[Shard, ...], ...]:
    """Divide the shards of `version` into groups; a task maps the shards of one group.

    The plan ``"whole"`` makes one group. ``"sharded"`` makes groups that fit in the memory, or of
    one shard each if none is given. ``"auto"`` makes one group if it fits in the memory, by default
    half of this machine's, and else several.
    """
    shards, plan, memory = version.shards, options.plan, options.memory_bytes
    budget = memory or _half_of_this_machine()
    fits = sum(shard.bytes for shard in shards) <= budget
    if plan == "whole" or (plan == "auto" and fits) or len(shards) < 2:
        return (shards,)
    if plan == "sharded" and memory is None:
        return tuple((shard,) for shard in shards)
    # While a node goes from one group to the next, it maps both.
    return tuple(_fill_groups(shards, budget // 2))


def _fill_groups(shards: Iterable[Shard], budget: int) -> Iterator[tuple[Shard, ...]]:
    """Put neighbours together as far as they fit; a group has at least one shard."""
    group: list[Shard] = []
    for shard in shards:
        if group and sum(other.bytes for other in group) + shard.bytes > budget:
            yield tuple(group)
            group = []
        group.append(shard)
    yield tuple(group)


def _half_of_this_machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
