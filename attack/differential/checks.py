"""The checks: each asks a matcher about a case and compares with what oracles say.

A check returns what is wrong, or None. Plain rules are decided by `attack.oracle`; functions and
join predicates, which it does not know, by `tamis.evaluate`; and SQL by DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import chdir, nullcontext
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import tamis
from attack.case import Case
from attack.differential.apply import apply_script, build_matcher
from attack.differential.containers import CONTAINERS, to_table
from attack.differential.draw import events_of_expression
from attack.differential.json_texts import check_json
from attack.oracle import Oracle, as_written, flatten, read_literal, score
from tests.roads import set_thresholds

__all__ = ["CHECKS", "find_fault"]

_SAMPLE: Final = 2_000
"""How many decisions of a large batch `tamis.evaluate` is asked about."""


def find_fault(case: Case) -> str | None:
    """Run the check of a case; an exception is a fault, too."""
    try:
        return CHECKS[case.check](case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# --- Many events ---


def check_batch(case: Case) -> str | None:
    """`match_many` and `count_many` on any container."""
    rules = list(apply_script(case).values())
    expected = _ask_oracle(rules, case.events)
    return _compare_batch(case, rules, expected) or _compare_evaluate(rules, case.events, expected)


def _ask_oracle(rules: list[dict[str, Any]], events: Sequence[dict[str, Any]]) -> NDArray[Any]:
    """A row for each rule, a column for each event: whether it matches."""
    oracle = Oracle(events)
    return _unpack([oracle.find(r["rule"], r.get("logic", "strong")) for r in rules], len(events))


def _unpack(rows: list[int], width: int) -> NDArray[Any]:
    size = (width + 7) // 8
    packed = b"".join(row.to_bytes(size, "little") for row in rows)
    bits = np.frombuffer(packed, np.uint8).reshape(len(rows), size)
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :width].astype(bool)


def _compare_batch(case: Case, rules: list[dict[str, Any]], expected: NDArray[Any]) -> str | None:
    container = CONTAINERS[case.options.get("container", "list")]
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    seed = case.options.get("thresholds")
    limits = nullcontext() if seed is None else set_thresholds(Random(seed))
    with limits, build_matcher(case) as matcher:
        found = _read(matcher.match_many(container(case.events)))
        counts = _read(matcher.count_many(container(case.events)))
    ids = found["rule"].to_numpy(zero_copy_only=False)
    if list(places) == list(range(len(places))):
        rows = ids.astype(np.int64)
    else:
        rows = np.array([places[id] for id in ids.tolist()], np.int64)
    columns = found["event"].to_numpy(zero_copy_only=False).astype(np.int64)
    order = columns * len(rules) + rows
    if np.any(np.diff(order) <= 0):
        return "match_many: the answer is not ordered by event and age, or repeats a match"
    answer = np.zeros_like(expected)
    answer[rows, columns] = True
    difference = _first_difference("match_many", answer, expected, rules, case.events)
    if difference is None and counts["matches"].to_pylist() != expected.sum(axis=0).tolist():
        return "count_many: wrong counts"
    return difference


def _read(found: pa.Table | pa.RecordBatchReader) -> pa.Table:
    return found if isinstance(found, pa.Table) else found.read_all()


def _first_difference(
    what: str,
    answer: NDArray[Any],
    expected: NDArray[Any],
    rules: list[dict[str, Any]],
    events: Sequence[dict[str, Any]],
) -> str | None:
    rows, columns = np.nonzero(answer != expected)
    if not len(rows):
        return None
    row, column = rows[0], columns[0]
    return (
        f"{what}: {len(rows):,} wrong; the first is {bool(answer[row, column])} for "
        f"{rules[row]['rule']} on {events[column]}"
    )


def _compare_evaluate(
    rules: list[dict[str, Any]], events: Sequence[dict[str, Any]], expected: NDArray[Any]
) -> str | None:
    """Ask `tamis.evaluate` about decisions spread evenly over the batch."""
    step = max(1, expected.size // _SAMPLE) | 1
    for at in range(0, expected.size, step):
        row, column = divmod(at, len(events))
        rule = rules[row]
        model = tamis.from_json(rule["rule"])
        answer = tamis.evaluate(model, events[column], rule.get("logic", "strong"))
        if answer is not bool(expected[row, column]):
            return f"evaluate: {answer} for {rule['rule']} on {events[column]}"
    return None


def check_sql(case: Case) -> str | None:
    """`match_many` against DuckDB."""
    rules = list(apply_script(case).values())
    expected = _ask_duckdb([rule["rule"] for rule in rules], case.events)
    oracle = _ask_oracle(rules, case.events)
    difference = _first_difference("the oracle", oracle, expected, rules, case.events)
    return difference or _compare_batch(case, rules, expected)


def _ask_duckdb(forms: list[Any], events: Sequence[dict[str, Any]]) -> NDArray[Any]:
    table = to_table(events)
    mentioned = {name for form in forms for name in _names(form)}
    for name in sorted(mentioned - {*table.column_names}):
        table = table.append_column(name, pa.nulls(table.num_rows))
    db = _connect()
    db.register("events", table)
    columns = ", ".join(f"(({_to_sql(form)}) IS TRUE) AS r{n}" for n, form in enumerate(forms))
    found = db.sql(f"SELECT {columns} FROM events").to_arrow_table()
    return np.array([column.to_numpy(zero_copy_only=False) for column in found.columns], bool)


@cache
def _connect() -> Any:
    import duckdb

    connection = duckdb.connect()
    # The answers are the same without it, and hundreds of expressions plan faster.
    connection.execute("PRAGMA disable_optimizer")
    connection.execute("SET threads = 1")
    return connection


def _names(form: Any) -> set[str]:
    if isinstance(form, bool):
        return set()
    if "attr" in form:
        return {form["attr"]}
    children = form.get("and") or form.get("or") or [form["not"]] if form else []
    return {name for child in children for name in _names(child)}


def _to_sql(form: Any) -> str:
    """A rule in DuckDB's SQL, written from the JSON form."""
    if isinstance(form, bool):
        return str(form).upper()
    for connective in ("and", "or"):
        if connective in form:
            parts = [f"({_to_sql(child)})" for child in form[connective]]
            return f" {connective} ".join(parts) or str(connective == "and").upper()
    if "not" in form:
        return f"NOT ({_to_sql(form['not'])})"
    name = '"' + form["attr"].replace('"', '""') + '"'
    (operator,) = form.keys() - {"attr", "escape"}
    operand = form[operator]
    if operator == "present":
        return f"{name} IS {'NOT ' if operand else ''}NULL"
    sign = "=" if operator == "<>" else operator.removeprefix("not ")
    if sign == "in":
        positive = f"{name} IN ({', '.join(map(_sql_literal, operand))})"
    elif sign == "between":
        positive = f"{name} BETWEEN {_sql_literal(operand[0])} AND {_sql_literal(operand[1])}"
    elif sign == "rlike":
        positive = f"regexp_matches({name}, {_sql_literal(operand)})"
    else:
        escape = f" ESCAPE {_sql_literal(form['escape'])}" if "escape" in form else ""
        positive = f"{name} {sign} {_sql_literal(operand)}{escape}"
    return positive if sign == operator else f"NOT ({positive})"


def _sql_literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return f"{value!r}::DOUBLE"
    return str(value)


# --- One event ---


def check_calls(case: Case) -> str | None:
    """Every call of a matcher that answers about one event or a few."""
    left = apply_script(case)
    oracle = Oracle(case.events)
    truths = {
        id: oracle.find(rule["rule"], rule.get("logic", "strong")) for id, rule in left.items()
    }
    with build_matcher(case) as matcher:
        if list(matcher) != list(left):
            return f"the ids are {list(matcher)}, not {list(left)}"
        for number, event in enumerate(case.events):
            held = [id for id in left if truths[id] >> number & 1]
            wrong = _ask_calls(matcher, case, left, event, held)
            if wrong is not None:
                return f"{wrong}, on {event}"
        return _ask_tables(matcher, case, left, truths)


def _ask_calls(
    matcher: tamis.Matcher, case: Case, left: dict[Any, Any], event: Any, held: list[Any]
) -> str | None:
    options = case.options
    at, n = options["at"], options["n"]
    only, tags = {*options["only"]}, {*options["tags"]}
    tagged = tamis.tagged(*tags, without=options["without"])
    valid = [id for id in held if _is_valid(left[id], at)]
    with_tags = [
        id
        for id in valid
        if tags & {*left[id].get("tags", ())}
        and not {*options["without"]} & {*left[id].get("tags", ())}
    ]
    by_priority = sorted(valid, key=lambda id: -left[id].get("priority", 0))[:n]
    weights = {(name, value): weight for name, value, weight in options["weights"]}
    asked: list[tuple[str, Any, Any]] = [
        ("match", matcher.match(event, at=at), valid),
        ("match(only=ids)", matcher.match(event, at=at, only=only), _among(valid, only)),
        ("match(only=tagged)", matcher.match(event, at=at, only=tagged), with_tags),
        ("match_array", _sort(matcher.match_array(event, at=at).tolist()), _sort(valid)),
        ("first", matcher.first(event, n, at=at), by_priority),
        ("why", [*matcher.why(event, at=at)], valid),
        ("top", matcher.top(event, n, at=at), _rank(left, valid, event, {})[:n]),
        (
            "top(weights)",
            matcher.top(event, n, at=at, weights=weights, only=only),
            _rank(left, _among(valid, only), event, weights)[:n],
        ),
    ]
    for id in [*left][:6]:
        asked.append((f"explain({id!r})", matcher.explain(id, event).held, id in held))
        obstacles = matcher.why_not(id, event, at=at)
        answer = obstacles.changes == () and obstacles.invalid is None
        asked.append((f"why_not({id!r})", answer, id in valid))
    return next((f"{w}: {a}, not {expected}" for w, a, expected in asked if a != expected), None)


def _ask_tables(
    matcher: tamis.Matcher, case: Case, left: dict[Any, Any], truths: dict[Any, int]
) -> str | None:
    at, n = case.options["at"], case.options["n"]
    expected, ranked, counts = [], [], []
    for number, event in enumerate(case.events):
        valid = [id for id in left if truths[id] >> number & 1 and _is_valid(left[id], at)]
        expected += [(number, id) for id in valid]
        ranked += [(number, *pair) for pair in _rank(left, valid, event, {})[:n]]
        counts.append(len(valid))
    found = matcher.match_many(case.events, at=at)
    if [*zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)] != expected:
        return "match_many: wrong"
    if matcher.count_many(case.events, at=at)["matches"].to_pylist() != counts:
        return "count_many: wrong"
    best = matcher.top_many(case.events, n, at=at)
    columns = (best[name].to_pylist() for name in ("event", "rule", "score"))
    if [*zip(*columns, strict=True)] != ranked:
        return "top_many: wrong"
    return None


def _is_valid(rule: dict[str, Any], at: Any) -> bool:
    start, end = rule.get("valid_from"), rule.get("valid_until")
    return (start is None or start <= at) and (end is None or at < end)


def _among(ids: list[Any], some: set[Any]) -> list[Any]:
    return [id for id in ids if id in some]


def _sort(ids: list[Any]) -> list[Any]:
    return sorted(ids, key=lambda id: (str(type(id)), id))


def _rank(
    left: dict[Any, Any], ids: list[Any], event: Any, event_weights: dict[Any, float]
) -> list[tuple[Any, float]]:
    """All matching rules with their scores, the best first and then the oldest."""
    flat = flatten(event)
    by_event = {(name, *_typed(value)): w for (name, value), w in event_weights.items()}
    scored = []
    for id in ids:
        rule = left[id]
        by_rule = {
            (name, *_typed(read_literal(value))): weight
            for name, value, weight in rule.get("weights", ())
        }

        def weigh(name: str, sign: str, value: Any, by_rule: Any = by_rule) -> float:
            key = (name, *_typed(value))
            own = by_rule.get(key, 1.0) if sign in ("=", "in") else 1.0
            return float(own * by_event.get(key, 1.0))

        value = score(rule["rule"], rule.get("logic", "strong"), flat, weigh)
        assert value is not None
        scored.append((id, value))
    return sorted(scored, key=lambda pair: -pair[1])


def _typed(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), as_written(value)


# --- What the oracle does not know ---


def _model_of(rule: dict[str, Any]) -> tuple[tamis.Expr, Any]:
    return tamis.parse(rule["rule"]), rule.get("logic", "strong")


def check_function(case: Case) -> str | None:
    """Rules with functions against `tamis.evaluate`."""
    left = apply_script(case)
    models = {id: _model_of(rule) for id, rule in left.items()}
    with build_matcher(case) as matcher:
        found = matcher.match_many(case.events)
        many: list[list[Any]] = [[] for _ in case.events]
        for event, id in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True):
            many[event].append(id)
        for event, several in zip(case.events, many, strict=True):
            expected = [
                id for id, (model, logic) in models.items() if tamis.evaluate(model, event, logic)
            ]
            for what, answer in (("match", matcher.match(event)), ("match_many", several)):
                if answer != expected:
                    wrong = {*answer} ^ {*expected}
                    texts = [left[id]["rule"] for id in wrong][:3]
                    return f"{what}: wrong for {texts} on {event}"
    return None


def check_join(case: Case) -> str | None:
    """Published events against `tamis.evaluate` over the documents before them."""
    left = apply_script(case)
    models = {id: _model_of(rule) for id, rule in left.items()}
    with build_matcher(case) as matcher:
        for number, event in enumerate(case.events):
            before = case.events[:number]
            expected = [
                id
                for id, (model, logic) in models.items()
                if tamis.evaluate(model, event, logic, documents=before)
            ]
            answers = matcher.match(event), matcher.publish(event)
            if answers != (expected, expected):
                wrong = {*answers[0]} ^ {*expected} or {*answers[1]} ^ {*expected}
                return f"wrong for {[left[id]['rule'] for id in wrong][:3]} on {event}"
    return None


def check_expression(case: Case) -> str | None:
    """`match_expression` against every event that the expression stands for."""
    rules = list(apply_script(case).values())
    with build_matcher(case) as matcher:
        for expression in case.events:
            asked = {"and": [{"attr": n, "in": values} for n, values in expression.items()]}
            events = events_of_expression(expression)
            expected = np.nonzero(_ask_oracle(rules, events).any(axis=1))[0].tolist()
            ids = [rules[place]["id"] for place in expected]
            answer = matcher.match_expression(asked)
            if answer != ids:
                return f"match_expression: {answer}, not {ids}, for {expression}"
    return None


# --- Files and texts ---


def check_command(case: Case) -> str | None:
    """``tamis match`` on files in any format."""
    from typer.testing import CliRunner

    from tamis.cli import app

    rules = list(apply_script(case).values())
    expected = _ask_oracle(rules, case.events).T
    with TemporaryDirectory(prefix="attack-") as folder, chdir(folder):
        Path("rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
        events = _write_events(case)
        result = CliRunner().invoke(app, ["match", "rules.jsonl", events])
        if result.exit_code:
            return f"exit code {result.exit_code}: {result.output}"
        lines = [json.loads(line) for line in result.stdout.splitlines()]
    answers = [line["rules"] for line in lines]
    wanted = [[rules[place]["id"] for place in np.nonzero(row)[0]] for row in expected]
    for answer, ids, event in zip(answers, wanted, case.events, strict=True):
        if answer != ids:
            return f"tamis match: {answer}, not {ids}, on {event}"
    return None


def _write_events(case: Case) -> str:
    suffix = case.options["format"]
    path = f"events.{suffix}"
    if suffix == "jsonl":
        Path(path).write_text("".join(json.dumps(event) + "\n" for event in case.events))
    elif suffix == "parquet":
        pq.write_table(to_table(case.events), path)
    else:
        pa_csv.write_csv(to_table(case.events), path)
    return path


def check_text(case: Case) -> str | None:
    """A rule is the same after its text or its JSON was read again."""
    for rule in case.rules:
        model = tamis.from_json(rule["rule"])
        for read in (tamis.parse(tamis.to_sql(model)), tamis.from_json(tamis.to_json(model))):
            if read != model or tamis.to_json(read) != rule["rule"]:
                return f"{rule['rule']} was read again as {tamis.to_json(read)}"
    return None


CHECKS: Final[dict[str, Callable[[Case], str | None]]] = {
    "batch": check_batch,
    "engine": check_batch,
    "calls": check_calls,
    "function": check_function,
    "sql": check_sql,
    "join": check_join,
    "schema": check_batch,
    "command": check_command,
    "expression": check_expression,
    "text": check_text,
    "json": check_json,
}
"""What is wrong with a case, or None."""
