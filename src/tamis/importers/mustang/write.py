"""Writes rules as Mustang's criteria.

A rule in DNF or CNF becomes a criteria of that form, any other rule an unrestricted one (UNF).
Where Mustang treats a missing attribute differently, predicates on existence are added.
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
from tamis.expr.names import is_computed
from tamis.expr.patterns import like_parts
from tamis.expr.text.write import to_sql
from tamis.expr.weights import RuleWeights
from tamis.importers.event_paths import path_to
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
"""Characters with a special meaning in Java's regular expressions."""


def write(rule: Rule) -> dict[str, Any]:
    """Convert `rule` to a criteria, in the JSON form that Mustang reads.

    Raises
    ------
    RuleError
        Mustang has no equivalent; the message names the part.
    """
    writer = _Writer(rule.logic, RuleWeights.of(rule.weights, rule.expr))
    tree = writer.write_tree(rule.expr, negated=False)
    if isinstance(tree, _Any) and not tree.parts:
        raise RuleError("no criteria is equivalent to a rule that never matches")
    head: dict[str, Any] = {"id": str(rule.id)}
    conjunctions = _split_levels(tree, _Any, _All)
    if conjunctions is not None:
        parts = [{"type": "AND", "predicates": part} for part in conjunctions]
        # A tautology has no conjunctions at all.
        parts = [] if parts == [{"type": "AND", "predicates": []}] else parts
        return {"form": "DNF", **head, "conjunctions": parts}
    disjunctions = _split_levels(tree, _All, _Any)
    if disjunctions is not None:
        parts = [{"type": "OR", "predicates": part} for part in disjunctions]
        return {"form": "CNF", **head, "disjunctions": parts}
    return _write_unrestricted(tree, str(rule.id))


@dataclass
class _All:
    parts: list[Any]


@dataclass
class _Any:
    parts: list[Any]


_Tree = _All | _Any | dict[str, Any]
"""A tree over Mustang's predicates."""


class _Writer(NamedTuple):
    """Pushes every NOT down to the predicates, and writes them."""

    logic: Logic
    weights: RuleWeights

    def write_tree(self, expr: Expr, negated: bool) -> _Tree:
        match expr:
            case Predicate():
                return self.write_predicate(expr.positive, negated is not expr.negated)
            case Not():
                return self.write_tree(expr.child, not negated)
            case And() | Or():
                parts = [self.write_tree(child, negated) for child in expr.children]
                if isinstance(expr, And) is not negated:
                    return _Any([]) if _Any([]) in parts else _All(_flatten(parts, _All))
                return _All([]) if _All([]) in parts else _Any(_flatten(parts, _Any))
        raise RuleError(f"{type(expr).__name__} is not part of a rule")

    def write_predicate(self, predicate: Predicate, negated: bool) -> _Tree:
        if predicate.op is Op.PRESENT:
            return _write_existence(predicate.attribute, not negated)
        subject = _find_subject(predicate.attribute)
        written = {
            "type": "EXCLUDED" if negated else "INCLUDED",
            "lhs": path_to(subject.attribute),
            "preOperations": subject.operations or [{"type": "IDENTITY"}],
            "detail": _write_detail(subject, predicate),
            "weight": 1 if negated else _find_weight(predicate, self.weights),
        }
        if negated and self.logic == "strong":
            return _All([_write_existence(subject.attribute, True), written])
        return written


def _flatten(parts: list[_Tree], kind: type[_All | _Any]) -> list[_Tree]:
    """`parts`, with those of the same `kind` replaced by their own parts."""
    flat: list[_Tree] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return flat


def _write_existence(attribute: str, exists: bool) -> dict[str, Any]:
    return {
        "type": "INCLUDED",
        "lhs": path_to(_find_subject(attribute).attribute),
        "preOperations": [{"type": "IDENTITY"}],
        "detail": {"caveat": "EXISTENCE" if exists else "NON_EXISTENCE"},
        "weight": 1,
    }


def _find_weight(predicate: Predicate, weights: RuleWeights) -> int:
    found = {weights.get(predicate, value) for value in predicate.values}
    weight = found.pop()
    if found or weight != int(weight) or weight < 1:
        raise RuleError(
            f"the weights of {to_sql(predicate)} are not one positive integer, as Mustang requires"
        )
    return int(weight)


# --- The subject of a predicate ----------------------------------------------------------


class _Subject(NamedTuple):
    attribute: str
    operations: list[dict[str, Any]]
    function: str = ""
    """The function that the predicate's detail expresses."""


def _find_subject(name: str) -> _Subject:
    if not is_computed(name):
        return _Subject(name, [])
    term = term_named(name)
    if term.function == "version" or term.function in FAMILIES:
        if len(term.terms) == 1:
            inner = _read_chain(term.terms[0])
            return inner._replace(function=term.function)
        raise _unsupported_error(term.function)
    return _read_chain(term)


def _read_chain(term: Term) -> _Subject:
    """The attribute of a term, and the operations that the term applies to it."""
    if isinstance(term, Attribute):
        return _Subject(term.name, [])
    if not isinstance(term, Call) or not term.terms:
        raise RuleError("Mustang has no predicate on a literal")
    attribute, operations, _ = _read_chain(term.terms[0])
    return _Subject(attribute, [*operations, _write_operation(term)])


def _write_operation(term: Call) -> dict[str, Any]:
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
    raise _unsupported_error(function)


def _unsupported_error(function: str) -> RuleError:
    return RuleError(f"Mustang has no equivalent of the function {function}")


# --- Details ----------------------------------------------------------------------------


def _write_detail(subject: _Subject, predicate: Predicate) -> dict[str, Any]:
    if subject.function == "version":
        if predicate.op not in _CHECKS:
            raise RuleError(f"Mustang cannot compare versions as in {to_sql(predicate)}")
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
            return {"caveat": "EQUALITY", "values": [_check_value(v) for v in predicate.values]}
        case Op.LIKE | Op.ILIKE | Op.RLIKE:
            return {"caveat": "REGEX", "regex": _write_regex(predicate)}
    return {"caveat": "RANGE", **_write_bounds(predicate)}


def _check_value(value: Value) -> Any:
    if isinstance(value, datetime):
        raise RuleError("Mustang has no values that are times")
    return value


def _write_bounds(predicate: Predicate) -> Mapping[str, Any]:
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


def _write_regex(predicate: Predicate) -> str:
    """A regular expression that must match the whole text, as Mustang requires."""
    if predicate.op is Op.RLIKE:
        pattern = str(predicate.values[0])
        if pattern.startswith(r"\A(?:") and pattern.endswith(r")\z"):
            return pattern[len(r"\A(?:") : -len(r")\z")]
        return f"(?s:.*)(?:{pattern})(?s:.*)"
    write_character = _ignore_case if predicate.op is Op.ILIKE else _escape
    parts = [
        ".*" if part is None else write_character(part) if part else "."
        for part in like_parts(predicate)
    ]
    return "(?s)" + "".join(parts)


def _escape(character: str) -> str:
    return "\\" + character if character in _SPECIAL else character


def _ignore_case(character: str) -> str:
    """A lower-case letter in both cases; Java's own flag ignores case for ASCII letters only."""
    upper = character.upper()
    if upper == character or len(upper) > 1:
        return _escape(character)
    return f"[{character}{upper}]"


# --- Forms ---------------------------------------------------------------------------


def _split_levels(
    tree: _Tree, outer: type[_All | _Any], inner: type[_All | _Any]
) -> list[list[dict[str, Any]]] | None:
    """The predicates of a tree of at most two levels, `outer` above `inner`; else None."""
    groups: list[Any] = tree.parts if isinstance(tree, outer) else [tree]
    found: list[list[dict[str, Any]]] = []
    for group in groups:
        members: list[Any] = group.parts if isinstance(group, inner) else [group]
        if not all(isinstance(member, dict) for member in members):
            return None
        found.append(members)
    return found


def _write_unrestricted(tree: _Tree, id: str) -> dict[str, Any]:
    assert not isinstance(tree, dict)
    deeper = [part for part in tree.parts if not isinstance(part, dict)]
    return {
        "form": "UNF",
        "id": id,
        "type": "AND" if isinstance(tree, _All) else "OR",
        "criterias": [_write_unrestricted(part, f"{id}_{n}") for n, part in enumerate(deeper)],
        "predicates": [part for part in tree.parts if isinstance(part, dict)],
    }
