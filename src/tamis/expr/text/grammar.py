"""The parser of rules: the inverse of :func:`tamis.expr.text.write.to_sql`.

ANDs that are nested by parentheses stay nested. A NOT directly before a positive predicate negates
it: ``NOT x < 5``, ``NOT x = 3`` (which is ``x <> 3``). Before parentheses, or before a predicate
that is negated already, it is a node of its own.

sqlglot provides the tokens (:mod:`tamis.expr.text.tokens`), but its parser is not used: it accepts
texts that are not rules (``x BETWEEN 1 2``, ``x = 'a' 'b'``), keeps no positions of literals, and
recurses. The grammar is small, and this parser says for every error what was expected, and where.
"""

from __future__ import annotations

from typing import Final

from tamis.errors import RuleError, RuleSyntaxError, RuleTooLargeError
from tamis.expr import validate
from tamis.expr.functions.conditions import CONDITIONS
from tamis.expr.functions.scalar import SIGNS
from tamis.expr.functions.terms import (
    Attribute,
    Call,
    Constant,
    Term,
    call,
    check_type,
    name_of,
    spell_term,
)
from tamis.expr.joins.predicate import Quantifier
from tamis.expr.joins.subqueries import SubqueryReader, at_exists, at_quantifier, at_select
from tamis.expr.joins.write import join_name, join_predicate
from tamis.expr.model import (
    FALSE,
    FLIPPED,
    MAX_DEPTH,
    TRUE,
    Expr,
    Not,
    Op,
    Predicate,
    Value,
    all_of,
    any_of,
    check_size,
    is_unicode,
)
from tamis.expr.text.term_reader import TermReader
from tamis.expr.text.token_reader import COMPARISONS, LITERALS
from tamis.expr.text.tokens import BOOLEAN, END, NAME, QUOTED_NAME

__all__ = ["parse", "parse_template"]


def parse(text: str) -> Expr:
    """Parse the text of a rule.

    Raises
    ------
    RuleSyntaxError
        `text` is not a rule; the error has the position and prints with a caret.
    PatternError
        A LIKE pattern or a regular expression is invalid.
    RuleTooLargeError
        The rule has too many nodes or is nested too deep.
    """
    if not isinstance(text, str):
        raise RuleError(f"a rule's text is a string, not {type(text).__name__}")
    expr = RuleReader(text).read_rule()
    if not is_unicode(text):
        raise RuleError("the rule has an unpaired surrogate; it is not valid Unicode")
    check_size(expr)
    return expr


def parse_template(text: str) -> Expr | None:
    """Parse `text` if other literals of the same kinds would give the same tree.

    Returns None where the tree depends on the literals, as in ``within_box``, which is one range of
    longitudes or two. Raises as :func:`parse` does.
    """
    reader = RuleReader(text)
    expr = reader.read_rule()
    check_size(expr)
    return None if reader.inspected_literals else expr


_MAX_NESTING: Final = 2 * MAX_DEPTH
"""The most parentheses and NOTs that may be open at once: a Not is written ``NOT (…)``."""

_AFTER_TERM: Final = frozenset(
    [*COMPARISONS, *SIGNS, "IS", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"]
)
"""What may follow a term in parentheses, but not a condition in parentheses."""

_NO_SUBQUERY: Final = (
    "write a subquery in parentheses after EXISTS, IN, ANY or ALL, or compare a COUNT, SUM, MIN, "
    "MAX or AVG of it with a value"
)


class _Level:
    """The operands since one opening parenthesis: an OR of ANDs."""

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


class RuleReader(TermReader):
    """Reads the tokens of a whole rule."""

    conditions = frozenset(CONDITIONS)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.closing: dict[int, int] = {}
        self.inspected_literals = False
        """Whether the tree read so far depends on what the literals are, beyond their kinds."""

    def read_rule(self) -> Expr:
        """Read the whole text, with levels of parentheses in a list, not on Python's stack."""
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
                operand = self.read_operand()
                if level.nots and isinstance(operand, Predicate) and not operand.negated:
                    operand = _negate(operand)
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
        """Whether the next parenthesis opens a term: ``(x + 1) * 2 = 4``."""
        if not self.closing:
            self.closing = _match_parentheses(self.kinds)
        return self.kinds[self.closing.get(self.at, -2) + 1] in _AFTER_TERM

    def read_operand(self) -> Expr:
        """Read a condition, TRUE or FALSE."""
        kind, following = self.kinds[self.at], self.kinds[self.at + 1 : self.at + 2]
        if kind == BOOLEAN and not (following and following[0] in COMPARISONS):
            return TRUE if self.read_value() else FALSE
        if at_exists(self):
            return join_predicate(SubqueryReader(self).read_exists())
        if at_select(self, self.at):
            start = self.at
            return self.read_test(start, join_name(SubqueryReader(self).read_aggregate()))
        if kind == NAME and following == ["("]:
            word = self.tokens[self.at].text.lower()
            if word in CONDITIONS:
                return self.read_condition(word)
        if kind in LITERALS or kind in (NAME, QUOTED_NAME, "("):
            return self.read_predicate()
        if kind == "NULL":
            raise self.error("NULL is not a value; write IS NULL or IS NOT NULL after an attribute")
        after = f" after {self.source(self.at - 1)!r}" if self.at else ""
        raise self.expected_error(f"a condition{after}")

    def read_condition(self, function: str) -> Expr:
        """Read a function that is a condition by itself."""
        start = self.at
        self.at += 2
        takes, count, build, inspects_literals = CONDITIONS[function]
        self.inspected_literals |= inspects_literals
        if count:
            terms, values = self.read_arguments(function, len(takes), count, count)
        else:
            terms, values = self.read_list_arguments(function)
        for term, wanted in zip(terms, takes, strict=True):
            self.blame(start, check_type, function, term, wanted)
        return self.blame(start, build, terms, values)

    def read_list_arguments(self, function: str) -> tuple[tuple[Term, ...], tuple[Value, ...]]:
        """Read a term, a list of literals and the closing parenthesis."""
        term = self.read_term()
        if not self.take(","):
            raise self.expected_error(f"',' and a list, as in {function}(x, ('a', 'b'))")
        values = self.read_list()
        if not self.take(")"):
            raise self.expected_error(f"')' after the list of {function}")
        return (term,), values

    def read_predicate(self) -> Predicate:
        start = self.at
        left = self.read_term()
        if isinstance(left, Constant):
            return self.read_flipped_comparison(start, left.value)
        join = self.read_quantified(left)
        return self.read_test(start, name_of(left), left) if join is None else join

    def read_test(self, start: int, attribute: str, left: Term | None = None) -> Predicate:
        """Read what follows a term at `start`, or an aggregate if `left` is None."""
        culprit = start
        kind = self.kinds[self.at]
        if kind in COMPARISONS:
            op, negated = COMPARISONS[kind]
            self.at += 1
            if left is None or at_select(self, self.at):
                return self.read_aggregate_comparison(start, attribute, op, negated, left)
            culprit = self.at if isinstance(left, Call) else start
            right = self.read_term()
            if not isinstance(right, Constant):
                return self.compare_terms(start, op, left, right, negated)
            values: tuple[Value, ...] = (right.value,)
        elif self.take("IS"):
            op, values = Op.PRESENT, ()
            negated = not self.take("NOT")
            if not self.take("NULL"):
                raise self.expected_error("NULL or NOT NULL after IS", "compare with = instead")
        else:
            negated = self.take("NOT")
            kind = self.kinds[self.at]
            if kind not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"):
                if left is None:
                    raise self.expected_error("a comparison after the aggregate")
                raise self.after_term(left, start, negated)
            self.at += 1
            culprit = self.at
            op, values = Op(kind), self.read_operands(kind)
        return self.blame(culprit, validate.build_predicate, attribute, op, values, negated)

    def read_aggregate_comparison(
        self, start: int, attribute: str, op: Op, negated: bool, left: Term | None
    ) -> Predicate:
        """Read the value that an aggregate at `start` compares with."""
        is_value = self.kinds[self.at] in LITERALS or self.at_typed_literal()
        if left is not None or not is_value:
            raise self.error("an aggregate compares with a value, as in (SELECT COUNT(*) …) >= 3")
        values = (self.read_value(),)
        return self.blame(start, validate.build_predicate, attribute, op, values, negated)

    def read_quantified(self, left: Term) -> Predicate | None:
        """Read a join predicate that begins with a term; None if no ANY, ALL or IN follows."""
        kind = self.kinds[self.at]
        is_negated = kind == "NOT"
        is_in = self.kinds[self.at + is_negated] == "IN" and at_select(
            self, self.at + is_negated + 1
        )
        is_compared = kind in COMPARISONS and at_quantifier(self, self.at + 1) is not None
        if not is_in and not is_compared:
            return None
        if not isinstance(left, Attribute):
            raise self.error("a join predicate compares attributes, not functions of them")
        reader = SubqueryReader(self)
        if is_in:
            self.at += is_negated + 1
            member = join_predicate(reader.read_quantified(left.name, Op.EQ, False, Quantifier.ANY))
            return _negate(member) if is_negated else member
        op, negated = COMPARISONS[kind]
        quantifier = at_quantifier(self, self.at + 1)
        assert quantifier is not None
        self.at += 2
        return join_predicate(reader.read_quantified(left.name, op, negated, quantifier))

    def compare_terms(
        self, start: int, op: Op, left: Term, right: Term, negated: bool
    ) -> Predicate:
        """The predicate that compares two terms: on a derived attribute that is true or false."""
        term = self.blame(start, call, op.value, (left, right))
        return Predicate(name_of(term), Op.EQ, (True,), negated)

    def read_flipped_comparison(self, start: int, value: Value) -> Predicate:
        """Read a comparison of a literal with a term."""
        kind = self.kinds[self.at]
        if kind not in COMPARISONS:
            raise self.expected_error("a comparison after the value, as in 3 < x")
        op, negated = COMPARISONS[kind]
        self.at += 1
        if at_select(self, self.at):
            name = join_name(SubqueryReader(self).read_aggregate())
            return self.blame(start, validate.build_predicate, name, FLIPPED[op], (value,), negated)
        if self.kinds[self.at] not in (NAME, QUOTED_NAME, "-", "(") or self.at_typed_literal():
            raise self.expected_error(f"an attribute on one side of {kind!r}")
        right_at = self.at
        right = self.read_term()
        if isinstance(right, Constant):
            self.at = right_at
            raise self.expected_error(f"an attribute on one side of {kind!r}")
        name = name_of(right)
        return self.blame(start, validate.build_predicate, name, FLIPPED[op], (value,), negated)

    def after_term(self, term: Term, start: int, negated: bool) -> RuleSyntaxError:
        if negated:
            return self.expected_error("IN, BETWEEN, LIKE, ILIKE or RLIKE after NOT")
        text = spell_term(term)
        if text.upper() == "SELECT":
            return self.error(_NO_SUBQUERY, start)
        if not isinstance(term, Attribute):
            return self.expected_error(f"a comparison after {text}")
        is_alone = self.kinds[self.at] in (END, "AND", "OR", ")")
        hint = f"write {text} = TRUE" if is_alone else ""
        return self.expected_error(f"a comparison after the attribute {term.name!r}", hint)

    def after_operand(self, level: _Level) -> RuleSyntaxError:
        kind = self.kinds[self.at]
        if kind == ")":
            return self.error("this ')' closes nothing")
        if kind == END and level.opened_at is not None:
            return self.error(f"expected ')' to close the '(' {self.place(level.opened_at)}")
        if kind in COMPARISONS:
            return self.error(f"unexpected {kind!r} after a comparison; join two with AND")
        return self.expected_error(
            f"AND, OR or {'the end' if level.opened_at is None else repr(')')}"
        )


def _match_parentheses(kinds: list[str]) -> dict[int, int]:
    """The place of the closing parenthesis for each opening one that has one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for place, kind in enumerate(kinds):
        if kind == "(":
            opened.append(place)
        elif kind == ")" and opened:
            pairs[opened.pop()] = place
    return pairs


def _negate(predicate: Predicate) -> Predicate:
    return Predicate(predicate.attribute, predicate.op, predicate.values, negated=True)
