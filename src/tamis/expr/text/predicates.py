"""One predicate's text, read by one regular expression.

The common predicates need no parser, and a complete predicate means the same wherever it stands.
So the text of a rule can be cut into predicates that are read one by one
(:mod:`tamis.expr.text.two_levels`). A less common predicate, of functions or of two attributes, is
parsed by itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.lexemes import NUMERAL, STRING, WORD
from tamis.expr.model import Op, Predicate, is_unicode
from tamis.expr.names import is_computed
from tamis.expr.text.grammar import parse
from tamis.expr.text.literals import read_literal
from tamis.expr.text.tokens import RESERVED

__all__ = ["is_half_between", "read_predicate"]

_NAME = rf"""(?:{WORD}|"[^"]+"|`[^`]+`)"""
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_VALUE = rf"(?:(?:DATE\ |TIMESTAMP\ )?{STRING}|-?{NUMERAL}|TRUE|FALSE)"
_PREDICATE: Final = re.compile(
    rf"""({_PATH})\ ?
    (?: (=|<>|!=|<=|>=|<|>)\ ?({_VALUE})
      | (NOT\ )?
        (?: IN\ ?\((.*)\)
          | BETWEEN\ ({_VALUE})\ AND\ ({_VALUE})
          | (I?LIKE)\ ({STRING})
        )
      | IS\ (NOT\ )?NULL
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_TERM: Final = re.compile(
    rf"(?:NOT\ )?(?:{WORD}\(|{_PATH}\ ?(?:[-+*/%]|[<>=!]{{1,2}}\ ?[A-Za-z_\"`]))", re.ASCII
)
"""How a predicate begins that may hold a function, arithmetic, or two attributes."""
_HALF: Final = re.compile(rf"{_PATH}\ (?:NOT\ )?BETWEEN\ {_VALUE}", re.ASCII)
_NAMES: Final = re.compile(_NAME, re.ASCII)
_ITEM: Final = re.compile(rf"({_VALUE})(?:,\ ?|\Z)", re.ASCII)
_MOST_QUOTES: Final = 1_000
"""A text with more doubled quotes than that is parsed: a pattern remembers where each one is."""
_COMPARISONS: Final = {
    "<>": (Op.EQ, True),
    "!=": (Op.EQ, True),
    **{op.value: (op, False) for op in (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)},
}


def read_predicate(text: str) -> Predicate | None:
    """The predicate that `text` spells; None if it spells none, or one that is not common."""
    match = _PREDICATE.fullmatch(text) if text.count("''") <= _MOST_QUOTES else None
    if match is None:
        return _parse_predicate(text) if _TERM.match(text) else None
    path, comparison, value, negation, listed, low, high, like, pattern, is_not = match.groups()
    attribute = _read_attribute(path)
    if attribute is None:
        return None
    try:
        if comparison:
            op, negated = _COMPARISONS[comparison]
            return Predicate(attribute, op, (read_literal(value),), negated)
        negated = negation is not None
        if listed is not None:
            sources = _split_list(listed)
            values = tuple([read_literal(source) for source in sources])
            return Predicate(attribute, Op.IN, values, negated) if values else None
        if low:
            return Predicate(
                attribute, Op.BETWEEN, (read_literal(low), read_literal(high)), negated
            )
        if like:
            return validate.build_predicate(attribute, Op(like), (read_literal(pattern),), negated)
        return Predicate(attribute, Op.PRESENT, (), is_not is None)
    except RuleError:
        return None


def _parse_predicate(text: str) -> Predicate | None:
    """The predicate that the parser reads; None if `text` is not exactly one."""
    try:
        expr = parse(text)
    except RuleError:
        return None
    return expr if isinstance(expr, Predicate) else None


def _split_list(listed: str) -> list[str]:
    """The literals between commas; none if anything else is between them."""
    sources: list[str] = []
    at, find = 0, _ITEM.match
    while item := find(listed, at):
        sources.append(item[1])
        at = item.end()
    is_whole = at == len(listed) and listed[-1:] not in (",", " ")
    return sources if is_whole else []


def is_half_between(text: str) -> bool:
    """Whether `text` is a BETWEEN that was cut at its AND."""
    return _HALF.fullmatch(text) is not None


@lru_cache(maxsize=65_536)
def _read_attribute(path: str) -> str | None:
    """The attribute that `path` names; None where it may be something else."""
    first, *rest = _NAMES.findall(path)
    if first.upper() in RESERVED or not is_unicode(path):
        return None
    name = ".".join(name[1:-1] if name[0] in '"`' else name for name in (first, *rest))
    return None if is_computed(name) else name
