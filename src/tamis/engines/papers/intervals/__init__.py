"""Trees of intervals for each attribute, with bit vectors of conjunctions; and two baselines."""

from tamis.engines.papers.intervals.engine import (
    ClusterIndex,
    HybridIndex,
    IntervalIndex,
    IntervalTree,
    Lazy,
    Naive,
    SegmentTree,
)

__all__ = [
    "ClusterIndex",
    "HybridIndex",
    "IntervalIndex",
    "IntervalTree",
    "Lazy",
    "Naive",
    "SegmentTree",
]
