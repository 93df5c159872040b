"""Explains why a rule matches an event or not: the rule's tree with the result of each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from tamis.expr.evaluate import evaluate_flat
from tamis.expr.event import FlatEvent
from tamis.expr.functions.derive import describe_attribute, values_of
from tamis.expr.html import write_text
from tamis.expr.joins.subqueries import join_named
from tamis.expr.joins.write import aggregate_text
from tamis.expr.model import And, Expr, Logic, Not, Or, Predicate, Value
from tamis.expr.names import JOINED, is_aggregate
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.write import to_sql

__all__ = ["Explanation", "Status", "explain_flat", "format_values", "values_to_json"]

Status: TypeAlias = Literal["held", "did not hold", "absent", "unknown"]
"""The result of a part of a rule.

A predicate is "absent" if its attribute is, which makes it unknown or false. An AND, OR or NOT is
"unknown" if an absent attribute leaves it undecided.
"""

_MARKS: dict[Status, str] = {"held": "✓", "did not hold": "✗", "absent": "∅", "unknown": "?"}
_HTML_COLOURS: dict[Status, str] = {
    "held": "good",
    "did not hold": "bad",
    "absent": "faint",
    "unknown": "faint",
}
_SHOWN_VALUES = 8
_NONE_COUNTED: Mapping[str, tuple[str | int, ...]] = {}


class Explanation(msgspec.Struct, frozen=True):
    """A part of a rule, its result on an event, and its own parts.

    Prints as an indented tree; :meth:`to_json` gives the same as plain data.
    """

    text: str
    """The part as text: a predicate, or AND, OR, NOT, TRUE, FALSE."""
    status: Status
    attribute: str | None = None
    """A predicate's attribute."""
    values: tuple[Value, ...] = ()
    """The event's values of that attribute."""
    children: tuple[Explanation, ...] = ()
    documents: tuple[str | int, ...] = ()
    """The ids of the documents that a join predicate or an aggregate counted."""
    nodes: tuple[str, ...] = ()
    """The nodes of a hierarchy that the predicate names and the event's values lie below."""

    @property
    def held(self) -> bool:
        """Whether this part is true; for the whole tree, whether the rule matches."""
        return self.status == "held"

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        line = f"{'  ' * depth}{_MARKS[self.status]} {self.text}"
        about = f"{self.attribute} {format_values(self.values)}: " if self.attribute else ""
        if self.nodes:
            about = about.removesuffix(": ") + f", in {', '.join(map(repr, self.nodes))}: "
        counted = f"; {_format_documents(self.documents)}" if self.documents else ""
        yield f"{line}   [{about}{self.status}{counted}]"
        for child in self.children:
            yield from child._lines(depth + 1)

    def _repr_html_(self) -> str:
        return f'<ul style="list-style:none;padding-left:0;margin:0">{self._to_html()}</ul>'

    def _to_html(self) -> str:
        mark = write_text(_MARKS[self.status], _HTML_COLOURS[self.status])
        about = f"{self.attribute} {format_values(self.values)}: " if self.attribute else ""
        if self.nodes:
            about = about.removesuffix(": ") + f", in {', '.join(map(repr, self.nodes))}: "
        counted = f"; {_format_documents(self.documents)}" if self.documents else ""
        note = write_text(f"{about}{self.status}{counted}", "faint")
        parts = "".join(child._to_html() for child in self.children)
        nested = f'<ul style="list-style:none;padding-left:1.4em;margin:0">{parts}</ul>'
        return f"<li>{mark} {write_text(self.text)} {note}{nested if parts else ''}</li>"

    def to_json(self) -> dict[str, Any]:
        """The tree as dicts, lists, strings, numbers and booleans."""
        plain: dict[str, Any] = {"text": self.text, "status": self.status}
        if self.attribute is not None:
            plain["attribute"] = self.attribute
            plain["values"] = values_to_json(self.values)
        if self.nodes:
            plain["nodes"] = list(self.nodes)
        if self.documents:
            plain["documents"] = list(self.documents)
        if self.children:
            plain["children"] = [child.to_json() for child in self.children]
        return plain


def explain_flat(
    expr: Expr,
    event: FlatEvent,
    logic: Logic,
    counted: Mapping[str, tuple[str | int, ...]] = _NONE_COUNTED,
    expand: Callable[[Expr], Expr] = lambda part: part,
    find_nodes: Callable[[Predicate, Sequence[Value]], tuple[str, ...]] = lambda part, values: (),
) -> Explanation:
    """Explain `expr` on a flat event with its join attributes.

    Parameters
    ----------
    counted
        The documents that each join attribute counts.
    expand
        What a part of the rule means by the schema.
    find_nodes
        The nodes of a hierarchy that hold for a predicate.
    """
    truth = evaluate_flat(expand(expr), event, logic)
    if isinstance(expr, Predicate) and expr.attribute.startswith(JOINED):
        known: Status = "unknown" if expr.attribute not in event else "did not hold"
        documents = counted.get(expr.attribute, ())
        status: Status = "held" if truth else known
        if not is_aggregate(expr.attribute):
            return Explanation(to_sql(expr), status, documents=documents)
        values = tuple(event.get(expr.attribute, ()))
        name = _aggregate_name(expr.attribute)
        return Explanation(to_sql(expr), status, name, values, documents=documents)
    if isinstance(expr, Predicate):
        attribute, values = describe_attribute(expr, event)
        is_there = values_of(expr, event) is not None
        status = "held" if truth else "did not hold" if is_there else "absent"
        nodes = find_nodes(expr, values)
        return Explanation(to_sql(expr), status, attribute, values, nodes=nodes)
    more = counted, expand, find_nodes
    status = "unknown" if truth is None else "held" if truth else "did not hold"
    match expr:
        case Not():
            child = explain_flat(expr.child, event, logic, *more)
            return Explanation("NOT", status, children=(child,))
        case And() | Or():
            name = type(expr).__name__.upper()
            if not expr.children:
                return Explanation("TRUE" if isinstance(expr, And) else "FALSE", status)
            children = tuple([explain_flat(c, event, logic, *more) for c in expr.children])
            return Explanation(name, status, children=children)
        case _:
            raise TypeError("only a rule that was not normalised can be explained")


def _aggregate_name(attribute: str) -> str:
    """``COUNT(*)`` or ``SUM(d.x)``, without the condition."""
    aggregate = join_named(attribute).aggregate
    assert aggregate is not None
    return aggregate_text(aggregate)


def _format_documents(ids: Sequence[str | int]) -> str:
    shown = ", ".join(repr(id) for id in ids[:_SHOWN_VALUES])
    more = len(ids) - _SHOWN_VALUES
    noun = "document" if len(ids) == 1 else "documents"
    return f"{noun} {shown}{f', … {more} more' if more > 0 else ''}"


def format_values(values: Sequence[Value]) -> str:
    """An event's values of an attribute, for people."""
    if not values:
        return "is absent"
    shown = ", ".join(_literal(value) for value in values[:_SHOWN_VALUES])
    if len(values) == 1:
        return f"= {shown}"
    more = len(values) - _SHOWN_VALUES
    return f"= [{shown}{f', … {more} more' if more > 0 else ''}]"


def values_to_json(values: Sequence[Value]) -> list[Any]:
    """An event's values of an attribute, for programs."""
    return [_plain(value) for value in values]


def _plain(value: Value) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, LongDecimal) else value


def _literal(value: Value) -> str:
    return repr(value) if isinstance(value, str) else str(_plain(value))
