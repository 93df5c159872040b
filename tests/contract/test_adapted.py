"""Every engine keeps its answers when it adapts to events, when rules come and go, and on disk.

One walk leads each engine through all three in turn. The rules are skewed, and each sample of
events likes other attributes, so that what an engine arranged for the last sample is wrong for the
next. The nodes of the BE-Trees are small here: they split, merge and recycle all the time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import tamis
from tamis.engines.betree import tree
from tamis.expr.model import LOGICS, And, Expr, Or
from tests import randoms
from tests.contract.checks import Event, Rule, RuleId, check, find_expected
from tests.randoms import STRINGS, TIMESTAMPS, attribute

pytestmark = pytest.mark.parametrize("engine", tamis.engines())

NUMBERED = [attribute(f"n{i}", range(12)) for i in range(6)]
SPARSE = [attribute(f"id{i}", range(0, 200, 2)) for i in range(2)]
OTHERS = [
    attribute("x", (-1.5, 0.0, 0.5, 2.25)),
    attribute("s", STRINGS[:12]),
    attribute("flag", (True, False)),
    attribute("seen_at", TIMESTAMPS),
]
AMONG = [*NUMBERED, *SPARSE, *OTHERS]
FAVOURITES = (NUMBERED[:2] + OTHERS[:1], NUMBERED[3:5] + SPARSE[:1], SPARSE + OTHERS[1:])
"""What the events of each sample always have."""


class Step(NamedTuple):
    """A step of the walk, and what holds after it."""

    name: str
    removed: list[RuleId]
    added: dict[RuleId, Rule]
    sample: list[Event]
    events: list[Event]
    expected: list[list[RuleId]]


WALK = (
    "add", "optimize", "save", "churn", "optimize", "churn", "save", "optimize", "churn",
    "optimize", "optimize", "save",
)  # fmt: skip


def test_engine_keeps_its_answers_as_it_adapts_changes_and_is_stored(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_CAPACITY", 4)
    monkeypatch.setattr(tree, "choose_capacity", lambda _: 4)
    matcher = tamis.Matcher(engine=engine)
    for number, step in enumerate(_walk()):
        if step.name == "optimize":
            matcher.optimize(step.sample)
        elif step.name == "save":
            matcher.save(tmp_path / str(number))
            matcher.close()
            matcher = tamis.open(tmp_path / str(number), sync=False)
            assert matcher.stats()["engine"] == engine
        else:
            _churn(matcher, step)
        check(matcher, step.events, step.expected)
        for event, expected in list(zip(step.events, step.expected, strict=True))[::5]:
            assert {rule_id for rule_id, _ in matcher.top(event, n=5_000)} == set(expected)
    matcher.close()


def _churn(matcher: tamis.Matcher, step: Step) -> None:
    """Remove rules, add a few one by one and most at once, some of them in place of others."""
    matcher.remove_many(step.removed)
    added = [(rule_id, *rule) for rule_id, rule in step.added.items()]
    for rule_id, expr, logic in added[:30]:
        matcher.add(rule_id, expr, logic=logic, replace=True)
    middle = len(added) // 2
    for some in (added[30:middle], added[middle:]):
        matcher.add_many(some, replace=True)


@cache
def _walk() -> list[Step]:
    """The walk with the answers of `evaluate`, computed once for all engines."""
    random = Random(32)
    shadow: dict[RuleId, Rule] = {}
    steps: list[Step] = []
    samples = [_events(random, favourites, 400) for favourites in FAVOURITES]
    for number, name in enumerate(WALK):
        removed: list[RuleId] = []
        added: dict[RuleId, Rule] = {}
        if name in ("add", "churn"):
            removed = random.sample(list(shadow), len(shadow) // 3)
            for rule_id in removed:
                del shadow[rule_id]
            replaced = random.sample(list(shadow), len(shadow) // 4)
            ids = [*replaced, *(1_000 * number + i for i in range(600 if name == "add" else 250))]
            added = {rule_id: Rule(_rule(random), random.choice(LOGICS)) for rule_id in ids}
            for rule_id in added:
                shadow.pop(rule_id, None)  # a replaced rule counts as new
            shadow.update(added)
        events = [event for sample in samples for event in random.sample(sample, 7)] + [{}]
        expected = find_expected(shadow, events)
        sample = samples[sum(step.name == "optimize" for step in steps) % len(samples)]
        steps.append(Step(name, removed, added, sample, events, expected))
    share = sum(map(len, steps[-1].expected)) / (len(shadow) * len(steps[-1].events))
    assert 0.01 < share < 0.5, "rules that always or never hold prove nothing"
    return steps


def _rule(random: Random) -> Expr:
    """Mostly conjunctions of ranges and lists, which mention some attributes far more often."""
    among = random.choice((*FAVOURITES, AMONG, NUMBERED[:1] + AMONG[-6:]))
    choice = random.random()
    if choice < 0.03:  # past any budget, and so a program
        leaves = [randoms.predicate(random, among) for _ in range(20)]
        return And(tuple(map(Or, zip(leaves[::2], leaves[1::2], strict=True))))
    if choice < 0.85:
        return randoms.conjunction(random, among, random.randint(1, 4))
    return randoms.rule(random, among, 3)


def _events(random: Random, favourites: list[randoms.Attribute], count: int) -> list[Event]:
    def draw() -> Event:
        rest = [of for of in AMONG if random.random() < 0.3 and of not in favourites]
        several = random.choice((0, 0, 0.4))
        return randoms.event(random, favourites, 0.95, several) | randoms.event(
            random, rest, 1, several
        )

    return [draw() for _ in range(count)]
