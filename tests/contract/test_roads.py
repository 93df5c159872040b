"""Every road that events may take gives the answers of `evaluate`, and is entered on purpose.

Each case names a container, where the thresholds are set, how the rules were added, and the roads
that it has to take: a test that stops taking a road fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pytest

import tamis
from attack.differential.containers import COLUMNAR, CONTAINERS, to_table
from tamis.expr.evaluate import score
from tamis.expr.model import LOGICS, predicates
from tamis.files.matching import Query, match_file
from tamis.matcher.write import writer
from tests.json_spelling import spell_events
from tests.road_cases import (
    FUNCTIONS,
    OF_NUMBERS,
    draw_event,
    draw_functions,
    draw_guarded,
    draw_rule,
    to_json_event,
)
from tests.roads import ROADS, Side, count_roads, set_thresholds

RULES, EVENTS, TIMES = 80, 30, 40
"""How many rules and distinct events there are, and how often the events come: 1,200 are more than
any threshold of a batch."""
BEST = 3


class Rule(NamedTuple):
    text: str
    logic: Any
    priority: int
    weights: dict[Any, float] | None


class Workload(NamedTuple):
    rules: list[Rule]
    events: list[dict[str, Any]]
    scores: list[list[tuple[int, float]]]
    """The matching rules of each event and their scores."""


@cache
def draw_workload(kind: str, seed: int) -> Workload:
    """Rules and events; `kind` says what events hold: anything, columns, or JSON."""
    random = Random(f"{kind} {seed}")
    functions = ([], OF_NUMBERS, FUNCTIONS)[seed] if seed < 3 else draw_functions(random)
    draw = draw_guarded if seed % 2 else draw_rule
    texts = [draw(random, functions) for _ in range(RULES)]
    rules = [_draw_rule(random, text) for text in [*texts, "wide = 'w7'"]]
    events = [draw_event(random, is_columnar=kind == "columns") for _ in range(EVENTS)]
    if kind == "JSON":
        events = [to_json_event(event) for event in events]
    scores = []
    for event in events:
        found = [(i, score(r.text, event, r.logic, r.weights)) for i, r in enumerate(rules)]
        scores.append([(rule, points) for rule, points in found if points is not None])
    share = sum(map(len, scores)) / (len(rules) * EVENTS)
    assert 0.02 < share < 0.9, "rules that always or never hold prove nothing"
    return Workload(rules, events, scores)


def _draw_rule(random: Random, text: str) -> Rule:
    weights = None
    if random.random() < 0.4:
        values = {
            (leaf.attribute, leaf.values[0])
            for leaf in predicates(tamis.parse(text))
            if leaf.op in ("=", "IN") and not leaf.negated and type(leaf.values[0]) in (int, str)
        }
        weights = {key: random.choice((0.0, 0.5, 2.0)) for key in sorted(values, key=repr)}
    return Rule(text, random.choice(LOGICS), random.randint(-3, 3), weights or None)


# --- How rules are added ---


def _fields(rules: list[Rule]) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "rule": rule.text,
            "logic": rule.logic,
            "priority": rule.priority,
            "weights": rule.weights,
        }
        for number, rule in enumerate(rules)
    ]


def add_at_once(matcher: tamis.Matcher, rules: list[Rule]) -> None:
    matcher.add_many(_fields(rules))


def add_in_chunks(matcher: tamis.Matcher, rules: list[Rule]) -> None:
    fields = _fields(rules)
    for start in range(0, len(fields), 60):
        matcher.add_many(fields[start : start + 60])


def add_singly(matcher: tamis.Matcher, rules: list[Rule]) -> None:
    for rule in _fields(rules):
        matcher.add(rule.pop("id"), rule.pop("rule"), **rule)


# --- The questions ---


def check_batches(matcher: tamis.Matcher, events: Any, work: Workload, times: int) -> None:
    """Ask everything about many events, which are those of `work`, so many times."""
    scores = work.scores * times
    found = matcher.match_many(events())
    assert _by_event(found, "rule", len(scores)) == [[rule for rule, _ in some] for some in scores]
    counts = _read(matcher.count_many(events()))["matches"].to_pylist()
    assert counts == [len(some) for some in scores]
    best = _read(matcher.top_many(events(), n=BEST))
    rows = zip(best["event"].to_pylist(), best["rule"].to_pylist(), strict=True)
    ranked = [[rule for rule, _ in _rank(some)] for some in scores]
    assert list(rows) == [(event, rule) for event, some in enumerate(ranked) for rule in some]
    assert best["score"].to_pylist() == [points for some in scores for _, points in _rank(some)]
    first = matcher.first_many(events(), n=BEST)
    assert _by_event(first, "rule", len(scores)) == [_first(work, some) for some in scores]


def check_single_events(matcher: tamis.Matcher, work: Workload) -> None:
    weighted = {("k", 1): 2.0}
    for event, some in zip(work.events, work.scores, strict=True):
        assert matcher.match(event) == [rule for rule, _ in some]
        assert matcher.top(event, n=BEST) == _rank(some)
        assert matcher.first(event, n=BEST) == _first(work, some)
        if event.get("k") == 1 and type(event["k"]) is int:
            found = [
                (i, score(r.text, event, r.logic, r.weights, weighted))
                for i, r in enumerate(work.rules)
            ]
            held = [(rule, points) for rule, points in found if points is not None]
            assert matcher.top(event, n=BEST, weights=weighted) == _rank(held)


def _read(found: Any) -> pa.Table:
    return found if isinstance(found, pa.Table) else found.read_all()


def _by_event(found: Any, column: str, size: int) -> list[list[Any]]:
    table = _read(found)
    lists: list[list[Any]] = [[] for _ in range(size)]
    events = table["event"].to_pylist()
    assert all(a <= b for a, b in pairwise(events))
    for event, rule in zip(events, table[column].to_pylist(), strict=True):
        lists[event].append(rule)
    return lists


def _rank(scores: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return sorted(scores, key=lambda pair: -pair[1])[:BEST]


def _first(work: Workload, scores: list[tuple[int, float]]) -> list[int]:
    ids = [rule for rule, _ in scores]
    return sorted(ids, key=lambda rule: -work.rules[rule].priority)[:BEST]


# --- The cases ---

MAPPINGS = {"one pass over plain values", "flattened"}
KERNELS = {
    "JSON by kernels", "JSON, captured", "JSON, left to Python", "JSON, long doubles",
    "JSON, merged", "guards", "text predicates",
}  # fmt: skip
COLUMNS = {
    "columns of numbers", "columns by type", "columns of lists", "derived by value",
    "derived by row", "guards", "text predicates",
}  # fmt: skip


class Case(NamedTuple):
    container: str
    side: Side
    roads: set[str]
    add: Callable[[tamis.Matcher, list[Rule]], None] = add_at_once
    engine: str = "auto"
    seed: int = 1
    """0: no rule has a function; 1: those of numbers are used; 2: all; else some. Odd: text
    predicates have guards."""


JSON = [
    Case("JSON", "low", KERNELS),
    *(
        Case(container, "usual", KERNELS)
        for container in ("JSON", "JSON, large", "JSON, binary", "JSON, chunked")
    ),
]
CASES = [
    Case("list", "low", {*MAPPINGS, "codes of a list at once", "threads"}),
    Case("list", "usual", {*MAPPINGS, "codes of a list at once", "guards"}),
    Case("list", "high", MAPPINGS),
    Case("list", "low", {"pairs of scalars", "pairs of what rules mention"}, seed=0),
    Case("list", "usual", {"pairs of scalars", "pairs of nested values", "many events"}, seed=0),
    Case("list", "high", {"pairs of scalars", "pairs of nested values"}, seed=0),
    Case("list", "low", {"shared", "best of shared"}),
    Case("list", "high", {"many events", "best of many"}),
    Case("list", "usual", {"several segments"}, add_in_chunks),
    Case("list", "low", {"several segments"}, add_singly),
    *(Case("arrow", side, COLUMNS) for side in ("low", "usual", "high")),
    *(Case(name, "usual", COLUMNS) for name in COLUMNAR if name != "arrow"),
    Case("reader", "low", COLUMNS, add_in_chunks),
    Case("maps", "low", {"columns of maps", "columns of numbers", "guards"}),
    Case("conflict", "low", {"rows of a table"}),
    *JSON,
    Case("JSON", "low", KERNELS, add_in_chunks),
    Case("JSON", "usual", KERNELS, add_singly),
    Case("JSON", "usual", {"JSON by kernels", "guards", "text predicates"}, seed=0),
    *(Case("JSON", "low", {"JSON by kernels", "guards"}, seed=seed) for seed in (2, 3, 4)),
    Case("JSON", "high", {"JSON decoded", *MAPPINGS}),
    Case("JSON", "usual", KERNELS, engine="scan"),
]


def _of_json(kind: pa.DataType, chunks: int = 1) -> Callable[[Sequence[dict[str, Any]]], Any]:
    def make(events: Sequence[dict[str, Any]]) -> Any:
        texts = pa.array([text.decode() for text in spell_events(events)]).cast(kind)
        size = -(-len(texts) // chunks)
        parts = [texts.slice(start, size) for start in range(0, len(texts), size)]
        return texts if chunks == 1 else pa.chunked_array(parts)

    return make


def _to_maps(events: Sequence[dict[str, Any]]) -> pa.Table:
    """Nested objects as maps, of one type of values."""
    table = to_table(events)
    texts = [[("s", e["n"]["s"])] if "n" in e else None for e in events]
    maps = pa.array(texts, pa.map_(pa.string(), pa.string()))
    numbers = pa.array([e["n"]["x"] if "n" in e else None for e in events], pa.int64())
    return table.drop_columns(["n"]).append_column("n", maps).append_column("n.x", numbers)


def _to_conflict(events: Sequence[dict[str, Any]]) -> pa.Table:
    """A nested value is there twice."""
    numbers = [event["n"]["x"] if "n" in event else None for event in events]
    return to_table(events).append_column("n.x", pa.array(numbers, pa.int64()))


MAKE: dict[str, Callable[[Sequence[dict[str, Any]]], Any]] = {
    **CONTAINERS,
    "maps": _to_maps,
    "conflict": _to_conflict,
    "JSON": _of_json(pa.string()),
    "JSON, large": _of_json(pa.large_string()),
    "JSON, binary": _of_json(pa.binary()),
    "JSON, chunked": _of_json(pa.large_binary(), 3),
}


def _kind_of(container: str) -> str:
    if container == "list":
        return "anything"
    return "JSON" if container.startswith("JSON") else "columns"


@contextmanager
def build(case: Case, work: Workload) -> Iterator[tamis.Matcher]:
    """The rules as they were added: how far the background has merged must not choose the road."""
    with patch.object(writer, "find_run_to_merge", lambda *_, **__: None):
        matcher = tamis.Matcher(engine=case.engine)
        case.add(matcher, work.rules)
        yield matcher
        matcher.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.container}-{case.side}")
def test_every_road_gives_the_answers_of_evaluate(case: Case) -> None:
    work = draw_workload(_kind_of(case.container), case.seed)
    times = TIMES if case.side == "usual" else 1
    if case.container == "JSON, chunked":
        times *= 3  # Each chunk has enough texts for kernels.
    with set_thresholds(case.side), count_roads() as taken, build(case, work) as matcher:
        many = work.events * times
        made = MAKE[case.container](many)
        is_read_once = case.container == "reader"
        make = (lambda: MAKE[case.container](many)) if is_read_once else lambda: made
        check_batches(matcher, make, work, times)
    assert case.roads - {road for road, count in taken.items() if count} == set()


SINGLE: list[tuple[Side, Callable[[tamis.Matcher, list[Rule]], None], int, set[str]]] = [
    (
        "low",
        add_at_once,
        1,
        {*MAPPINGS, "one event, then pairs", "shared", "weighted values", "texts looked up"},
    ),
    ("high", add_at_once, 1, {*MAPPINGS, "one event, then pairs", "one event"}),
    ("high", add_at_once, 0, {"pairs of scalars", "pairs of nested values", "one event"}),
    ("usual", add_singly, 1, {"tail"}),
    ("usual", add_in_chunks, 0, {"one event"}),
]


@pytest.mark.parametrize(("side", "add", "seed", "roads"), SINGLE)
def test_single_events_get_the_answers_of_evaluate(
    side: Side, add: Callable[[tamis.Matcher, list[Rule]], None], seed: int, roads: set[str]
) -> None:
    work = draw_workload("anything", seed)
    case = Case("list", side, roads, add, seed=seed)
    with set_thresholds(side), count_roads() as taken, build(case, work) as matcher:
        check_single_events(matcher, work)
    assert roads - {*taken} == set()


def test_counts_by_groups_and_weighted_pairs_are_those_of_evaluate() -> None:
    """Roads for rules without texts and functions, of which each is one conjunction."""
    rules = [Rule(f"k = {n % 3} AND x > {n // 3}", "strong", 0, None) for n in range(90)]
    events = [{"k": n % 4, "x": n - 0.5} for n in range(40)]
    scores = [[(i, score(r.text, e)) for i, r in enumerate(rules)] for e in events]
    held = [[(i, points) for i, points in some if points is not None] for some in scores]
    work = Workload(rules, events, held)
    case = Case("list", "low", {"counted by groups", "weighted pairs", "best of one"})
    with (
        set_thresholds("low"),
        patch("tamis.engines.shared.engine._LEAST", 1 << 40),
        count_roads() as taken,
        build(case, work) as matcher,
    ):
        check_batches(matcher, lambda: events, work, 1)
        check_single_events(matcher, work)
    assert case.roads - {*taken} == set()


@pytest.mark.parametrize("side", ["low", "usual"])
def test_files_of_json_lines_get_the_answers_of_evaluate(side: Side, tmp_path: Path) -> None:
    work = draw_workload("JSON", 1)
    times = TIMES if side == "usual" else 1
    path = tmp_path / "events.jsonl"
    texts = (text.replace(b"\r\n", b" ") for text in spell_events(work.events * times))
    path.write_bytes(b"\n".join(texts) + b"\n")
    case = Case("JSON", side, KERNELS)
    with set_thresholds(side), count_roads() as taken, build(case, work) as matcher:
        found = [
            rules for part in match_file(matcher, str(path), Query()) for rules in _lists(part)
        ]
    assert found == [[rule for rule, _ in some] for some in work.scores] * times
    assert KERNELS - {*taken} == set()


def _lists(part: Any) -> list[list[Any]]:
    return _by_event(part.table, "rule", len(part.keys))


def test_plain_kernels_read_json_as_compiled_ones(interpreted: None) -> None:
    work = draw_workload("JSON", 1)
    few = Workload(work.rules, work.events[:8], work.scores[:8])
    case = Case("JSON", "low", KERNELS)
    with (
        set_thresholds("low"),
        patch("tamis.encode.json.warm_up.is_compiled", lambda: True),
        # Another thread would warn of counters that wrap on purpose.
        patch("tamis.engines.threads._chosen", 1),
        count_roads() as taken,
        build(case, few) as matcher,
    ):
        check_batches(matcher, lambda: MAKE["JSON"](few.events), few, 1)
    assert taken["JSON by kernels"]
    assert taken["JSON, captured"]


def test_every_road_is_a_case() -> None:
    asked = [case.roads for case in CASES] + [roads for *_, roads in SINGLE]
    others = {"counted by groups", "weighted pairs", "best of one", "JSON, more room"}
    assert {*ROADS} == others.union(*asked)


def test_spelled_events_are_the_same_events() -> None:
    events = draw_workload("JSON", 1).events
    for event, text in zip(events * 20, spell_events(events * 20), strict=True):
        assert json.loads(text) == event
