"""The indexes of "Index Structures and Algorithms for Efficient Profile Matching" (section 4.1).

Each attribute has a tree over the intervals in which conjunctions, the paper's profiles, want its
values. The five indexes differ only in these trees. Their nodes have three kinds (`arrays.py`), so
one kernel searches them all. `naive` and `lazy` are the paper's baselines, without trees.

Where we differ: a tree is over codes; each endpoint has a code, and each gap between two endpoints
has one. Atoms without an interval are verified after the trees (`intervals.py`).
docs/decisions/0011 has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tamis.encode.ragged import list_numbers, starts
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine, Scratch
from tamis.engines.papers.intervals.arrays import IntervalArrays, pack_vectors
from tamis.engines.papers.intervals.cluster_index import grow_cluster
from tamis.engines.papers.intervals.hybrid_index import grow_hybrid
from tamis.engines.papers.intervals.interval_index import grow_interval
from tamis.engines.papers.intervals.interval_tree import grow_interval_tree
from tamis.engines.papers.intervals.intervals import (
    Intervals,
    Mentions,
    intervals_by_attribute,
)
from tamis.engines.papers.intervals.match import Candidates, match
from tamis.engines.papers.intervals.segment_tree import grow_segment
from tamis.engines.papers.intervals.tree import Tree, plant_trees

__all__ = [
    "ClusterIndex",
    "HybridIndex",
    "IntervalEngine",
    "IntervalIndex",
    "IntervalTree",
    "Lazy",
    "Naive",
    "Plan",
    "SegmentTree",
]


class Plan(NamedTuple):
    """How the engines of this folder differ."""

    grow: Callable[[Intervals, int], Tree] | None
    """Grows the tree of an attribute with this many codes; None for engines without trees."""
    is_exact: bool = True
    """Whether a tree finds only intervals that contain the value."""
    to_the_end: bool = False
    """Whether all atoms of a conjunction are evaluated even after one fails."""


class IntervalEngine(Engine):
    """The base of the engines in this folder."""

    arrays: IntervalArrays
    arrays_type: ClassVar[type[tuple[Any, ...]]] = IntervalArrays
    kernel: ClassVar[Any] = staticmethod(match)
    plan: ClassVar[Plan]

    @classmethod
    def build_arrays(cls, rules: EncodedRules) -> IntervalArrays:
        """Grow the trees of all attributes, and list the atoms left to verify."""
        return _build(rules, cls.plan)

    def new_scratch(self) -> Scratch:
        """Allocate the bit vectors of the conjunctions that may match."""
        words = -(-(len(self.rules.forms.conjunction_start) - 1) // 64)
        vectors = Candidates(np.zeros(words, np.uint64), np.zeros(words, np.uint64))
        return Scratch(self.rules, vectors)


def _build(rules: EncodedRules, plan: Plan) -> IntervalArrays:
    forms = rules.forms
    codes = np.diff(rules.dictionary.base)
    mentions = Mentions.of(rules) if plan.grow else Mentions.none(rules)
    trees = (
        (attribute, plan.grow(intervals, int(codes[attribute])))
        for attribute, intervals in intervals_by_attribute(rules, mentions)
        if plan.grow
    )
    is_tested = ~mentions.is_filed if plan.is_exact else np.ones_like(mentions.is_filed)
    tests = np.bincount(
        list_numbers(forms.conjunction_start)[is_tested], minlength=len(forms.conjunction_start) - 1
    )
    return IntervalArrays(
        plant_trees(trees, len(codes)),
        pack_vectors(mentions.by_attribute),
        starts(tests),
        forms.conjunction_atom[is_tested],
        int(plan.to_the_end),
    )


class ClusterIndex(IntervalEngine):
    """Groups intervals by keys, and verifies what a value's group may match."""

    name: ClassVar[str] = "cluster"
    plan: ClassVar[Plan] = Plan(grow_cluster, is_exact=False)


class IntervalIndex(IntervalEngine):
    """Looks up the elementary interval of a value."""

    name: ClassVar[str] = "interval"
    plan: ClassVar[Plan] = Plan(grow_interval)


class HybridIndex(IntervalEngine):
    """Groups intervals by keys, and looks up the elementary interval within a group."""

    name: ClassVar[str] = "hybrid"
    plan: ClassVar[Plan] = Plan(grow_hybrid)


class SegmentTree(IntervalEngine):
    """Stores an interval at the few nodes that make it up."""

    name: ClassVar[str] = "segment"
    plan: ClassVar[Plan] = Plan(grow_segment)


class IntervalTree(IntervalEngine):
    """Lists an interval once, at the highest key within it."""

    name: ClassVar[str] = "interval-tree"
    plan: ClassVar[Plan] = Plan(grow_interval_tree)


class Naive(IntervalEngine):
    """Evaluates every atom of every conjunction."""

    name: ClassVar[str] = "naive"
    plan: ClassVar[Plan] = Plan(None, to_the_end=True)


class Lazy(IntervalEngine):
    """Evaluates the atoms of every conjunction up to the first that fails."""

    name: ClassVar[str] = "lazy"
    plan: ClassVar[Plan] = Plan(None)
