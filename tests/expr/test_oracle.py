"""`evaluate` against DuckDB, an independent implementation.

Single values: DuckDB evaluates the rule's own text, as :func:`tamis.to_sql` writes it, over
typed columns; SQL's three-valued logic is the strong logic. Several values: each predicate is
written with DuckDB's list functions, and absence is decided by the test.

DuckDB refuses to compare values of different kinds, and compares a BIGINT with a DOUBLE by a cast.
The pools keep to what it can decide, and handwritten cases cover the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tamis.expr.evaluate import evaluate, evaluate_flat
from tamis.expr.event import flatten, kind_of
from tamis.expr.model import And, Expr, Logic, Not, Op, Or, Predicate, Value, predicates
from tamis.expr.text.grammar import parse
from tamis.expr.text.write import to_sql
from tests import randoms

RULES = 250
"""Rules a seed; all of a seed's rules are one query."""
EVENTS = 40

NUMBERS = (*randoms.INTEGERS, *randoms.DOUBLES)
EXACT = tuple(v for v in randoms.HUGE_INTEGERS if isinstance(v, int))

COLUMNS: list[tuple[str, randoms.Attribute]] = [
    ("BIGINT", randoms.Attribute("n", randoms.INTEGERS, NUMBERS)),
    ("BIGINT", randoms.attribute("exact", EXACT)),
    ("DOUBLE", randoms.Attribute("x", (*randoms.DOUBLES, math.inf, -math.inf), NUMBERS)),
    ("DOUBLE", randoms.Attribute("basket.price", randoms.DOUBLES, NUMBERS)),
    ("VARCHAR", randoms.attribute("s", randoms.STRINGS)),
    ("VARCHAR", randoms.attribute("basket.user.name", randoms.STRINGS)),
    ("VARCHAR", randoms.attribute("0ad-data@v.1", randoms.STRINGS)),
    ("VARCHAR", randoms.attribute('o\'dd "n" in é', randoms.STRINGS)),
    ("BOOLEAN", randoms.attribute("flag", randoms.BOOLEANS)),
    ("TIMESTAMP", randoms.attribute("seen_at", randoms.TIMESTAMPS)),
]
ATTRIBUTES = [of for _, of in COLUMNS]
TYPES = {of.name: kind for kind, of in COLUMNS}


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    # Without it the answer is the same and hundreds of nested expressions plan faster.
    connection.execute("PRAGMA disable_optimizer")
    yield connection
    connection.close()


# --- Single values: the WHERE clause is the rule's text ---------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_the_text_of_a_rule_means_the_same_to_duckdb(
    db: duckdb.DuckDBPyConnection, seed: int
) -> None:
    random = Random(seed)
    rules = [randoms.rule(random, ATTRIBUTES) for _ in range(RULES)]
    events = [randoms.flat_event(random, ATTRIBUTES) for _ in range(EVENTS)]
    db.register("cells", _cells(events))
    answers = _ask(db, map(_text_for_duckdb, rules), f"FROM ({_SINGLE_VALUED})")
    _compare(rules, events, "strong", answers)


def test_one_predicate_at_a_time(db: duckdb.DuckDBPyConnection) -> None:
    """Every value of every column against single predicates, where nothing can mask an error."""
    random = Random(2024)
    for of in ATTRIBUTES:
        rules = [randoms.predicate(random, [of]) for _ in range(300)]
        events: list[dict[str, Any]] = [{}, *({of.name: value} for value in of.values)]
        db.register("cells", _cells(events))
        answers = _ask(db, map(_text_for_duckdb, rules), f"FROM ({_SINGLE_VALUED})")
        _compare(rules, events, "strong", answers)


def test_the_oracle_covers_all_operators_and_kinds() -> None:
    """The rules above reach every operator, negated and not, on every kind of column."""
    random = Random(0)
    seen = {
        (leaf.op, leaf.negated, TYPES[leaf.attribute])
        for _ in range(RULES * 16)
        for leaf in predicates(randoms.rule(random, ATTRIBUTES))
    }
    for op in Op:
        for negated in (False, True):
            for kind in ("VARCHAR",) if op.is_text else set(TYPES.values()):
                assert (op, negated, kind) in seen


def test_duckdb_folds_every_letter_as_ilike_does(db: duckdb.DuckDBPyConnection) -> None:
    """Letters of scripts with two cases, against their small letter and that one's capital."""
    letters = [chr(c) for r in TWO_CASES for c in r]
    pairs = [(c, p) for c in letters for p in (c.lower()[0], c.lower()[0].upper()[0])]
    db.register("pairs", pa.table({"c": [c for c, _ in pairs], "p": [p for _, p in pairs]}))
    answers = [row[0] for row in db.execute("SELECT c ILIKE p FROM pairs").fetchall()]
    ours = [evaluate(Predicate("c", Op.ILIKE, (p,)), {"c": c}) for c, p in pairs]
    wrong = [pair for pair, a, b in zip(pairs, answers, ours, strict=True) if a is not b]
    assert not wrong


# Not all of Unicode: Python and DuckDB may know different versions of it.
TWO_CASES = [range(0xC0, 0x590), range(0x1E00, 0x2000), range(0x2100, 0x2190)]

_SINGLE_VALUED = """
    SELECT n, exact, x, s, "0ad-data@v.1", "o'dd ""n"" in é", flag, seen_at,
        {'price': "basket.price", 'user': {'name': "basket.user.name"}} AS basket
    FROM cells
"""
"""A bare dotted path is a field of a struct to DuckDB; a quoted name is a column."""


def _cells(events: Sequence[dict[str, Any]]) -> pa.Table:
    columns = {
        of.name: pa.array([_naive(event.get(of.name)) for event in events], _ARROW[kind])
        for kind, of in COLUMNS
    }
    return pa.table(columns)


def _text_for_duckdb(expr: Expr) -> str:
    """The rule's text; only RLIKE, which DuckDB does not have, becomes its function."""
    text = to_sql(expr)
    for leaf in predicates(expr):
        if leaf.op is Op.RLIKE:
            before = to_sql(leaf)
            name, found, pattern = before.partition(" NOT RLIKE " if leaf.negated else " RLIKE ")
            assert found
            negation = "NOT " if leaf.negated else ""
            text = text.replace(before, f"{negation}regexp_matches({name}, {pattern})")
    return text


# --- Several values: every predicate spelled anew with list functions -------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LISTS = [of for of in ATTRIBUTES if "." not in of.name]


@pytest.mark.parametrize("logic", ["strong", "weak"])
@pytest.mark.parametrize("seed", range(8))
def test_several_values_mean_the_same_to_list_functions(
    db: duckdb.DuckDBPyConnection, seed: int, logic: Logic
) -> None:
    random = Random(1_000 + seed)
    rules = [randoms.rule(random, LISTS) for _ in range(RULES)]
    events = [randoms.event(random, LISTS, several=0.6) for _ in range(EVENTS)]
    db.register("cells", _list_cells(events))
    answers = _ask(db, (_spell(rule, logic) for rule in rules), "FROM cells")
    _compare(rules, events, logic, answers)


def _list_cells(events: Sequence[dict[str, Any]]) -> pa.Table:
    def cell(item: Any) -> list[Any] | None:
        if isinstance(item, list):
            return [_naive(value) for value in item]
        return None if item is None else [_naive(item)]

    columns = {}
    for of in LISTS:
        cells = [cell(event.get(of.name)) for event in events]
        kind = _ARROW[TYPES[of.name]]
        if kind != pa.float64():
            # Only a column of doubles can hold a NaN; in the others a null stands for it.
            cells = [c and [None if v != v else v for v in c] for c in cells]
        columns[of.name] = pa.array(cells, pa.list_(kind))
    return pa.table(columns)


def _spell(expr: Expr, logic: Logic) -> str:
    if isinstance(expr, Not):
        return f"(NOT {_spell(expr.child, logic)})"
    if isinstance(expr, And | Or):
        if not expr.children:
            return "true" if isinstance(expr, And) else "false"
        connective = " AND " if isinstance(expr, And) else " OR "
        return f"({connective.join(_spell(child, logic) for child in expr.children)})"
    assert isinstance(expr, Predicate)
    return _spell_predicate(expr, logic)


def _spell_predicate(leaf: Predicate, logic: Logic) -> str:
    column = '"' + leaf.attribute.replace('"', '""') + '"'
    is_value = "v IS NOT NULL"
    if TYPES[leaf.attribute] == "DOUBLE":
        is_value += " AND NOT isnan(v)"
    values = f"list_filter(coalesce({column}, []), lambda v: {is_value})"
    if leaf.op is Op.PRESENT:
        return f"(len({values}) {'=' if leaf.negated else '>'} 0)"
    if_absent = "NULL" if logic == "strong" else "false"
    holds = (
        f"CASE WHEN len({values}) = 0 THEN {if_absent} "
        f"ELSE len(list_filter({values}, lambda v: {_test_of_v(leaf)})) > 0 END"
    )
    return f"(NOT {holds})" if leaf.negated else f"({holds})"


def _test_of_v(leaf: Predicate) -> str:
    operands = [_literal(value) for value in leaf.values]
    match leaf.op:
        case Op.IN:
            return " OR ".join(f"v = {operand}" for operand in operands)
        case Op.BETWEEN:
            return f"v >= {operands[0]} AND v <= {operands[1]}"
        case Op.LIKE | Op.ILIKE:
            pattern, escape = operands if len(operands) == 2 else (operands[0], "''")
            return f"{leaf.op.lower()}_escape(v, {pattern}, {escape})"
        case Op.RLIKE:
            return f"regexp_matches(v, {operands[0]})"
        case _:
            return f"v {leaf.op} {operands[0]}"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"make_timestamp({(value - EPOCH) // timedelta(microseconds=1)})"
    if isinstance(value, float):
        return f"'{value!r}'::DOUBLE"
    return str(value).lower()


# --- What DuckDB cannot decide ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("x = 9007199254740993", 9007199254740992.0, False),
        ("x = 9007199254740992", 9007199254740992.0, True),
        ("x = 9007199254740992.0", 9007199254740993, False),
        ("x > 9007199254740992.0", 9007199254740993, True),
        ("x < 9007199254740993", 9007199254740992.0, True),
        ("x >= 9007199254740993", 9007199254740992.0, False),
        ("x IN (1, 9007199254740993)", 9007199254740992.0, False),
        ("x IN (1, 9007199254740992.0)", 9007199254740992, True),
        ("x BETWEEN 9007199254740993 AND 9007199254740995", 9007199254740992.0, False),
        ("x BETWEEN 9007199254740993 AND 9007199254740995", 9007199254740994.0, True),
        ("x < 9.223372036854775807e18", 9223372036854775807, True),
        ("x = 9.223372036854775807e18", 9223372036854775807, False),
        ("x < 9223372036854775807", 9223372036854775808.0, False),
        ("x >= -9223372036854775808", -9223372036854775808.0, True),
        ("x = -9223372036854775808", -9223372036854775808.0, True),
        ("x = 1", 1.0, True),
        ("x = 1.0", 1, True),
        ("x = 0.0", -0.0, True),
        ("x = 0", -0.0, True),
        ("x > 9223372036854775807", math.inf, True),
        ("x < -9223372036854775808", -math.inf, True),
        ("x > 1.5", 2, True),
        ("x = 0.1", 0.1, True),
        ("x = 0.30000000000000004", 0.1 + 0.2, True),
        ("x = 0.3", 0.1 + 0.2, False),
    ],
)
def test_integers_and_doubles_compare_exactly(text: str, value: float, expected: bool) -> None:
    assert evaluate(parse(text), {"x": value}) is expected
    assert evaluate(Not(parse(text)), {"x": value}) is not expected


KINDS: list[Value] = [True, 1, "1", "true", randoms.TIMESTAMPS[2]]


@pytest.mark.parametrize("value", KINDS, ids=repr)
@pytest.mark.parametrize("operand", KINDS, ids=repr)
def test_values_of_different_kinds_never_compare(value: Value, operand: Value) -> None:
    same = kind_of(value) is kind_of(operand)
    for op in (Op.EQ, Op.LE, Op.GE):
        leaf = Predicate("x", op, (operand,))
        if not same:
            assert evaluate(leaf, {"x": value}) is False
            assert evaluate(Not(leaf), {"x": value}) is True
    for op in (Op.LT, Op.GT):
        if not same:
            assert evaluate(Predicate("x", op, (operand,)), {"x": value}) is False
    assert evaluate(Predicate("x", Op.IN, tuple(KINDS)), {"x": value}) is True
    leaf = Predicate("x", Op.BETWEEN, (operand, operand))
    assert evaluate(leaf, {"x": value}) is (same and value == operand)


@pytest.mark.parametrize("op", [Op.LIKE, Op.ILIKE, Op.RLIKE])
def test_only_strings_satisfy_patterns(op: Op) -> None:
    anything = Predicate("x", op, ("%" if op is not Op.RLIKE else "",))
    assert evaluate(anything, {"x": "text"}) is True
    for value in (True, 1, 1.5, randoms.TIMESTAMPS[0]):
        assert evaluate(anything, {"x": value}) is False
        assert evaluate(Not(anything), {"x": value}) is True


# --- Asking and comparing ---------------------------------------------------------------

_ARROW = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _ask(
    db: duckdb.DuckDBPyConnection, conditions: Iterable[str], source: str
) -> list[tuple[bool, ...]]:
    """For each event and condition, whether it is true in DuckDB, as in WHERE."""
    columns = ",\n".join(f"({condition}) IS TRUE" for condition in conditions)
    return db.execute(f"SELECT {columns} {source}").fetchall()


def _compare(
    rules: Sequence[Expr],
    events: Sequence[dict[str, Any]],
    logic: Logic,
    answers: Sequence[tuple[bool, ...]],
) -> None:
    """Compare `evaluate`, with each event flattened once, with the answers."""
    wrong = [
        f"{to_sql(rule)}\n    on {flat}: DuckDB says {answer}"
        for flat, row in zip(map(flatten, events), answers, strict=True)
        for rule, answer in zip(rules, row, strict=True)
        if (evaluate_flat(rule, flat, logic) is True) is not answer
    ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(sorted(wrong, key=len)[:5])
    held = sum(map(sum, answers)) / (len(rules) * len(events))
    assert 0.02 < held < 0.98, "rules that always or never hold show nothing"
