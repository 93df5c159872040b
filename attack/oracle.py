"""What rules mean, written a second time: from docs/reference/meaning.md and json.md alone.

It imports nothing of Tamis, so that an error in `tamis.expr` is not repeated here. It decides one
rule for many events at once: a set of events is an integer with a bit for each of them, and a rule
is a pair of such sets, where it is true and where it is false. It is unknown on the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Oracle", "as_written", "flatten", "read_literal", "score"]

Form: TypeAlias = Any
"""A rule in the JSON form."""

Flat: TypeAlias = dict[str, list[Any]]
"""The present attributes of an event, with their distinct values."""


class Truth(NamedTuple):
    """The events on which a rule is true, and those on which it is false."""

    true: int
    false: int


def flatten(event: Mapping[str, Any]) -> Flat:
    """The attributes of an event by dotted path, with all values found there."""
    found: dict[str, dict[tuple[str, Any], Any]] = {}
    for path, value in _walk("", event):
        if value is not None and value == value:
            found.setdefault(path, {}).setdefault(_key(value), value)
    return {path: list(values.values()) for path, values in found.items()}


def _walk(path: str, item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, Mapping):
        for name, inner in item.items():
            yield from _walk(f"{path}.{name}" if path else name, inner)
    elif isinstance(item, list | tuple):
        for inner in item:
            yield from _walk(path, inner)
    elif isinstance(item, datetime):
        yield path, item.astimezone(UTC) if item.tzinfo else item.replace(tzinfo=UTC)
    elif isinstance(item, date):
        yield path, datetime(item.year, item.month, item.day, tzinfo=UTC)
    else:
        yield path, item


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    return "string" if isinstance(value, str) else "timestamp"


def _key(value: Any) -> tuple[str, Any]:
    return _kind(value), value


def read_literal(value: Any) -> Any:
    """A value as the JSON form has it: timestamps and decimals are objects."""
    match value:
        case {"timestamp": text}:
            return datetime.fromisoformat(text)
        case {"decimal": text}:
            return Decimal(text)
        case _:
            return value


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compare(sign: str, value: Any, literal: Any) -> bool:
    if _kind(value) != _kind(literal):
        return False
    if isinstance(value, Decimal) or isinstance(literal, Decimal):
        value, literal = as_written(value), as_written(literal)
    return bool(_TESTS[sign](value, literal))


def as_written(number: Any) -> Any:
    """A double with a fraction counts as the decimal that it is written as."""
    is_fraction = isinstance(number, float) and not number.is_integer() and number - number == 0
    return Decimal(repr(number)) if is_fraction else number


def _lower(text: str) -> str:
    return "".join(character.lower()[0] for character in text)


def _is_like(text: str, pattern: str, escape: str | None, fold: bool) -> bool:
    """LIKE by trying all splits of the text, one piece of the pattern at a time."""
    pieces: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            pieces.append(("is", pattern[at]))
        elif character in "%_":
            pieces.append(("many" if character == "%" else "one", ""))
        else:
            pieces.append(("is", character))
        at += 1
    if fold:
        text = _lower(text)
    reached = {0}
    for what, character in pieces:
        if what == "many":
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            wanted = _lower(character) if fold else character
            reached = {
                n + 1 for n in reached if n < len(text) and (what == "one" or text[n] == wanted)
            }
    return len(text) in reached


class _Predicate(NamedTuple):
    attribute: str
    sign: str
    literals: tuple[Any, ...]
    escape: str | None
    negated: bool

    def is_satisfied(self, value: Any) -> bool:
        """Whether one value satisfies the positive form."""
        sign, literals = self.sign, self.literals
        if sign == "present":
            return True
        if sign == "in":
            return any(_compare("=", value, literal) for literal in literals)
        if sign == "between":
            return _compare(">=", value, literals[0]) and _compare("<=", value, literals[1])
        if sign in ("like", "ilike"):
            folds = sign == "ilike"
            return isinstance(value, str) and _is_like(value, literals[0], self.escape, folds)
        if sign == "rlike":
            return isinstance(value, str) and re.search(literals[0], value) is not None
        return _compare(sign, value, literals[0])


def _read_predicate(form: Form) -> _Predicate:
    (operator,) = form.keys() - {"attr", "escape"}
    operand = form[operator]
    if operator == "present":
        return _Predicate(form["attr"], "present", (), None, not operand)
    sign = "=" if operator == "<>" else operator.removeprefix("not ")
    listed = operand if sign in ("in", "between") else [operand]
    literals = tuple(map(read_literal, listed))
    return _Predicate(form["attr"], sign, literals, form.get("escape"), operator != sign)


class Oracle:
    """The events of a batch, ready to be asked.

    Parameters
    ----------
    events
        Mappings, as a caller passes them.
    """

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self._having: dict[str, dict[tuple[str, Any], int]] = {}
        """For each attribute and value, the events that have it."""
        self._known: dict[str, Truth] = {}
        size = 0
        for event in events:
            for attribute, values in flatten(event).items():
                having = self._having.setdefault(attribute, {})
                for value in values:
                    key = _key(value)
                    having[key] = having.get(key, 0) | 1 << size
            size += 1
        self.all = (1 << size) - 1

    def find(self, rule: Form, logic: str) -> int:
        """The events on which a rule is true, as bits."""
        return self._decide(rule, logic).true

    def _decide(self, rule: Form, logic: str) -> Truth:
        if isinstance(rule, bool):
            return Truth(self.all, 0) if rule else Truth(0, self.all)
        if "not" in rule:
            inner = self._decide(rule["not"], logic)
            return Truth(inner.false, inner.true)
        if "and" in rule:
            true, false = self.all, 0
            for child in rule["and"]:
                part = self._decide(child, logic)
                true, false = true & part.true, false | part.false
            return Truth(true, false)
        if "or" in rule:
            true, false = 0, self.all
            for child in rule["or"]:
                part = self._decide(child, logic)
                true, false = true | part.true, false & part.false
            return Truth(true, false)
        name = f"{logic}{rule!r}"
        if name not in self._known:
            self._known[name] = self._decide_predicate(_read_predicate(rule), logic)
        return self._known[name]

    def _decide_predicate(self, predicate: _Predicate, logic: str) -> Truth:
        present = satisfied = 0
        for (_, value), events in self._having.get(predicate.attribute, {}).items():
            present |= events
            if predicate.is_satisfied(value):
                satisfied |= events
        if predicate.sign == "present":
            holds, fails = present, self.all & ~present
        else:
            unsatisfied = self.all if logic == "weak" else present
            holds, fails = satisfied, unsatisfied & ~satisfied
        return Truth(fails, holds) if predicate.negated else Truth(holds, fails)


Weigh: TypeAlias = Callable[[str, str, Any], float]
"""The weight of a value of an attribute in a rule's predicate with this operator."""


def score(rule: Form, logic: str, event: Flat, weigh: Weigh) -> float | None:
    """The score of a rule on one event; None if it does not match.

    Parameters
    ----------
    rule, logic
        The rule.
    event
        A flat event.
    weigh
        The weight of the rule times that of the event, for an attribute, an operator and a value.
    """
    return _score(rule, logic, event, weigh, negated=False)


def _score(rule: Form, logic: str, event: Flat, weigh: Weigh, negated: bool) -> float | None:
    if isinstance(rule, bool):
        return 0.0 if rule is not negated else None
    if "not" in rule:
        return _score(rule["not"], logic, event, weigh, not negated)
    connective = next((name for name in ("and", "or") if name in rule), None)
    if connective is None:
        return _score_predicate(_read_predicate(rule), logic, event, weigh, negated)
    parts = [_score(child, logic, event, weigh, negated) for child in rule[connective]]
    held = [part for part in parts if part is not None]
    if (connective == "and") is not negated:
        return sum(held, 0.0) if len(held) == len(parts) else None
    return max(held, default=None)


def _score_predicate(
    predicate: _Predicate, logic: str, event: Flat, weigh: Weigh, negated: bool
) -> float | None:
    negated = predicate.negated is not negated
    values: Sequence[Any] = event.get(predicate.attribute, ())
    satisfied = [value for value in values if predicate.is_satisfied(value)]
    if negated:
        may_be_absent = logic == "weak" or predicate.sign == "present"
        return 0.0 if not satisfied and (values or may_be_absent) else None
    if not satisfied:
        return None
    return sum(weigh(predicate.attribute, predicate.sign, value) for value in satisfied)
