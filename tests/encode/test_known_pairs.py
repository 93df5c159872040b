"""Encoding by remembered pairs gives what the encoder of values gives, whatever an event holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.encode import known_pairs
from tamis.encode.event_pairs import list_entries, to_events, to_pairs
from tamis.encode.events import EventEncoder
from tamis.encode.rules import RuleEncoder
from tamis.errors import EventError
from tamis.expr.evaluate import evaluate
from tamis.expr.event import flatten

RULES = {
    "one": "x = 1",
    "true": "x = TRUE",
    "zero": "x = 0",
    "large": "x >= 9007199254740993",
    "text": "x = '1' OR x LIKE '%b%'",
    "absent": "x IS NULL",
    "other": "y > 2.5 AND NOT x = 3",
    "time": "x > TIMESTAMP '2024-01-01 00:00:00'",
}


class Text(str):
    """A string that is not exactly a `str`."""


class Names(dict[str, Any]):
    """A mapping that is not exactly a `dict`."""


VALUES: list[Any] = [
    1,
    True,
    1.0,
    np.int64(1),
    np.float64(1.0),
    Decimal(1),
    "1",
    Text("1"),
    "abc",
    0,
    False,
    -0.0,
    0.0,
    float("nan"),
    None,
    float("inf"),
    9007199254740993,
    9007199254740992.0,
    2**63 - 1,
    [1, True],
    [],
    [None],
    (1, "1"),
    {"y": 1},
    datetime(2025, 1, 1, tzinfo=UTC),
    "x" * 1_000,
]


def matcher() -> tamis.Matcher:
    made = tamis.Matcher()
    # Copies, so that the rules are in a segment and not in the tail.
    made.add_many([(f"{id}-{n}", text) for id, text in RULES.items() for n in range(4)])
    made.optimize()
    return made


def find_rules(made: tamis.Matcher, event: Mapping[str, Any]) -> set[str]:
    return {str(id).rsplit("-", 1)[0] for id in made.match(event)}


def expected(event: Mapping[str, Any]) -> set[str]:
    return {id for id, text in RULES.items() if evaluate(text, event)}


def test_equal_values_of_different_types_are_told_apart() -> None:
    made = matcher()
    order = VALUES * 3
    Random(5).shuffle(order)
    for value in order:
        for event in ({"x": value}, {"y": 3, "x": value, "z": value}, Names(x=value, y=2)):
            assert find_rules(made, event) == expected(event), event
            assert set(made.match_array(event).tolist()) == set(made.match(event))


@pytest.mark.parametrize("event", [{"x": 2**70}, {"x": b"1"}, {1: 1}, {"x": "\ud800"}, {"x": {1}}])
def test_what_cannot_be_read_is_refused_also_after_values_were_remembered(event: Any) -> None:
    made = matcher()
    for value in (1, "1", 2.0):
        made.match({"x": value})
    try:
        flatten(event)
        wanted = expected(event)
    except EventError:
        wanted = None
    if wanted is None:
        with pytest.raises(EventError):
            made.match(event)
    else:
        assert find_rules(made, event) == wanted


def test_only_so_many_values_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_pairs, "_MOST", 10)
    encoder = RuleEncoder()
    encoder.add(tamis.parse("x > 5 AND y = 'a'"), "strong")
    events = EventEncoder(encoder.finish())
    assert events._pair_of is not None
    known: Any = events._pair_of
    known = known.__self__
    for number in range(100):
        event = {"x": number, "y": "a" * 300, "unknown": number}
        assert events.encode_pairs(event).tolist() == to_pairs(events.encode(event), 2).tolist()
        assert len(known) <= 10
    # Neither a long string nor a value that no rule can see.
    assert {name for name, _, _ in known} == {"x"}


def test_pairs_and_events_say_the_same() -> None:
    encoder = RuleEncoder()
    encoder.add(tamis.parse("x IN (1, 2) AND s LIKE '%a%' AND s LIKE 'b%'"), "strong")
    rules = encoder.finish()
    events = EventEncoder(rules)
    attributes = len(rules.dictionary.axes)
    rows: list[dict[str, Any]] = [{"x": [1, 2, 7], "s": "ba"}, {}, {"s": ["a", "b"]}, {"x": 3}]
    encoded = events.encode_many(rows)
    start, attribute, code = list_entries(encoded, attributes)
    for row, event in enumerate(rows):
        one = events.encode(event)
        pairs = to_pairs(one, attributes)
        assert pairs[::2].tolist() == attribute[start[row] : start[row + 1]].tolist()
        assert pairs[1::2].tolist() == code[start[row] : start[row + 1]].tolist()
        again = to_events(pairs, attributes)
        for field in ("start", "attribute", "code", "text_start", "text"):
            assert getattr(again, field).tolist() == getattr(one, field).tolist()
