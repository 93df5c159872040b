"""Encoding by remembered pairs gives what the encoder of values gives, whatever an event holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import groupby
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import tamis
from tamis.encode import events as events_module
from tamis.encode import known_pairs
from tamis.encode.event_pairs import list_entries, to_events, to_pairs
from tamis.encode.events import EventEncoder
from tamis.encode.rules import RuleEncoder
from tamis.errors import EventError
from tamis.expr.evaluate import evaluate
from tamis.expr.names import DERIVED, JOINED, RECEIVED_BY
from tamis.matcher.schema import Schema

RULES = {
    "one": "x = 1",
    "true": "x = TRUE",
    "zero": "x = 0",
    "large": "x >= 9007199254740993",
    "text": "x = '1' OR x LIKE '%b%'",
    "absent": "x IS NULL",
    "other": "y > 2.5 AND NOT x = 3",
    "time": "x > TIMESTAMP '2024-01-01 00:00:00'",
    "hour": "x = TIMESTAMP '2024-10-27 01:30:00'",
}
LONDON = ZoneInfo("Europe/London")
TIMES: list[Any] = [
    datetime(2025, 1, 1, tzinfo=UTC),
    datetime(2025, 1, 1),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=ZoneInfo("UTC")),
    # The clocks are put back at two: the first of these is an hour before the second.
    datetime(2024, 10, 27, 1, 30, tzinfo=LONDON),
    datetime(2024, 10, 27, 1, 30, fold=1, tzinfo=LONDON),
    datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    date(2024, 1, 1),
    date(2025, 1, 1),
    Decimal(1),
    Decimal("9007199254740992.5"),
    Decimal("NaN"),
]
"""Not yet values, but easily made some."""


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
    "x" * 1_000,
    *TIMES,
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


@pytest.mark.parametrize("more", ["y = 1", "abs(x) = 1 OR year(x) = 2024 OR size(x) = 1"])
def test_times_and_decimals_are_not_flattened(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That would make the call several times as slow."""
    rules = {**RULES, "more": more}
    made = tamis.Matcher()
    made.add_many([(f"{id}-{n}", text) for id, text in rules.items() for n in range(4)])
    made.optimize()
    rows = [{"y": 3, "x": value, "z": value} for value in TIMES]
    wanted = [{id for id, text in rules.items() if evaluate(text, event)} for event in rows]

    def refuse(event: object) -> None:
        pytest.fail(f"{event} is flattened")

    monkeypatch.setattr(events_module, "flatten", refuse)
    for event, ids in zip(rows, wanted, strict=True):
        assert find_rules(made, event) == ids, event
    many = made.match_many(rows, form="lists")["rules"].to_pylist()
    assert [{id.rsplit("-", 1)[0] for id in ids} for ids in many] == wanted


LISTS: list[list[Any]] = [["1", "b", "1"], [1, 2, 3, 1], [0.0, -0.0, 2.5], [True, 1], [[1]]]


def random_event(random: Random) -> dict[str, Any]:
    """An event with lists, objects, clashing names, and now and then something to refuse."""

    def scalar() -> Any:
        return random.choice([*VALUES[:19], *TIMES, "2024-10-27 01:30:00"])

    def item(level: int) -> Any:
        draw = random.random()
        if draw < 0.15 and level < 4:
            names = random.sample(["x", "y", "x.y", "y.x", "", "\x01", 5], random.randrange(4))
            odd = random.random() < 0.1
            return {n: item(level + 1) for n in names if odd or n not in ("\x01", 5)}
        if draw < 0.4:
            some = random.choice(LISTS)
            return random.sample(some, random.randrange(len(some) + 1))
        return random.choice(UNREADABLE_VALUES) if draw < 0.42 else scalar()

    names = ["x", "y", "z", "x.y", "y.x", "x.x", "x.y.x", "q", "q.x", "x.q"]
    return {name: item(1) for name in random.sample(names, random.randrange(len(names)))}


UNREADABLE_VALUES: list[Any] = [2**70, b"1", "\ud800", datetime.min.replace(tzinfo=LONDON)]


@pytest.mark.parametrize("unseen", [0, 10**9])
@pytest.mark.parametrize(
    "schema",
    [{}, {"x": "integer", "z": "string[]"}, {"y": "timestamp", "x.y": "double", "w": "string"}],
)
def test_nested_events_as_flattened_ones(
    schema: dict[str, str], unseen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever road an event takes, its values or the reason to refuse it are the same."""
    monkeypatch.setattr(events_module, "_UNSEEN", unseen)
    made = tamis.Matcher(schema=schema)
    texts = [
        *("x > 0", "y = 1 OR y = TRUE", "x.y = 2 AND z IN ('1', 'b')", "y.x IS NULL"),
        *("x.y.x < 3", "z LIKE '%b%' AND x.x = 1", "y >= TIMESTAMP '2024-10-27 01:00:00'"),
    ]
    made.add_many(list(enumerate(texts * 8)))
    made.optimize()
    random, refused, unusual = Random(3), 0, 0
    events = [random_event(random) for _ in range(3_000)]
    reader = Schema(schema)
    (segment,) = [view.segment for view in made._searcher.snapshot.views]
    for event in events:
        try:
            flat = reader.read(event)
            expected = segment.to_pairs(segment.encode_flat(flat)).reshape(-1, 2).tolist()
        except (EventError, tamis.SchemaError) as error:
            refused += 1
            with pytest.raises(type(error), match=re.escape(str(error))):
                segment.encode_pairs(event)
            continue
        found = segment.encode_pairs(event).reshape(-1, 2).tolist()
        assert sorted(found) == sorted(expected), event
        attributes = [attribute for attribute, _ in found]
        assert len(list(groupby(attributes))) == len(set(attributes)), "those of one are together"
        unusual += segment._encoders.events._join_pairs(event) is None
    assert 0 < refused < 1_500
    assert 0 < unusual < 1_500


def test_what_no_rule_mentions_is_soon_left_out() -> None:
    """Events often have many more attributes than rules mention."""
    encoder = RuleEncoder()
    encoder.add(tamis.parse("x > 5 AND y.z = 'a'"), "strong")
    events = EventEncoder(encoder.finish())
    for number in range(1_000):
        others = {f"other{n}": number for n in range(50)}
        event = {"x": number, "y": {"z": "a"}, **others}
        assert sorted(events.encode_pairs(event)) == sorted(to_pairs(events.encode(event), 2))
    assert events._known.unseen < events_module._UNSEEN + 50
    # An event that has little else is not worth the selection.
    events.encode_pairs({"x": 1, "y": {"z": "b"}})
    assert events._known.unseen == 0
    with pytest.raises(EventError, match="control character"):
        events.encode_pairs({"x": 1, JOINED: 2})
    with pytest.raises(EventError, match="are strings"):
        events.encode_pairs({"x": 1, 2: 3})  # type: ignore[dict-item]  # a wrong name


UNREADABLE: list[Any] = [
    {"x": 2**70},
    {"x": b"1"},
    {1: 1},
    {"x": "\ud800"},
    {"x": {1}},
    {"x": Decimal("sNaN")},
    {"x": Decimal("1e99999")},
    {"x": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))},
    {"x": 1, DERIVED: 2},
    {"x": 1, JOINED: [2]},
    {"x": 1, RECEIVED_BY: date(2025, 1, 1)},
]


@pytest.mark.parametrize("order", [1, -1])
def test_keys_without_types_stay_apart_from_those_with_types(order: int) -> None:
    made = tamis.Matcher()
    made.add_many([(1, "x = 1"), (2, "x = TRUE"), (3, "x = '1'"), (4, "x IS NULL"), (5, "y = 2")])
    events: list[tuple[dict[str, Any], list[int]]] = [
        ({"x": 1}, [1]),
        ({"x": 1.0}, [1]),
        ({"x": True}, [2]),
        ({"x": "1", "y": 2}, [3, 5]),
        ({"x": None, "y": np.int64(2)}, [4, 5]),
        ({"x": float("nan")}, [4]),
    ]
    for event, ids in 2 * events[::order]:
        assert made.match(event) == ids


@pytest.mark.parametrize("event", UNREADABLE)
def test_what_cannot_be_read_is_refused_also_after_values_were_remembered(event: Any) -> None:
    made = matcher()
    for value in (1, "1", 2.0):
        made.match({"x": value})
    try:
        wanted = expected(event)
    except EventError:
        wanted = None
    if wanted is None:
        with pytest.raises(EventError):
            made.match(event)
        with pytest.raises(EventError):
            made.match_many([{"x": 1}, event])
    else:
        assert find_rules(made, event) == wanted


def test_only_so_many_values_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_pairs, "_MOST", 10)
    encoder = RuleEncoder()
    encoder.add(tamis.parse("x > 5 AND y = 'a'"), "strong")
    events = EventEncoder(encoder.finish())
    known = events._known
    for number in range(100):
        event = {"x": number, "y": "a" * 300, "unknown": number}
        assert events.encode_pairs(event).tolist() == to_pairs(events.encode(event), 2).tolist()
        assert len(known) <= 10
    # Neither a long string nor a value that no rule can see.
    assert {item[0] for item in known} == {"x"}


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


@pytest.mark.parametrize("kind", ["integer", "double"])
def test_a_schema_sees_the_types_of_equal_values(kind: str) -> None:
    def answer(matcher: tamis.Matcher, event: dict[str, Any]) -> list[Any] | str:
        try:
            return matcher.match(event)
        except tamis.SchemaError as error:
            return str(error)

    def matcher() -> tamis.Matcher:
        made = tamis.Matcher(schema={"x": kind})
        made.add_many([(n, f"x = {n}") for n in range(100)])
        return made

    events: list[dict[str, Any]] = [{"x": 1}, {"x": 1.0}, {"x": True}]
    expected = [answer(matcher(), event) for event in events]
    for step in (1, -1):
        one = matcher()
        assert [answer(one, event) for event in events[::step]] == expected[::step]
