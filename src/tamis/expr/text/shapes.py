"""The fast road for rules of the same shape: those that differ in their literals only.

Large rule sets often come from templates: ``age IN (3, 4) AND state <> 'CA'`` and a million like
it. One regular expression cuts a text into its literals and the *shape* around them. The first
rule of a shape is parsed in full. For the second, the shape is parsed with unique stand-in
literals, *sentinels*; where each appears in the tree is where the literals of later rules go.

The regular expression does not know the language. It only has to agree with the tokenizer on where
strings and quoted names end. A shape gets no template, and its rules are parsed in full, unless
each sentinel appears exactly once as a value of a predicate and no part of the tree depends on
what the literals are. A rule that is refused is parsed in full, too, for the error's position.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from tamis.errors import RuleError, report_defect
from tamis.expr.lexemes import NUMERAL, STRING
from tamis.expr.model import Expr, Predicate, Value, predicates
from tamis.expr.text import literals
from tamis.expr.text.grammar import parse, parse_template
from tamis.expr.text.templates import Leaf, Slot, Template

__all__ = ["Shapes"]

_PIECES: Final = re.compile(
    rf"""(?=["'`0-9])(?:            # a cheap test first: it is tried at each character
        ("[^"]*"|`[^`]*`)           # a quoted name belongs to the shape
      | ( {STRING}
        | (?<![\w.])(?: [0-9]+(?![\w.]) ()        # marks an integer
                     | {NUMERAL}(?![\w.]) () )    # marks a double
        )
    )""",
    re.VERBOSE,
)
"""Splits a text into what is between matches, and for each match its four groups."""

_STRIDE: Final = 5
_NAME, _LITERAL, _INTEGER, _DOUBLE = 1, 2, 3, 4

_KEYWORD: Final = re.compile(r"\b(DATE|TIMESTAMP|ESCAPE)\s*\Z", re.IGNORECASE)
"""A word right before a string that restricts what the string may be."""

_MAX_TEXT: Final = 4096
_MAX_LITERALS: Final = 256
"""A longer rule is parsed in full: it is likely one of a kind, and its shape takes memory."""

_Shape: TypeAlias = tuple[str | None, ...]


class Shapes:
    """The shapes seen so far, and the template of each that came twice.

    Threads may share it: at worst two of them derive the same template.

    Parameters
    ----------
    limit
        How many templates to keep; rules of further shapes are parsed in full.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._seen_once: set[_Shape] = set()
        self._templates: dict[_Shape, Template | None] = {}

    def parse(self, text: str) -> Expr:
        """As :func:`tamis.expr.text.grammar.parse`, but faster for shapes seen before."""
        try:
            split = self.split(text)
            if split is not None:
                template, literals = split
                return template.fill(literals)
        except RuleError:
            pass
        except Exception as error:
            report_defect(error)
        return parse(text)

    def split(self, text: str) -> tuple[Template, list[str]] | None:
        """The template of `text` and its literals; None if it has to be parsed in full."""
        if not isinstance(text, str) or len(text) > _MAX_TEXT:
            return None
        pieces: list[str | None] = _PIECES.split(text)
        literals = pieces[_LITERAL::_STRIDE]
        del pieces[_LITERAL::_STRIDE]
        shape = tuple(pieces)
        template = self._templates.get(shape)
        if template is None:
            template = self._derive(shape, text)
            if template is None:
                return None
        # A quoted name leaves a None in the list.
        return template, [literal for literal in literals if literal is not None]

    def _derive(self, shape: _Shape, text: str) -> Template | None:
        """The template of a shape that has none yet, if this is its second rule."""
        if shape in self._templates or len(self._templates) >= self._limit:
            return None
        if shape not in self._seen_once:
            if len(self._seen_once) >= self._limit:
                self._seen_once.clear()
            self._seen_once.add(shape)
            return None
        template = self._templates[shape] = _derive_template(text)
        self._seen_once.discard(shape)
        return template


class _Sentinel(NamedTuple):
    source: str
    value: Value
    convert: Callable[[str], Value]


def _derive_template(text: str) -> Template | None:
    """The template of the shape of `text`, or None if it cannot have one."""
    pieces: list[str | None] = _PIECES.split(text)
    sentinels: list[_Sentinel] = []
    for literal_at in range(_LITERAL, len(pieces), _STRIDE):
        if pieces[literal_at] is None:
            continue
        sentinel = _make_sentinel(len(sentinels), pieces, literal_at)
        pieces[literal_at] = sentinel.source
        sentinels.append(sentinel)
    if len(sentinels) > _MAX_LITERALS:
        return None
    try:
        expr = parse_template("".join([piece for piece in pieces if piece]))
    except RuleError:
        return None
    if expr is None:
        return None
    slots = _slots_by_value(sentinels)
    leaves = tuple([_make_leaf(predicate, slots) for predicate in predicates(expr)])
    found = [value.literal for leaf in leaves for value in leaf.values if isinstance(value, Slot)]
    return Template(expr, leaves) if sorted(found) == list(range(len(sentinels))) else None


def _make_sentinel(index: int, pieces: list[str | None], literal_at: int) -> _Sentinel:
    """A literal that rules do not use, of the same kind as the one that it stands for."""
    if pieces[literal_at - _LITERAL + _INTEGER] is not None:
        whole = 7_310_000_000_000_000 + index
        return _Sentinel(str(whole), whole, literals.read_integer)
    if pieces[literal_at - _LITERAL + _DOUBLE] is not None:
        double = 7_310_000_000_000.5 + index
        return _Sentinel(repr(double), double, literals.read_double)
    before = _KEYWORD.search(pieces[literal_at - _LITERAL] or "")
    keyword = before[1].upper() if before else ""
    if keyword == "ESCAPE":
        # One character of the private use area, which has more characters than a rule literals.
        string = chr(0xE000 + index)
    elif keyword:
        moment = datetime(1310, 1, 1, tzinfo=UTC) + timedelta(days=index)
        convert = _read_quoted_day if keyword == "DATE" else _read_quoted_timestamp
        return _Sentinel(f"'{moment.date()}'", moment, convert)
    else:
        string = f"sentinel\uf8ff{index}"
    return _Sentinel(f"'{string}'", string, literals.read_string)


def _slots_by_value(sentinels: list[_Sentinel]) -> dict[Value, Slot]:
    slots: dict[Value, Slot] = {}
    for index, (_, value, convert) in enumerate(sentinels):
        slots[value] = Slot(index, convert)
        if isinstance(value, int | float):
            slots[-value] = Slot(index, literals.read_negative)
    return slots


def _make_leaf(predicate: Predicate, slots: dict[Value, Slot]) -> Leaf:
    values = tuple([slots.get(value, value) for value in predicate.values])
    return Leaf(predicate.attribute, predicate.op, values, predicate.negated)


def _read_quoted_day(source: str) -> Value:
    return literals.read_day(literals.read_string(source))


def _read_quoted_timestamp(source: str) -> Value:
    return literals.read_timestamp(literals.read_string(source))
