"""The rules and events that all peers are measured on, and the matches that are right.

A rule is an AND of three attributes that each take one of some values; an event has twenty
attributes with a text each. That is what all peers can express. A line of text is a rule
(``a3=v1|v7`` between tabs) or an event (``a3=v1``), so that a driver needs no parser.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

ATTRIBUTES = 20
VALUES = 20
CLAUSES = 3

Rule = dict[str, list[str]]
Event = dict[str, str]


class Workload(NamedTuple):
    rules: list[Rule]
    events: list[Event]

    def totals(self) -> list[int]:
        """How many matches the first n events have, for each n; by definition, not by an index."""
        found = [0]
        by_value: dict[tuple[str, str], set[int]] = {}
        for number, rule in enumerate(self.rules):
            for name, values in rule.items():
                for value in values:
                    by_value.setdefault((name, value), set()).add(number)
        for event in self.events:
            held: dict[int, int] = {}
            for pair in event.items():
                for number in by_value.get(pair, ()):
                    held[number] = held.get(number, 0) + 1
            matches = sum(count == len(self.rules[number]) for number, count in held.items())
            found.append(found[-1] + matches)
        return found


def generate(rules: int, events: int, values: int, seed: int = 0) -> Workload:
    """`values` is how many of an attribute's values a clause takes: it sets the match rate."""
    random = Random(seed)
    names = [f"a{n}" for n in range(ATTRIBUTES)]
    choices = [f"v{n}" for n in range(VALUES)]
    return Workload(
        [
            {name: random.sample(choices, values) for name in random.sample(names, CLAUSES)}
            for _ in range(rules)
        ],
        [{name: random.choice(choices) for name in names} for _ in range(events)],
    )


def write(workload: Workload, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rules = ("\t".join(f"{n}={'|'.join(v)}" for n, v in r.items()) for r in workload.rules)
    events = ("\t".join(f"{n}={v}" for n, v in e.items()) for e in workload.events)
    (folder / "rules.txt").write_text("".join(f"{line}\n" for line in rules))
    (folder / "events.txt").write_text("".join(f"{line}\n" for line in events))


def read(folder: Path) -> Workload:
    def pairs(line: str) -> list[tuple[str, str]]:
        return [(name, value) for name, _, value in (p.partition("=") for p in line.split("\t"))]

    rules = (folder / "rules.txt").read_text().splitlines()
    events = (folder / "events.txt").read_text().splitlines()
    return Workload(
        [{name: values.split("|") for name, values in pairs(line)} for line in rules],
        [dict(pairs(line)) for line in events],
    )
