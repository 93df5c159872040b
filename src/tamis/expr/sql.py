"""The text form of a rule, like the WHERE clause of SQL: ``age IN (3, 4) AND state <> 'CA'``.

:func:`parse` and :func:`to_sql` are inverse: the text keeps whatever the model tells apart.
ANDs that are nested by parentheses stay nested. A NOT right before a positive predicate
negates it, ``NOT x < 5``, ``NOT x = 3`` (which is ``x <> 3``); before parentheses, or where
the predicate is negated already, it is a node of its own.

sqlglot cuts the text into tokens (:mod:`tamis.expr.tokens`), but its parser is not used: it
takes much that is no rule (``x BETWEEN 1 2``, ``x = 'a' 'b'``), keeps no positions of
literals, and recurses. The grammar is small; reading it here lets every error say what was
expected, and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from types import UnionType
from typing import Any, Final, TypeVar

from tamis.errors import PatternError, RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr import check
from tamis.expr.joins import FLIPPED, Join, Quantifier
from tamis.expr.literals import day, number, spell, timestamp
from tamis.expr.model import (
    FALSE,
    MAX_DEPTH,
    TRUE,
    And,
    Expr,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    all_of,
    any_of,
    check_size,
    value_of_literal,
)
from tamis.expr.names import JOINED
from tamis.expr.subqueries import (
    SubqueryReader,
    at_exists,
    at_quantifier,
    at_select,
    join_text,
)
from tamis.expr.tokens import (
    BOOLEAN,
    END,
    NAME,
    NUMBER,
    QUOTED_NAME,
    RESERVED,
    STRING,
    kind_of,
    tokenize,
)

__all__ = ["join_of", "joined", "parse", "to_sql"]


def parse(text: str) -> Expr:
    """The rule that `text` spells.

    Raises
    ------
    RuleSyntaxError
        `text` is no rule; the error knows the position and prints with a caret.
    PatternError
        A LIKE pattern or a regular expression is invalid.
    RuleTooLargeError
        The rule has too many nodes or is nested too deep.
    """
    if not isinstance(text, str):
        raise RuleError(f"a rule's text is a string, not {type(text).__name__}")
    expr = _Reader(text).rule()
    check_size(expr)
    return expr


def to_sql(expr: Expr) -> str:
    """The text that :func:`parse` reads as `expr`."""
    pieces: list[str] = []
    stack: list[Expr | str] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif isinstance(item, Predicate):
            pieces.append(_predicate_text(item))
        elif isinstance(item, Not):
            pieces.append("NOT ")
            stack += _in_parentheses(item.child, unless=Not)
        elif isinstance(item, And | Or):
            stack += _joined(item)
        else:
            raise RuleError(f"{type(item).__name__} has no text form")
    return "".join(pieces)


def joined(join: Join) -> Predicate:
    """What a join predicate is in the tree of a rule."""
    text = join_text(join, _text_on, _name_text)
    return Predicate(JOINED + text, Op.EQ, (True,))


@lru_cache(maxsize=65_536)
def join_of(name: str) -> Join:
    """The join predicate that works out the attribute `name`.

    Raises
    ------
    RuleError
        `name` is none that :func:`joined` gives.
    """
    reader = _Reader(name.removeprefix(JOINED))
    join = reader.join()
    if reader.kinds[reader.at] != END or joined(join).attribute != name:
        raise RuleError(f"{name!r} names no join predicate")
    return join


# --- From the model to text -------------------------------------------------------------

_BARE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


def _joined(expr: And | Or) -> list[Expr | str]:
    """The children of `expr` with the connective between them, last one first."""
    if not expr.children:
        return ["TRUE" if isinstance(expr, And) else "FALSE"]
    connective = " AND " if isinstance(expr, And) else " OR "
    pieces: list[Expr | str] = []
    for child in reversed(expr.children):
        pieces += _in_parentheses(child, unless=Predicate | Not)
        pieces.append(connective)
    pieces.pop()
    return pieces


def _in_parentheses(child: Expr, unless: type | UnionType) -> list[Expr | str]:
    if isinstance(child, unless) or child in (TRUE, FALSE):
        return [child]
    return [")", child, "("]


def _predicate_text(predicate: Predicate) -> str:
    if predicate.attribute.startswith(JOINED):
        # The text says NOT to what follows, which for a join predicate is all of it.
        return f"{'NOT ' if predicate.negated else ''}{predicate.attribute[1:]}"
    return _text_on(predicate, _name_text(predicate.attribute))


def _text_on(predicate: Predicate, name: str) -> str:
    """The text of a predicate on an attribute whose name is spelled already."""
    op, negated = predicate.op, predicate.negated
    values = [spell(value) for value in predicate.values]
    if op is Op.PRESENT:
        return f"{name} IS NULL" if negated else f"{name} IS NOT NULL"
    if op is Op.EQ:
        return f"{name} {'<>' if negated else '='} {values[0]}"
    if op in FLIPPED:
        return f"{'NOT ' if negated else ''}{name} {op} {values[0]}"
    if op is Op.IN:
        operand = f"({', '.join(values)})"
    elif op is Op.BETWEEN:
        operand = " AND ".join(values)
    else:
        operand = " ESCAPE ".join(values)
    return f"{name} {'NOT ' if negated else ''}{op} {operand}"


def _name_text(name: str) -> str:
    if _BARE_NAME.fullmatch(name) and RESERVED.keys().isdisjoint(name.upper().split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


# --- From text to the model -------------------------------------------------------------

_MAX_NESTING: Final = 2 * MAX_DEPTH
"""The most parentheses and NOTs that may be open at once: a Not is written ``NOT (…)``."""

_COMPARISONS: Final = {"<>": (Op.EQ, True), **{op.value: (op, False) for op in FLIPPED}}
_TYPES: Final[dict[str, Callable[[str], Value]]] = {"DATE": day, "TIMESTAMP": timestamp}
_NUMERAL: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HINTS: Final = {
    ";": "a text holds one rule",
    "--": "a rule holds no comments",
    "/*": "a rule holds no comments",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT",
    **dict.fromkeys("+-*/%^", "arithmetic is not supported"),
}
"""What to say about the signs of other languages."""

_NO_SUBQUERY: Final = "a subquery stands after EXISTS, IN, ANY or ALL, in parentheses"

_T = TypeVar("_T")


class _Level:
    """What was read since one opening parenthesis: an OR of ANDs of operands."""

    __slots__ = ("ands", "nots", "opened_at", "ors")

    def __init__(self, opened_at: int | None = None) -> None:
        self.opened_at = opened_at
        self.ors: list[Expr] = []
        self.ands: list[Expr] = []
        self.nots = 0

    def add(self, operand: Expr) -> None:
        for _ in range(self.nots):
            operand = Not(operand)
        self.nots = 0
        self.ands.append(operand)

    def end_and(self) -> None:
        self.ors.append(all_of(*self.ands))
        self.ands = []

    def result(self) -> Expr:
        self.end_and()
        return any_of(*self.ors)


class _Reader:
    """Reads the tokens of a text from left to right; `at` is the index of the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.kinds = [kind_of(token) for token in self.tokens]
        self.kinds.append(END)
        self.at = 0

    def rule(self) -> Expr:
        """The whole text; levels of parentheses are kept in a list, not on Python's stack."""
        if not self.tokens:
            raise self.error("the rule is empty; write TRUE for one that matches every event")
        level = _Level()
        outer: list[_Level] = []
        nesting = 0
        while True:
            if self.take("NOT"):
                level.nots += 1
                nesting += 1
            elif self.take("("):
                outer.append(level)
                level = _Level(opened_at=self.at - 1)
                nesting += 1
            else:
                operand = self.operand()
                if level.nots and isinstance(operand, Predicate) and not operand.negated:
                    operand = _negated(operand)
                    level.nots -= 1
                    nesting -= 1
                nesting -= level.nots
                level.add(operand)
                while outer and self.take(")"):
                    operand, level = level.result(), outer.pop()
                    nesting -= 1 + level.nots
                    level.add(operand)
                if self.take("OR"):
                    level.end_and()
                elif not self.take("AND"):
                    if outer or self.kinds[self.at] != END:
                        raise self.after_operand(level)
                    return level.result()
            if nesting > _MAX_NESTING:
                raise RuleTooLargeError(
                    f"the rule is nested more than {MAX_DEPTH} levels deep",
                    position=self.position(self.at - 1),
                )

    def operand(self) -> Expr:
        """A predicate, with its attribute on either side, or TRUE or FALSE."""
        kind = self.kinds[self.at]
        if kind == BOOLEAN and self.kinds[self.at + 1] not in _COMPARISONS:
            return TRUE if self.value() else FALSE
        if kind in (STRING, NUMBER, BOOLEAN, "-", ".") or self.at_typed_literal():
            return self.flipped_comparison()
        if at_exists(self):
            return joined(self.join())
        if kind in (NAME, QUOTED_NAME):
            return self.predicate()
        if kind == "NULL":
            raise self.error("NULL is no value; write IS NULL or IS NOT NULL after an attribute")
        after = f" after {self.source(self.at - 1)!r}" if self.at else ""
        raise self.expected(f"a condition{after}")

    def join(self) -> Join:
        """A join predicate."""
        if at_exists(self):
            return SubqueryReader(self).exists()
        attribute = self.attribute()
        if at_quantifier(self, self.at + 1) is None:
            raise self.expected("ANY or ALL and a subquery")
        return self.quantified(attribute)

    def predicate(self) -> Predicate:
        start = self.at
        attribute = self.attribute()
        kind = self.kinds[self.at]
        if kind in _COMPARISONS and at_quantifier(self, self.at + 1) is not None:
            return joined(self.quantified(attribute))
        is_negated = kind == "NOT"
        if self.kinds[self.at + is_negated] == "IN" and at_select(self, self.at + is_negated + 1):
            self.at += is_negated + 1
            read = SubqueryReader(self).quantified
            member = joined(read(attribute, Op.EQ, False, Quantifier.ANY))
            return _negated(member) if is_negated else member
        return self.predicate_on(attribute, start)

    def quantified(self, attribute: str) -> Join:
        """What follows an attribute: a comparison, ANY or ALL, and a subquery."""
        if self.kinds[self.at] not in _COMPARISONS:
            raise self.expected("a comparison")
        op, negated = _COMPARISONS[self.kinds[self.at]]
        quantifier = at_quantifier(self, self.at + 1)
        assert quantifier is not None
        self.at += 2
        return SubqueryReader(self).quantified(attribute, op, negated, quantifier)

    def predicate_on(self, attribute: str, start: int) -> Predicate:
        """What follows the name of an attribute, which stands at `start`."""
        culprit = start
        kind = self.kinds[self.at]
        if kind in _COMPARISONS:
            op, negated = _COMPARISONS[kind]
            self.at += 1
            values: tuple[Value, ...] = (self.value(),)
        elif self.take("IS"):
            op, values = Op.PRESENT, ()
            negated = not self.take("NOT")
            if not self.take("NULL"):
                raise self.expected("NULL or NOT NULL after IS", "compare with = instead")
        else:
            negated = self.take("NOT")
            kind = self.kinds[self.at]
            if kind not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"):
                raise self.after_attribute(attribute, start, negated)
            self.at += 1
            culprit = self.at
            op, values = Op(kind), self.operands_of(kind)
        return self.checked(culprit, check.predicate, attribute, op, values, negated)

    def operands_of(self, kind: str) -> tuple[Value, ...]:
        if kind == "IN":
            return self.value_list()
        first = self.value()
        if kind == "BETWEEN":
            if not self.take("AND"):
                raise self.expected("AND between the two values of BETWEEN")
            return (first, self.value())
        if self.kinds[self.at] == NAME and self.tokens[self.at].text.upper() == "ESCAPE":
            self.at += 1
            return (first, self.value())
        return (first,)

    def flipped_comparison(self) -> Predicate:
        start = self.at
        value = self.value()
        kind = self.kinds[self.at]
        if kind not in _COMPARISONS:
            raise self.expected("a comparison after the value, as in 3 < x")
        op, negated = _COMPARISONS[kind]
        self.at += 1
        if self.kinds[self.at] not in (NAME, QUOTED_NAME) or self.at_typed_literal():
            raise self.expected(f"an attribute on one side of {kind!r}")
        attribute = self.attribute()
        return self.checked(start, check.predicate, attribute, FLIPPED[op], (value,), negated)

    def attribute(self) -> str:
        start = self.at
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        name = ".".join(parts)
        if self.kinds[self.at] == "(":
            message = f"unknown function {name}; a rule compares attributes with values"
            raise self.error(message, start)
        return name

    def name(self) -> str:
        """A name, which after a dot may be a reserved word."""
        kind = self.kinds[self.at]
        if kind == END or not (kind == QUOTED_NAME or self.tokens[self.at].text.isidentifier()):
            raise self.expected("a name", 'put one with other characters in "quotes"')
        self.at += 1
        return self.tokens[self.at - 1].text

    def value_list(self) -> tuple[Value, ...]:
        if not self.take("("):
            raise self.expected("'(' after IN")
        opened_at = self.at - 1
        if self.kinds[self.at] == ")":
            raise self.expected("a value after '('", "an IN list holds at least one")
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        if not self.take(")"):
            raise self.expected(f"',' or ')' in the list that starts {self.place(opened_at)}")
        return tuple(values)

    def value(self) -> Value:
        start = self.at
        kind = self.kinds[start]
        if kind == STRING:
            self.at += 1
            return self.checked(start, value_of_literal, self.tokens[start].text)
        if kind in (NUMBER, "-", "."):
            return self.number()
        if kind == BOOLEAN:
            self.at += 1
            return self.tokens[start].text.upper() == "TRUE"
        if self.at_typed_literal():
            return self.typed_literal()
        raise self.no_value()

    def number(self) -> Value:
        start = self.at
        negative = self.take("-")
        first = self.at
        self.take(".")
        if not self.take(NUMBER):
            raise self.expected(f"a number after {self.source(start)!r}")
        numeral = self.text[self.tokens[first].start : self.tokens[self.at - 1].end + 1]
        if not _NUMERAL.fullmatch(numeral):
            raise self.error(f"{numeral[:40]!r} is no number", first)
        size = self.checked(start, number, numeral)
        return self.checked(start, value_of_literal, -size if negative else size)

    def at_typed_literal(self) -> bool:
        """Whether ``DATE '…'``, ``TIMESTAMP '…'`` or ``CAST(…)`` comes next."""
        if self.kinds[self.at] != NAME:
            return False
        word = self.tokens[self.at].text.upper()
        following = self.kinds[self.at + 1]
        return following == STRING if word in _TYPES else following == "(" and word == "CAST"

    def typed_literal(self) -> Value:
        word = self.tokens[self.at].text.upper()
        if word in _TYPES:
            text_at = self.at + 1
            self.at += 2
        else:
            text_at = self.at + 2
            word = self.type_of_cast()
        return self.checked(text_at, _TYPES[word], self.tokens[text_at].text)

    def type_of_cast(self) -> str:
        words = [token.text.upper() for token in self.tokens[self.at : self.at + 6]]
        is_cast = self.kinds[self.at : self.at + 6] == [NAME, "(", STRING, NAME, NAME, ")"]
        if not is_cast or words[3] != "AS" or words[4] not in _TYPES:
            raise self.error("expected CAST('…' AS DATE) or CAST('…' AS TIMESTAMP)")
        self.at += 6
        return words[4]

    def take(self, kind: str) -> bool:
        """Step over the next token if it is of that kind."""
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def checked(self, culprit: int, function: Callable[..., _T], *arguments: Any) -> _T:
        """What `function` returns; its complaint is about the token `culprit`."""
        try:
            return function(*arguments)
        except PatternError as error:
            error.position = self.position(culprit)
            raise
        except RuleError as error:
            raise self.error(error.message, culprit) from None

    # Errors: what was expected, and what to write instead.

    def error(self, message: str, at: int | None = None) -> RuleSyntaxError:
        position = self.position(self.at if at is None else at)
        return RuleSyntaxError(message, text=self.text, position=position)

    def expected(self, what: str, hint: str = "") -> RuleSyntaxError:
        message = f"expected {what}"
        if self.kinds[self.at] != END:
            message += f", not {self.source(self.at)[:40]!r}"
            start = self.position(self.at)
            hint = hint or _HINTS.get(self.text[start : start + 2], "")
            hint = hint or _HINTS.get(self.text[start], "")
        return self.error(f"{message}; {hint}" if hint else message)

    def after_attribute(self, attribute: str, start: int, negated: bool) -> RuleSyntaxError:
        if negated:
            return self.expected("IN, BETWEEN, LIKE, ILIKE or RLIKE after NOT")
        if attribute.upper() == "SELECT":
            return self.error(_NO_SUBQUERY, start)
        is_alone = self.kinds[self.at] in (END, "AND", "OR", ")")
        hint = f"write {_name_text(attribute)} = TRUE" if is_alone else ""
        return self.expected(f"a comparison after the attribute {attribute!r}", hint)

    def after_operand(self, level: _Level) -> RuleSyntaxError:
        kind = self.kinds[self.at]
        if kind == ")":
            return self.error("this ')' closes nothing")
        if kind == END and level.opened_at is not None:
            return self.error(f"expected ')' to close the '(' {self.place(level.opened_at)}")
        if kind in _COMPARISONS:
            return self.error(f"unexpected {kind!r} after a comparison; join two with AND")
        return self.expected(f"AND, OR or {'the end' if level.opened_at is None else repr(')')}")

    def no_value(self) -> RuleSyntaxError:
        start = self.at
        kind = self.kinds[start]
        what = f"a value after {self.source(start - 1)!r}"
        if kind == "NULL":
            return self.error("NULL is no value; write IS NULL or IS NOT NULL")
        if kind in _COMPARISONS:
            return self.expected(what, "one sign is enough")
        if kind not in (NAME, QUOTED_NAME):
            return self.expected(what)
        name = self.attribute()
        self.at = start
        if name.upper() == "SELECT":
            return self.error(_NO_SUBQUERY)
        return self.expected(what, f"two attributes do not compare; a string is {spell(name)}")

    def place(self, at: int) -> str:
        return f"at character {self.position(at) + 1}"

    def position(self, at: int) -> int:
        return self.tokens[at].start if at < len(self.tokens) else len(self.text.rstrip())

    def source(self, at: int) -> str:
        return self.text[self.tokens[at].start : self.tokens[at].end + 1]


def _negated(predicate: Predicate) -> Predicate:
    return Predicate(predicate.attribute, predicate.op, predicate.values, negated=True)
