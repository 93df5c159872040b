"""The other fast road in: rules that share their predicates, but not their shape.

``a37 = 39 AND a348 BETWEEN 28 AND 35`` and a million like it over hundreds of attributes have as
many shapes as there are rules, but far fewer predicates. Such a text, an OR of such, or an AND of
ORs in parentheses, is cut at each OR and each AND (`tamis.encode.plain_rules`). A piece that is a
complete predicate by itself means the same in the whole, so it need be read only once, and the
common ones are read by one regular expression.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.model import Op, Predicate, is_unicode
from tamis.expr.names import is_worked_out
from tamis.expr.text.literals import value as literal
from tamis.expr.text.sql import parse
from tamis.expr.text.tokens import RESERVED

__all__ = ["AND", "OR", "is_half", "piece_predicate"]

AND: Final = " AND "
OR: Final = " OR "
"""Where a text is cut. Written otherwise, they only cost the speed of this road."""

_NAME = r"""(?:[A-Za-z_]\w*+|"[^"]++"|`[^`]++`)"""
_PATH = rf"{_NAME}(?:\.{_NAME})*+"
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_VALUE = (
    rf"(?:(?:DATE\ |TIMESTAMP\ )?+{_STRING}|-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
    r"|TRUE|FALSE)"
)
_PIECE: Final = re.compile(
    rf"""({_PATH})\ ?
    (?: (=|<>|!=|<=|>=|<|>)\ ?({_VALUE})
      | (NOT\ )?+
        (?: IN\ ?\(({_VALUE}(?:,\ ?{_VALUE})*+)\)
          | BETWEEN\ ({_VALUE})\ AND\ ({_VALUE})
          | (I?LIKE)\ ({_STRING})
        )
      | IS\ (NOT\ )?+NULL
    )""",
    re.VERBOSE | re.ASCII,
)
_TERM: Final = re.compile(
    rf"(?:NOT\ )?+(?:[A-Za-z_]\w*+\(|{_PATH}\ ?(?:[-+*/%]|[<>=!]{{1,2}}\ ?[A-Za-z_\"`]))", re.ASCII
)
"""How a piece begins that may hold a function, arithmetic, or two attributes."""
_HALF: Final = re.compile(rf"{_PATH}\ (?:NOT\ )?+BETWEEN\ {_VALUE}", re.ASCII)
_NAMES: Final = re.compile(_NAME, re.ASCII)
_VALUES: Final = re.compile(_VALUE, re.ASCII)
_COMPARISONS: Final = {
    "<>": (Op.EQ, True),
    "!=": (Op.EQ, True),
    **{op.value: (op, False) for op in (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)},
}


def piece_predicate(piece: str) -> Predicate | None:
    """The predicate that `piece` is; None if it is none, or none of the common ones."""
    match = _PIECE.fullmatch(piece)
    if match is None:
        return _parsed(piece) if _TERM.match(piece) else None
    path, comparison, value, negation, listed, low, high, like, pattern, is_not = match.groups()
    attribute = _attribute(path)
    if attribute is None:
        return None
    try:
        if comparison:
            op, negated = _COMPARISONS[comparison]
            return Predicate(attribute, op, (literal(value),), negated)
        negated = negation is not None
        if listed:
            values = tuple([literal(source) for source in _VALUES.findall(listed)])
            return Predicate(attribute, Op.IN, values, negated)
        if low:
            return Predicate(attribute, Op.BETWEEN, (literal(low), literal(high)), negated)
        if like:
            return validate.predicate(attribute, Op(like), (literal(pattern),), negated)
        return Predicate(attribute, Op.PRESENT, (), is_not is None)
    except RuleError:
        return None


def _parsed(piece: str) -> Predicate | None:
    """The predicate that `piece` is to the parser; None if it is none, or more than one."""
    try:
        expr = parse(piece)
    except RuleError:
        return None
    return expr if isinstance(expr, Predicate) else None


def is_half(piece: str) -> bool:
    """Whether `piece` is a BETWEEN that was cut at its AND."""
    return _HALF.fullmatch(piece) is not None


@lru_cache(maxsize=65_536)
def _attribute(path: str) -> str | None:
    """The attribute that `path` names; None where it is, or may be, no name."""
    first, *rest = _NAMES.findall(path)
    if first.upper() in RESERVED or not is_unicode(path):
        return None
    name = ".".join(name[1:-1] if name[0] in '"`' else name for name in (first, *rest))
    return None if is_worked_out(name) else name
