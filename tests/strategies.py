"""Hypothesis strategies for values, predicates and rules.

By default they draw from small pools, so that random events match rules; `wild` draws anything that
the model allows: every string, 64-bit integer, finite double, decimal and timestamp, and attribute
names with any character. Every rule passes :func:`tamis.expr.validate.check`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tamis.expr.model import (
    FALSE,
    TRUE,
    And,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    value_of_literal,
)
from tamis.expr.names import is_computed

NAMES = ("a", "b", "age", "state", "user.name", "order.from", "0ad-data@v", "in", "o'dd \"`n")
STRINGS = ("", "a", "ab", "CA", "it's", "a%b", "a_b", "\\", "é", "5")
PATTERNS = ("", "a%", "%b", "_", "a!%b", "%é%")
REGEXES = ("a", "^a", "b$", "[a-c]+", "(?i)AB", r"\d")

_COMPARISONS = (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)


def attributes(*, wild: bool = False) -> SearchStrategy[str]:
    """Attribute names."""
    names = st.sampled_from(NAMES)
    unmarked = _strings().filter(lambda name: name and not is_computed(name))
    return names | unmarked if wild else names


def values(*, wild: bool = False) -> SearchStrategy[Value]:
    """Values of all five kinds."""
    if not wild:
        moments = [datetime(2024, 2, 29, hour, tzinfo=UTC) for hour in (0, 12)]
        pool: tuple[Value, ...] = (*range(-2, 6), -1.5, 0.5, 2.0, True, False, *STRINGS, *moments)
        return st.sampled_from(pool)
    return st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.decimals(allow_nan=False, allow_infinity=False, places=12).map(_literal),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: _literal(Decimal(n).scaleb(-9))),
        st.floats(allow_nan=False, allow_infinity=False),
        _strings(),
        st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0)),
    )


def predicates(*, wild: bool = False) -> SearchStrategy[Predicate]:
    """Predicates of every operator, negated and not."""
    value = values(wild=wild)
    operands = st.one_of(
        st.tuples(st.sampled_from(_COMPARISONS), st.tuples(value)),
        st.tuples(st.just(Op.IN), st.lists(value, min_size=1, max_size=4).map(tuple)),
        st.tuples(st.just(Op.BETWEEN), st.tuples(value, value)),
        st.tuples(st.just(Op.PRESENT), st.just(())),
        st.tuples(st.sampled_from((Op.LIKE, Op.ILIKE)), _likes()),
        st.tuples(st.just(Op.RLIKE), st.tuples(st.sampled_from(REGEXES))),
    )
    return st.builds(
        lambda name, operand, negated: Predicate(name, operand[0], operand[1], negated),
        attributes(wild=wild),
        operands,
        st.booleans(),
    )


def expressions(*, wild: bool = False, max_leaves: int = 12) -> SearchStrategy[Expr]:
    """Rules: trees of at most `max_leaves` predicates and constants."""
    constants: SearchStrategy[Expr] = st.sampled_from((TRUE, FALSE))
    leaves: SearchStrategy[Expr] = predicates(wild=wild) | constants

    def above(children: SearchStrategy[Expr]) -> SearchStrategy[Expr]:
        several = st.lists(children, min_size=2, max_size=4).map(tuple)
        return st.builds(Not, children) | st.builds(And, several) | st.builds(Or, several)

    return st.recursive(leaves, above, max_leaves=max_leaves)


def _literal(decimal: Decimal) -> Value:
    return value_of_literal(decimal) if len(decimal.as_tuple().digits) <= 38 else float(decimal)


def _strings() -> SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _likes() -> SearchStrategy[tuple[str, ...]]:
    pattern = st.sampled_from(PATTERNS)
    return st.tuples(pattern) | st.tuples(pattern, st.just("!"))
