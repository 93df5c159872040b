"""Says in plain words what a rule means: an indented list of what has to hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tamis.expr.functions.derive import term_named
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import COMPARISONS
from tamis.expr.functions.terms import name_text, spell_term
from tamis.expr.model import And, Expr, Logic, Not, Op, Or, Predicate, Value, check_logic
from tamis.expr.names import DERIVED, JOINED
from tamis.expr.text.grammar import parse
from tamis.expr.text.literals import spell
from tamis.expr.text.write import to_sql

__all__ = ["describe"]

_SHOWN_VALUES: Final = 12

_COMPARED: Final = {
    Op.LT: "below",
    Op.LE: "at most",
    Op.GT: "above",
    Op.GE: "at least",
}


def describe(rule: Expr | str, logic: Logic = "strong") -> str:
    """Say in plain words what a rule means.

    Parameters
    ----------
    rule
        The rule, as text or as a model.
    logic
        What a negated predicate means where its attribute is absent.

    Returns
    -------
    str
        Lines, indented like the rule's tree.

    Raises
    ------
    RuleSyntaxError
        The text is not a rule.

    Examples
    --------
    >>> import tamis
    >>> rule = "age IN (3, 4) AND NOT (state = 'CA' AND name LIKE 'A%')"
    >>> print(tamis.describe(rule))
    all of these hold:
      age is 3 or 4
      at least one of these holds:
        state is there and is not 'CA'
        name is there and does not start with 'A'
    """
    expr = parse(rule) if isinstance(rule, str) else rule
    return "\n".join(_lines(expr, check_logic(logic), False, 0))


def _lines(expr: Expr, logic: Logic, negated: bool, depth: int) -> Iterator[str]:
    """The lines of a part, or of its negation: NOT is pushed down to the predicates."""
    indent = "  " * depth
    match expr:
        case Not():
            yield from _lines(expr.child, logic, not negated, depth)
        case Predicate():
            yield indent + _predicate(expr, logic, expr.negated is not negated)
        case And() | Or():
            is_every = isinstance(expr, And) is not negated
            if not expr.children:
                yield indent + ("every event matches" if is_every else "no event matches")
                return
            yield indent + ("all of these hold:" if is_every else "at least one of these holds:")
            for child in expr.children:
                yield from _lines(child, logic, negated, depth + 1)
        case _:
            raise TypeError("only a rule that was not normalised can be described")


def _predicate(predicate: Predicate, logic: Logic, negated: bool) -> str:
    name = predicate.attribute
    if name.startswith(JOINED):
        return f"{'it is not so that ' if negated else ''}{to_sql(predicate.positive)}"
    if name.startswith(DERIVED):
        term = term_named(name)
        if predicate.op is Op.EQ and (term.function in FAMILIES or term.function in COMPARISONS):
            return _with_absence(
                to_sql(predicate.positive), negated, logic, "holds", "does not hold"
            )
        name = spell_term(term)
    else:
        name = name_text(name)
    if predicate.op is Op.PRESENT:
        return f"{name} is {'missing' if negated else 'there'}"
    positive, negative = _verbs(predicate)
    return _with_absence(name, negated, logic, positive, negative)


def _with_absence(name: str, negated: bool, logic: Logic, positive: str, negative: str) -> str:
    """The sentence about an attribute; a negation says what its absence means."""
    if not negated:
        return f"{name} {positive}"
    if logic == "weak":
        return f"{name} {negative}, or is missing"
    return f"{name} is there and {negative}"


def _verbs(predicate: Predicate) -> tuple[str, str]:
    """What a predicate says of its attribute, and what its negation says."""
    op, values = predicate.op, predicate.values
    match op:
        case Op.EQ:
            return f"is {spell(values[0])}", f"is not {spell(values[0])}"
        case Op.IN:
            return f"is {_list(values, 'or')}", f"is none of {_list(values, 'and')}"
        case Op.BETWEEN:
            span = f"from {spell(values[0])} to {spell(values[1])}"
            return f"is {span}", f"is not {span}"
        case Op.RLIKE:
            return f"matches {spell(values[0])}", f"does not match {spell(values[0])}"
        case Op.LIKE | Op.ILIKE:
            return _like(op, values)
    return f"is {_COMPARED[op]} {spell(values[0])}", f"is not {_COMPARED[op]} {spell(values[0])}"


def _like(op: Op, values: tuple[Value, ...]) -> tuple[str, str]:
    pattern = str(values[0])
    inner = pattern.strip("%")
    # With an escape character or a wildcard inside, only the pattern itself says what it means.
    is_plain = len(values) == 1 and inner and not set(inner) & set("%_")
    case = " in any case" if op is Op.ILIKE else ""
    forms = {
        (False, True): ("starts with", "does not start with"),
        (True, False): ("ends with", "does not end with"),
        (True, True): ("contains", "does not contain"),
    }
    verbs = forms.get((pattern.startswith("%"), pattern.endswith("%"))) if is_plain else None
    if verbs is None:
        text = f" ESCAPE {spell(values[1])}" if len(values) > 1 else ""
        shown = f"{spell(pattern)}{text}{case}"
        return f"looks like {shown}", f"does not look like {shown}"
    return f"{verbs[0]} {spell(inner)}{case}", f"{verbs[1]} {spell(inner)}{case}"


def _list(values: tuple[Value, ...], word: str) -> str:
    shown = [spell(value) for value in values[:_SHOWN_VALUES]]
    if len(values) > _SHOWN_VALUES:
        return f"{', '.join(shown)} {word} {len(values) - _SHOWN_VALUES} other values"
    return f" {word} ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
