"""The kernel that matches event expressions, compiled and as plain Python."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tamis.encode.event_expressions import ChoiceEncoder
from tamis.encode.rules import RuleEncoder
from tamis.engines.kernels.event_expressions import match_expression
from tamis.expr.analysis.event_expressions import Verdict, find_alternatives, stabs
from tamis.expr.model import LOGICS, And, Op, Predicate
from tamis.expr.normalize import nnf
from tamis.expr.text.grammar import parse
from tamis.expr.value_order import INTEGERS, LINES, STRINGS, Line
from tests import randoms
from tests.interpreted import interpret
from tests.randoms import attribute

AMONG = [attribute("n", (1, 2, 3, 4, 7)), attribute("s", ("a", "ab", "b"))]


def lines_of(name: str) -> tuple[Line, ...]:
    return {"n": (INTEGERS,), "s": (STRINGS,)}.get(name, LINES)


@pytest.mark.parametrize("compiled", [True, False])
def test_verdicts_are_those_of_the_reference(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel decides, it agrees with the reference; and it decides most rules."""
    if not compiled:
        interpret(monkeypatch)
    random = Random(3)
    encoder = RuleEncoder()
    trees = []
    for _ in range(80):
        rule, logic = randoms.rule(random, AMONG, 3), random.choice(LOGICS)
        encoder.add(rule, logic)
        trees.append(nnf(rule, logic))
    rules = encoder.finish()
    choices = ChoiceEncoder(rules)
    undecided = tested = 0
    for _ in range(12):
        listed = Predicate("s", Op.IN, tuple(random.sample(("a", "ab", "c"), 2)))
        number = randoms.predicate(random, AMONG[:1])
        for alternative in find_alternatives(And((listed, number)), lines_of):
            found = match_expression(rules, choices.encode_choices(alternative))
            expected = [stabs(tree, [alternative]) for tree in trees]
            decided = np.setdiff1d(np.arange(len(trees)), found.undecided)
            matched = set(found.matched.tolist())
            assert all((place in matched) == (expected[place] is Verdict.YES) for place in decided)
            undecided, tested = undecided + len(found.undecided), tested + len(trees)
    assert tested > 500
    assert undecided < tested / 10


def test_gaps_between_neighbouring_integers_are_skipped() -> None:
    encoder = RuleEncoder()
    for text in ("n > 3 AND n < 4", "n > 3 AND n < 5", "n = 3.5", "n > 7 AND n < 3"):
        encoder.add(parse(text), "strong")
    rules = encoder.finish()
    (integers,) = find_alternatives(parse("n IS NOT NULL"), lines_of)
    (numbers,) = find_alternatives(parse("n IS NOT NULL"), lambda _: LINES)
    for event, expected in ((integers, [1]), (numbers, [0, 1, 2])):
        found = match_expression(rules, ChoiceEncoder(rules).encode_choices(event))
        assert found.matched.tolist() == expected
        assert found.undecided.tolist() == []


def test_a_program_is_decided_if_its_path_is_possible() -> None:
    encoder = RuleEncoder()
    large = [f"(a = {i} OR b = {i} OR c{i} = 1)" for i in range(12)]
    encoder.add(parse(" AND ".join(large)), "strong")
    encoder.add(parse(" AND ".join(["a = 3", *large])), "strong")
    rules = encoder.finish()
    assert len(rules.forms.program_rule) == 2
    given = " AND ".join(f"c{i} = 1" for i in range(2, 12))
    for event, matched, undecided in (
        (given, [], []),
        (f"{given} AND a = 0 AND b IN (0, 1)", [0], []),
        # The first path needs a = 0 and a = 1 at once, which no value satisfies.
        (f"{given} AND a < 3 AND b IN (0, 1)", [], [0]),
        (f"{given} AND a = 3 AND b = 0", [], []),
    ):
        (alternative,) = find_alternatives(parse(event), lambda _: LINES)
        found = match_expression(rules, ChoiceEncoder(rules).encode_choices(alternative))
        assert (found.matched.tolist(), found.undecided.tolist()) == (matched, undecided)
