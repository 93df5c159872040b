"""Table 2 of the paper, cell by cell, and the cases it leaves out; sets of values."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tamis.expr.joins.predicate import Comparison
from tamis.expr.model import Op, Predicate, Value
from tamis.expr.satisfy import satisfies
from tamis.joins.implied import infer_values
from tamis.joins.value_sets import (
    EVERYTHING,
    NOTHING,
    ValueSet,
    values_satisfying,
    values_satisfying_predicate,
)

C = 10
EQ, LT, LE, GT, GE = Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE
ANYTHING = values_satisfying(LT, C) | values_satisfying(GE, C)

TABLE_2: dict[tuple[Op, Op], Op | None] = {
    # (OP1 of d.a OP1 a, OP2 of a OP2 c): the operator of d.a … c
    (EQ, EQ): EQ,
    (LT, EQ): LT,
    (LE, EQ): LE,
    (GT, EQ): GT,
    (GE, EQ): GE,
    (EQ, LT): LT,
    (LT, LT): LT,
    (LE, LT): LT,
    (GT, LT): None,
    (GE, LT): None,
    (EQ, LE): LE,
    (LT, LE): LT,
    (LE, LE): LE,
    (GT, LE): None,
    (GE, LE): None,
    (EQ, GT): GT,
    (LT, GT): None,
    (LE, GT): None,
    (GT, GT): GT,
    (GE, GT): GT,
    (EQ, GE): GE,
    (LT, GE): None,
    (LE, GE): None,
    (GT, GE): GT,
    (GE, GE): GE,
}


@pytest.mark.parametrize(("op1", "op2"), list(TABLE_2))
def test_table_2(op1: Op, op2: Op) -> None:
    expected = TABLE_2[op1, op2]
    found = infer_values(Comparison("a", op1, "a"), values_satisfying(op2, C))
    assert found == (ANYTHING if expected is None else values_satisfying(expected, C))


def between(low: int, high: int) -> ValueSet:
    return values_satisfying(GE, low) & values_satisfying(LE, high)


@pytest.mark.parametrize(
    ("op1", "expected"),
    [
        (EQ, between(3, 7)),
        (LT, values_satisfying(LT, 7)),
        (LE, values_satisfying(LE, 7)),
        (GT, values_satisfying(GT, 3)),
        (GE, values_satisfying(GE, 3)),
    ],
)
def test_closed_intervals(op1: Op, expected: ValueSet) -> None:
    assert infer_values(Comparison("a", op1, "a"), between(3, 7)) == expected


@pytest.mark.parametrize(
    ("op1", "expected"),
    [
        (EQ, values_satisfying(GT, 3) & values_satisfying(LT, 7)),
        (LT, values_satisfying(LT, 7)),
        (LE, values_satisfying(LT, 7)),
        (GT, values_satisfying(GT, 3)),
        (GE, values_satisfying(GT, 3)),
    ],
)
def test_open_intervals(op1: Op, expected: ValueSet) -> None:
    known = values_satisfying(GT, 3) & values_satisfying(LT, 7)
    assert infer_values(Comparison("a", op1, "a"), known) == expected


def test_an_inequality_implies_something_only_for_a_single_known_value() -> None:
    unequal = Comparison("a", EQ, "a", negated=True)
    assert infer_values(unequal, values_satisfying(EQ, C)) == ~values_satisfying(EQ, C)
    assert infer_values(unequal, between(3, 7)) == EVERYTHING
    assert (
        infer_values(Comparison("a", LT, "a", negated=True), values_satisfying(EQ, C)) == EVERYTHING
    )
    assert infer_values(Comparison("a", LT, "a"), NOTHING) == NOTHING


def test_every_pair_of_values_that_satisfies_both_predicates_is_allowed() -> None:
    values: list[Value] = [1, 2, 2.5, 3, "a", "b", True]
    known = [
        Predicate("a", Op.BETWEEN, (2, 3)),
        Predicate("a", Op.IN, (1, "a")),
        *(
            Predicate("a", op, (2,), negated)
            for op in (EQ, LT, LE, GT, GE)
            for negated in (False, True)
        ),
    ]
    for predicate, op, negated in product(known, (EQ, LT, LE, GT, GE), (False, True)):
        of_new = values_satisfying_predicate(predicate)
        assert of_new is not None
        allowed = infer_values(Comparison("a", op, "a", negated), of_new)
        for new, old in product(values, values):
            holds = satisfies(Predicate("a", op, (new,)), old) is not negated
            if satisfies(predicate, new) is not predicate.negated and holds:
                assert old in allowed, (predicate, op, negated, new, old)


def test_value_sets_agree_with_their_predicates() -> None:
    random = Random(1)
    values: list[Value] = [0, 1, 1.5, 2, 3, "", "a", "b", False, True]

    def some() -> tuple[ValueSet, frozenset[int]]:
        op = random.choice([EQ, LT, LE, GT, GE])
        predicate = Predicate("a", op, (random.choice(values),), random.random() < 0.3)
        found = values_satisfying_predicate(predicate)
        assert found is not None
        return found, frozenset(i for i, v in enumerate(values) if holds(predicate, v))

    def holds(predicate: Predicate, value: Value) -> bool:
        return satisfies(predicate, value) is not predicate.negated

    for _ in range(300):
        (a, in_a), (b, in_b) = some(), some()
        for found, inside in ((a | b, in_a | in_b), (a & b, in_a & in_b)):
            assert frozenset(i for i, v in enumerate(values) if v in found) == inside
        assert ~~a == a
        assert (a | b).at_most(1) & (a | b) == a | b
