"""Matches random rules and events, and compares each answer with `tamis.evaluate`.

For a Python or a machine on which the tests do not run: it needs nothing but Tamis. With
TAMIS_KERNELS=plain nothing is compiled.

Usage: python scripts/smoke.py
"""

from __future__ import annotations

import platform
from random import Random

import tamis

RULES = 300
EVENTS = 60


def main() -> None:
    random = Random(1)
    rules = {number: draw_rule(random) for number in range(RULES)}
    events = [draw_event(random) for _ in range(EVENTS)]
    right = [[id for id, text in rules.items() if tamis.evaluate(text, e)] for e in events]
    matcher = tamis.Matcher()
    matcher.add_many(list(rules.items()))
    lists = matcher.match_many(events, form="lists")["rules"].to_pylist()
    if [matcher.match(event) for event in events] != right or lists != right:
        raise SystemExit("the answers differ from tamis.evaluate")
    count = sum(map(len, right))
    print(f"Python {platform.python_version()}: {count:,} matches agree with tamis.evaluate")


def draw_rule(random: Random) -> str:
    comparison = f"a {random.choice(['=', '<', '>=', '<>'])} {random.randrange(9)}"
    values = f"{random.randrange(5)}, {random.randrange(5)}"
    return f"{comparison} AND (b IN ({values}) OR NOT c LIKE '%{random.choice('xyz')}%')"


def draw_event(random: Random) -> dict[str, object]:
    event = {"a": random.randrange(9), "b": random.randrange(5), "c": random.choice("xyzq")}
    return {name: value for name, value in event.items() if random.random() < 0.9}


if __name__ == "__main__":
    main()
