"""What every engine must do: give the answers of `evaluate`, whatever the rules and events.

An engine joins by being registered. Each test runs a whole :class:`tamis.Matcher`, because
that is where users meet an engine: its rules come and go, single events are looked up beside
batches, and a batch may be split among threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import tamis
from tamis.expr.evaluate import evaluate_flat, score
from tamis.expr.event import flatten
from tamis.expr.lines import LINES
from tamis.expr.model import (
    FALSE,
    LOGICS,
    TRUE,
    And,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    predicates,
)
from tamis.expr.normalize import nnf
from tamis.expr.stab import Verdict, alternatives, stabs
from tamis.workloads.begen import Workload
from tests import randoms
from tests.randoms import EVERYTHING, MIXED, NUMBERED, TEXTS, attribute
from tests.thorough import share

RuleId = str | int
Event = dict[str, Any]


class Rule(NamedTuple):
    expr: Expr
    logic: Logic


class Scenario(NamedTuple):
    rules: list[Rule]
    events: list[Event]


pytestmark = pytest.mark.parametrize("engine", tamis.engines())


# --- Rules and events of every sort -----------------------------------------------------

SCENARIOS: dict[str, Callable[[Random], Scenario]] = {}


def scenario(make: Callable[[Random], Scenario]) -> Callable[[Random], Scenario]:
    SCENARIOS[make.__name__] = make
    return make


def events(random: Random, among: Sequence[randoms.Attribute], count: int) -> list[Event]:
    """Events with few and with many values an attribute, and empty ones."""
    shares = (0, 0.3, 0.9)
    filled = [randoms.event(random, among, several=shares[i % 3]) for i in range(count)]
    return [*filled, {}, {"nobody mentions": 1}]


@scenario
def nested_strong(random: Random) -> Scenario:
    rules = [Rule(randoms.rule(random, EVERYTHING), "strong") for _ in range(200)]
    return Scenario(rules, events(random, EVERYTHING, 40))


@scenario
def nested_weak(random: Random) -> Scenario:
    rules = [Rule(randoms.rule(random, EVERYTHING), "weak") for _ in range(200)]
    return Scenario(rules, events(random, EVERYTHING, 40))


@scenario
def both_logics_at_once(random: Random) -> Scenario:
    """Each rule in both logics, so that one predicate serves two kinds of rules."""
    trees = [randoms.rule(random, EVERYTHING, depth=3) for _ in range(150)]
    rules = [Rule(tree, logic) for tree in trees for logic in LOGICS]
    return Scenario(rules, events(random, EVERYTHING, 40))


@scenario
def repeated_attributes(random: Random) -> Scenario:
    """Conjunctions whose predicates pile up on two attributes, and each look for their value."""
    few = [attribute("a", (1, 2, 3, 4)), attribute("t", ("a", "ab", "b", "bab"))]
    rules = [
        Rule(randoms.conjunction(random, few, random.randint(2, 6)), random.choice(LOGICS))
        for _ in range(300)
    ]
    return Scenario(rules, events(random, few, 60))


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
    return Scenario(rules, events(random, few, 40))


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
    return Scenario(rules, events(random, TEXTS, 60))


@scenario
def kinds_mixed_on_one_attribute(random: Random) -> Scenario:
    rules = [
        Rule(randoms.conjunction(random, MIXED[:1], random.randint(1, 3)), random.choice(LOGICS))
        for _ in range(300)
    ]
    singles = [{"mixed": value} for value in MIXED[0].values]
    return Scenario(rules, [*singles, *events(random, MIXED[:1], 30)])


@scenario
def huge_integers_and_doubles(random: Random) -> Scenario:
    rules = [Rule(randoms.predicate(random, MIXED[1:]), "strong") for _ in range(400)]
    singles = [{"huge": value} for value in MIXED[1].values]
    return Scenario(rules, [*singles, *events(random, MIXED[1:], 20)])


@scenario
def lists_with_several_values_satisfied(random: Random) -> Scenario:
    """An IN that an event satisfies three times over still counts once."""
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
    """Few distinct rules under many ids, with the same predicates over and over."""
    parts = [randoms.predicate(random, NUMBERED) for _ in range(6)]
    trees: list[Expr] = [
        And((parts[0], parts[1])),
        And((parts[1], parts[0])),
        And((*parts[:2], *parts[:2])),
    ]
    trees += [Or((parts[2], And((parts[2], parts[3])))), Not(And((parts[4], Not(parts[5]))))]
    rules = [Rule(random.choice(trees), random.choice(LOGICS)) for _ in range(200)]
    return Scenario(rules, events(random, NUMBERED, 60))


@scenario
def rules_past_any_budget(random: Random) -> Scenario:
    """Trees of which neither the DNF nor the CNF can be written down."""
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
            held = [name for name in bits if random.random() < 0.95]
            found.append({name: int(random.random() < ones) for name in held})
    return Scenario(rules, [*found, {}])


@scenario
def long_rules(random: Random) -> Scenario:
    """Conjunctions that overflow a counter of a byte, and lists and ORs as long."""
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
    return Scenario(rules, events(random, many, 20))


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers_are_those_of_evaluate(engine: str, name: str) -> None:
    rules, events, expected = _made(name)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    check(matcher, events, expected)


def test_one_rule_at_a_time(engine: str) -> None:
    random = Random(7)
    for number in range(60):
        rule = Rule(randoms.rule(random, EVERYTHING, depth=3), random.choice(LOGICS))
        matcher = tamis.Matcher(engine=engine, logic=rule.logic)
        matcher.add("the one", rule.expr)
        few = events(random, EVERYTHING, 6)
        check(matcher, few, _expected({"the one": rule}, few))
        assert len(matcher) == 1, number


def test_no_rules(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    check(matcher, [{}, {"a": 1}], [[], []])
    assert matcher.top({"a": 1}, n=3) == []
    matcher.add("r", "a = 1")
    matcher.remove("r")
    check(matcher, [{}, {"a": 1}], [[], []])


def test_ids_of_either_kind(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    ids: list[RuleId] = ["1", 1, "one", -(2**63), 2**63 - 1, ""]
    matcher.add_many([(rule_id, "a = 1") for rule_id in ids])
    check(matcher, [{"a": 1}, {"a": 2}], [ids, []])


@pytest.mark.parametrize("logic", LOGICS)
def test_texts_models_and_json_are_the_same_rule(engine: str, logic: Logic) -> None:
    random = Random(11)
    exprs = [randoms.rule(random, EVERYTHING) for _ in range(80)]
    exprs += [randoms.conjunction(random, EVERYTHING, random.randint(1, 5)) for _ in range(200)]
    forms: dict[str, Callable[[Expr], Any]] = {
        "text": tamis.to_sql,
        "json": tamis.to_json,
        "model": lambda expr: expr,
    }
    matcher = tamis.Matcher(engine=engine, logic=logic)
    rules: dict[RuleId, Rule] = {}
    for form, written in forms.items():
        matcher.add_many([(f"{form} {i}", written(expr)) for i, expr in enumerate(exprs)])
        rules |= {f"{form} {i}": Rule(expr, logic) for i, expr in enumerate(exprs)}
    some = events(random, EVERYTHING, 20)
    check(matcher, some, _expected(rules, some))


@pytest.mark.parametrize("logic", LOGICS)
def test_the_workload_of_the_paper(engine: str, logic: Logic) -> None:
    workload = Workload(size=1_000, operators="high", match_probability=0.1)
    matcher = tamis.Matcher(engine=engine, logic=logic)
    matcher.add_many(workload.rules_table())
    rules = {number: Rule(tamis.parse(text), logic) for number, text in workload.rules()}
    random = Random(12)
    some: list[Event] = [*workload.events(10)]
    some += [dict(random.sample(list(event.items()), 8)) for event in some]
    check(matcher, some, _expected(rules, some))


def test_rules_of_one_shape(engine: str) -> None:
    """Texts that differ in their literals only take the fast road in."""
    random = Random(5)
    templates = [
        "a = {} AND b BETWEEN {} AND {}",
        "a IN ({}, {}) AND c <> {}",
        "a > {} AND a < {}",
        "NOT (a = {} OR b = {}) AND c IS NOT NULL",
        "a = {} OR b = {} OR c = {}",
    ]
    rows = [
        (number, _filled(random, template), random.choice(LOGICS))
        for number, template in enumerate(templates * 60)
    ]
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many(rows)
    rules = {number: Rule(tamis.parse(text), logic) for number, text, logic in rows}
    found = events(random, [attribute(name, range(6)) for name in "abc"], 60)
    check(matcher, found, _expected(rules, found))


def _filled(random: Random, template: str) -> str:
    return template.format(*(random.randint(0, 5) for _ in range(template.count("{}"))))


# --- Events that are expressions ----------------------------------------------------------


ASKED = [
    attribute("n", (1, 2, 3, 3.5, 7)),
    attribute("s", ("", "a", "ab", "b")),
    attribute("mixed", (1, 2), (True,), ("a", "b"), randoms.TIMESTAMPS[2:4]),
    attribute("small", (1, 2, 3)),
]


def test_event_expressions_match_as_the_reference_says(engine: str) -> None:
    rules, asked = _asked()
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules[:-1])])
    matcher.add(len(rules) - 1, rules[-1].expr)
    for event, expected in asked:
        if expected is None:
            with pytest.raises(tamis.EventError):
                matcher.match_expression(event)
        else:
            assert matcher.match_expression(event) == expected


@cache
def _asked() -> tuple[list[Rule], list[tuple[Expr, list[int] | None]]]:
    """Rules and event expressions, and what the reference finds, worked out for all engines."""
    random = Random(21)
    rules = [
        Rule(randoms.conjunction(random, ASKED, random.randint(1, 4)), random.choice(LOGICS))
        for _ in range(250)
    ]
    rules += [Rule(randoms.rule(random, ASKED, 3), random.choice(LOGICS)) for _ in range(100)]
    rules += [Rule(_past_the_budget(random), "strong") for _ in range(10)]
    rules.append(Rule(tamis.parse("n > 2 AND n < 3"), "strong"))
    trees = [nnf(*rule) for rule in rules]
    events = [randoms.conjunction(random, ASKED, random.randint(1, 5)) for _ in range(60)]
    asked = [(event, _stabbed(trees, event)) for event in events]
    shares = [len(found) / len(trees) for _, found in asked if found is not None]
    assert len(shares) > 20
    assert 0.05 < sum(shares) / len(shares) < 0.8
    return rules, asked


def _past_the_budget(random: Random) -> Expr:
    pairs = [
        Or((randoms.predicate(random, ASKED[:1]), randoms.predicate(random, ASKED[2:])))
        for _ in range(9)
    ]
    return And(tuple(pairs))


def _stabbed(trees: list[Expr], event: Expr) -> list[int] | None:
    """The rules that the reference finds; None where it cannot tell."""
    try:
        among = alternatives(event, lambda _: LINES)
    except tamis.EventError:
        return None
    verdicts = [stabs(tree, among) for tree in trees]
    if Verdict.MAYBE in verdicts:
        return None
    return [rule for rule, verdict in enumerate(verdicts) if verdict is Verdict.YES]


# --- Rules that come and go -------------------------------------------------------------


EXPECTED_AFTER: dict[tuple[int, int], list[list[RuleId]]] = {}
"""What is expected after each step of each seed, worked out once for all engines."""


@pytest.mark.parametrize("seed", range(2))
def test_adds_removes_and_replaces_between_matches(engine: str, seed: int) -> None:
    random = Random(seed)
    matcher = tamis.Matcher(engine=engine)
    shadow: dict[RuleId, Rule] = {}
    for step in range(share(engine, 100, 40)):
        _change(random, matcher, shadow, step)
        assert len(matcher) == len(shadow)
        few = [randoms.event(random, EVERYTHING) for _ in range(2)]
        if (seed, step) not in EXPECTED_AFTER:
            EXPECTED_AFTER[seed, step] = _expected(shadow, few)
        check(matcher, few, EXPECTED_AFTER[seed, step])
    assert len(shadow) > 64, "a collection that small never leaves the tail"
    for rule_id in list(shadow):
        assert rule_id in matcher
        matcher.remove(rule_id)
    assert len(matcher) == 0
    check(matcher, [{}, {"n": 1}], [[], []])


def _change(random: Random, matcher: tamis.Matcher, shadow: dict[RuleId, Rule], step: int) -> None:
    """One random change to the matcher, and the same to its shadow."""
    choice = random.random()
    if choice < 0.3 and shadow:
        for rule_id in random.sample(list(shadow), min(len(shadow), random.choice((1, 1, 10)))):
            matcher.remove(rule_id)
            del shadow[rule_id]
            assert rule_id not in matcher
        return
    taken = list(shadow)
    replace = choice < 0.5 and bool(taken)
    count = random.choice((1, 1, 2, 5, 5, 30, 100))
    ids = (
        random.sample(taken, min(count, len(taken)))
        if replace
        else [random.choice((f"{step}.{i}", 1_000 * step + i)) for i in range(count)]
    )
    added = {
        rule_id: Rule(randoms.rule(random, EVERYTHING, 3), random.choice(LOGICS)) for rule_id in ids
    }
    if len(added) == 1:
        ((rule_id, rule),) = added.items()
        matcher.add(rule_id, rule.expr, logic=rule.logic, replace=replace)
    else:
        matcher.add_many([(rule_id, *rule) for rule_id, rule in added.items()], replace=replace)
    for rule_id in added:
        shadow.pop(rule_id, None)  # a replaced rule is as young as a new one
    shadow.update(added)


# --- Batches ----------------------------------------------------------------------------


def test_a_batch_that_threads_share(engine: str) -> None:
    rules, some, expected = _made("both_logics_at_once")
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in enumerate(rules)])
    times = 9_000 // len(some)
    found = matcher.match_many(some * times)
    assert found["event"].to_pylist() == [
        event for event, rules in enumerate(expected * times) for _ in rules
    ]
    by_event = _by_event(found, len(some) * times)
    assert list(map(Counter, by_event)) == list(map(Counter, expected)) * times
    counts = matcher.count_many(some * times)
    assert counts["matches"].to_pylist() == [len(rules) for rules in expected * times]


HUGE = (*randoms.HUGE_INTEGERS, *randoms.HUGE_DOUBLES)
TYPED: dict[str, tuple[pa.DataType, randoms.Attribute]] = {
    "n": (pa.int64(), randoms.Attribute("n", randoms.HUGE_INTEGERS, HUGE)),
    "big": (pa.float64(), randoms.Attribute("big", randoms.HUGE_DOUBLES, HUGE)),
    "half": (pa.float32(), attribute("half", (0.5, 1.0, 1.5, 2.0))),
    "small": (pa.int8(), attribute("small", (1, 2, 3))),
    "x": (pa.float64(), attribute("x", randoms.DOUBLES)),
    "s": (pa.string(), attribute("s", randoms.STRINGS)),
    "word": (pa.dictionary(pa.int32(), pa.string()), attribute("word", ("a", "ab", "b"))),
    "flag": (pa.bool_(), attribute("flag", randoms.BOOLEANS)),
    "seen_at": (pa.timestamp("us", "UTC"), attribute("seen_at", randoms.TIMESTAMPS)),
    "tags": (pa.list_(pa.string()), attribute("tags", ("a", "ab", "b", "é"))),
    "sizes": (pa.list_(pa.float64()), attribute("sizes", (1.0, 2.0, 2.5))),
    "user.age": (pa.int64(), attribute("user.age", (1, 2, 3))),
}


@pytest.mark.parametrize("rows", [1, 3_000])
def test_arrow_columns_are_events_too(engine: str, rows: int) -> None:
    random = Random(rows)
    among = [of for _, of in TYPED.values()]
    rules = {i: Rule(randoms.rule(random, among, 3), random.choice(LOGICS)) for i in range(120)}
    distinct = [_typed_event(random) for _ in range(60)]
    some = [distinct[i % 60] for i in range(rows)]
    table = _typed_table(some)
    matcher = tamis.Matcher(engine=engine)
    matcher.add_many([(number, *rule) for number, rule in rules.items()])
    expected = (_expected(rules, distinct) * (rows // 60 + 1))[:rows]
    for batch in (table, table.combine_chunks().to_batches()[0]):
        found = matcher.match_many(batch)
        assert list(map(Counter, _by_event(found, rows))) == list(map(Counter, expected))
        assert matcher.count_many(batch)["matches"].to_pylist() == list(map(len, expected))


def _typed_event(random: Random) -> Event:
    event: Event = {}
    for name, (kind, of) in TYPED.items():
        if random.random() < 0.3:
            continue
        is_list = pa.types.is_list(kind)
        event[name] = (
            random.choices([*of.values, None], k=random.randint(0, 3))
            if is_list
            else (random.choice(of.values))
        )
    return event


def _typed_table(events: Sequence[Event]) -> pa.Table:
    columns = {
        name: pa.array([event.get(name) for event in events], kind)
        for name, (kind, _) in TYPED.items()
    }
    age = columns.pop("user.age")
    columns["user"] = pa.StructArray.from_arrays([age], ["age"])
    return pa.table(columns)


# --- Scores -----------------------------------------------------------------------------


class Weighted(NamedTuple):
    rule: Rule
    weights: dict[Any, float] | None


WEIGHTS = (0, 0.1, 0.3, 0.5, 1, 2, 10)


@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize("n", [1, 4, 1_000])
def test_the_best_rules_are_those_of_the_definition(engine: str, count: int, n: int) -> None:
    random = Random(count)
    rules: dict[RuleId, Weighted] = {}
    matcher = tamis.Matcher(engine=engine)
    for number in range(count):
        rule = Rule(_scored_rule(random), random.choice(LOGICS))
        weights = _rule_weights(random, rule.expr) if random.random() < 0.6 else None
        rules[number] = Weighted(rule, weights)
        matcher.add(number, rule.expr, logic=rule.logic, weights=weights)
    some = events(random, EVERYTHING, 25)
    for event in some:
        weighed = _event_weights(random, event)
        assert matcher.top(event, n=n) == _best(rules, event, None)[:n]
        assert matcher.top(event, n=n, weights=weighed) == _best(rules, event, weighed)[:n]
    found = matcher.top_many(some, n=n)
    columns = [found[name].to_pylist() for name in ("event", "rank", "rule", "score")]
    assert list(zip(*columns, strict=True)) == [
        (number, rank, rule_id, points)
        for number, event in enumerate(some)
        for rank, (rule_id, points) in enumerate(_best(rules, event, None)[:n], 1)
    ]


def test_equal_scores_keep_the_order_of_addition(engine: str) -> None:
    matcher = tamis.Matcher(engine=engine)
    ids = list(range(200))
    Random(3).shuffle(ids)
    matcher.add_many([(rule_id, "a = 1") for rule_id in ids])
    assert matcher.top({"a": 1}, n=150) == [(rule_id, 1.0) for rule_id in ids[:150]]


def test_a_score_sums_values_and_takes_the_best_branch(engine: str) -> None:
    """The definition by hand, so that it does not rest on the reference alone."""
    matcher = tamis.Matcher(engine=engine)
    weights = {("a", 1): 2.0, ("a", 2): 3.0, "b > 5": 4.0}
    matcher.add("and", "a IN (1, 2, 3) AND b > 5", weights=weights)
    matcher.add("or", "a = 1 OR b > 5", weights={("a", 1): 2.0, "b > 5": 4.0})
    matcher.add("not", "a <> 9 AND NOT b < 5", weights=None)
    event = {"a": [1, 2], "b": 7}
    assert matcher.top(event, n=5) == [("and", 9.0), ("or", 4.0), ("not", 0.0)]
    weighed = {("a", 2): 10.0, ("b", 7): 0.5}
    assert matcher.top(event, n=2, weights=weighed) == [("and", 34.0), ("or", 2.0)]


def _scored_rule(random: Random) -> Expr:
    if random.random() < 0.5:
        return randoms.predicate(random, EVERYTHING)
    return randoms.rule(random, EVERYTHING, 3)


def _rule_weights(random: Random, expr: Expr) -> dict[Any, float]:
    weights: dict[Any, float] = {}
    for leaf in predicates(expr):
        if leaf.op in (Op.EQ, Op.IN):
            for value in leaf.values:
                if random.random() < 0.7:
                    weights[leaf.attribute, value] = random.choice(WEIGHTS)
        elif random.random() < 0.7:
            weights[leaf.positive] = random.choice(WEIGHTS)
    return weights


def _event_weights(random: Random, event: Event) -> dict[tuple[str, Value], float]:
    return {
        (of.name, value): random.choice(WEIGHTS)
        for of in EVERYTHING
        for value in random.sample(list(of.values), 2)
    }


def _best(rules: dict[RuleId, Weighted], event: Event, weighed: Any) -> list[tuple[RuleId, float]]:
    """All matching rules by falling score; sorting is stable, so ties keep their order."""
    scores = [
        (rule_id, score(rule.expr, event, rule.logic, weights, weighed))
        for rule_id, (rule, weights) in rules.items()
    ]
    held = [(rule_id, points) for rule_id, points in scores if points is not None]
    return sorted(held, key=lambda pair: -pair[1])


# --- Expectations -----------------------------------------------------------------------


@cache
def _made(name: str) -> tuple[list[Rule], list[Event], list[list[RuleId]]]:
    """A scenario and what is expected of it, worked out once for all engines."""
    rules, events = SCENARIOS[name](Random(name))
    expected = _expected(dict(enumerate(rules)), events)
    share = sum(map(len, expected)) / (len(rules) * len(events))
    assert 0.01 < share < 0.95, "rules that always or never hold show nothing"
    return rules, events, expected


def _expected(rules: dict[Any, Rule], events: Iterable[Event]) -> list[list[RuleId]]:
    """What `evaluate` says; each event is flattened once for all rules."""
    return [
        [i for i, rule in rules.items() if evaluate_flat(rule.expr, flat, rule.logic) is True]
        for flat in map(flatten, events)
    ]


def check(matcher: tamis.Matcher, events: list[Event], expected: list[list[RuleId]]) -> None:
    """All ways of matching give what is expected; a list in the order in which rules were added."""
    for event, ids in zip(events, expected, strict=True):
        assert matcher.match(event) == ids
        assert Counter(matcher.match_array(event).tolist()) == Counter(ids)
    found = _by_event(matcher.match_many(events), len(events))
    assert list(map(Counter, found)) == list(map(Counter, expected))
    counts = matcher.count_many(events)
    assert counts["event"].to_pylist() == list(range(len(events)))
    assert counts["matches"].to_pylist() == [len(ids) for ids in expected]


def _by_event(found: pa.Table, size: int) -> list[list[RuleId]]:
    rules: list[list[RuleId]] = [[] for _ in range(size)]
    for event, rule in zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True):
        rules[event].append(rule)
    return rules
