"""The drivers of the peers in Python: ``python drivers.py PEER FOLDER SECONDS``.

Prints a line of JSON: seconds to build, events matched, their matches, seconds to match. All times
are CPU times, so that other work on the machine disturbs less. Runs as a script, in an environment
that has nothing but the peers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers.workload import Event, Rule, read

Count = Callable[[Event], int]


def build_tamis(rules: list[Rule]) -> Count:
    import tamis

    matcher = tamis.Matcher()
    matcher.add_many(
        [(number, join(rule, "AND", "IN (", ")")) for number, rule in enumerate(rules)]
    )
    matcher.match({})
    return lambda event: len(matcher.match(event))


def build_rule_engine(rules: list[Rule]) -> Count:
    import rule_engine

    compiled = [rule_engine.Rule(join(rule, "and", "in [", "]")) for rule in rules]
    return lambda event: sum(rule.matches(event) for rule in compiled)


def build_json_logic(rules: list[Rule]) -> Count:
    from json_logic import jsonLogic

    trees = [
        {"and": [{"in": [{"var": name}, values]} for name, values in rule.items()]}
        for rule in rules
    ]
    return lambda event: sum(bool(jsonLogic(tree, event)) for tree in trees)


def build_zen(rules: list[Rule]) -> Count:
    import zen

    compiled = [zen.compile_expression(join(rule, "and", "in [", "]")) for rule in rules]
    return lambda event: sum(rule.evaluate(event) for rule in compiled)


def build_cel(rules: list[Rule]) -> Count:
    import cel

    compiled = [cel.compile(join(rule, "&&", "in [", "]")) for rule in rules]
    return lambda event: sum(rule.execute(event) for rule in compiled)


def build_duckdb(rules: list[Rule]) -> Callable[[list[Event]], int]:
    """A table of clauses, joined with the pairs of many events at once."""
    import duckdb

    database = duckdb.connect()
    database.execute("CREATE TABLE clause (rule INTEGER, pair VARCHAR)")
    rows = [(n, f"{name}={v}") for n, r in enumerate(rules) for name, vs in r.items() for v in vs]
    numbers, pairs = zip(*rows, strict=True)
    database.execute("INSERT INTO clause SELECT unnest(?), unnest(?)", [numbers, pairs])
    sizes = len(next(iter(rules)))

    def count(events: list[Event]) -> int:
        rows = [(n, f"{name}={v}") for n, e in enumerate(events) for name, v in e.items()]
        numbers, pairs = zip(*rows, strict=True)
        found = database.execute(
            "SELECT count(*) FROM (SELECT event, rule FROM "
            "(SELECT unnest(?) AS event, unnest(?) AS pair) JOIN clause USING (pair) "
            "GROUP BY event, rule HAVING count(*) = ?)",
            [numbers, pairs, sizes],
        ).fetchone()
        assert found is not None
        return int(found[0])

    return count


def join(rule: Rule, word: str, opening: str, closing: str) -> str:
    clauses = (f"{n} {opening}{', '.join(map(repr, v))}{closing}" for n, v in rule.items())
    return f" {word} ".join(clauses)


BUILDERS: dict[str, Callable[[list[Rule]], Any]] = {
    "tamis": build_tamis,
    "rule-engine": build_rule_engine,
    "json-logic": build_json_logic,
    "zen-engine": build_zen,
    "cel": build_cel,
    "duckdb": build_duckdb,
}
BATCH = 200
"""How many events DuckDB gets at once."""


def run(peer: str, folder: Path, seconds: float) -> dict[str, float]:
    rules, events = read(folder)
    BUILDERS[peer](rules[:2])  # imports, and kernels from the disk
    started = process_time()
    count = BUILDERS[peer](rules)
    built = process_time() - started
    parts: list[Any] = list(events)
    if peer == "duckdb":
        parts = [events[n : n + BATCH] for n in range(0, len(events), BATCH)]
    count(parts[0])
    matches = done = 0
    started = process_time()
    for part in parts:
        matches += count(part)
        done += len(part) if peer == "duckdb" else 1
        if process_time() - started > seconds:
            break
    taken = process_time() - started
    return {"build": built, "events": done, "matches": matches, "seconds": taken}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))))
