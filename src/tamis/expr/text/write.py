"""The text of a rule's tree: the inverse of :func:`tamis.expr.text.grammar.parse`.

The text keeps every difference between trees.
"""

from __future__ import annotations

from types import UnionType

from tamis.errors import RuleError
from tamis.expr.functions.derive import term_named
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import COMPARISONS
from tamis.expr.functions.terms import Call, name_text, spell_term
from tamis.expr.model import FALSE, FLIPPED, TRUE, And, Expr, Not, Op, Or, Predicate
from tamis.expr.names import DERIVED, JOINED, display_name, is_aggregate
from tamis.expr.text.literals import spell

__all__ = ["predicate_text_on", "to_sql"]


def to_sql(expr: Expr) -> str:
    """The text that :func:`~tamis.expr.text.grammar.parse` reads as `expr`."""
    pieces: list[str] = []
    stack: list[Expr | str] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif isinstance(item, Predicate):
            pieces.append(_predicate_text(item))
        elif isinstance(item, Not):
            pieces.append("NOT ")
            stack += _in_parentheses(item.child, unless=Not)
        elif isinstance(item, And | Or):
            stack += _connect(item)
        else:
            raise RuleError(f"{type(item).__name__} has no text form")
    return "".join(pieces)


def _connect(expr: And | Or) -> list[Expr | str]:
    """The children of `expr` with the connective between them, last one first."""
    if not expr.children:
        return ["TRUE" if isinstance(expr, And) else "FALSE"]
    connective = " AND " if isinstance(expr, And) else " OR "
    pieces: list[Expr | str] = []
    for child in reversed(expr.children):
        pieces += _in_parentheses(child, unless=Predicate | Not)
        pieces.append(connective)
    pieces.pop()
    return pieces


def _in_parentheses(child: Expr, unless: type | UnionType) -> list[Expr | str]:
    if isinstance(child, unless) or child in (TRUE, FALSE):
        return [child]
    return [")", child, "("]


def _predicate_text(predicate: Predicate) -> str:
    if is_aggregate(predicate.attribute):
        return predicate_text_on(predicate, display_name(predicate.attribute))
    if predicate.attribute.startswith(JOINED):
        # NOT applies to all of the join predicate that follows.
        return f"{'NOT ' if predicate.negated else ''}{predicate.attribute[1:]}"
    if predicate.attribute.startswith(DERIVED):
        term = term_named(predicate.attribute)
        condition = _condition_text(term, predicate)
        if condition is not None:
            return f"NOT {condition}" if predicate.negated else condition
        name = f"({spell_term(term)})" if term.function in COMPARISONS else spell_term(term)
    else:
        name = name_text(predicate.attribute)
    return predicate_text_on(predicate, name)


def predicate_text_on(predicate: Predicate, name: str) -> str:
    """The text of a predicate, with `name` as the text of its attribute."""
    op, negated = predicate.op, predicate.negated
    values = [spell(value) for value in predicate.values]
    if op is Op.PRESENT:
        return f"{name} IS NULL" if negated else f"{name} IS NOT NULL"
    if op is Op.EQ:
        return f"{name} {'<>' if negated else '='} {values[0]}"
    if op in FLIPPED:
        return f"{'NOT ' if negated else ''}{name} {op} {values[0]}"
    if op is Op.IN:
        operand = f"({', '.join(values)})"
    elif op is Op.BETWEEN:
        operand = " AND ".join(values)
    else:
        operand = " ESCAPE ".join(values)
    return f"{name} {'NOT ' if negated else ''}{op} {operand}"


def _condition_text(term: Call, predicate: Predicate) -> str | None:
    """The text of a predicate without a comparison; None if it needs one."""
    if predicate.op is not Op.EQ:
        return None
    if term.function in FAMILIES:
        arguments = [*map(spell_term, term.terms), str(predicate.values[0])]
        return f"{term.function}({', '.join(arguments)})"
    is_true = term.function in COMPARISONS and predicate.values[0] is True
    return spell_term(term) if is_true else None
