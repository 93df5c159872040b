"""Reads event expressions, and remembers the predicates that it has seen.

Most expressions are predicates joined by AND, one for each attribute, and many events have the same
predicates. So a text is cut at each AND, and a piece that is a complete predicate by itself is read
and analysed only once, as in `tamis.expr.text.two_levels`. Other expressions are parsed as a whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tamis.errors import EventError
from tamis.expr.analysis.event_expressions import (
    Alternative,
    Choice,
    find_alternative,
    find_alternatives,
)
from tamis.expr.model import predicates
from tamis.expr.names import display_name, is_computed
from tamis.expr.normalize import atom_of
from tamis.expr.text.predicates import is_half_between, read_predicate
from tamis.matcher.rule import RuleSource, to_expr
from tamis.matcher.schema import Schema

__all__ = ["EventExpression", "ExpressionReader"]

_AND: Final = " AND "
_MOST_KNOWN: Final = 65_536
"""How many pieces are remembered."""


class EventExpression(NamedTuple):
    """What an event expression stands for."""

    attributes: frozenset[str]
    """The attributes that it mentions."""
    alternatives: list[Alternative]


class _Piece(NamedTuple):
    """A predicate, or the first half of a BETWEEN that was cut at its AND (without a choice)."""

    attribute: str
    choice: Choice | None


class ExpressionReader:
    """Reads event expressions. Safe to use from several threads.

    Parameters
    ----------
    schema
        The declared types of attributes.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[str, _Piece] = {}

    def read(self, event: RuleSource) -> EventExpression:
        """Read an event expression, in any of the forms of a rule.

        Raises
        ------
        RuleError
            It cannot be parsed.
        EventError
            It is not supported; see `tamis.expr.analysis.event_expressions.find_alternatives`.
        """
        if isinstance(event, str):
            choices = self._read_conjunction(event)
            if choices is not None:
                return EventExpression(frozenset(choices), [choices])
        expr = self._schema.adapt_rule(to_expr(event))
        attributes = frozenset(predicate.attribute for predicate in predicates(expr))
        for name in attributes:
            if is_computed(name):
                raise EventError(
                    f"an event expression has predicates on attributes, not on {display_name(name)}"
                )
        return EventExpression(attributes, find_alternatives(expr, self._schema.lines_of))

    def _read_conjunction(self, text: str) -> dict[str, Choice] | None:
        """The choices of an AND of predicates on different attributes; None for other texts."""
        choices: dict[str, Choice] = {}
        half = ""
        for cut in text.split(_AND):
            text = half + cut
            piece = self._known.get(text) or self._read_piece(text)
            if piece is None or piece.attribute in choices:
                return None
            if piece.choice is None:
                half = text + _AND
            else:
                half = ""
                choices[piece.attribute] = piece.choice
        return None if half else choices

    def _read_piece(self, text: str) -> _Piece | None:
        """Read a piece and remember it; None if it is not a predicate that allows some values."""
        predicate = read_predicate(text)
        if predicate is not None:
            predicate = self._schema.adapt(predicate)
            name = predicate.attribute
            if is_computed(name):
                return None
            try:
                found = find_alternative([atom_of(predicate, "strong")], self._schema.lines_of)
            except EventError:
                # Together with other predicates on the attribute it may be allowed.
                return None
            if not found:
                return None
            piece = _Piece(name, found[name])
        elif is_half_between(text):
            piece = _Piece("", None)
        else:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[text] = piece
        return piece
