"""Events as Arrow columns of JSON texts."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest

import tamis

COUNT = 1_500
"""Enough that kernels read them."""


@pytest.fixture(scope="module")
def matcher() -> tamis.Matcher:
    random = Random(1)
    matcher = tamis.Matcher(schema={"seen": "timestamp"})
    texts = [
        f"price > {random.randrange(100)} AND genre = 'g{random.randrange(5)}'" for _ in range(50)
    ]
    texts += ["size(tags) > 1", "seen > DATE '2024-01-05'", "name LIKE '%a%' AND user.age < 30"]
    matcher.add_many(list(enumerate(texts)))
    return matcher


def draw_event(random: Random) -> dict[str, object]:
    event: dict[str, object] = {
        "price": random.choice([5, 5.5, random.random() * 100]),
        "genre": f"g{random.randrange(7)}",
        "tags": ["a", "b", "a"][: random.randrange(4)],
        "seen": f"2024-01-{random.randrange(1, 29):02}",
        "name": random.choice(["anna", "bo", 'quo"te a', "é"]),
        "user": {"age": random.randrange(80), "unused": [{"x": None}]},
    }
    for name in random.sample(list(event), 2):
        del event[name]
    return event


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_texts_match_as_their_objects(matcher: tamis.Matcher, kind: pa.DataType) -> None:
    random = Random(2)
    events = [draw_event(random) for _ in range(COUNT)]
    texts = pa.array([json.dumps(event) for event in events]).cast(pa.string()).cast(kind)
    expected = matcher.match_many(events)
    assert expected.num_rows > COUNT
    assert matcher.match_many(texts) == expected
    assert matcher.match_many(pa.chunked_array([texts[:700], texts[700:]])) == expected
    assert matcher.count_many(texts[7:19]) == matcher.count_many(events[7:19])
    assert matcher.top_many(texts, n=2) == matcher.top_many(events, n=2)


def test_bad_texts_are_named_or_skipped(matcher: tamis.Matcher) -> None:
    texts = ['{"price": 99, "genre": "g1"}'] * COUNT
    texts[70], texts[1_200], texts[1_300] = '{"price": }', '["price"]', '{"seen": "tomorrow"}'
    with pytest.raises(tamis.EventError, match=r"event 70: the event is not JSON: .*price"):
        matcher.match_many(pa.array(texts))
    skipped: list[tamis.BadEvent] = []
    counts = matcher.count_many(pa.array(texts), on_error="skip", skipped=skipped)
    assert [bad.event for bad in skipped] == [70, 1_200, 1_300]
    assert "a JSON object, not" in skipped[1].message
    assert "tomorrow" in skipped[2].message
    assert counts.num_rows == COUNT - 3


def test_a_column_of_anything_else_is_refused(matcher: tamis.Matcher) -> None:
    with pytest.raises(tamis.EventError, match="a column of JSON texts, not of int64"):
        matcher.match_many(pa.array([1, 2]))


def test_limits_hold_for_texts() -> None:
    matcher = tamis.Matcher(limits=tamis.Limits(event_values=3))
    matcher.add("r", "a = 1")
    texts = ['{"a": 1}'] * COUNT + ['{"a": [1, 2, 3, 4]}']
    with pytest.raises(tamis.EventError, match=f"event {COUNT}: .* more than 3 values"):
        matcher.match_many(pa.array(texts))


def test_texts_serve_as_a_sample(matcher: tamis.Matcher) -> None:
    own = tamis.Matcher()
    own.add_many([(i, f"a = {i}") for i in range(100)])
    own.optimize(sample=pa.array(['{"a": 1}'] * 10))
    assert own.match({"a": 1}) == [1]
