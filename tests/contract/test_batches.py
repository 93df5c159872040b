"""Many events at once, for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import pyarrow as pa
import pytest

import tamis
from tamis.expr.model import (
    LOGICS,
)
from tests import randoms
from tests.contract.checks import Event, Rule, RuleId, check_table, find_expected
from tests.contract.scenarios import load_scenario
from tests.randoms import attribute

pytestmark = pytest.mark.parametrize("engine", tamis.engines())


def test_threads_share_a_batch(engine: str) -> None:
    rules, some, expected = load_scenario("both_logics_at_once")
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    times = 9_000 // len(some)
    found = matcher.match_many(some * times)
    assert found["event"].to_pylist() == [
        event for event, rules in enumerate(expected * times) for _ in rules
    ]
    check_table(found, expected * times)
    counts = matcher.count_many(some * times)
    assert counts["matches"].to_pylist() == [len(rules) for rules in expected * times]


HUGE = (*randoms.HUGE_INTEGERS, *randoms.HUGE_DOUBLES)
TYPED: dict[str, tuple[pa.DataType, randoms.Attribute]] = {
    "n": (pa.int64(), randoms.Attribute("n", randoms.HUGE_INTEGERS, HUGE)),
    "big": (pa.float64(), randoms.Attribute("big", randoms.HUGE_DOUBLES, HUGE)),
    "half": (pa.float32(), attribute("half", (0.5, 1.0, 1.5, 2.0))),
    "small": (pa.int8(), attribute("small", (1, 2, 3))),
    "x": (pa.float64(), attribute("x", randoms.DOUBLES)),
    "s": (pa.string(), attribute("s", randoms.STRINGS)),
    "word": (pa.dictionary(pa.int32(), pa.string()), attribute("word", ("a", "ab", "b"))),
    "flag": (pa.bool_(), attribute("flag", randoms.BOOLEANS)),
    "seen_at": (pa.timestamp("us", "UTC"), attribute("seen_at", randoms.TIMESTAMPS)),
    "tags": (pa.list_(pa.string()), attribute("tags", ("a", "ab", "b", "é"))),
    "sizes": (pa.list_(pa.float64()), attribute("sizes", (1.0, 2.0, 2.5))),
    "user.age": (pa.int64(), attribute("user.age", (1, 2, 3))),
}


@pytest.mark.parametrize("rows", [1, 3_000])
def test_arrow_columns_are_matched_as_events(engine: str, rows: int) -> None:
    rules, table, expected = _expect_of_columns(rows)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in rules.items()])
    for batch in (table, table.combine_chunks().to_batches()[0]):
        check_table(matcher.match_many(batch), expected)
        assert matcher.count_many(batch)["matches"].to_pylist() == list(map(len, expected))


@cache
def _expect_of_columns(rows: int) -> tuple[dict[int, Rule], pa.Table, list[list[RuleId]]]:
    """Rules, events as columns and the answers of `evaluate`, computed once for all engines."""
    random = Random(rows)
    among = [of for _, of in TYPED.values()]
    rules = {i: Rule(randoms.rule(random, among, 3), random.choice(LOGICS)) for i in range(120)}
    distinct = [_typed_event(random) for _ in range(60)]
    table = _typed_table([distinct[i % 60] for i in range(rows)])
    expected = (find_expected(rules, distinct) * (rows // 60 + 1))[:rows]
    return rules, table, expected


def _typed_event(random: Random) -> Event:
    event: Event = {}
    for name, (kind, of) in TYPED.items():
        if random.random() < 0.3:
            continue
        is_list = pa.types.is_list(kind)
        event[name] = (
            random.choices([*of.values, None], k=random.randint(0, 3))
            if is_list
            else (random.choice(of.values))
        )
    return event


def _typed_table(events: Sequence[Event]) -> pa.Table:
    columns = {
        name: pa.array([event.get(name) for event in events], kind)
        for name, (kind, _) in TYPED.items()
    }
    age = columns.pop("user.age")
    columns["user"] = pa.StructArray.from_arrays([age], ["age"])
    return pa.table(columns)
