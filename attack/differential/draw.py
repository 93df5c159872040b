"""Draws random cases for each check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any, Final

import tamis
from attack.case import Case
from attack.differential.containers import COLUMNAR
from attack.differential.json_texts import draw_json
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.model import And, Expr, Op, Or, Predicate, predicates
from tamis.expr.numbers import LongDecimal
from tests import randoms
from tests.expr.functions import test_every_function as functions
from tests.joins import random_joins
from tests.randoms import EVERYTHING, NUMBERED, TEXTS, Attribute, attribute

__all__ = ["DRAW", "SMALL"]


def _as_passed(of: Attribute) -> Attribute:
    """An attribute whose events hold `Decimal`, as callers pass it, and not Tamis's own form."""
    values: list[Any] = [v.decimal if isinstance(v, LongDecimal) else v for v in of.values]
    return Attribute(of.name, values, of.literals)


def _read_decimals(texts: Sequence[str]) -> list[Any]:
    return [Decimal(text) for text in texts]


EVERY_KIND: Final = [_as_passed(of) for of in EVERYTHING]
"""Attributes of every kind, and of several kinds at once."""

WIDE: Final = [
    attribute("wide", range(-300, 300)),
    attribute("user.id", range(0, 100_000, 97)),
    attribute("price", [n / 4 for n in range(-40, 2_000, 7)]),
    attribute("word", [f"w{n:03d}" for n in range(400)]),
    attribute("country", [a + b for a in "ABCDE" for b in "ABCDEFG"]),
]
"""Attributes with many values, as real ones have."""

_PRICES: Final = "-2.50 0.1 0.10000000000000000001 1 9.99 1E+20".split()

MONEY: Final = [
    Attribute("money", _read_decimals(_PRICES), (-2.5, 0.1, 1, 1.0, 9.99, 100, 1e20)),
    Attribute("mask", (0, 1, 2**63 - 1, 2**63, 2**64 - 1), (0, 1, 2**63 - 1, 2.0**63, 1.5)),
]
"""Decimals and unsigned integers in events, and what rules compare them with."""

ONE_KIND: Final = [
    attribute("n", randoms.INTEGERS),
    attribute("x", randoms.DOUBLES),
    *TEXTS,
    attribute("flag", randoms.BOOLEANS),
    attribute("seen_at", randoms.TIMESTAMPS),
    *WIDE,
]
"""Attributes whose values fit in a column of one type."""

SMALL: Final = 0.02
"""The size of a case in a smoke test, as a share of the usual one."""

TAGS: Final = ("gold", "silver", "paused")
START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _rule(random: Random, among: Sequence[Attribute]) -> Expr:
    """Mostly conjunctions, as users write them; some trees."""
    if random.random() < 0.6:
        return randoms.conjunction(random, among, random.randint(1, 5))
    return randoms.rule(random, among, random.randint(2, 4))


def _plain_rules(random: Random, among: Sequence[Attribute], count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "rule": tamis.to_json(_rule(random, among)),
            "logic": random.choice(("strong", "weak")),
        }
        for number in range(count)
    ]


def _options(random: Random, **more: Any) -> dict[str, Any]:
    return {
        "form": random.choice(("text", "text", "json", "model")),
        "chunk": random.choice((1_000_000, 1_000_000, 700)),
        "optimize": random.random() < 0.3,
        "stored": random.choice((None, None, "saved", "directory")),
        **more,
    }


def batch(random: Random, size: float) -> Case:
    """Many rules and many events, for `match_many` and `count_many`."""
    container = random.choice(("list", "list", "JSON", *COLUMNAR))
    is_columnar = container != "list"
    among = ONE_KIND if is_columnar else EVERY_KIND + WIDE + MONEY
    if container == "JSON":
        among = SQL_COLUMNS  # JSON has no times
    among = random.sample(among, random.randint(3, len(among)))
    rules = _plain_rules(random, among, int(4_000 * size) + 5)
    several = random.choice((0, 0, 0.3, 0.9))
    events = [
        _columnar_event(random, among, several)
        if is_columnar
        else randoms.event(random, among, random.choice((0.3, 0.7, 1.0)), several)
        for _ in range(int(5_000 * size) + 5)
    ]
    thresholds = random.choice((None, random.getrandbits(32)))
    options = _options(random, container=container, thresholds=thresholds)
    return Case("batch", rules, events, options)


def _columnar_event(random: Random, among: Sequence[Attribute], several: float) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for of in among:
        if random.random() < 0.75:
            item: Any = random.choice(of.values)
            if random.random() < several:
                item = random.choices(of.values, k=random.randint(0, 3))
            event[of.name] = item
    return event


def engine(random: Random, size: float) -> Case:
    """The same rules and events for one of all engines."""
    among = random.sample(EVERY_KIND + WIDE + MONEY, random.randint(2, 8))
    rules = _plain_rules(random, among, int(1_000 * size) + 5)
    events = [randoms.event(random, among) for _ in range(int(600 * size) + 5)]
    name = random.choice(tamis.engines())
    options = {"engine": name, "form": "json", "container": "list", "optimize": False}
    return Case("engine", rules, events, options)


def calls(random: Random, size: float) -> Case:
    """A script of changes to rules with tags, times, priorities and weights, for every call."""
    among = random.sample(EVERY_KIND + WIDE + MONEY, random.randint(2, 6))
    rules: list[dict[str, Any]] = []
    used: list[Any] = []
    for number in range(int(150 * size) + 4):
        choice = random.random()
        if used and choice < 0.1:
            rules.append({"id": random.choice(used), "remove": True})
            continue
        id: Any = random.choice(used) if used and choice < 0.2 else number
        id = f"r{id}" if isinstance(id, int) and random.random() < 0.5 else id
        used.append(id)
        rules.append({"id": id, **_full_rule(random, among)})
    events = [randoms.event(random, among) for _ in range(int(25 * size) + 3)]
    known = list(dict.fromkeys(used))
    options = _options(
        random,
        chunk=random.choice((1, 1, 20, 1_000)),
        n=random.choice((1, 3, 1_000)),
        only=random.sample(known, len(known) // 2),
        tags=random.sample(TAGS, 1),
        without=random.sample(TAGS, random.randint(0, 1)),
        at=START + timedelta(hours=random.randint(-1, 6)),
        weights=_event_weights(random, among),
        engine=random.choice(("auto", "auto", "auto", "scan", "betree")),
    )
    return Case("calls", rules, events, options)


def _full_rule(random: Random, among: Sequence[Attribute]) -> dict[str, Any]:
    expr = _rule(random, among)
    rule: dict[str, Any] = {
        "rule": tamis.to_json(expr),
        "logic": random.choice(("strong", "weak")),
        "tags": random.sample(TAGS, random.randint(0, 2)),
        "priority": random.choice((0, 0, 0, 1, -5, 2**63 - 1, -(2**63))),
    }
    if random.random() < 0.3:
        rule["valid_from"] = START + timedelta(hours=random.randint(0, 3))
    if random.random() < 0.3:
        rule["valid_until"] = START + timedelta(hours=random.randint(4, 6))
    if random.random() < 0.4:
        rule["weights"] = _rule_weights(random, expr)
    return rule


def _rule_weights(random: Random, expr: Expr) -> list[Any]:
    """Weights that add up without rounding, for values in positive predicates of the rule."""
    weighable: dict[tuple[str, Any], list[Any]] = {}
    for leaf in predicates(expr):
        if leaf.op in (Op.EQ, Op.IN) and not leaf.negated:
            for value in leaf.values:
                form = tamis.to_json(Predicate(leaf.attribute, Op.EQ, (value,)))
                assert isinstance(form, dict)
                weight = random.choice((0, 0.25, 0.5, 2.0, 3))
                key = (leaf.attribute, (type(value) is bool, value))
                weighable[key] = [leaf.attribute, form["="], weight]
    return list(weighable.values())


def _event_weights(random: Random, among: Sequence[Attribute]) -> list[Any]:
    pairs = {(of.name, repr(value)): value for of in among for value in random.sample(of.values, 1)}
    return [[name, value, random.choice((0, 0.5, 4.0))] for (name, _), value in pairs.items()]


def function(random: Random, size: float) -> Case:
    """Rules with functions, several of each shape, so that they share templates."""
    rules: list[dict[str, Any]] = []
    while len(rules) < 300 * size + 12:
        name = random.choice(functions.NAMES + list(CONDITIONS))
        for text, _ in functions.rules_of_one_shape(random, name):
            logic = random.choice(("strong", "weak"))
            rules.append({"id": len(rules), "rule": text, "logic": logic})
    events = [functions.make_event(random) for _ in range(int(60 * size) + 5)]
    return Case("function", rules, events, _options(random, container="list"))


SQL_COLUMNS: Final = [of for of in ONE_KIND if of.name != "seen_at"]


def sql(random: Random, size: float) -> Case:
    """Rules that DuckDB can read, on events with at most one value for each attribute."""
    among = random.sample(SQL_COLUMNS, random.randint(3, len(SQL_COLUMNS)))
    rules = _plain_rules(random, among, int(400 * size) + 5)
    for rule in rules:
        rule["logic"] = "strong"
    events = [randoms.flat_event(random, among) for _ in range(int(3_000 * size) + 5)]
    return Case("sql", rules, events, _options(random, container=random.choice(COLUMNAR)))


def join(random: Random, size: float) -> Case:
    """Rules about documents seen before; the events are published one after the other."""
    rules = [
        {
            "id": number,
            "rule": random_joins.rule(random)[0],
            "logic": random.choice(("strong", "weak")),
        }
        for number in range(int(60 * size) + 4)
    ]
    events = [random_joins.document(random) for _ in range(int(30 * size) + 5)]
    return Case("join", rules, events, {"chunk": random.choice((1, 1_000)), "form": "text"})


SCHEMA: Final = {
    "n": "integer",
    "user.age": "double",
    "s": "string",
    "flag": "boolean",
    "seen_at": "timestamp",
    "small": "integer[]",
}


def schema(random: Random, size: float) -> Case:
    """Attributes that are declared single-valued, where predicates may be intersected."""
    of = {one.name: one for one in [*NUMBERED, *TEXTS, *EVERY_KIND]}
    declared = {name: SCHEMA[name] for name in SCHEMA if random.random() < 0.7}
    among = [of[name] for name in SCHEMA]
    rules = _plain_rules(random, among, int(500 * size) + 5)
    events = []
    for _ in range(int(300 * size) + 5):
        event = randoms.flat_event(random, among)
        if random.random() < 0.5:
            event["small"] = random.choices((1, 2, 3), k=random.randint(1, 3))
        events.append(event)
    return Case("schema", rules, events, _options(random, schema=declared, container="list"))


def command(random: Random, size: float) -> Case:
    """Files of rules and events, through ``tamis match``."""
    suffix = random.choice(("jsonl", "parquet", "csv"))
    among = [attribute("n", range(-5, 6)), attribute("word", ["a", "ab", "b", "it's, ok"])]
    among += [attribute("x", [-1.5, 0.25, 2.75]), attribute("user.name", ["ann", "bob", 'q"q'])]
    rules = _plain_rules(random, among, int(200 * size) + 5)
    events = [randoms.flat_event(random, among) for _ in range(int(100 * size) + 5)]
    return Case("command", rules, [e for e in events if e] or [{"n": 1}], {"format": suffix})


def expression(random: Random, size: float) -> Case:
    """Event expressions over few values, whose events can be listed."""
    among = [attribute("a", (1, 2, 3)), attribute("b", ("x", "y")), attribute("c", (1, 2))]
    rules = []
    for number in range(int(150 * size) + 5):
        leaves = [_listed(random, among) for _ in range(random.randint(1, 4))]
        form = random.choice((And, Or))(tuple(leaves)) if len(leaves) > 1 else leaves[0]
        logic = random.choice(("strong", "weak"))
        rules.append({"id": number, "rule": tamis.to_json(form), "logic": logic})
    expressions = []
    for _ in range(int(40 * size) + 4):
        chosen = random.sample(among, random.randint(1, 3))
        expressions.append(
            {of.name: random.sample(list(of.values), random.randint(1, 2)) for of in chosen}
        )
    return Case("expression", rules, expressions, {"form": "json"})


def _listed(random: Random, among: Sequence[Attribute]) -> Predicate:
    of = random.choice(among)
    values = tuple(random.sample(list(of.values), random.randint(1, 2)))
    return Predicate(of.name, Op.IN, values, random.random() < 0.4)


def events_of_expression(expression: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """All events that an event expression stands for."""
    return [dict(zip(expression, values, strict=True)) for values in product(*expression.values())]


def text(random: Random, size: float) -> Case:
    """Rules for the way from the model to text and to JSON, and back."""
    rules = _plain_rules(random, EVERY_KIND + WIDE + MONEY, int(500 * size) + 5)
    return Case("text", rules, [{}])


DRAW: Final[dict[str, Callable[[Random, float], Case]]] = {
    "batch": batch,
    "engine": engine,
    "calls": calls,
    "function": function,
    "sql": sql,
    "join": join,
    "schema": schema,
    "command": command,
    "expression": expression,
    "text": text,
    "json": draw_json,
}
"""For each check, what draws a case of a given size."""
