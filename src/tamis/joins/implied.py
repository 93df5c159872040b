"""What constant and join predicates of a rule together imply about old documents: Table 2.

``d.a OP1 a`` and ``a OP2 c`` together imply a constraint on ``d.a`` alone, which can be checked
before a new document comes (section 4.3.2). The paper tabulates OP1 and OP2 and leaves out
constants in interval format; here what is known of ``a`` is a set of values, which covers both.

This holds for attributes with a single value. Of several values, one may satisfy the constant
predicate and another the join predicate.
"""

from __future__ import annotations

from tamis.expr.joins.predicate import Comparison
from tamis.expr.model import Op
from tamis.joins.value_sets import EVERYTHING, HIGHEST, LOWEST, Cut, ValueSet, above, below

__all__ = ["infer_values"]


def infer_values(comparison: Comparison, known: ValueSet) -> ValueSet:
    """The values that the old document may have, when that of the new one is in `known`."""
    if not known:
        return known
    if comparison.negated:
        return _unequal(known) if comparison.op is Op.EQ else EVERYTHING
    ends = [(kind, spans[0][0], spans[-1][1]) for kind, spans in known.by_kind.items()]
    match comparison.op:
        case Op.EQ:
            return known
        case Op.LT:
            return ValueSet({kind: ((LOWEST, _right_below(high)),) for kind, _, high in ends})
        case Op.LE:
            return ValueSet({kind: ((LOWEST, high),) for kind, _, high in ends})
        case Op.GT:
            return ValueSet({kind: ((_right_above(low), HIGHEST),) for kind, low, _ in ends})
        case Op.GE:
            return ValueSet({kind: ((low, HIGHEST),) for kind, low, _ in ends})
        case op:
            raise ValueError(f"{op} is not a comparison")


def _right_below(cut: Cut) -> Cut:
    """The cut right below the value that `cut` is beside."""
    return cut if cut == HIGHEST else below(cut[1])


def _right_above(cut: Cut) -> Cut:
    """The cut right above the value that `cut` is beside."""
    return cut if cut == LOWEST else above(cut[1])


def _unequal(known: ValueSet) -> ValueSet:
    """What may differ from the value: all but that value if there is only one, else anything."""
    (kind, (low, high)), *more = known
    is_point = not more and low > LOWEST and high < HIGHEST and low[1] == high[1]
    return ~ValueSet({kind: ((low, high),)}) if is_point else EVERYTHING
