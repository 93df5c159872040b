"""Table 2 of the paper, cell by cell, and what it leaves out; sets of values."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tamis.expr.joins.predicate import Comparison
from tamis.expr.model import Op, Predicate, Value
from tamis.expr.satisfy import satisfies
from tamis.joins.implied import implied
from tamis.joins.value_sets import EVERYTHING, NOTHING, Spans, compared, of_predicate

C = 10
EQ, LT, LE, GT, GE = Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE
ANYTHING = compared(LT, C) | compared(GE, C)

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
    found = implied(Comparison("a", op1, "a"), compared(op2, C))
    assert found == (ANYTHING if expected is None else compared(expected, C))


def between(low: int, high: int) -> Spans:
    return compared(GE, low) & compared(LE, high)


@pytest.mark.parametrize(
    ("op1", "expected"),
    [
        (EQ, between(3, 7)),
        (LT, compared(LT, 7)),
        (LE, compared(LE, 7)),
        (GT, compared(GT, 3)),
        (GE, compared(GE, 3)),
    ],
)
def test_closed_intervals(op1: Op, expected: Spans) -> None:
    assert implied(Comparison("a", op1, "a"), between(3, 7)) == expected


@pytest.mark.parametrize(
    ("op1", "expected"),
    [
        (EQ, compared(GT, 3) & compared(LT, 7)),
        (LT, compared(LT, 7)),
        (LE, compared(LT, 7)),
        (GT, compared(GT, 3)),
        (GE, compared(GT, 3)),
    ],
)
def test_open_intervals(op1: Op, expected: Spans) -> None:
    known = compared(GT, 3) & compared(LT, 7)
    assert implied(Comparison("a", op1, "a"), known) == expected


def test_what_differs_from_a_known_value_is_any_other() -> None:
    unlike = Comparison("a", EQ, "a", negated=True)
    assert implied(unlike, compared(EQ, C)) == ~compared(EQ, C)
    assert implied(unlike, between(3, 7)) == EVERYTHING
    assert implied(Comparison("a", LT, "a", negated=True), compared(EQ, C)) == EVERYTHING
    assert implied(Comparison("a", LT, "a"), NOTHING) == NOTHING


def test_no_pair_of_values_contradicts_what_is_implied() -> None:
    """All values of the new document that satisfy a predicate, with all of the old one."""
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
        spans = of_predicate(predicate)
        assert spans is not None
        allowed = implied(Comparison("a", op, "a", negated), spans)
        for new, old in product(values, values):
            holds = satisfies(Predicate("a", op, (new,)), old) is not negated
            if satisfies(predicate, new) is not predicate.negated and holds:
                assert old in allowed, (predicate, op, negated, new, old)


def test_sets_of_values_are_those_of_their_predicates() -> None:
    random = Random(1)
    values: list[Value] = [0, 1, 1.5, 2, 3, "", "a", "b", False, True]

    def some() -> tuple[Spans, frozenset[int]]:
        op = random.choice([EQ, LT, LE, GT, GE])
        predicate = Predicate("a", op, (random.choice(values),), random.random() < 0.3)
        spans = of_predicate(predicate)
        assert spans is not None
        return spans, frozenset(i for i, v in enumerate(values) if holds(predicate, v))

    def holds(predicate: Predicate, value: Value) -> bool:
        return satisfies(predicate, value) is not predicate.negated

    for _ in range(300):
        (a, in_a), (b, in_b) = some(), some()
        for spans, inside in ((a | b, in_a | in_b), (a & b, in_a & in_b)):
            assert frozenset(i for i, v in enumerate(values) if v in spans) == inside
        assert ~~a == a
        assert (a | b).at_most(1) & (a | b) == a | b
