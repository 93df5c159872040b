"""The best rules by bounds are those of scoring everything that matches.

`scan` scores every rule that matches by its tree, and the contract suite compares it with
`evaluate`. Here the engines that prune answer as it does, to the last bit and in the same order.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.encode.arrays import NEGATED, SET, Events
from tamis.encode.events import EventEncoder
from tamis.encode.rule_forms import expand_scores
from tamis.encode.rules import EncodedRules
from tamis.engines.base import Engine
from tamis.engines.papers.kindex import KIndex, KIndexCnf
from tamis.engines.scan import Scan
from tamis.engines.score_bounds import MOST_BOUNDS, rank_bounds
from tamis.engines.shared import Shared
from tamis.engines.tiles import Tiles
from tamis.engines.tiles.arrays import TileArrays
from tamis.expr.event import flatten
from tamis.expr.normalize import LONGEST
from tamis.expr.weights import EventWeights
from tamis.workloads import ads, begen
from tests.engines.test_shared import (
    PREDICATES,
    draw_clauses,
    draw_conjunctions,
    draw_event,
    draw_tree,
    encode,
)

ENGINES = (Tiles, Shared, KIndex, KIndexCnf)


def draw_single(random: Random) -> str:
    return " AND ".join(random.sample(PREDICATES, random.randint(1, 5)))


def draw_absorbing(random: Random) -> str:
    """A DNF in which most conjunctions contain another one."""
    first = random.sample(PREDICATES, random.randint(1, 2))
    longer = [[*first, *random.sample(PREDICATES, random.randint(1, 3))] for _ in range(3)]
    return " OR ".join(f"({' AND '.join(part)})" for part in [first, *longer])


DRAWS = (draw_single, draw_absorbing, draw_conjunctions, draw_clauses, draw_tree)
DRAWN = (0.0, 0.1, 0.3, 1.0, 1.0, 2.5, 1e-40, 1e6)
"""The weights of rules and events. Some are 0, and some below what single precision can hold."""


def weigh(rules: EncodedRules, random: Random) -> EncodedRules:
    """Give every positive atom of most rules weights of their own."""
    scores, table = expand_scores(rules.forms, rules.scores), rules.atoms.table
    weights = np.full(len(scores.code), -1, np.int32)
    weight: list[float] = []
    for rule in range(rules.size):
        if random.random() < 0.2:
            continue
        for place in range(scores.start[rule], scores.start[rule + 1]):
            atom = scores.code[place]
            if atom >= 0 and not table[atom, 1] & NEGATED:
                size = table[atom, 3] - table[atom, 2] if table[atom, 1] & 3 == SET else 1
                weights[place] = len(weight)
                weight += random.choices(DRAWN, k=max(1, size))
    return rules._replace(scores=scores._replace(weights=weights, weight=np.array(weight)))


def weigh_event(random: Random, event: dict[str, Any]) -> EventWeights:
    values = {
        (name, value): random.choice(DRAWN)
        for name, own in event.items()
        for value in (own if isinstance(own, list) else [own])
        if random.random() < 0.8
    }
    return EventWeights.of(values)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_are_those_of_scan(draw: Any, weighted: bool) -> None:
    random = Random(3)
    rules = encode([draw(random) for _ in range(600)], random.choice(("strong", "weak")))
    if weighted:
        rules = weigh(rules, random)
    encoder = EventEncoder(rules)
    events = [draw_event(random) for _ in range(40)]
    single = [
        encoder.encode_weighted(flatten(event), weigh_event(random, event)) for event in events
    ]
    batch = encoder.encode_many(events)
    mask = np.array([random.random() < 0.5 for _ in range(rules.size)], np.uint8)
    scan = Scan(rules)
    for kind in ENGINES:
        engine = kind(rules)
        # An engine keeps rules in an order of its own; masks go by place.
        for n, chosen in ((5, None), (60, None), (1, mask), (5, mask)):
            own = None if chosen is None else chosen[engine.order]
            for event in single:
                assert_same(engine, scan, event, n, own, chosen)
            assert_same(engine, scan, batch, n, own, chosen)


def assert_same(engine: Engine, scan: Engine, events: Events, n: int, own: Any, mask: Any) -> None:
    found, expected = engine.top(events, n, own), scan.top(events, n, mask)
    np.testing.assert_array_equal(found.start, expected.start)
    np.testing.assert_array_equal(engine.order[found.rule], expected.rule)
    np.testing.assert_array_equal(found.score, expected.score)


def test_the_shared_engine_decides_few_of_the_rules_that_match() -> None:
    workload = ads.Workload(4_000, dimensions=60, attributes=120, event_size=40)
    rules = encode([text for _, text in workload.rules()], "weak")
    scores = expand_scores(rules.forms, rules.scores)
    atoms = scores.code >= 0
    # Each place of each tree has a weight of its own near that of its atom.
    random = np.random.default_rng(1)
    base = 1 / random.integers(1, 500, len(rules.atoms.table))
    sizes = np.diff(rules.atoms.table[:, 2:])[:, 0]
    own = np.where(atoms, np.where(rules.atoms.test == SET, sizes, 1)[scores.code], 0)
    weight = np.repeat(base[scores.code], own) * random.uniform(0.8, 1, own.sum())
    first = (np.cumsum(own) - own).astype(np.int32)
    weights = np.where(atoms, first, -1).astype(np.int32)
    rules = rules._replace(scores=scores._replace(weights=weights, weight=weight))
    engine, scan, encoder = Shared(rules), Scan(rules), EventEncoder(rules)
    matches = decided = 0
    for event in workload.events(30):
        rows = encoder.encode(event)
        assert_same(engine, scan, rows, 5, None, None)
        scratch: Any = engine._scratch()
        decided += int(scratch.top._arrays[-1].tally[1])
        matches += len(scan.match(rows).rule)
    assert matches > 1_000
    assert decided < 0.1 * matches


def test_the_shared_engine_reads_few_trees_of_clauses() -> None:
    """Most rules that are not sums can score less than the floor, whatever the event is."""
    workload = ads.Workload(
        4_000, form="cnf", dimensions=60, attributes=120, event_size=40, months=6
    )
    rules = encode([text for _, text in workload.rules()], "weak")
    engine, scan, encoder = Shared(rules), Scan(rules), EventEncoder(rules)
    matches = read = 0
    for event in workload.events(30):
        rows = encoder.encode(event)
        assert_same(engine, scan, rows, 5, None, None)
        scratch: Any = engine._scratch()
        read += int(scratch.top._arrays[-1].tally[2])
        matches += len(scan.match(rows).rule)
    assert matches > 1_000
    assert read < 0.4 * matches


@pytest.mark.parametrize("weighted", [False, True])
def test_tiles_score_few_of_the_rules_that_match_a_weighted_event(weighted: bool) -> None:
    """Weights of values bound what a rule can score, and the best hits of a tile come first."""
    workload = begen.Workload(6_000, match_probability=1 / 11)
    rules = encode([text for _, text in workload.rules()], "strong")
    if weighted:
        random = np.random.default_rng(2)
        scores = expand_scores(rules.forms, rules.scores)
        atoms = np.flatnonzero(scores.code >= 0)
        sizes = np.where(rules.atoms.test == SET, np.diff(rules.atoms.table[:, 2:])[:, 0], 1)
        own = np.zeros(len(scores.code), np.int64)
        own[atoms] = sizes[scores.code[atoms]]
        weights = np.where(own > 0, np.cumsum(own) - own, -1).astype(np.int32)
        weight = random.random(int(own.sum()))
        rules = rules._replace(scores=scores._replace(weights=weights, weight=weight))
    engine, scan, encoder = Tiles(rules), Scan(rules), EventEncoder(rules)
    drawn = Random(2)
    matches = scored = 0
    for event in workload.events(20):
        given = {(name, value): drawn.random() for name, value in event.items()}
        rows = encoder.encode_weighted(flatten(event), EventWeights.of(given))
        assert_same(engine, scan, rows, 5, None, None)
        scratch: Any = engine._scratch()
        scored += int(scratch.ranks(0, 0, True).workspace.tally[1])
        matches += len(scan.match(rows).rule)
    assert matches > 5_000
    assert scored < 0.15 * matches


def bounds_of(arrays: TileArrays) -> list[float]:
    return [float(bound) for bound in arrays.bounds[arrays.bound]]


def test_a_conjunction_is_bounded_by_its_own_sum() -> None:
    """Not by the best conjunction of its rule, unless simplification has merged some of them."""
    sums = encode(["(a0 = 1 AND a1 = 2 AND a2 = 3) OR a3 = 1", "a0 = 2 AND a1 <> 1"], "strong")
    assert sorted(bounds_of(Tiles(sums).arrays)) == [1.0, 1.0, 3.0]
    merged = encode(["(a0 IN (1, 2) OR a1 = 1) AND (a0 IN (2, 3) OR a2 = 1)"], "strong")
    assert set(bounds_of(Tiles(merged).arrays)) == {2.0}


@pytest.mark.parametrize("distinct", [0, 1, MOST_BOUNDS - 1, MOST_BOUNDS, MOST_BOUNDS + 1, 9_000])
def test_bounds_of_a_byte_are_exact_or_too_high(distinct: int) -> None:
    values = np.arange(distinct, dtype=np.float32) / 7
    bound = np.random.default_rng(3).permutation(np.repeat(values, 3))
    place, bounds = rank_bounds(bound)
    assert place.dtype.name == "uint8"
    assert len(bounds) == min(distinct, MOST_BOUNDS)
    assert (np.diff(bounds) > 0).all()
    rounded = bounds[place]
    if distinct <= MOST_BOUNDS:
        assert (rounded == bound).all()
        return
    assert (rounded >= bound).all()
    # The highest are exact, and no bound becomes that of a rule far above it.
    assert set(values[-10:].tolist()) <= set(bounds.tolist())
    above = distinct - np.searchsorted(values, bound)
    assert (np.searchsorted(values, rounded) - np.searchsorted(values, bound) <= above / 8).all()


def test_rules_of_any_length_have_exact_bounds() -> None:
    """Where rules have no weights, the score of a rule that holds is its bound."""
    assert LONGEST < MOST_BOUNDS
    held = [f"a{i} = 1" for i in range(LONGEST)]
    rules = encode([" AND ".join(held[:size]) for size in range(1, LONGEST + 1)], "strong")
    assert len(rules.scores.start) == 0, "only where no scores are stored"
    engine, scan, encoder = Tiles(rules), Scan(rules), EventEncoder(rules)
    assert sorted(bounds_of(engine.arrays)) == list(range(1, LONGEST + 1))
    for size in (3, 100, LONGEST):
        rows = encoder.encode(flatten({f"a{i}": 1 for i in range(size)}))
        assert_same(engine, scan, rows, 5, None, None)


def test_the_best_of_more_bounds_than_a_byte_can_number() -> None:
    random = Random(8)
    rules = encode([draw_single(random) for _ in range(2_000)], "strong")
    scores = expand_scores(rules.forms, rules.scores)
    sizes = np.where(rules.atoms.test == SET, np.diff(rules.atoms.table[:, 2:])[:, 0], 1)
    own = np.where(scores.code >= 0, sizes[scores.code], 0)
    weights = np.where(own > 0, np.cumsum(own) - own, -1).astype(np.int32)
    weight = np.random.default_rng(8).random(int(own.sum()))
    rules = rules._replace(scores=scores._replace(weights=weights, weight=weight))
    engine, scan, encoder = Tiles(rules), Scan(rules), EventEncoder(rules)
    assert len(engine.arrays.bounds) == MOST_BOUNDS
    events = encoder.encode_many([draw_event(random) for _ in range(50)])
    for n in (1, 5, 60):
        assert_same(engine, scan, events, n, None, None)


def test_weighted_events_are_encoded_as_pairs() -> None:
    """As the flat form is; where only it tells values apart, there are no pairs."""
    random = Random(6)
    # Text predicates may hold for several values of an event, which pairs do not tell.
    texts = [text for _ in range(600) if "text" not in (text := draw_single(random))]
    rules = encode(texts, "weak")
    encoder = EventEncoder(rules)
    engines = [kind(rules) for kind in (Tiles, Shared, Scan)]
    ranked = 0
    for _ in range(200):
        event = draw_event(random)
        given = {
            (name, value): random.choice(DRAWN)
            for name, value in event.items()
            if not isinstance(value, list) and random.random() < 0.8
        }
        plain = encoder.encode_weighted_pairs(event, given)
        assert (plain is None) == any(isinstance(value, list) for value in event.values())
        if plain is None:
            continue
        ranked += 1
        flat = encoder.encode_weighted(flatten(event), EventWeights.of(given))
        for engine in engines:
            found, expected = engine.top_pairs(plain[0], 5, None, plain[1]), engine.top_one(flat, 5)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
    assert ranked > 50


@pytest.mark.parametrize("value", [1, True, 1.0])
def test_a_weight_of_true_is_not_one_of_1(value: Any) -> None:
    matcher = tamis.Matcher()
    matcher.add_many({"one": "x = 1", "true": "x = TRUE"}.items())
    matcher.optimize()
    (found,) = matcher.top({"x": value}, weights={("x", True): 0.25})
    assert found == (("true", 0.25) if value is True else ("one", 1.0))
    (found,) = matcher.top({"x": value}, weights={("x", 1): 0.25})
    assert found == (("true", 1.0) if value is True else ("one", 0.25))


def test_a_matcher_ranks_over_segments_the_tail_and_selections() -> None:
    """Several segments, removed rules, rules that are not valid, and the tail."""
    random = Random(4)
    texts = [draw_absorbing(random) if i % 2 else draw_single(random) for i in range(3_100)]
    weights = [{} if i % 3 else {("a0", 1): random.choice(DRAWN[:6])} for i in range(len(texts))]
    matcher, plain = tamis.Matcher(), tamis.Matcher(engine="scan")
    for each in (matcher, plain):
        items: list[dict[str, Any]] = [
            {"id": i, "rule": text, "weights": weight if "a0 = 1" in text else None}
            for i, (text, weight) in enumerate(zip(texts, weights, strict=True))
        ]
        each.add_many(items[:1_500])
        each.add_many(items[1_500:3_090])
        for item in items[3_090:]:
            each.add(item["id"], item["rule"], weights=item["weights"])
        each.remove_many(range(0, 3_100, 7))
    for _ in range(25):
        event = draw_event(random)
        own = {("a0", 1): 0.5, ("a1", 2): 3.0}
        some = random.sample(range(3_100), 900)
        assert matcher.top(event, 9) == plain.top(event, 9)
        assert matcher.top(event, 9, only=some) == plain.top(event, 9, only=some)
        assert matcher.top(event, 9, weights=own) == plain.top(event, 9, weights=own)


def test_ties_of_unweighted_rules_go_to_the_oldest_in_every_tile() -> None:
    workload = begen.Workload(size=3_000, match_probability=0.09)
    matcher, plain = tamis.Matcher(), tamis.Matcher(engine="scan")
    for each in (matcher, plain):
        each.add_many(workload.rules_table())
    for event in workload.events(25):
        assert matcher.top(event, 5) == plain.top(event, 5)
        assert matcher.top(event, 200) == plain.top(event, 200)


def scale_weights(rules: EncodedRules, random: np.random.Generator) -> EncodedRules:
    """Give all atoms of a rule weights near one that is drawn for the rule."""
    scores, table = expand_scores(rules.forms, rules.scores), rules.atoms.table
    sizes = np.where(rules.atoms.test == SET, np.diff(table[:, 2:])[:, 0], 1)
    own = np.where(scores.code >= 0, sizes[scores.code], 0)
    weights = np.where(own > 0, np.cumsum(own) - own, -1).astype(np.int32)
    by_rule = np.repeat(random.uniform(0.1, 1, rules.size), np.diff(scores.start))
    weight = np.repeat(by_rule, own) * random.uniform(0.7, 1, int(own.sum()))
    return rules._replace(scores=scores._replace(weights=weights, weight=weight))


@pytest.mark.parametrize("draw", DRAWS)
def test_the_best_of_rules_that_weigh_less_than_others(draw: Any) -> None:
    random = Random(9)
    rules = encode([draw(random) for _ in range(800)], "weak")
    rules = scale_weights(rules, np.random.default_rng(9))
    encoder, scan = EventEncoder(rules), Scan(rules)
    events = [encoder.encode(draw_event(random)) for _ in range(40)]
    for engine in (Tiles(rules), Shared(rules)):
        for event in events:
            for n in (1, 5, 300):
                assert_same(engine, scan, event, n, None, None)


def test_a_rule_is_passed_over_by_conjunction() -> None:
    """One of them scores too little by the rule's own weights, and another one enough."""
    parts = "({0} = 1 AND {1} = 1)", "({2} = 1 AND {3} = 1)"
    middle = " OR ".join(parts).format(*"abcd")
    rules = encode(
        ["f = 1 AND g = 1", middle, middle.replace(")", " AND z = 1)")],
        "strong",
    )
    scores = expand_scores(rules.forms, rules.scores)
    own = [dict.fromkeys("fg", 0.46), dict(zip("abcd", (0.45, 0.45, 0.54, 0.54), strict=True))]
    own.append(dict(zip("abcdz", (0.5, 0.5, 0.6, 0.6, 0.0), strict=True)))
    names = {number: name for name, number in rules.dictionary.attributes.items()}
    weight = np.zeros(len(scores.code))
    for rule in range(3):
        for place in range(scores.start[rule], scores.start[rule + 1]):
            if scores.code[place] >= 0:
                weight[place] = own[rule][names[rules.atoms.table[scores.code[place], 0]]]
    weights = np.where(scores.code >= 0, np.arange(len(weight)), -1).astype(np.int32)
    rules = rules._replace(scores=scores._replace(weights=weights, weight=weight))
    event = EventEncoder(rules).encode(dict.fromkeys("fgabcd", 1))
    for kind in (Tiles, Shared):
        found = kind(rules).top(event, 1)
        assert found.score.tolist() == [1.08]
        assert_same(kind(rules), Scan(rules), event, 1, None, None)


def test_a_rule_without_weight_counts_beside_one_beyond_single_precision() -> None:
    rules = encode(["a0 = 1 OR a1 = 2"] * 12, "strong")
    scores = expand_scores(rules.forms, rules.scores)
    weights = np.where(scores.code >= 0, np.arange(len(scores.code)), -1).astype(np.int32)
    weight = np.zeros(len(weights))
    weight[: scores.start[1]] = 1e308
    rules = rules._replace(scores=scores._replace(weights=weights, weight=weight))
    event = EventEncoder(rules).encode({"a0": 1, "a1": 2})
    for kind in (Tiles, Shared):
        assert_same(kind(rules), Scan(rules), event, 20, None, None)


def test_more_flat_entries_than_are_listed_at_once() -> None:
    random = Random(7)
    size = 5_000
    rules = encode([f"k = 1 AND b{i} = {i % 3}" for i in range(size)], "strong")
    event = {"k": 1} | {f"b{i}": i % 3 for i in range(size)}
    given = {(name, value): random.random() for name, value in event.items()}
    encoder = EventEncoder(rules)
    plain = encoder.encode_weighted_pairs(event, given)
    assert plain is not None
    weighted = encoder.encode_weighted(flatten(event), EventWeights.of(given))
    for rows in (encoder.encode(event), weighted):
        assert_same(Tiles(rules), Scan(rules), rows, 7, None, None)


def test_weights_in_any_order_are_those_of_the_values() -> None:
    random = Random(8)
    texts = [text for _ in range(400) if "text" not in (text := draw_single(random))]
    rules = encode(texts, "weak")
    encoder, scan = EventEncoder(rules), Scan(rules)
    for _ in range(60):
        event = {name: v for name, v in draw_event(random).items() if not isinstance(v, list)}
        event["unknown"] = random.choice(["x", 7])
        keys = random.sample(list(event.items()), len(event))
        for given_keys in (keys, keys[: len(keys) // 2]):
            given = {key: random.choice(DRAWN) for key in given_keys}
            plain = encoder.encode_weighted_pairs(event, given)
            assert plain is not None
            assert len(plain[0]) == 2 * len(plain[1])
            flat = encoder.encode_weighted(flatten(event), EventWeights.of(given))
            found, expected = scan.top_pairs(plain[0], 9, None, plain[1]), scan.top_one(flat, 9)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_of_values_that_no_rule_can_name_are_refused(value: float) -> None:
    matcher = tamis.Matcher()
    matcher.add_many([(i, f"x > {i}") for i in range(20)])
    matcher.optimize()
    with pytest.raises(tamis.errors.EventError, match=r"equals nothing|too large"):
        matcher.top({"x": value}, weights={("x", value): 1.0})
