"""Random operations, checked against a dict of rules and the reference evaluator."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import Matcher
from tamis.encode.arrays import Events
from tamis.encode.merge.rules import merge_rules
from tamis.encode.rules import EncodedRules
from tamis.engines import registry
from tamis.engines.base import Parts
from tamis.engines.scan import Scan
from tamis.expr.evaluate import evaluate_flat, score_flat
from tamis.expr.event import FlatEvent, flatten
from tamis.expr.model import LOGICS, Expr, Logic
from tamis.expr.normalize import nnf
from tamis.expr.weights import EventWeights, RuleWeights
from tamis.matcher.storage import store
from tests import randoms
from tests.randoms import EVERYTHING
from tests.thorough import share

ATTRIBUTES = EVERYTHING[:6]
STEPS = 120
FEW_STEPS = 30


class Shuffled(Scan):
    """An engine that lays out its rules in a random order, as an engine may."""

    name = "shuffled"

    @classmethod
    def build(cls, rules: EncodedRules, sample: Events | None = None) -> Parts:
        order = np.random.default_rng(rules.size).permutation(rules.size).astype(np.int32)
        laid_out = merge_rules([(rules, order)]) if rules.size else rules
        return super().build(laid_out, sample)._replace(order=order)


@pytest.fixture(autouse=True)
def _shuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ENGINES, Shuffled.name, f"{__name__}:Shuffled")


class Shadow:
    """The rules that a matcher should have, by id, oldest first."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rules: dict[Any, tuple[Expr, Logic]] = {}
        self.normal_forms: dict[Any, Expr] = {}
        """Of these rules, and of some that were removed."""
        self.used = 0

    def new(self, count: int, taken: float = 0.0) -> list[tuple[Any, Expr, Logic]]:
        """Rules to add, some of them with ids that are taken."""
        made: dict[Any, tuple[Any, Expr, Logic]] = {}
        for _ in range(count):
            if self.rules and self.random.random() < taken:
                id = self.random.choice(list(self.rules))
            else:
                self.used += 1
                id = self.used if self.random.random() < 0.5 else f"r{self.used}"
            rule = randoms.rule(self.random, ATTRIBUTES, 3)
            made[id] = (id, rule, self.random.choice(LOGICS))
        return list(made.values())

    def add(self, rules: list[tuple[Any, Expr, Logic]]) -> None:
        for id, rule, logic in rules:
            self.rules.pop(id, None)
            self.rules[id] = (rule, logic)
            self.normal_forms[id] = nnf(rule, logic)

    def some(self, most: int) -> list[Any]:
        count = min(self.random.randint(0, most), len(self.rules))
        return self.random.sample(list(self.rules), count)

    def match(self, event: FlatEvent) -> list[Any]:
        return [
            id
            for id, (rule, logic) in self.rules.items()
            if evaluate_flat(rule, event, logic) is True
        ]

    def top(self, event: FlatEvent, n: int) -> list[tuple[Any, float]]:
        """The best rules; none has weights."""
        alike = RuleWeights({}, {}), EventWeights({})
        scored = [(id, score_flat(self.normal_forms[id], event, *alike)) for id in self.rules]
        held = [(id, score) for id, score in scored if score is not None]
        return sorted(held, key=lambda pair: -pair[1])[:n]

    def check(self, matcher: Matcher) -> None:
        """Compare the answers of all searches."""
        assert list(matcher) == list(self.rules)
        assert len(matcher) == len(self.rules)
        events = [randoms.event(self.random, ATTRIBUTES) for _ in range(3)]
        flat = [flatten(event) for event in events]
        expected = [self.match(event) for event in flat]
        tops = [self.top(event, 4) for event in flat]
        assert [matcher.match(event) for event in events] == expected
        for event, found, best in zip(events, expected, tops, strict=True):
            assert sorted(matcher.match_array(event), key=str) == sorted(found, key=str)
            assert matcher.top(event, 4) == best
        table = matcher.match_many(events).to_pylist()
        rows = [{"event": i, "rule": id} for i, found in enumerate(expected) for id in found]
        assert sorted(table, key=str) == sorted(rows, key=str)
        counts = matcher.count_many(events)["matches"].to_pylist()
        assert counts == [len(found) for found in expected]
        table = matcher.top_many(events, 4)
        ranked = zip(table["rule"].to_pylist(), table["score"].to_pylist(), strict=True)
        assert list(ranked) == [pair for best in tops for pair in best]
        for id in self.some(3):
            assert matcher.rule(id).expr == self.rules[id][0]
            assert matcher.rule(id).logic == self.rules[id][1]


def change(shadow: Shadow, matcher: Matcher) -> None:
    """Make one change that any matcher supports."""
    random = shadow.random
    match random.randint(0, 9):
        case 0 | 1 | 2:
            (rule,) = shadow.new(1)
            matcher.add(rule[0], rule[1], logic=rule[2])
            shadow.add([rule])
        case 3:
            (rule,) = shadow.new(1, taken=0.9)
            matcher.add(rule[0], rule[1], logic=rule[2], replace=True)
            shadow.add([rule])
        case 4:
            rules = shadow.new(random.choice([3, 40, 90]))
            matcher.add_many(rules)
            shadow.add(rules)
        case 5:
            rules = shadow.new(random.choice([5, 60]), taken=0.5)
            matcher.add_many(rules, replace=True)
            shadow.add(rules)
        case 6:
            rules = shadow.new(random.choice([5, 60]), taken=0.5)
            fresh = [rule for rule in rules if rule[0] not in shadow.rules]
            report = matcher.add_many([*rules, ("bad", "x =")], on_error="skip")
            assert report.added == len(fresh)
            assert len(report.bad) == len(rules) - len(fresh) + 1
            shadow.add(fresh)
        case 7:
            for id in shadow.some(4):
                matcher.remove(id)
                del shadow.rules[id]
        case 8:
            ids = shadow.some(80)
            assert matcher.remove_many(ids) == len(ids)
            for id in ids:
                del shadow.rules[id]
        case 9 if random.random() < 0.2:
            rules = shadow.new(random.choice([0, 5, 100]), taken=0.3)
            matcher.replace_all(rules)
            shadow.rules = {}
            shadow.add(rules)
        case _:
            with pytest.raises(tamis.TamisError):
                matcher.remove_many([*shadow.some(2), "unknown"])
            with pytest.raises(tamis.TamisError):
                matcher.add_many([*shadow.new(2), ("bad", "x =")])


def maintain(shadow: Shadow, matcher: Matcher) -> None:
    """Do some background work, or all of it."""
    random = shadow.random
    match random.randint(0, 5):
        case 0:
            matcher.optimize()
        case 1:
            matcher.optimize([randoms.event(random, ATTRIBUTES) for _ in range(5)])
        case 2 | 3:
            matcher._writer.compact(quiet=random.random() < 0.5)
        case _:
            pass


@pytest.mark.parametrize("engine", [*tamis.engines(), Shuffled.name])
@pytest.mark.parametrize("seed", range(2))
def test_random_operations_in_memory(engine: str, seed: int, tmp_path: Path) -> None:
    shadow = Shadow(Random(seed))
    matcher = Matcher(engine=engine)
    for step in range(share(engine, STEPS, FEW_STEPS)):
        change(shadow, matcher)
        maintain(shadow, matcher)
        if step % 4 == 0:
            shadow.check(matcher)
    matcher.save(tmp_path / "index")
    with tamis.open(tmp_path / "index", verify=True) as opened:
        shadow.check(opened)
    matcher.close()


@pytest.mark.parametrize("engine", ["sift", Shuffled.name])
@pytest.mark.parametrize("seed", range(2))
def test_random_operations_in_a_directory(
    engine: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHECKPOINT_BYTES", 3_000)
    shadow = Shadow(Random(100 + seed))
    path = tmp_path / "index"
    matcher = tamis.open(path, engine=engine, sync=False)
    reader = tamis.open(path, read_only=True)
    for step in range(STEPS):
        change(shadow, matcher)
        maintain(shadow, matcher)
        if step % 6 == 0:
            shadow.check(matcher)
        if step % 10 == 0:
            reader.refresh()
            shadow.check(reader)
        if step % 15 == 14:
            matcher.close()
            other = "keyed" if shadow.random.random() < 0.3 else engine
            matcher = tamis.open(path, engine=other, sync=False, verify=True)
            shadow.check(matcher)
        if step % 40 == 39:
            matcher.save(tmp_path / f"copy {step}")
            with tamis.open(tmp_path / f"copy {step}") as copy:
                shadow.check(copy)
    matcher.close()
    reader.close()
