"""Sigma's correlations: rules that relate an event to earlier ones.

``event_count`` counts the events that a rule matches, ``value_count`` the different values of a
field in them, and ``temporal`` asks for events of several rules, each within a span of time and in
groups of equal fields. Tamis counts the documents seen before the event, so the event itself, which
Sigma counts too, is added. Documents are all events published, and the conditions of the rules that
are referred to become conditions of a subquery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import RuleError
from tamis.expr.joins.predicate import (
    Aggregate,
    Comparison,
    Condition,
    Every,
    Function,
    Join,
    Quantifier,
    Some,
    Test,
)
from tamis.expr.joins.write import join_name, join_predicate
from tamis.expr.model import And, Atom, Expr, Not, Op, Or, Predicate, all_of, any_of
from tamis.expr.names import display_name, is_computed
from tamis.expr.normalize import nnf

if TYPE_CHECKING:
    from sigma.correlations import SigmaCorrelationRule

__all__ = ["Detection", "convert_correlation", "list_references"]

Detection = Callable[[str], Expr]
"""Finds the condition of a rule by the name or the id that a correlation refers to."""

_OPERATORS: Final = {
    "LT": (Op.LT, False),
    "LTE": (Op.LE, False),
    "GT": (Op.GT, False),
    "GTE": (Op.GE, False),
    "EQ": (Op.EQ, False),
    "NEQ": (Op.EQ, True),
}
_FUNCTIONS: Final = ("EVENT_COUNT", "VALUE_COUNT", "TEMPORAL")


def list_references(content: Any) -> tuple[list[str], bool]:
    """The rules that a document's correlation refers to, and whether they count by themselves."""
    correlation = content.get("correlation") if isinstance(content, dict) else None
    if not isinstance(correlation, dict):
        return [], False
    rules = correlation.get("rules")
    names = [rules] if isinstance(rules, str) else rules if isinstance(rules, list) else []
    return [name for name in names if isinstance(name, str)], correlation.get("generate") is True


def convert_correlation(rule: SigmaCorrelationRule, detection: Detection, time: str) -> Expr:
    """The rule that a correlation stands for.

    Parameters
    ----------
    rule
        The correlation, as pySigma has read it.
    detection
        Finds the rules that it refers to.
    time
        The attribute with the time of an event.

    Raises
    ------
    RuleError
        It is of another type, or one of its rules cannot be a condition of a subquery.
    """
    kind = rule.type.name
    if kind not in _FUNCTIONS:
        raise RuleError(f"a correlation of the type {kind.lower()} is not supported")
    if not rule.rules:
        raise RuleError("a correlation without a list of rules is not supported")
    converter = _Converter(rule, detection, time)
    if kind == "TEMPORAL":
        return converter.convert_temporal()
    if kind == "EVENT_COUNT":
        return converter.convert_count(None)
    field = getattr(rule.condition, "fieldref", None)
    if not isinstance(field, str):
        raise RuleError("a count of the values of several fields is not supported")
    return converter.convert_count(field)


class _Converter:
    """Converts one correlation."""

    def __init__(self, rule: SigmaCorrelationRule, detection: Detection, time: str) -> None:
        self._rule = rule
        self._names = [reference.reference for reference in rule.rules or ()]
        self._detections = {name: detection(name) for name in self._names}
        self._time = time

    def convert_count(self, field: str | None) -> Expr:
        """A count of events, or of the values of a field in them."""
        condition: Any = self._rule.condition
        op, negated = _OPERATORS[condition.op.name]
        alternatives = []
        for name, where in self._subqueries(self._names):
            if field is None:
                count = Join(Quantifier.VALUE, where, aggregate=Aggregate(Function.COUNT))
                # The event itself counts, too.
                holds: Expr = Predicate(join_name(count), op, (condition.count - 1,), negated)
            else:
                holds = _count_values(where, field, op, condition.count, negated)
            alternatives.append(all_of(self._detections[name], holds))
        return any_of(*alternatives)

    def convert_temporal(self) -> Expr:
        """An event of one rule, after events of all others."""
        condition: Any = self._rule.condition
        is_plain = getattr(condition, "op", None) is not None
        if not is_plain or condition.op.name != "GTE" or condition.count != len(self._names):
            raise RuleError("a temporal correlation with a condition of its own is not supported")
        alternatives = []
        for name in self._names:
            others = [
                join_predicate(Join(Quantifier.EXISTS, self._where(name, [other])))
                for other in self._names
                if other != name
            ]
            alternatives.append(all_of(self._detections[name], *others))
        return any_of(*alternatives)

    def _subqueries(self, names: Sequence[str]) -> Iterable[tuple[str, Condition]]:
        """For an event of each rule, the condition on earlier events of these rules."""
        return [(name, self._where(name, names)) for name in names]

    def _where(self, name: str, others: Sequence[str]) -> Condition:
        """The condition on earlier events of `others`, for an event of the rule `name`."""
        span = timedelta(seconds=self._rule.timespan.seconds)
        parts: list[Condition] = [Comparison(self._time, Op.GE, self._time, False, -span)]
        groups = {other: self._group(name, other) for other in others}
        shared = next(iter(groups.values()))
        if all(group == shared for group in groups.values()):
            each = tuple(convert_condition(self._detections[other]) for other in others)
            parts += [*shared, Some(each) if len(each) > 1 else each[0]]
        else:
            parts.append(
                Some(
                    tuple(
                        Every((convert_condition(self._detections[other]), *groups[other]))
                        for other in others
                    )
                )
            )
        return Every(tuple(parts))

    def _group(self, name: str, other: str) -> tuple[Comparison, ...]:
        fields = self._rule.group_by or ()
        return tuple(
            Comparison(self._field(field, other), Op.EQ, self._field(field, name))
            for field in fields
        )

    def _field(self, field: str, name: str) -> str:
        """The field that stands for one of `group-by` in the events of a rule."""
        alias = self._rule.aliases.aliases.get(field)
        if alias is None:
            return field
        for reference, own in alias.mapping.items():
            if reference.reference == name:
                return own
        raise RuleError(f"the alias {field!r} names no field for the rule {name!r}")


def _count_values(where: Condition, field: str, op: Op, count: Any, negated: bool) -> Expr:
    """Compare the number of values, with that of the event itself if it is a new one."""
    aggregate = Aggregate(Function.COUNT_DISTINCT, field)
    values = join_name(Join(Quantifier.VALUE, where, aggregate=aggregate))
    known = Join(Quantifier.EXISTS, Every((where, Comparison(field, Op.EQ, field))))
    is_new = all_of(Predicate(field, Op.PRESENT), Not(join_predicate(known)))
    return any_of(
        all_of(is_new, Predicate(values, op, (count - 1,), negated)),
        all_of(Not(is_new), Predicate(values, op, (count,), negated)),
    )


def convert_condition(detection: Expr) -> Condition:
    """A rule's condition as one on an old document.

    Raises
    ------
    RuleError
        It applies a function to a field.
    """
    return _convert(nnf(detection, "weak"))


def _convert(tree: Expr) -> Condition:
    if isinstance(tree, And | Or):
        children = tuple(map(_convert, tree.children))
        if isinstance(tree, And):
            return Every(children)
        if not children:
            raise RuleError("a rule that never matches cannot be correlated")
        return Some(children)
    assert isinstance(tree, Atom)
    predicate = tree.predicate
    if is_computed(predicate.attribute):
        name = display_name(predicate.attribute)
        raise RuleError(f"a correlation of a rule with {name} is not supported")
    said = Predicate(predicate.attribute, predicate.op, predicate.values, tree.negated)
    test: Condition = Test(said, of_old=True)
    if tree.if_absent and predicate.op is not Op.PRESENT:
        absent = Predicate(predicate.attribute, Op.PRESENT, (), negated=True)
        return Some((Test(absent, of_old=True), test))
    return test
