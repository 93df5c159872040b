"""Scenarios of the contract suite: rules and events of all kinds.

The name of a scenario seeds its random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import NamedTuple

from tamis.expr.model import FALSE, LOGICS, TRUE, And, Expr, Not, Op, Or, Predicate
from tests import randoms
from tests.contract.checks import Event, Rule, RuleId, find_expected, random_events
from tests.randoms import EVERYTHING, MIXED, NUMBERED, TEXTS, attribute


class Scenario(NamedTuple):
    rules: list[Rule]
    events: list[Event]


SCENARIOS: dict[str, Callable[[Random], Scenario]] = {}


def scenario(make: Callable[[Random], Scenario]) -> Callable[[Random], Scenario]:
    SCENARIOS[make.__name__] = make
    return make


@cache
def load_scenario(name: str) -> tuple[list[Rule], list[Event], list[list[RuleId]]]:
    """A scenario and the expected answers, computed once for all engines."""
    rules, events = SCENARIOS[name](Random(name))
    expected = find_expected(dict(enumerate(rules)), events)
    share = sum(map(len, expected)) / (len(rules) * len(events))
    assert 0.01 < share < 0.95, "rules that always or never hold prove nothing"
    return rules, events, expected


@scenario
def nested_strong(random: Random) -> Scenario:
    rules = [Rule(randoms.rule(random, EVERYTHING), "strong") for _ in range(200)]
    return Scenario(rules, random_events(random, EVERYTHING, 40))


@scenario
def nested_weak(random: Random) -> Scenario:
    rules = [Rule(randoms.rule(random, EVERYTHING), "weak") for _ in range(200)]
    return Scenario(rules, random_events(random, EVERYTHING, 40))


@scenario
def both_logics_at_once(random: Random) -> Scenario:
    """Each rule in both logics, so that one predicate serves two kinds of rules."""
    trees = [randoms.rule(random, EVERYTHING, depth=3) for _ in range(150)]
    rules = [Rule(tree, logic) for tree in trees for logic in LOGICS]
    return Scenario(rules, random_events(random, EVERYTHING, 40))


@scenario
def repeated_attributes(random: Random) -> Scenario:
    """Conjunctions with many predicates on two attributes, which different values may satisfy."""
    few = [attribute("a", (1, 2, 3, 4)), attribute("t", ("a", "ab", "b", "bab"))]
    rules = [
        Rule(randoms.conjunction(random, few, random.randint(2, 6)), random.choice(LOGICS))
        for _ in range(300)
    ]
    return Scenario(rules, random_events(random, few, 60))


@scenario
def negations_only(random: Random) -> Scenario:
    few = [attribute("a", (1, 2, 3)), attribute("s", ("x", "y")), attribute("b", (True, False))]

    def negated() -> Expr:
        parts = tuple(
            Predicate(p.attribute, p.op, p.values, negated=True)
            for p in (randoms.predicate(random, few) for _ in range(random.randint(2, 4)))
        )
        shapes = (And(parts), Or(parts), Not(And(parts)), Not(Not(Or(parts))), parts[0])
        return random.choice(shapes)

    rules = [Rule(negated(), random.choice(LOGICS)) for _ in range(250)]
    return Scenario(rules, random_events(random, few, 40))


@scenario
def constants(random: Random) -> Scenario:
    one = Predicate("a", Op.EQ, (1,))
    trees: list[Expr] = [
        TRUE,
        FALSE,
        Not(TRUE),
        Not(FALSE),
        And((TRUE, one)),
        And((one, FALSE)),
        Or((one, TRUE)),
        Or((FALSE, one)),
        Not(And((one, TRUE))),
        Not(Or((one, FALSE))),
        And((TRUE, TRUE)),
        Or((FALSE, FALSE)),
        Or((one, Not(one))),
        And((one, Not(one))),
    ]
    rules = [Rule(tree, logic) for tree in trees * 3 for logic in LOGICS]
    return Scenario(rules, [{}, {"a": 1}, {"a": 2}, {"a": [1, 2]}, {"a": None}, {"b": 1}])


@scenario
def texts(random: Random) -> Scenario:
    rules = [Rule(randoms.rule(random, TEXTS, 3), random.choice(LOGICS)) for _ in range(300)]
    return Scenario(rules, random_events(random, TEXTS, 60))


@scenario
def kinds_mixed_on_one_attribute(random: Random) -> Scenario:
    rules = [
        Rule(randoms.conjunction(random, MIXED[:1], random.randint(1, 3)), random.choice(LOGICS))
        for _ in range(300)
    ]
    singles = [{"mixed": value} for value in MIXED[0].values]
    return Scenario(rules, [*singles, *random_events(random, MIXED[:1], 30)])


@scenario
def huge_integers_and_doubles(random: Random) -> Scenario:
    rules = [Rule(randoms.predicate(random, MIXED[1:]), "strong") for _ in range(400)]
    singles = [{"huge": value} for value in MIXED[1].values]
    return Scenario(rules, [*singles, *random_events(random, MIXED[1:], 20)])


@scenario
def lists_with_several_values_satisfied(random: Random) -> Scenario:
    """An IN that three values of an event satisfy still counts once."""
    names = ("a", "b", "c", "d")

    def listed(name: str) -> Predicate:
        values = tuple(random.sample(range(6), random.randint(2, 6)))
        return Predicate(name, Op.IN, values, random.random() < 0.3)

    rules = [
        Rule(And(tuple(map(listed, random.sample(names, random.randint(2, 4))))), "strong")
        for _ in range(300)
    ]
    found = [
        {
            name: random.sample(range(8), random.randint(1, 6))
            for name in names
            if random.random() < 0.8
        }
        for _ in range(60)
    ]
    return Scenario(rules, [*found, {}])


@scenario
def rules_that_are_the_same(random: Random) -> Scenario:
    """Few distinct rules under many ids, with repeated predicates."""
    parts = [randoms.predicate(random, NUMBERED) for _ in range(6)]
    trees: list[Expr] = [
        And((parts[0], parts[1])),
        And((parts[1], parts[0])),
        And((*parts[:2], *parts[:2])),
    ]
    trees += [Or((parts[2], And((parts[2], parts[3])))), Not(And((parts[4], Not(parts[5]))))]
    rules = [Rule(random.choice(trees), random.choice(LOGICS)) for _ in range(200)]
    return Scenario(rules, random_events(random, NUMBERED, 60))


@scenario
def rules_past_any_budget(random: Random) -> Scenario:
    """Trees whose DNF and CNF are too large to write out."""
    bits = [f"b{i}" for i in range(80)]

    def leaf() -> Expr:
        name = random.choice(bits)
        leaves = (
            Predicate(name, Op.EQ, (1,)),
            Predicate(name, Op.GE, (1,)),
            Predicate(name, Op.EQ, (0,), negated=True),
            Not(Predicate(name, Op.LT, (1,))),
        )
        return random.choice(leaves)

    def tree(depth: int, conjunctive: bool) -> Expr:
        if depth == 0:
            return leaf()
        children = tuple(tree(depth - 1, not conjunctive) for _ in range(random.randint(2, 4)))
        return And(children) if conjunctive else Or(children)

    def pairs(outer: type[And | Or], inner: type[And | Or]) -> Expr:
        return outer(tuple(inner((leaf(), leaf())) for _ in range(40)))

    trees = [tree(6, conjunctive=i % 2 == 0) for i in range(40)]
    trees += [pairs(And, Or) for _ in range(40)] + [pairs(Or, And) for _ in range(10)]
    trees += [Not(tree(5, conjunctive=True)) for _ in range(10)] + [Not(pairs(Or, And))]
    rules = [Rule(expr, random.choice(LOGICS)) for expr in trees]
    found = []
    for ones in (0.5, 0.8, 0.9, 0.95, 1):
        for _ in range(8):
            present = [name for name in bits if random.random() < 0.95]
            found.append({name: int(random.random() < ones) for name in present})
    return Scenario(rules, [*found, {}])


@scenario
def long_rules(random: Random) -> Scenario:
    """Conjunctions that overflow a one-byte counter, and lists and ORs of the same lengths."""
    names = [f"a{i}" for i in range(600)]
    lengths = (127, 128, 129, 254, 255, 256, 257, 258, 300, 511, 512, 513, 600)

    def parts(count: int) -> tuple[Expr, ...]:
        negated = random.random() < 0.5
        return tuple(
            Predicate(name, Op.EQ, (0,), negated=True)
            if negated and random.random() < 0.5
            else Predicate(name, Op.GE, (1,))
            for name in names[:count]
        )

    trees: list[Expr] = [And(parts(n)) for n in lengths for _ in range(4)]
    trees += [Or(parts(n)) for n in lengths] + [Not(Or(parts(n))) for n in lengths]
    trees += [Predicate("a0", Op.IN, tuple(range(n)), n % 2 == 0) for n in lengths]
    rules = [Rule(tree, logic) for tree in trees for logic in LOGICS]
    everything = dict.fromkeys(names, 1)
    found: list[Event] = [{}, everything, dict.fromkeys(names, 0), {"a0": 256}, {"a0": [255, 0]}]
    for lacking in (0, 1, 256, 511, 599):
        name = names[lacking]
        found += [everything | {name: None}, everything | {name: 0}, everything | {name: [0, 1]}]
    found += [dict.fromkeys(names[:n], 1) for n in lengths]
    found += [dict.fromkeys(names[256:], 1), dict.fromkeys(names[1:257], 1)]
    return Scenario(rules, found)


@scenario
def five_thousand_rules(random: Random) -> Scenario:
    many = [attribute(f"a{i}", (0, 1, 2, 3, 4, 5)) for i in range(30)] + EVERYTHING
    rules = [
        Rule(randoms.conjunction(random, many, random.randint(1, 5)), random.choice(LOGICS))
        for _ in range(4_500)
    ]
    rules += [Rule(randoms.rule(random, many, 4), random.choice(LOGICS)) for _ in range(500)]
    return Scenario(rules, random_events(random, many, 20))
