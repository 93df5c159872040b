"""The Interval Tree: each interval once (section 4.1.4 of the paper that `engine.py` names).

A node's key is the middle one of the endpoints of its intervals. Those that contain it stay, in two
lists, by where they begin and by where they end; the others go to the side where they lie. A value
left of the key takes intervals from the first list up to one that begins behind it, and so from the
second on the right; the key itself takes them all.

The paper does not say how a key is chosen.
"""

from __future__ import annotations

from tamis.engines.intervals.arrays import NOWHERE
from tamis.engines.intervals.intervals import Intervals
from tamis.engines.intervals.tree import LEFT, RIGHT, Sapling, Tree

__all__ = ["grow_interval_tree"]


def grow_interval_tree(intervals: Intervals, codes: int) -> Tree:  # noqa: ARG001
    """The Interval Tree of an attribute, however many codes it has."""
    sapling = Sapling()
    return sapling.grown(_grow(sapling, intervals))


def _grow(sapling: Sapling, intervals: Intervals) -> int:
    """The node of these intervals; each side has at most half of their endpoints."""
    if intervals.size == 0:
        return NOWHERE
    points = intervals.endpoints
    key = int(points[(len(points) - 1) // 2])
    before, after = intervals.high < key, intervals.low > key
    node = sapling.listed(key, intervals.at(~before & ~after))
    sapling.connect(node, LEFT, _grow(sapling, intervals.at(before)))
    sapling.connect(node, RIGHT, _grow(sapling, intervals.at(after)))
    return node
