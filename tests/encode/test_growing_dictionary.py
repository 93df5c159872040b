"""Codes stay valid while rules are added."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from tamis.encode.arrays import IF_ABSENT, NEGATED, RANGE
from tamis.encode.growing_dictionary import CODES, GrowingDictionary
from tamis.expr.model import Atom, Op, Predicate
from tamis.expr.satisfy import satisfies
from tests import randoms
from tests.randoms import EVERYTHING

ORDERED = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ)


def atom(op: Op, *values: Any, negated: bool = False, if_absent: bool = False) -> Atom:
    return Atom(Predicate("x", op, values), negated, if_absent)


class Encoded:
    """Atoms of one attribute, encoded one by one."""

    def __init__(self) -> None:
        self.dictionary = GrowingDictionary()
        self.atoms: list[tuple[Atom, list[int], list[int], bool]] = []

    def add(self, atom: Atom) -> bool:
        table: list[int] = []
        codes: list[int] = []
        is_exact = self.dictionary.encode([atom], table, codes)
        self.atoms.append((atom, table, codes, is_exact))
        return is_exact

    def code(self, value: Any) -> int:
        return self.dictionary.axes["x"][2].code(value)

    def check(self, value: Any) -> None:
        """Whatever came since, all atoms are as right for a value as they were said to be."""
        code = self.code(value)
        assert 0 < code < CODES
        for atom, table, codes, is_exact in self.atoms:
            truth = satisfies(atom.predicate, value) is not atom.negated
            if not table:
                assert not is_exact
                continue
            _, test, low, high = table
            found = low <= code <= high if test & 3 == RANGE else code in codes[low:high]
            claimed = found is not bool(test & NEGATED)
            assert claimed == truth if is_exact else claimed >= truth, (atom, value)


@pytest.mark.parametrize("seed", range(3))
def test_codes_stay_valid_as_values_are_added(seed: int) -> None:
    random = Random(seed)
    encoded = Encoded()
    pool: list[Any] = [
        *randoms.INTEGERS, *randoms.HUGE_INTEGERS, *randoms.DOUBLES, *randoms.HUGE_DOUBLES,
        *randoms.STRINGS, *randoms.BOOLEANS, *randoms.TIMESTAMPS,
    ]  # fmt: skip
    for _ in range(300):
        # One attribute has values of all kinds.
        found = randoms.predicate(random, EVERYTHING)
        negated, if_absent = random.random() < 0.3, random.random() < 0.3
        encoded.add(Atom(Predicate("x", found.op, found.values), negated, if_absent))
        encoded.check(random.choice(pool))
    for value in pool:
        encoded.check(value)


ORDERS: dict[str, list[Any]] = {
    "rising": list(range(1_000)),
    "falling": list(range(1_000, 0, -1)),
    "rising below a limit": [10**9, *range(1_000)],
    "squares": [n * n for n in range(1_000)],
    "random doubles": [Random(n).random() for n in range(1_000)],
    "days": [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(1_000)],
}


@pytest.mark.parametrize("values", ORDERS.values(), ids=ORDERS.keys())
def test_most_values_get_a_code_of_their_own(values: list[Any]) -> None:
    encoded = Encoded()
    exact = sum(encoded.add(atom(ORDERED[n % 5], value)) for n, value in enumerate(values))
    assert exact > 0.5 * len(values)
    codes = [encoded.code(value) for value in sorted(values)]
    assert codes == sorted(codes)
    for value in values[::97]:
        encoded.check(value)


def test_values_without_room_are_not_exact() -> None:
    encoded = Encoded()
    values = [2.0**n for n in range(-1_000, 1_000)]
    exact = [encoded.add(atom(Op.LT, value)) for value in values]
    assert exact[0]
    assert not all(exact)
    encoded.add(atom(Op.IN, *values[-3:]))
    encoded.add(atom(Op.LT, values[-1], negated=True))
    encoded.add(atom(Op.LT, values[-2], negated=True, if_absent=True))
    for value in (0, *values[::50], *values[-4:], 1e308):
        encoded.check(value)


def test_atoms_that_codes_cannot_decide_are_omitted() -> None:
    encoded = Encoded()
    assert not encoded.add(atom(Op.LIKE, "a%", negated=True, if_absent=True))
    assert encoded.atoms[0][1] == []
    assert not encoded.add(atom(Op.LIKE, "a%", negated=True))
    assert encoded.atoms[1][1][1] & (NEGATED | IF_ABSENT) == 0
    encoded.check("b")


def test_a_long_list_is_not_stored() -> None:
    encoded = Encoded()
    assert not encoded.add(atom(Op.IN, *range(1_000)))
    assert encoded.atoms[0][2] == []
    encoded.check(5)
    encoded.check("a")
