"""Merging the matches of several parts, and the columns of the answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.matcher import ids
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


@pytest.mark.parametrize("is_number", [lambda _: False, lambda id: id % 3 == 0, lambda id: id < 4])
def test_ids_too_long_for_one_arrow_array_come_in_several(
    is_number: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_MOST_TEXT_BYTES", 20)
    matcher = tamis.Matcher()
    names = [id if is_number(id) else f"rule-é-{id}" for id in range(10)]
    matcher.add_many([(name, f"x > {place}") for place, name in enumerate(names)])
    events = [{"x": x} for x in (3, 0, 20, 7)]
    expected = [(row, name) for row, event in enumerate(events) for name in names[: event["x"]]]
    found = matcher.match_many(events)
    assert found["rule"].num_chunks > 3
    assert max(map(len, found["rule"].chunks)) <= 10
    rows = zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)
    assert list(rows) == expected
    reader = pa.table({"x": [3, 0, 20, 7]}).to_reader()
    assert matcher.match_many(reader).read_all()["rule"].to_pylist() == [n for _, n in expected]
    best = matcher.top_many(events, n=20)
    assert best["rule"].to_pylist() == [name for _, name in expected]
    assert len(matcher.match_many([{"x": 0}])["rule"].combine_chunks()) == 0
