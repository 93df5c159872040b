"""Every type of Arrow's: random tables against the events that they stand for."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

import tamis
from attack.case import Case
from tests import randoms
from tests.random_arrow import draw_table

__all__ = ["arrow", "check_arrow"]


def arrow(random: Random, size: float) -> Case:
    """A table of random types. The case has its seed, and the rows to compare."""
    seed = random.getrandbits(40)
    rows = random.choice((1, 5, int(2_000 * size) + 10))
    columns, depth = random.randint(1, 3), random.randint(1, 3)
    _, _, attributes = draw_table(Random(seed), rows, columns, depth)
    among = attributes or [randoms.attribute("a", [1])]
    rules = [
        {"id": number, "rule": tamis.to_json(randoms.conjunction(random, among, number % 2 + 1))}
        for number in range(int(100 * size) + 10)
    ]
    logic, values = random.choice(("strong", "weak")), random.choice((None, None, None, 2, 5))
    options = {"seed": seed, "rows": rows, "columns": columns, "depth": depth}
    events = [{"row": row} for row in range(rows)]
    return Case("arrow", rules, events, {**options, "logic": logic, "event_values": values})


def check_arrow(case: Case) -> str | None:
    """`match_many`, `count_many` and `top_many` on the table, `match` and `evaluate` on its rows.

    The same events are refused as mappings and as rows, and the others have the same answers.
    """
    o = case.options
    table, events, _ = draw_table(Random(o["seed"]), o["rows"], o["columns"], o["depth"])
    rules = {rule["id"]: tamis.from_json(rule["rule"]) for rule in case.rules}
    wanted = {event["row"] for event in case.events}
    # In a column without a name, values beside whole events are counted, too.
    has_whole = "" in table.column_names
    limits = tamis.Limits(event_values=None if has_whole else o["event_values"])
    with tamis.Matcher(logic=o["logic"], limits=limits) as matcher:
        matcher.add_many(list(rules.items()))
        bad: set[int] = set()
        expected: list[tuple[int, Any]] = []
        for row, event in enumerate(events):
            try:
                found = matcher.match(event)
            except tamis.EventError:
                bad.add(row)
                continue
            truth = [id for id, rule in rules.items() if tamis.evaluate(rule, event, o["logic"])]
            if found != truth and row in wanted:
                return f"match: {found}, not {truth}, on {event}"
            expected += [(row, id) for id in truth]
        return _compare(matcher, table, events, wanted, bad, expected)


def _compare(
    matcher: tamis.Matcher,
    table: pa.Table,
    events: list[dict[str, Any]],
    wanted: set[int],
    bad: set[int],
    expected: list[tuple[int, Any]],
) -> str | None:
    """Ask about the whole table, once with and once without skipping bad rows."""
    skipped: list[tamis.BadEvent] = []
    found = matcher.match_many(table, on_error="skip", skipped=skipped)
    wrong = ({one.event for one in skipped} ^ bad) & wanted
    if wrong:
        row = min(wrong)
        was = "is refused" if row in bad else "is taken"
        return f"{events[row]} {was} as a mapping, but not as a row of {table.schema}"
    pairs = zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True)
    differ = {pair for pair in {*pairs} ^ {*expected} if pair[0] in wanted}
    if differ:
        row, id = min(differ)
        return f"rule {id} on row {row}, {events[row]}, is wrong in {table.schema}"
    for ask in (matcher.count_many, matcher.top_many):
        try:
            ask(table)
        except tamis.EventError as error:
            if not error.refused.keys() <= bad or not error.refused:
                return f"{error} about rows {sorted(error.refused)} in {table.schema}"
        else:
            if bad:
                return f"{ask.__name__} takes rows {sorted(bad)} in {table.schema}"
    return None
