"""What constant and join predicates of a rule say together about old documents: Table 2.

From ``d.a OP1 a`` and ``a OP2 c`` follows a constraint on ``d.a`` alone, which can be looked at
before a new document comes (section 4.3.2). The paper tabulates OP1 and OP2; what it leaves out,
constants in interval format, is no other case here, as what is known of ``a`` is a set of values.

It holds for an attribute with one value: of several, one may satisfy the constant predicate and
another the join predicate.
"""

from __future__ import annotations

from tamis.expr.joins.predicate import Comparison
from tamis.expr.model import Op
from tamis.joins.value_sets import EVERYTHING, HIGHEST, LOWEST, Cut, Spans, above, below

__all__ = ["implied"]


def implied(comparison: Comparison, known: Spans) -> Spans:
    """The values that the old document's side may have, when the new one's is in `known`."""
    if not known:
        return known
    if comparison.negated:
        return _unlike(known) if comparison.op is Op.EQ else EVERYTHING
    match comparison.op:
        case Op.EQ:
            return known
        case Op.LT:
            return Spans({k: ((LOWEST, _no_higher(s[-1][1])),) for k, s in known.by_kind.items()})
        case Op.LE:
            return Spans({k: ((LOWEST, s[-1][1]),) for k, s in known.by_kind.items()})
        case Op.GT:
            return Spans({k: ((_no_lower(s[0][0]), HIGHEST),) for k, s in known.by_kind.items()})
        case Op.GE:
            return Spans({k: ((s[0][0], HIGHEST),) for k, s in known.by_kind.items()})
        case op:
            raise ValueError(f"{op} is no comparison")


def _no_higher(cut: Cut) -> Cut:
    """The cut below the highest value that may be there."""
    return cut if cut == HIGHEST else below(cut[1])


def _no_lower(cut: Cut) -> Cut:
    return cut if cut == LOWEST else above(cut[1])


def _unlike(known: Spans) -> Spans:
    """What differs from a value: all others if it is known, else anything."""
    (kind, (low, high)), *more = known
    is_point = not more and low > LOWEST and high < HIGHEST and low[1] == high[1]
    return ~Spans({kind: ((low, high),)}) if is_point else EVERYTHING
