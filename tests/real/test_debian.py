"""61,597 dependencies of Debian packages on 60 machines: exactly the installable packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tamis
from tamis.expr.model import Expr
from tests.real.neutral import build_debian_rule, group_by_event, read_lines
from tests.thorough import share


class Debian(NamedTuple):
    rules: list[tuple[str, Expr]]
    events: list[dict[str, Any]]
    hits: list[list[str]]
    """For each event, the rules it matches."""


@pytest.fixture(scope="module")
def debian(shared_data: Path) -> Debian:
    machines = list(read_lines(shared_data / "debian_events.jsonl.gz"))
    hits = dict(read_lines(shared_data / "debian_hits.jsonl.gz"))
    return Debian(
        [
            (r["id"], build_debian_rule(r["ast"]))
            for r in read_lines(shared_data / "debian_rules.jsonl.gz")
        ],
        [machine["attrs"] for machine in machines],
        [hits[machine["id"]] for machine in machines],
    )


@pytest.mark.parametrize("engine", tamis.engines())
def test_every_machine_gets_exactly_its_packages(debian: Debian, engine: str) -> None:
    rules = debian.rules[:: share(engine, 1, 7)]
    step = share(engine, 1, 4)
    matcher = tamis.Matcher(engine=engine, logic="weak")
    matcher.add_many(rules)
    found = group_by_event(matcher.match_many(debian.events[::step]))
    assert sum(map(len, debian.hits)) > 400_000
    ids = {id for id, _ in rules}
    for number, expected in enumerate(debian.hits[::step]):
        assert sorted(found.get(number, [])) == sorted(ids.intersection(expected))


def test_direct_evaluation_agrees(debian: Debian) -> None:
    for event, hits in list(zip(debian.events, debian.hits, strict=True))[::20]:
        expected = set(hits)
        for name, rule in debian.rules[::50]:
            assert tamis.evaluate(rule, event, "weak") == (name in expected)


def test_rules_are_the_same_after_writing_and_parsing(debian: Debian) -> None:
    for _, rule in debian.rules[::9]:
        assert tamis.parse(tamis.to_sql(rule)) == rule
