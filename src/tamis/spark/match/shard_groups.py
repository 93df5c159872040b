"""Which shards a task maps: all of the index, or as many as fit in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from tamis.spark.index.versions import Shard, Version

__all__ = ["Plan", "grouped", "in_bytes"]

Plan: TypeAlias = Literal["auto", "whole", "sharded"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)


def grouped(
    version: Version, plan: Plan, memory: int | str | None
) -> tuple[tuple[Shard, ...], ...]:
    """The shards of `version`, in groups: a task maps those of one group.

    Parameters
    ----------
    version
        The index.
    plan
        ``"whole"`` for one group; ``"sharded"`` for groups that fit in `memory`, or of one shard
        each if that is not given; ``"auto"`` for one group if it fits, else several.
    memory
        What rules may take of a node's memory; half of this machine's if it is not given.
    """
    if plan not in ("auto", "whole", "sharded"):
        raise ValueError(f"plan is 'auto', 'whole' or 'sharded', not {plan!r}")
    budget = _half_of_this_machine() if memory is None else in_bytes(memory)
    fits = sum(shard.bytes for shard in version.shards) <= budget
    if plan == "whole" or (plan == "auto" and fits) or len(version.shards) < 2:
        return (version.shards,)
    if plan == "sharded" and memory is None:
        return tuple((shard,) for shard in version.shards)
    # A node works on two groups where the tasks of one end and those of the next begin.
    return tuple(_filled(version.shards, budget // 2))


def in_bytes(size: int | str) -> int:
    """A number of bytes, or a text such as ``"8g"``."""
    if isinstance(size, str):
        read = _SIZE.fullmatch(size.strip())
        size = int(read[1]) * _UNITS[read[2].lower()] if read else 0
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError("memory is a number of bytes, or a text such as '8g'")
    return size


def _filled(shards: Iterable[Shard], budget: int) -> Iterable[tuple[Shard, ...]]:
    """Groups of neighbours, each as large as fits, and of one shard at least."""
    group: list[Shard] = []
    for shard in shards:
        if group and sum(other.bytes for other in group) + shard.bytes > budget:
            yield tuple(group)
            group = []
        group.append(shard)
    yield tuple(group)


def _half_of_this_machine() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
