"""The Hybrid Index: groups, then intervals (section 4.1.3 of the paper that `engine.py` names).

A Cluster Index whose leaves are Interval Indexes of their groups, so its results need not be
verified.

Where we differ: the Interval Index of a group covers the codes that lead there, not the whole line,
and a group of one interval has one, too. Everything within these codes belongs to the group, so its
elementary intervals are a run of those of the attribute.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tamis.engines.papers.intervals.arrays import STOP
from tamis.engines.papers.intervals.cluster_index import cluster_intervals
from tamis.engines.papers.intervals.interval_index import cover_elementary
from tamis.engines.papers.intervals.intervals import Intervals
from tamis.engines.papers.intervals.tree import Tree, balance, middle, node_rows

__all__ = ["LEAST_CLUSTER", "grow_hybrid"]

LEAST_CLUSTER: Final = 4
"""Groups of at most this many intervals are not split."""


def grow_hybrid(intervals: Intervals, codes: int, least_cluster: int = LEAST_CLUSTER) -> Tree:
    """Grow the Hybrid Index of an attribute with `codes` codes: elementary intervals, then keys."""
    pieces, vectors = cover_elementary(intervals, codes)
    clusters = cluster_intervals(intervals, codes, least_cluster)
    first = np.searchsorted(pieces.first, [group.first for group in clusters.groups])
    stop = np.searchsorted(pieces.first, [group.last + 1 for group in clusters.groups])
    size = len(pieces.first)
    leaf = middle(first, stop)
    node = np.concatenate(
        (
            node_rows(STOP, pieces.first, pieces.last, *balance(first, stop, size)),
            clusters.rows(size, leaf),
        )
    )
    no_words = np.full(len(clusters.key), len(vectors.word))
    vectors = vectors._replace(start=np.concatenate((vectors.start, no_words)))
    return Tree.of_vectors(clusters.root_node(size, leaf), node, vectors)
