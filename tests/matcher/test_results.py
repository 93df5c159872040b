"""Merging the best matches of several parts."""

from __future__ import annotations

import numpy as np

from tamis.matcher.results import ScoredPart, select_best


def part(*rows: tuple[int, float, int]) -> ScoredPart:
    """A part with these rows of event, score and age."""
    event, score, age = zip(*rows, strict=True) if rows else ((), (), ())
    return ScoredPart(np.array(event, np.int64), np.array(score, float), np.array(age, np.int64))


def test_scores_decide_then_the_order_of_parts_then_ages() -> None:
    older = part((0, 1.0, 5), (0, 2.0, 9), (1, 1.0, 0))
    newer = part((0, 2.0, 3), (0, 2.0, 1), (1, 3.0, 0))
    best = select_best([older, newer], 3)
    assert best.event.tolist() == [0, 0, 0, 1, 1]
    assert best.rank.tolist() == [1, 2, 3, 1, 2]
    assert best.position.tolist() == [1, 4, 3, 5, 2]


def test_empty_parts_and_no_parts() -> None:
    assert select_best([], 3).event.tolist() == []
    assert select_best([part(), part((2, 1.0, 0)), part()], 1).position.tolist() == [0]
    assert select_best([part((0, 1.0, 0))], 0).event.tolist() == []
