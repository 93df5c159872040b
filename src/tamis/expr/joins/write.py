"""The text of a join predicate, which names the attribute that it becomes in a rule's tree.

It is the same for all spellings of a predicate: the alias is ``d``, the old document stands on the
left of a comparison, every NOT is pushed down to one, and the operands of AND and OR are sorted,
each of them once. Reading the text and writing it again gives the same text.
"""

from __future__ import annotations

from typing import Final

from tamis.expr.functions.terms import name_text
from tamis.expr.joins.predicate import Aggregate, Comparison, Condition, Every, Join, Some, Test
from tamis.expr.joins.shifts import shift_text
from tamis.expr.model import FLIPPED, Op, Predicate
from tamis.expr.names import JOINED
from tamis.expr.text.write import predicate_text_on

__all__ = ["aggregate_text", "join_name", "join_predicate", "join_text", "nesting", "simplify"]

_TABLES: Final = ("seen", "received")

_ALIAS: Final = "d"
_NEGATED: Final = {**{op: f"NOT {{}} {op} {{}}" for op in FLIPPED}, Op.EQ: "{} <> {}"}


def join_predicate(join: Join) -> Predicate:
    """The predicate that stands for a join predicate in the tree of a rule."""
    return Predicate(join_name(join), Op.EQ, (True,))


def join_name(join: Join) -> str:
    """The attribute that a join predicate or an aggregate becomes."""
    return JOINED + join_text(join)


def join_text(join: Join) -> str:
    """The text of a join predicate; equal predicates have equal texts."""
    where = _condition_text(simplify(join.where))
    tail = f"FROM {_TABLES[join.received]} {_ALIAS}" + (f" WHERE {where}" if where else "")
    if join.aggregate is not None:
        return f"(SELECT {aggregate_text(join.aggregate)} {tail})"
    if join.compared is None:
        return f"EXISTS (SELECT 1 {tail})"
    compared = join.compared
    sign = "<>" if compared.negated else FLIPPED[compared.op].value
    new, old = _name_text(compared.new, False), _name_text(compared.old, True)
    return f"{new} {sign} {join.quantifier} (SELECT {old} {tail})"


def aggregate_text(aggregate: Aggregate) -> str:
    """``COUNT(*)``, ``COUNT(DISTINCT d.y)`` or ``SUM(d.y)``."""
    if aggregate.attribute is None:
        return f"{aggregate.function}(*)"
    function, _, distinct = aggregate.function.value.partition(" ")
    return f"{function}({distinct and 'DISTINCT '}{_name_text(aggregate.attribute, True)})"


def simplify(condition: Condition) -> Condition:
    """`condition` with each operand of AND and OR once, and without an AND or OR of one operand.

    Without repetitions an OR may have one operand left, which may be an AND inside another AND.
    Written as they are, those would be read as something simpler that has another text.
    """
    if not isinstance(condition, Every | Some):
        return condition
    connective = type(condition)
    # By text, because Python takes 1, 1.0 and TRUE for equal, and A OR B differs from B OR A.
    by_text: dict[str, Condition] = {}
    for child in map(simplify, condition.children):
        for part in child.children if isinstance(child, connective) else (child,):
            by_text.setdefault(_operand_text(part), part)
    parts = tuple(by_text.values())
    return parts[0] if len(parts) == 1 else connective(parts)


def nesting(condition: Condition) -> int:
    """How many parentheses and NOTs are open at once in the text of a simplified condition."""
    match condition:
        case Every(children) | Some(children):
            return 1 + max(map(nesting, children), default=0)
        case Comparison(_, op, _, negated, _):
            return int(negated and op is not Op.EQ)
        case Test(predicate, _):
            return int(predicate.negated)


def _name_text(name: str, of_old: bool) -> str:
    if of_old:
        return f"{_ALIAS}.{name_text(name)}"
    if name.partition(".")[0].lower() == _ALIAS:
        # Bare, it would be the old document's.
        return '"' + name.replace('"', '""') + '"'
    return name_text(name)


def _condition_text(condition: Condition) -> str:
    match condition:
        case Comparison(old, op, new, negated, shift):
            form = _NEGATED[op] if negated else f"{{}} {op} {{}}"
            new_text = _name_text(new, False) + shift_text(shift)
            return form.format(_name_text(old, True), new_text)
        case Test(predicate, of_old):
            return predicate_text_on(predicate, _name_text(predicate.attribute, of_old))
        case Every(children):
            return " AND ".join(sorted(map(_operand_text, children)))
        case Some(children):
            return " OR ".join(sorted(map(_operand_text, children)))


def _operand_text(condition: Condition) -> str:
    text = _condition_text(condition)
    return f"({text})" if isinstance(condition, Every | Some) else text
