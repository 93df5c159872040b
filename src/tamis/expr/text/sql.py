"""The text form of a rule, like the WHERE clause of SQL: ``age IN (3, 4) AND state <> 'CA'``.

:func:`parse` and :func:`to_sql` are inverse: the text keeps whatever the model tells apart.
ANDs that are nested by parentheses stay nested. A NOT right before a positive predicate
negates it, ``NOT x < 5``, ``NOT x = 3`` (which is ``x <> 3``); before parentheses, or where
the predicate is negated already, it is a node of its own.

sqlglot cuts the text into tokens (:mod:`tamis.expr.text.tokens`), but its parser is not used: it
takes much that is no rule (``x BETWEEN 1 2``, ``x = 'a' 'b'``), keeps no positions of
literals, and recurses. The grammar is small; reading it here lets every error say what was
expected, and where.
"""

from __future__ import annotations

from functools import lru_cache
from types import UnionType
from typing import Final

from tamis.errors import RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr import validate
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.derive import term_named
from tamis.expr.functions.families import FAMILIES
from tamis.expr.functions.scalar import COMPARISONS, SIGNS
from tamis.expr.functions.terms import (
    Attribute,
    Call,
    Constant,
    Term,
    call,
    check_type,
    name_of,
    name_text,
    spell_term,
)
from tamis.expr.joins.predicate import FLIPPED, Join, Quantifier
from tamis.expr.joins.subqueries import (
    SubqueryReader,
    at_exists,
    at_quantifier,
    at_select,
    join_text,
)
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
)
from tamis.expr.names import DERIVED, JOINED
from tamis.expr.text.literals import spell
from tamis.expr.text.token_reader import LITERALS, Reader
from tamis.expr.text.tokens import BOOLEAN, END, NAME, QUOTED_NAME

__all__ = ["join_of", "joined", "parse", "parse_template", "to_sql"]


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


def parse_template(text: str) -> Expr | None:
    """The rule that `text` spells, if other literals of the same kinds give the same tree.

    Returns None where the tree depends on the literals, as in ``within_box``, which is one range of
    longitudes or two. Raises as :func:`parse` does.
    """
    reader = _Reader(text)
    expr = reader.rule()
    check_size(expr)
    return None if reader.inspected_literals else expr


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
    text = join_text(join, _text_on, name_text)
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
    if predicate.attribute.startswith(DERIVED):
        term = term_named(predicate.attribute)
        condition = _condition_text(term, predicate)
        if condition is not None:
            return f"NOT {condition}" if predicate.negated else condition
        name = f"({spell_term(term)})" if term.function in COMPARISONS else spell_term(term)
    else:
        name = name_text(predicate.attribute)
    return _text_on(predicate, name)


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


def _condition_text(term: Call, predicate: Predicate) -> str | None:
    """The text of a predicate that needs no comparison; None if it does."""
    if predicate.op is not Op.EQ:
        return None
    if term.function in FAMILIES:
        arguments = [*map(spell_term, term.terms), str(predicate.values[0])]
        return f"{term.function}({', '.join(arguments)})"
    is_true = term.function in COMPARISONS and predicate.values[0] is True
    return spell_term(term) if is_true else None


# --- From text to the model -------------------------------------------------------------

_MAX_NESTING: Final = 2 * MAX_DEPTH
"""The most parentheses and NOTs that may be open at once: a Not is written ``NOT (…)``."""

_COMPARISONS: Final = {"<>": (Op.EQ, True), **{op.value: (op, False) for op in FLIPPED}}
_AFTER_TERM: Final = frozenset(
    [*_COMPARISONS, *SIGNS, "IS", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"]
)
"""What stands behind a term in parentheses, and never behind a condition in them."""

_NO_SUBQUERY: Final = "a subquery stands after EXISTS, IN, ANY or ALL, in parentheses"


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


class _Reader(Reader):
    """Reads the tokens of a whole rule."""

    conditions = frozenset(CONDITIONS)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.closing: dict[int, int] = {}
        self.inspected_literals = False
        """Whether the tree read so far depends on what the literals are, beyond their kinds."""

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
            elif self.kinds[self.at] == "(" and not self.at_term():
                self.at += 1
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

    def at_term(self) -> bool:
        """Whether the parenthesis that comes next is that of a term: ``(x + 1) * 2 = 4``."""
        if not self.closing:
            self.closing = _pairs(self.kinds)
        return self.kinds[self.closing.get(self.at, -2) + 1] in _AFTER_TERM

    def operand(self) -> Expr:
        """A condition, with its attribute on either side, or TRUE or FALSE."""
        kind, following = self.kinds[self.at], self.kinds[self.at + 1 : self.at + 2]
        if kind == BOOLEAN and not (following and following[0] in _COMPARISONS):
            return TRUE if self.value() else FALSE
        if at_exists(self):
            return joined(self.join())
        if kind == NAME and following == ["("]:
            word = self.tokens[self.at].text.lower()
            if word in CONDITIONS:
                return self.condition(word)
        if kind in LITERALS or kind in (NAME, QUOTED_NAME, "("):
            return self.predicate()
        if kind == "NULL":
            raise self.error("NULL is no value; write IS NULL or IS NOT NULL after an attribute")
        after = f" after {self.source(self.at - 1)!r}" if self.at else ""
        raise self.expected(f"a condition{after}")

    def condition(self, function: str) -> Expr:
        """A function that is a condition by itself."""
        start = self.at
        self.at += 2
        takes, count, build, inspects_literals = CONDITIONS[function]
        self.inspected_literals |= inspects_literals
        if count:
            terms, values = self.arguments(function, len(takes), count, count)
        else:
            terms, values = self.list_arguments(function)
        for term, wanted in zip(terms, takes, strict=True):
            self.checked(start, check_type, function, term, wanted)
        return self.checked(start, build, terms, values)

    def list_arguments(self, function: str) -> tuple[tuple[Term, ...], tuple[Value, ...]]:
        """A term and a list of literals; the closing parenthesis too."""
        term = self.term()
        if not self.take(","):
            raise self.expected(f"',' and a list, as in {function}(x, ('a', 'b'))")
        values = self.value_list()
        if not self.take(")"):
            raise self.expected(f"')' after the list of {function}")
        return (term,), values

    def predicate(self) -> Predicate:
        start = culprit = self.at
        left = self.term()
        if isinstance(left, Constant):
            return self.flipped_comparison(start, left.value)
        join = self.quantified(left)
        if join is not None:
            return join
        attribute = name_of(left)
        kind = self.kinds[self.at]
        if kind in _COMPARISONS:
            op, negated = _COMPARISONS[kind]
            self.at += 1
            culprit = self.at if isinstance(left, Call) else start
            right = self.term()
            if not isinstance(right, Constant):
                return self.comparison(start, op, left, right, negated)
            values: tuple[Value, ...] = (right.value,)
        elif self.take("IS"):
            op, values = Op.PRESENT, ()
            negated = not self.take("NOT")
            if not self.take("NULL"):
                raise self.expected("NULL or NOT NULL after IS", "compare with = instead")
        else:
            negated = self.take("NOT")
            kind = self.kinds[self.at]
            if kind not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"):
                raise self.after_term(left, start, negated)
            self.at += 1
            culprit = self.at
            op, values = Op(kind), self.operands_of(kind)
        return self.checked(culprit, validate.predicate, attribute, op, values, negated)

    def join(self) -> Join:
        """A join predicate."""
        if at_exists(self):
            return SubqueryReader(self).exists()
        attribute = self.attribute()
        quantifier = at_quantifier(self, self.at + 1)
        if quantifier is None or self.kinds[self.at] not in _COMPARISONS:
            raise self.expected("ANY or ALL and a subquery")
        op, negated = _COMPARISONS[self.kinds[self.at]]
        self.at += 2
        return SubqueryReader(self).quantified(attribute, op, negated, quantifier)

    def quantified(self, left: Term) -> Predicate | None:
        """The join predicate that begins with a term, if it is one: ANY, ALL or IN follows."""
        kind = self.kinds[self.at]
        is_negated = kind == "NOT"
        is_in = self.kinds[self.at + is_negated] == "IN" and at_select(
            self, self.at + is_negated + 1
        )
        is_compared = kind in _COMPARISONS and at_quantifier(self, self.at + 1) is not None
        if not is_in and not is_compared:
            return None
        if not isinstance(left, Attribute):
            raise self.error("a join predicate compares attributes, and no functions of them")
        reader = SubqueryReader(self)
        if is_in:
            self.at += is_negated + 1
            member = joined(reader.quantified(left.name, Op.EQ, False, Quantifier.ANY))
            return _negated(member) if is_negated else member
        op, negated = _COMPARISONS[kind]
        quantifier = at_quantifier(self, self.at + 1)
        assert quantifier is not None
        self.at += 2
        return joined(reader.quantified(left.name, op, negated, quantifier))

    def comparison(self, start: int, op: Op, left: Term, right: Term, negated: bool) -> Predicate:
        """Two terms compared: an attribute that is true or false."""
        term = self.checked(start, call, op.value, (left, right))
        return Predicate(name_of(term), Op.EQ, (True,), negated)

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

    def flipped_comparison(self, start: int, value: Value) -> Predicate:
        """A literal compared with a term."""
        kind = self.kinds[self.at]
        if kind not in _COMPARISONS:
            raise self.expected("a comparison after the value, as in 3 < x")
        op, negated = _COMPARISONS[kind]
        self.at += 1
        if self.kinds[self.at] not in (NAME, QUOTED_NAME, "-", "(") or self.at_typed_literal():
            raise self.expected(f"an attribute on one side of {kind!r}")
        right_at = self.at
        right = self.term()
        if isinstance(right, Constant):
            self.at = right_at
            raise self.expected(f"an attribute on one side of {kind!r}")
        name = name_of(right)
        return self.checked(start, validate.predicate, name, FLIPPED[op], (value,), negated)

    def after_term(self, term: Term, start: int, negated: bool) -> RuleSyntaxError:
        if negated:
            return self.expected("IN, BETWEEN, LIKE, ILIKE or RLIKE after NOT")
        text = spell_term(term)
        if text.upper() == "SELECT":
            return self.error(_NO_SUBQUERY, start)
        if not isinstance(term, Attribute):
            return self.expected(f"a comparison after {text}")
        is_alone = self.kinds[self.at] in (END, "AND", "OR", ")")
        hint = f"write {text} = TRUE" if is_alone else ""
        return self.expected(f"a comparison after the attribute {term.name!r}", hint)

    def after_operand(self, level: _Level) -> RuleSyntaxError:
        kind = self.kinds[self.at]
        if kind == ")":
            return self.error("this ')' closes nothing")
        if kind == END and level.opened_at is not None:
            return self.error(f"expected ')' to close the '(' {self.place(level.opened_at)}")
        if kind in _COMPARISONS:
            return self.error(f"unexpected {kind!r} after a comparison; join two with AND")
        return self.expected(f"AND, OR or {'the end' if level.opened_at is None else repr(')')}")


def _pairs(kinds: list[str]) -> dict[int, int]:
    """Where each parenthesis that opens is closed, if it is."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for place, kind in enumerate(kinds):
        if kind == "(":
            opened.append(place)
        elif kind == ")" and opened:
            pairs[opened.pop()] = place
    return pairs


def _negated(predicate: Predicate) -> Predicate:
    return Predicate(predicate.attribute, predicate.op, predicate.values, negated=True)
