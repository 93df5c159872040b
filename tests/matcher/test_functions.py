"""Rules with functions: every search gives the answer of `evaluate`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli import app
from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import flatten
from tamis.expr.model import Logic

LETTERS = "abcdefgh"

TEMPLATES: list[Callable[[int], str]] = [
    lambda n: f"length(name) > {n}",
    lambda n: f"x % 4 = {n % 4}",
    lambda n: f"(x + y) * 2 <= {n * 3}.5",
    lambda n: f"x {'<= >= = <>'.split()[n % 4]} y",
    lambda n: f"NOT x < y + {n}",
    lambda n: f"version(app) >= '{n % 3}.{n}'",
    lambda n: f"version(app) IN ('{n % 3}.{n}', '1-rc1')",
    lambda n: f"subset(tags, ('a', 'b', '{LETTERS[n]}'))",
    lambda n: f"NOT subset(tags, ('a', '{LETTERS[n]}')) OR x = {n}",
    lambda n: f"superset(tags, ('{LETTERS[n]}', 'a'))",
    lambda n: f"equalset(upper(tags), ('A', '{LETTERS[n].upper()}'))",
    lambda n: f"intersects(tags, ('{LETTERS[n]}', 'z'))",
    lambda n: f"cidr(ip, '10.{n}.0.0/16')",
    lambda n: f"icontains(name, '{LETTERS[n]}') AND x > {n - 4}",
    lambda n: f"within_km(place.lat, place.lon, {50 + n}, 10, {n * 50})",
    lambda n: f"NOT within_km(place.lat, place.lon, {50 + n}, 10, 200)",
    lambda n: f"within_box(place.lat, place.lon, 50, 5, {51 + n}, 12)",
    lambda n: f"hour(at_zone(seen, 'Asia/Kolkata')) BETWEEN {n} AND {n + 3}",
    lambda n: f"size(tags) = {n % 4} OR size(tags) IS NULL",
    lambda n: f"upper(name) LIKE '{LETTERS[n].upper()}%' OR y / x = {n}",
    lambda n: f"substring(name, {n - 3}, 2) IN ('ab', 'ba', 'cc')",
    lambda n: f"regexp_full(lower(name), '[{LETTERS[n]}c]+')",
    lambda n: f"x > {n} AND name IS NOT NULL",
]


def make_rules(size: int, seed: int = 1) -> list[tuple[int, str, Logic]]:
    draw = random.Random(seed)
    logics: list[Logic] = ["strong", "weak"]
    return [
        (i, TEMPLATES[i % len(TEMPLATES)](draw.randrange(8)), draw.choice(logics))
        for i in range(size)
    ]


def make_events(size: int, seed: int = 2) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)

    def some(value: Any) -> Any:
        return None if draw.random() < 0.15 else value

    return [
        {
            "name": some("".join(draw.choices("abcABC", k=draw.randrange(7)))),
            "x": some(draw.choice([draw.randrange(-3, 9), 1.5, 2.25, float("nan")])),
            "y": some(draw.choice([0.0, 0.25, 7.0, draw.randrange(9) * 1.0])),
            "app": some(f"{draw.randrange(3)}.{draw.randrange(9)}" + draw.choice(["", "-rc1"])),
            "tags": some(draw.choices(LETTERS[:4], k=draw.randrange(4))),
            "ip": some(f"10.{draw.randrange(9)}.1.2"),
            "place": {"lat": some(draw.uniform(48, 60)), "lon": some(draw.uniform(5, 15))},
            "seen": some(noon + timedelta(minutes=draw.randrange(5000))),
        }
        for _ in range(size)
    ]


RULES = make_rules(230)
EVENTS = make_events(150)


@pytest.fixture(scope="module")
def wanted() -> list[list[int]]:
    rules = [(id, tamis.parse(text), logic) for id, text, logic in RULES]
    return [
        [id for id, rule, logic in rules if evaluate_flat(rule, event, logic)]
        for event in map(flatten, EVENTS)
    ]


def by_event(table: pa.Table) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in EVENTS]
    for event, rule in zip(*(table[name].to_pylist() for name in ("event", "rule")), strict=True):
        found[event].append(rule)
    return found


def test_single_events_and_lists_of_them(wanted: list[list[int]], tmp_path: Path) -> None:
    m = tamis.Matcher()
    m.add_many(RULES)
    assert [m.match(event) for event in EVENTS] == wanted
    assert by_event(m.match_many(EVENTS)) == wanted
    assert m.attributes() == {*EVENTS[0], "place.lat", "place.lon"} - {"place"}
    m.save(tmp_path / "rules")
    stored = tamis.open(tmp_path / "rules")
    assert by_event(stored.match_many(EVENTS)) == wanted
    ranked = [{id for id, _ in m.top(event, 1000)} for event in EVENTS[:20]]
    assert ranked == [set(ids) for ids in wanted[:20]]
    weighed = m.top(EVENTS[0], 1000, weights={("name", "a"): 2.0})
    assert {id for id, _ in weighed} == set(wanted[0])


def test_arrow_columns(wanted: list[list[int]]) -> None:
    table = pa.Table.from_pylist(EVENTS)
    assert pa.types.is_struct(table.schema.field("place").type)
    m = tamis.Matcher()
    m.add_many(RULES)
    assert by_event(m.match_many(table)) == wanted
    whole = pa.table({"": table.to_struct_array()})
    assert by_event(m.match_many(whole)) == wanted
    dictionaries = table.set_column(0, "name", table["name"].dictionary_encode())
    assert by_event(m.match_many(dictionaries)) == wanted
    assert m.count_many(table)["matches"].to_pylist() == [len(ids) for ids in wanted]
    with pytest.raises(tamis.EventError, match="control character"):
        m.match_many(pa.table({"\x01length(name)": [3]}))


def test_functions_in_the_tail_and_with_a_schema(wanted: list[list[int]]) -> None:
    m = tamis.Matcher()
    for id, text, logic in RULES[:30]:
        m.add(id, text, logic=logic)
    assert [m.match(event) for event in EVENTS] == [[i for i in ids if i < 30] for ids in wanted]
    typed = tamis.Matcher(schema={"seen": "timestamp", "name": "string", "tags": "string[]"})
    typed.add_many(RULES)
    texts = [{**event, "seen": event["seen"] and event["seen"].isoformat()} for event in EVENTS]
    assert [typed.match(event) for event in texts] == wanted
    assert by_event(typed.match_many(pa.Table.from_pylist(texts))) == wanted


def test_lists_in_columns_keep_each_value_once() -> None:
    """A function may give fewer values than it takes; a score counts each of them once."""
    m = tamis.Matcher()
    m.add_many([(1, "lower(tags) = 'a'"), (2, "lower(tags) LIKE '%a%'"), (3, "tags = 'A'")])
    events: list[dict[str, Any]] = [{"tags": ["A", "a", "b"]}, {"tags": ["b"]}, {"tags": None}]
    single = [m.top(event) for event in events]
    assert single[0] == [(1, 1.0), (2, 1.0), (3, 1.0)]
    table = m.top_many(pa.Table.from_pylist(events))
    rows = zip(*(table[name].to_pylist() for name in ("event", "rule", "score")), strict=True)
    assert [(rule, score) for event, rule, score in rows if event == 0] == single[0]


def test_an_event_expression_does_not_decide_functions() -> None:
    m = tamis.Matcher()
    m.add_many([("f", "length(name) > 3"), ("p", "price < 3")])
    assert m.match_expression("price BETWEEN 1 AND 2") == ["p"]
    with pytest.raises(tamis.EventError, match=r"rules with length\(name\)"):
        m.match_expression("name = 'abcd'")
    with pytest.raises(tamis.EventError, match=r"not on length\(name\)"):
        m.match_expression("length(name) = 4")


def test_removed_rules_derive_nothing() -> None:
    m = tamis.Matcher()
    m.add_many([("f", "length(name) > 3"), ("p", "price < 3")])
    m.remove("f")
    m.optimize()
    assert m.attributes() == {"price"}
    assert m.match({"name": "abcd", "price": 1}) == ["p"]


def test_the_command_reads_columns_that_functions_need(
    wanted: list[list[int]], tmp_path: Path
) -> None:
    rules, events, output = (tmp_path / name for name in ("r.jsonl", "e.parquet", "o.jsonl"))
    rows = [{"id": id, "rule": text, "logic": logic} for id, text, logic in RULES]
    rules.write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(EVENTS), events)
    done = CliRunner().invoke(app, ["match", str(rules), str(events), "-o", str(output)])
    assert done.exit_code == 0, done.output
    lines = map(json.loads, output.read_text().splitlines())
    assert [line["rules"] for line in lines] == wanted


def test_the_analyses_support_functions() -> None:
    """Proofs hold with functions, too; the values of functions are not guessed."""
    m = tamis.Matcher()
    m.add_many([(id, text) for id, text, _ in RULES[: len(TEMPLATES)]])
    m.add("never", "length(name) > 3 AND length(name) IS NULL")
    m.add("always", "x < y OR NOT x < y OR (x < y) IS NULL")
    m.add("longer", "length(name) > 5")
    m.add("sets", "subset(tags, ('a')) AND subset(tags, ('b'))")
    for single_valued in (False, True):
        found = {finding.rule: finding.kind for finding in m.lint(single_valued=single_valued)}
        assert found["never"] == "never"
        assert found["always"] == "always"
        assert found.get("sets") is None
    alike = m.similar("length(name) > 5", events=EVENTS)
    assert "longer" in {one.id for one in alike if one.similarity == 1 and one.implied}
    assert len(m.similar("longer", n=1)) <= 1  # drawn events may all miss what a function asks
    compared = m.ratify(seconds=0.2, processes=1)
    assert compared.agrees
    assert compared.matches > 0


def test_remembered_codes_tell_true_from_one() -> None:
    """What is derived from a value is remembered, and True equals 1 in Python."""
    matcher = tamis.Matcher()
    matcher.add_many([(f"odd {i}", "n % 2 = 1") for i in range(20)])
    for event in ({"n": 1}, {"n": True}, {"n": 1.0}, {"n": True}, {"n": "1"}, {"n": [1, 2]}):
        holds = tamis.evaluate("n % 2 = 1", event)
        assert bool(matcher.match(event)) == holds
        assert matcher.count_many([event])["matches"].to_pylist() == [20 * holds]


@pytest.mark.parametrize(
    "tags",
    [
        [],
        ["a"],
        ["a", "b"],
        ["b", "a", "b"],
        ["a", None],
        ["a", 1],
        [1, 2],
        [1.0, 2, True],
        "a",
        ["x"] * 70,
        ["a", "b", *map(str, range(100))],
        [["a"], "b"],
        [float("nan")],
        ("a", "b"),
    ],
)
def test_lists_are_read_without_being_flattened(tags: object) -> None:
    rules = ["subset(tags, ('a', 'b', 1))", "superset(tags, ('a', 'b'))", "size(tags) = 2"]
    rules += ["equalset(tags, (1, 2))", "tags = 'a'", "tags <> 'a'", "tags LIKE '%a%'"]
    rules += ["length(tags) = 1", "hour(seen) = 5"]
    matcher = tamis.Matcher()
    matcher.add_many([(f"{i} {rule}", rule) for i in range(3) for rule in rules])
    for seen in (datetime(2026, 1, 1, 5, tzinfo=UTC), datetime(2026, 1, 1, 5), None, "x"):
        event = {"tags": tags, "seen": seen, "other": ["y"]}
        wanted = [rule for rule in rules if tamis.evaluate(rule, event)]
        assert matcher.match(event) == [f"{i} {rule}" for i in range(3) for rule in wanted]
        assert matcher.match_many([event])["rule"].to_pylist() == matcher.match(event)
