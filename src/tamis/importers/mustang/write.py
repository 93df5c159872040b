"""Rules as Mustang's criteria.

A rule is a DNF or a CNF if it has that shape, and otherwise a criteria of any form. What a
predicate makes of a missing attribute is said by predicates on existence where Mustang would not
take it so.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from tamis.errors import RuleError
from tamis.expr.functions.derive import term_named
from tamis.expr.functions.families import FAMILIES, condition_literals
from tamis.expr.functions.terms import Attribute, Call, Constant, Term
from tamis.expr.model import And, Expr, Logic, Not, Op, Or, Predicate, Value
from tamis.expr.names import is_worked_out
from tamis.expr.patterns import like_parts
from tamis.expr.text.sql import to_sql
from tamis.expr.weights import RuleWeights
from tamis.importers.mustang.paths import path_to
from tamis.importers.predicates import is_number
from tamis.matcher.rule import Rule

__all__ = ["write"]

_MOST: Final = sys.float_info.max
_SIGNS: Final = {
    "+": "ADDITION",
    "-": "SUBTRACTION",
    "*": "MULTIPLICATION",
    "%": "MODULO",
}
_CHECKS: Final = {
    Op.GT: ("ABOVE", True),
    Op.GE: ("ABOVE", False),
    Op.LT: ("BELOW", True),
    Op.LE: ("BELOW", False),
    Op.EQ: ("EQUAL", False),
}
_SPECIAL: Final = frozenset(r"\.[]{}()<>*+-=!?^$|#&~/")
"""Characters that a Java expression takes for more than themselves."""


def write(rule: Rule) -> dict[str, Any]:
    """`rule` as a criteria, in the JSON form that Mustang reads.

    Raises
    ------
    RuleError
        Mustang cannot say it, and the message tells which part.
    """
    writer = _Writer(rule.logic, RuleWeights.of(rule.weights, rule.expr))
    tree = writer.tree(rule.expr, negated=False)
    if isinstance(tree, _Any) and not tree.parts:
        raise RuleError("a rule that never matches has no criteria")
    head: dict[str, Any] = {"id": str(rule.id)}
    conjunctions = _two_levels(tree, _Any, _All)
    if conjunctions is not None:
        parts = [{"type": "AND", "predicates": part} for part in conjunctions]
        # A tautology has no conjunctions at all.
        parts = [] if parts == [{"type": "AND", "predicates": []}] else parts
        return {"form": "DNF", **head, "conjunctions": parts}
    disjunctions = _two_levels(tree, _All, _Any)
    if disjunctions is not None:
        parts = [{"type": "OR", "predicates": part} for part in disjunctions]
        return {"form": "CNF", **head, "disjunctions": parts}
    return _unrestricted(tree, str(rule.id))


@dataclass
class _All:
    parts: list[Any]


@dataclass
class _Any:
    parts: list[Any]


_Tree = _All | _Any | dict[str, Any]
"""A tree over Mustang's predicates."""


class _Writer(NamedTuple):
    """Pushes every NOT down to the predicates, and writes these."""

    logic: Logic
    weights: RuleWeights

    def tree(self, expr: Expr, negated: bool) -> _Tree:
        match expr:
            case Predicate():
                return self.predicate(expr.positive, negated is not expr.negated)
            case Not():
                return self.tree(expr.child, not negated)
            case And() | Or():
                parts = [self.tree(child, negated) for child in expr.children]
                if isinstance(expr, And) is not negated:
                    return _Any([]) if _Any([]) in parts else _All(_level(parts, _All))
                return _All([]) if _All([]) in parts else _Any(_level(parts, _Any))
        raise RuleError(f"{type(expr).__name__} is no part of a rule")

    def predicate(self, predicate: Predicate, negated: bool) -> _Tree:
        if predicate.op is Op.PRESENT:
            return _existence(predicate.attribute, not negated)
        subject = _subject(predicate.attribute)
        written = {
            "type": "EXCLUDED" if negated else "INCLUDED",
            "lhs": path_to(subject.attribute),
            "preOperations": subject.operations or [{"type": "IDENTITY"}],
            "detail": _detail(subject, predicate),
            "weight": 1 if negated else _weight(predicate, self.weights),
        }
        if negated and self.logic == "strong":
            return _All([_existence(subject.attribute, True), written])
        return written


def _level(parts: list[_Tree], kind: type[_All | _Any]) -> list[_Tree]:
    """`parts` on one level, where some are of the kind that they make together."""
    level: list[_Tree] = []
    for part in parts:
        level.extend(part.parts if isinstance(part, kind) else [part])
    return level


def _existence(attribute: str, there: bool) -> dict[str, Any]:
    return {
        "type": "INCLUDED",
        "lhs": path_to(_subject(attribute).attribute),
        "preOperations": [{"type": "IDENTITY"}],
        "detail": {"caveat": "EXISTENCE" if there else "NON_EXISTENCE"},
        "weight": 1,
    }


def _weight(predicate: Predicate, weights: RuleWeights) -> int:
    found = {weights.get(predicate, value) for value in predicate.values}
    weight = found.pop()
    if found or weight != int(weight) or weight < 1:
        raise RuleError(
            f"the weights of {to_sql(predicate)} are not one whole number above 0, which is all "
            "that Mustang has"
        )
    return int(weight)


# --- What a predicate is about ----------------------------------------------------------


class _Subject(NamedTuple):
    attribute: str
    operations: list[dict[str, Any]]
    function: str = ""
    """The function that the predicate's detail stands for."""


def _subject(name: str) -> _Subject:
    if not is_worked_out(name):
        return _Subject(name, [])
    term = term_named(name)
    if term.function == "version" or term.function in FAMILIES:
        if len(term.terms) == 1:
            inner = _chain(term.terms[0])
            return inner._replace(function=term.function)
        raise _unsaid(term.function)
    return _chain(term)


def _chain(term: Term) -> _Subject:
    """An attribute, and the operations that a term makes on it."""
    if isinstance(term, Attribute):
        return _Subject(term.name, [])
    if not isinstance(term, Call) or not term.terms:
        raise RuleError("a literal is no attribute to Mustang")
    attribute, operations, _ = _chain(term.terms[0])
    return _Subject(attribute, [*operations, _operation(term)])


def _operation(term: Call) -> dict[str, Any]:
    function, rest = term.function, term.terms[1:]
    if function in _SIGNS and isinstance(rest[0], Constant) and is_number(rest[0].value):
        return {"type": _SIGNS[function], "rhs": rest[0].value}
    if function in ("length", "size"):
        return {"type": function.upper()}
    if function == "substring" and len(term.literals) == 2:
        start, length = term.literals
        assert isinstance(start, int)
        assert isinstance(length, int)
        if start > 0 and length >= 0:
            return {
                "type": "SUBSTRING",
                "beginIndex": start - 1,
                "endIndex": start - 1 + length,
            }
    raise _unsaid(function)


def _unsaid(function: str) -> RuleError:
    return RuleError(f"Mustang has nothing like the function {function}")


# --- Details ----------------------------------------------------------------------------


def _detail(subject: _Subject, predicate: Predicate) -> dict[str, Any]:
    if subject.function == "version":
        if predicate.op not in _CHECKS:
            raise RuleError(f"Mustang compares no versions as in {to_sql(predicate)}")
        check, exclude = _CHECKS[predicate.op]
        base = predicate.values[0]
        return {
            "caveat": "VERSIONING",
            "check": check,
            "baseVersion": base,
            "excludeBase": exclude,
        }
    if subject.function:
        values = list(condition_literals(str(predicate.values[0])))
        return {"caveat": subject.function.upper(), "values": values}
    match predicate.op:
        case Op.EQ | Op.IN:
            return {"caveat": "EQUALITY", "values": [_plain(v) for v in predicate.values]}
        case Op.LIKE | Op.ILIKE | Op.RLIKE:
            return {"caveat": "REGEX", "regex": _regex(predicate)}
    return {"caveat": "RANGE", **_bounds(predicate)}


def _plain(value: Value) -> Any:
    if isinstance(value, datetime):
        raise RuleError("Mustang has no times among its values")
    return value


def _bounds(predicate: Predicate) -> Mapping[str, Any]:
    if not all(map(is_number, predicate.values)):
        raise RuleError(f"Mustang has ranges of numbers only, not {to_sql(predicate)}")
    first, last = predicate.values[0], predicate.values[-1]
    op = predicate.op
    has_low, has_high = op in (Op.GT, Op.GE, Op.BETWEEN), op in (Op.LT, Op.LE, Op.BETWEEN)
    return {
        "lowerBound": first if has_low else -_MOST,
        "upperBound": last if has_high else _MOST,
        "includeLowerBound": op is not Op.GT,
        "includeUpperBound": op is not Op.LT,
    }


def _regex(predicate: Predicate) -> str:
    """An expression that the whole text has to match, as Mustang wants it."""
    if predicate.op is Op.RLIKE:
        pattern = str(predicate.values[0])
        if pattern.startswith(r"\A(?:") and pattern.endswith(r")\z"):
            return pattern[len(r"\A(?:") : -len(r")\z")]
        return f"(?s:.*)(?:{pattern})(?s:.*)"
    write_character = _either_case if predicate.op is Op.ILIKE else _literally
    parts = [
        ".*" if part is None else write_character(part) if part else "."
        for part in like_parts(predicate)
    ]
    return "(?s)" + "".join(parts)


def _literally(character: str) -> str:
    return "\\" + character if character in _SPECIAL else character


def _either_case(character: str) -> str:
    """A letter in lower case, which Java would only take for both if it were of ASCII."""
    upper = character.upper()
    if upper == character or len(upper) > 1:
        return _literally(character)
    return f"[{character}{upper}]"


# --- Any form ---------------------------------------------------------------------------


def _two_levels(
    tree: _Tree, outer: type[_All | _Any], inner: type[_All | _Any]
) -> list[list[dict[str, Any]]] | None:
    """The predicates of a tree of at most two levels, `outer` above `inner`."""
    above: list[Any] = tree.parts if isinstance(tree, outer) else [tree]
    found: list[list[dict[str, Any]]] = []
    for part in above:
        below: list[Any] = part.parts if isinstance(part, inner) else [part]
        if not all(isinstance(one, dict) for one in below):
            return None
        found.append(below)
    return found


def _unrestricted(tree: _Tree, id: str) -> dict[str, Any]:
    assert not isinstance(tree, dict)
    deeper = [part for part in tree.parts if not isinstance(part, dict)]
    return {
        "form": "UNF",
        "id": id,
        "type": "AND" if isinstance(tree, _All) else "OR",
        "criterias": [_unrestricted(part, f"{id}_{n}") for n, part in enumerate(deeper)],
        "predicates": [part for part in tree.parts if isinstance(part, dict)],
    }
