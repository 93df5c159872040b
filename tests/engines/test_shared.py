"""The shared engine answers as `scan` does, and is chosen where rules share their atoms.

The contract suite compares both with `evaluate`; here rules are many, and repeat their predicates.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.encode.checks import ArrayError
from tamis.encode.events import EventEncoder
from tamis.encode.rules import EncodedRules, RuleEncoder
from tamis.engines.scan import Scan
from tamis.engines.shared import Shared
from tamis.engines.shared.check import check_shared
from tamis.engines.tiles import Tiles
from tamis.expr.evaluate import evaluate
from tamis.expr.model import LOGICS, Logic
from tamis.expr.text.grammar import parse
from tamis.workloads import ads, begen

Event = dict[str, Any]

PREDICATES = [
    *(f"a{i} = {v}" for i in range(6) for v in range(4)),
    *(f"a{i} IN ({v}, {v + 2})" for i in range(6) for v in range(3)),
    *(f"a{i} <> {v}" for i in range(6) for v in range(2)),
    *(f"NOT a{i} >= {v}" for i in range(3) for v in range(4)),
    *(f"wide > {v}" for v in range(0, 400, 7)),
    *(f"NOT wide = {v}" for v in range(0, 400, 50)),
    *(f"text LIKE '%{c}_{d}%'" for c in "ab" for d in "ab"),
    "text NOT LIKE '%a_b%'",
    "a0 IS NULL",
    "a1 IS NOT NULL",
]


def draw_conjunctions(random: Random) -> str:
    parts = [random.sample(PREDICATES, random.randint(1, 6)) for _ in range(random.randint(1, 3))]
    return " OR ".join(f"({' AND '.join(part)})" for part in parts)


def draw_clauses(random: Random) -> str:
    parts = [random.sample(PREDICATES, random.randint(1, 4)) for _ in range(random.randint(2, 5))]
    return " AND ".join(f"({' OR '.join(part)})" for part in parts)


def draw_tree(random: Random) -> str:
    return f"({draw_clauses(random)}) OR ({random.choice(PREDICATES)} AND ({draw_clauses(random)}))"


def draw_event(random: Random) -> Event:
    event: Event = {}
    for name in random.sample([*(f"a{i}" for i in range(6)), "wide", "text"], random.randint(0, 8)):
        if name == "text":
            event[name] = "".join(random.choices("ab", k=4))
        else:
            values = [random.randrange(400 if name == "wide" else 5) for _ in range(2)]
            event[name] = values if random.random() < 0.2 else values[0]
    return event


def encode(texts: list[str], logic: Logic) -> EncodedRules:
    encoder = RuleEncoder()
    for text in texts:
        encoder.add_text(text, logic)
    return encoder.finish()


@pytest.mark.parametrize("logic", LOGICS)
@pytest.mark.parametrize("draw", [draw_conjunctions, draw_clauses, draw_tree])
def test_random_rules_answer_as_scan(draw: Callable[[Random], str], logic: Logic) -> None:
    random = Random(1)
    # A multiple of 64, so that the last word of marks is full.
    texts = [draw(random) for _ in range(1_280)]
    rules = encode(texts, logic)
    events = [draw_event(random) for _ in range(120)]
    rows = EventEncoder(rules).encode_many(events)
    shared, scan = Shared(rules), Scan(rules)
    mask = np.array([random.random() < 0.5 for _ in texts], np.uint8)
    for chosen in (None, mask):
        found, expected = shared.match(rows, chosen), scan.match(rows, chosen)
        np.testing.assert_array_equal(found.start, expected.start)
        np.testing.assert_array_equal(shared.count(rows, chosen), np.diff(expected.start))
        for i in range(len(events)):
            ours = found.rule[found.start[i] : found.start[i + 1]].tolist()
            assert ours == sorted(expected.rule[expected.start[i] : expected.start[i + 1]].tolist())
        ours, theirs = shared.top(rows, 5, chosen), scan.top(rows, 5, chosen)
        np.testing.assert_array_equal(ours.rule, theirs.rule)
        np.testing.assert_array_equal(ours.score, theirs.score)
    assert len(scan.match(rows).rule) > 1_000


@pytest.mark.parametrize("form", ["dnf", "cnf"])
def test_advertising_rules_share_their_atoms(form: ads.Form, tmp_path: Path) -> None:
    workload = ads.Workload(3_000, form=form, months=2, dimensions=20, attributes=40, event_size=20)
    matcher = tamis.Matcher(logic="weak")
    matcher.add_many(workload.rules_table())
    events = workload.events(20)

    def engines(opened: tamis.Matcher) -> set[str]:
        return {view.segment.engine.name for view in opened._snapshot.frozen_views}

    assert engines(matcher) == {"shared"}
    texts = dict(zip(*workload.rules_table().to_pydict().values(), strict=True))
    trees = {number: parse(text) for number, text in texts.items()}
    expected = [
        [number for number, tree in trees.items() if evaluate(tree, event, "weak")]
        for event in events
    ]
    assert [matcher.match(event) for event in events] == expected
    matcher.save(tmp_path / "index")
    with tamis.open(tmp_path / "index") as opened:
        assert engines(opened) == {"shared"}
        assert [opened.match(event) for event in events] == expected
        opened.add_many([(-n - 1, text) for n, text in texts.items() if n < 500])
        opened.remove_many(range(250))
        opened.optimize()
        assert engines(opened) == {"shared"}
        for event, found in zip(events, expected, strict=True):
            more = [-n - 1 for n in found if n < 500]
            assert opened.match(event) == [n for n in found if n >= 250] + more


def test_rules_of_many_atoms_stay_with_tiles() -> None:
    workload = begen.Workload(2_000)
    assert Tiles.choose(encode([text for _, text in workload.rules()], "strong")) is Tiles


def test_stored_arrays_that_do_not_fit_are_refused() -> None:
    random = Random(2)
    draws = (draw_conjunctions, draw_clauses, draw_tree)
    rules = encode([draw(random) for draw in draws for _ in range(100)], "weak")
    engine = Shared(rules)
    check_shared(engine.rules, engine.arrays)
    for name, array in engine.arrays._asdict().items():
        if not array.size:
            continue
        longer = np.append(array, array[-1:], axis=0)
        # Rows of `more` to which no conjunction leads do no harm.
        for wrong in (array[:-1], longer) if name != "more" else (array[:-1],):
            with pytest.raises(ArrayError):
                check_shared(engine.rules, engine.arrays._replace(**{name: wrong}))
        if array.dtype == np.int32:
            far = array.copy()
            far.flat[random.randrange(far.size)] = 1 << 30
            with pytest.raises(ArrayError):
                check_shared(engine.rules, engine.arrays._replace(**{name: far}))
