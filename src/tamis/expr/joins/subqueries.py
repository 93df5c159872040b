"""Reads join predicates: ``price < ANY (SELECT d.price FROM seen d WHERE …)``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.joins.predicate import (
    NO_CONDITION,
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
from tamis.expr.joins.shifts import Shift, add_shifts, interval_of, negate_shift
from tamis.expr.joins.write import join_name, nesting, simplify
from tamis.expr.model import FLIPPED, Op, Predicate
from tamis.expr.names import JOINED, RECEIVED_BY
from tamis.expr.numbers import LongDecimal
from tamis.expr.text.token_reader import COMPARISONS, LITERALS, TokenReader
from tamis.expr.text.tokens import END, NAME, NUMBER, QUOTED_NAME, STRING

__all__ = ["SubqueryReader", "at_exists", "at_quantifier", "at_select", "join_named"]

_TABLES: Final = {"SEEN": False, "RECEIVED": True}
"""The tables, and whether each has only what the rule's own subscription has received."""
_QUANTIFIERS: Final = {
    "ANY": Quantifier.ANY,
    "SOME": Quantifier.ANY,
    "ALL": Quantifier.ALL,
}
_FUNCTIONS: Final = frozenset(f.value for f in Function if " " not in f.value)
_MAX_NESTING: Final = 32
"""The most parentheses and NOTs that may be open at once inside a subquery."""
_TOO_DEEP: Final = f"the subquery is nested more than {_MAX_NESTING} levels deep"


@lru_cache(maxsize=65_536)
def join_named(name: str) -> Join:
    """The join predicate that computes the attribute `name`.

    Raises
    ------
    RuleError
        `name` is not the attribute of a :func:`~tamis.expr.joins.write.join_predicate`.
    """
    reader = TokenReader(name.removeprefix(JOINED))
    join = SubqueryReader(reader, takes_bound=True).read_join()
    if reader.kinds[reader.at] != END or join_name(join) != name:
        raise RuleError(f"{name!r} does not name a join predicate")
    return join


def at_exists(reader: TokenReader) -> bool:
    """Whether ``EXISTS (SELECT`` comes next."""
    return _is_word(reader, reader.at, "EXISTS") and at_select(reader, reader.at + 1)


def at_quantifier(reader: TokenReader, at: int) -> Quantifier | None:
    """The quantifier of ``ANY (``, ``SOME (`` or ``ALL (`` at a place; None if it has none."""
    if at >= len(reader.tokens) or reader.kinds[at] != NAME or reader.kinds[at + 1] != "(":
        return None
    return _QUANTIFIERS.get(reader.tokens[at].text.upper())


def at_select(reader: TokenReader, at: int) -> bool:
    """Whether there is a ``(SELECT`` at a place."""
    return reader.kinds[at] == "(" and _is_word(reader, at + 1, "SELECT")


def _is_word(reader: TokenReader, at: int, word: str) -> bool:
    return (
        at < len(reader.tokens)
        and reader.kinds[at] == NAME
        and reader.tokens[at].text.upper() == word
    )


class SubqueryReader:
    """Reads join predicates from the tokens of `reader`.

    Parameters
    ----------
    reader
        The tokens.
    takes_bound
        Whether a condition may name the subscriptions that received a document, as only
        `Join.bind` does.
    """

    def __init__(self, reader: TokenReader, takes_bound: bool = False) -> None:
        self._reader = reader
        self._takes_bound = takes_bound
        self._alias = ""
        self._received = False
        self._nesting = 0

    def read_join(self) -> Join:
        """Read a whole join predicate."""
        reader = self._reader
        if at_exists(reader):
            return self.read_exists()
        if at_select(reader, reader.at):
            return self.read_aggregate()
        attribute = reader.read_attribute()
        quantifier = at_quantifier(reader, reader.at + 1)
        if quantifier is None or reader.kinds[reader.at] not in COMPARISONS:
            raise reader.expected_error("ANY or ALL and a subquery")
        op, negated = COMPARISONS[reader.kinds[reader.at]]
        reader.at += 2
        return self.read_quantified(attribute, op, negated, quantifier)

    def read_exists(self) -> Join:
        """Read ``EXISTS (SELECT 1 FROM seen d WHERE …)``."""
        reader = self._reader
        reader.at += 1
        select = self._open_select()
        # EXISTS ignores what is selected.
        if self._skip_to_from() == select:
            raise reader.expected_error("what to select", "EXISTS takes any: SELECT 1")
        where = self._read_from_and_where()
        return Join(Quantifier.EXISTS, where, received=self._received)

    def read_quantified(self, new: str, op: Op, negated: bool, quantifier: Quantifier) -> Join:
        """Read what follows ``x < ANY``; `new` is the attribute of the new document."""
        reader = self._reader
        select = self._open_select()
        selected = self._skip_to_from()
        where = self._read_from_and_where()
        end, reader.at = reader.at, select
        is_old, old = self._read_name()
        if not is_old or reader.at != selected:
            at = reader.at if is_old else select
            raise reader.error(f"expected one attribute of the old document, {self._alias}.…", at)
        reader.at = end
        compared = Comparison(old, FLIPPED[op], new, negated)
        return Join(quantifier, where, compared, self._received)

    def read_aggregate(self) -> Join:
        """Read ``(SELECT COUNT(*) FROM seen d WHERE …)``."""
        reader = self._reader
        select = self._open_select()
        selected = self._skip_to_from()
        where = self._read_from_and_where()
        end, reader.at = reader.at, select
        aggregate = self._read_function()
        if reader.at != selected:
            raise reader.expected_error("FROM after the aggregate")
        reader.at = end
        return Join(Quantifier.VALUE, where, None, self._received, aggregate)

    def _read_function(self) -> Aggregate:
        """Read ``COUNT(*)``, ``COUNT(DISTINCT d.y)`` or ``SUM(d.y)``."""
        reader = self._reader
        start = reader.at
        word = reader.tokens[start].text.upper() if reader.kinds[start] == NAME else ""
        if word not in _FUNCTIONS or reader.kinds[start + 1] != "(":
            raise reader.expected_error(
                "COUNT, SUM, MIN, MAX or AVG", "a subquery in a comparison computes one value"
            )
        reader.at += 2
        function = Function(word)
        if function is Function.COUNT and reader.take("*"):
            attribute = None
        else:
            if function is Function.COUNT and _is_word(reader, reader.at, "DISTINCT"):
                reader.at += 1
                function = Function.COUNT_DISTINCT
            of_what = reader.at
            is_old, attribute = self._read_name()
            if not is_old:
                message = f"expected one attribute of the old document, {self._alias}.…"
                raise reader.error(message, of_what)
        if not reader.take(")"):
            raise reader.expected_error(f"')' after the attribute of {word}")
        return Aggregate(function, attribute)

    def _skip_to_from(self) -> int:
        """Step over what is selected: it can be read once the alias is known."""
        reader = self._reader
        depth = 0
        while not _is_word(reader, reader.at, "FROM") and reader.kinds[reader.at] != END:
            kind = reader.kinds[reader.at]
            depth += (kind == "(") - (kind == ")")
            if depth < 0:
                break
            reader.at += 1
        return reader.at

    def _open_select(self) -> int:
        """Step over ``(SELECT``."""
        reader = self._reader
        if not at_select(reader, reader.at):
            raise reader.expected_error("(SELECT … FROM seen d)")
        reader.at += 2
        return reader.at

    def _read_from_and_where(self) -> Condition:
        reader = self._reader
        if not _is_word(reader, reader.at, "FROM"):
            raise reader.expected_error("FROM seen", "a subquery reads the documents seen before")
        reader.at += 1
        table = reader.tokens[reader.at].text if reader.kinds[reader.at] == NAME else ""
        if table.upper() not in _TABLES:
            raise reader.expected_error("seen or received after FROM", "there are no other tables")
        self._received = _TABLES[table.upper()]
        self._alias = table
        reader.at += 1
        if _is_word(reader, reader.at, "AS"):
            reader.at += 1
        if reader.kinds[reader.at] == NAME and not _is_word(reader, reader.at, "WHERE"):
            self._alias = reader.tokens[reader.at].text
            reader.at += 1
        where: Condition = NO_CONDITION
        if _is_word(reader, reader.at, "WHERE"):
            reader.at += 1
            start = reader.at
            where = simplify(self._read_alternatives(negated=False))
            # Its text has parentheses around each AND in an OR, and has to be readable as well.
            if nesting(where) > _MAX_NESTING:
                raise reader.error(_TOO_DEEP, start)
        if not reader.take(")"):
            hint = "a subquery has only SELECT, FROM and WHERE"
            raise reader.expected_error("AND, OR or ')' in the subquery", hint)
        return where

    def _read_alternatives(self, negated: bool) -> Condition:
        parts = [self._read_conjunction(negated)]
        while self._reader.take("OR"):
            parts.append(self._read_conjunction(negated))
        return _connect(parts, Every if negated else Some)

    def _read_conjunction(self, negated: bool) -> Condition:
        parts = [self._read_operand(negated)]
        while self._reader.take("AND"):
            parts.append(self._read_operand(negated))
        return _connect(parts, Some if negated else Every)

    def _read_operand(self, negated: bool) -> Condition:
        reader = self._reader
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise reader.error(_TOO_DEEP)
        if reader.take("NOT"):
            result = self._read_operand(not negated)
        elif reader.take("("):
            result = self._read_alternatives(negated)
            if not reader.take(")"):
                raise reader.expected_error("')' in the subquery")
        else:
            result = self._read_leaf(negated)
        self._nesting -= 1
        return result

    def _read_leaf(self, negated: bool) -> Condition:
        reader = self._reader
        start = reader.at
        if at_exists(reader):
            raise reader.error("a subquery cannot contain a subquery")
        if _at_value(reader):
            return self._read_flipped_test(negated)
        if reader.kinds[reader.at] not in (NAME, QUOTED_NAME):
            raise reader.expected_error("a condition in the subquery")
        is_old, name = self._read_name()
        if self._at_difference():
            return self._read_difference(start, is_old, name, negated)
        shift = self._read_shift()
        kind = reader.kinds[reader.at]
        if kind in COMPARISONS:
            if at_quantifier(reader, reader.at + 1) is not None or at_select(reader, reader.at + 1):
                raise reader.error("a subquery cannot contain a subquery", reader.at + 1)
            reader.at += 1
            if not _at_value(reader) and reader.kinds[reader.at] in (NAME, QUOTED_NAME):
                return self._read_comparison(is_old, name, shift, *COMPARISONS[kind], negated)
            reader.at -= 1
        if shift is not None:
            raise reader.expected_error("a comparison with an attribute of the other document")
        if is_old and (between := self._read_between(name, negated)) is not None:
            return between
        op, values, is_negated = self._read_test()
        predicate = reader.blame(start, validate.build_predicate, name, op, values, is_negated)
        return Test(_negate_if(predicate, negated), is_old)

    def _read_test(self) -> tuple[Op, tuple[Any, ...], bool]:
        """Read the test of an attribute: its operator, its values, and whether it is negated."""
        reader = self._reader
        kind = reader.kinds[reader.at]
        if kind in COMPARISONS:
            op, is_negated = COMPARISONS[kind]
            reader.at += 1
            return op, (reader.read_value(),), is_negated
        if reader.take("IS"):
            is_absence = not reader.take("NOT")
            if not reader.take("NULL"):
                raise reader.expected_error("NULL or NOT NULL after IS", "compare with = instead")
            return Op.PRESENT, (), is_absence
        is_negated = reader.take("NOT")
        kind = reader.kinds[reader.at]
        if kind not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"):
            raise reader.expected_error("a comparison in the subquery")
        reader.at += 1
        return Op(kind), reader.read_operands(kind), is_negated

    def _read_flipped_test(self, negated: bool) -> Condition:
        reader = self._reader
        start, value = reader.at, reader.read_value()
        kind = reader.kinds[reader.at]
        if kind not in COMPARISONS:
            raise reader.expected_error("a comparison after the value, as in 3 < d.x")
        op, is_negated = COMPARISONS[kind]
        reader.at += 1
        is_old, name = self._read_name()
        predicate = reader.blame(
            start, validate.build_predicate, name, FLIPPED[op], (value,), is_negated
        )
        return Test(_negate_if(predicate, negated), is_old)

    def _read_comparison(
        self,
        is_old: bool,
        name: str,
        shift: Shift | None,
        op: Op,
        is_negated: bool,
        negated: bool,
    ) -> Condition:
        """Read the right side of a comparison; `shift` is what the left side adds to `name`."""
        start = self._reader.at
        other_is_old, other = self._read_name()
        self._check_sides(start, is_old, name, other_is_old, other)
        other_shift = self._read_shift()
        if is_old:
            old, new, of_old, of_new = name, other, shift, other_shift
        else:
            old, new, of_old, of_new = other, name, other_shift, shift
            op = FLIPPED[op]
        return self._compare(start, old, op, new, is_negated is not negated, of_old, of_new)

    def _compare(
        self,
        start: int,
        old: str,
        op: Op,
        new: str,
        negated: bool,
        of_old: Shift | None,
        of_new: Shift | None,
    ) -> Comparison:
        """``old + of_old OP new + of_new``, with both shifts on the new document's side."""
        undone = None if of_old is None else negate_shift(of_old)
        shift = self._reader.blame(start, add_shifts, of_new, undone)
        return Comparison(old, op, new, negated, shift or None)

    def _check_sides(
        self, start: int, is_old: bool, name: str, other_is_old: bool, other: str
    ) -> None:
        if is_old is other_is_old:
            whose = "the old document's" if is_old else "the new document's"
            message = f"{name} and {other} are both {whose}; two attributes of one do not compare"
            raise self._reader.error(message, start)

    def _at_difference(self) -> bool:
        """Whether a minus sign and another attribute come next."""
        reader = self._reader
        if reader.kinds[reader.at] != "-" or _is_word(reader, reader.at + 1, "INTERVAL"):
            return False
        return reader.kinds[reader.at + 1] in (NAME, QUOTED_NAME)

    def _read_difference(self, start: int, is_old: bool, name: str, negated: bool) -> Condition:
        """Read ``at - d.at < INTERVAL '5 minutes'`` from the minus sign on."""
        reader = self._reader
        reader.at += 1
        other_is_old, other = self._read_name()
        self._check_sides(start, is_old, name, other_is_old, other)
        kind = reader.kinds[reader.at]
        if kind not in COMPARISONS:
            raise reader.expected_error("a comparison after the difference")
        op, is_negated = COMPARISONS[kind]
        reader.at += 1
        most = self._read_shift_size()
        if is_old:
            return self._compare(start, name, op, other, is_negated is not negated, None, most)
        flipped = FLIPPED[op]
        return self._compare(start, other, flipped, name, is_negated is not negated, most, None)

    def _read_between(self, old: str, negated: bool) -> Condition | None:
        """Read ``BETWEEN at - INTERVAL '5 minutes' AND at``; None if the bounds are constants."""
        reader = self._reader
        is_negated = reader.kinds[reader.at] == "NOT"
        first = reader.at + is_negated + 1
        if reader.kinds[first - 1] != "BETWEEN" or reader.kinds[first] not in (NAME, QUOTED_NAME):
            return None
        reader.at = first
        if _at_value(reader):
            reader.at = first - 1 - is_negated
            return None
        low = self._read_bound(old, Op.GE, is_negated is not negated)
        if not reader.take("AND"):
            raise reader.expected_error("AND between the two bounds of BETWEEN")
        high = self._read_bound(old, Op.LE, is_negated is not negated)
        return (Some if is_negated is not negated else Every)((low, high))

    def _read_bound(self, old: str, op: Op, negated: bool) -> Comparison:
        start = self._reader.at
        is_old, new = self._read_name()
        self._check_sides(start, True, old, is_old, new)
        return Comparison(old, op, new, negated, self._read_shift() or None)

    def _read_shift(self) -> Shift | None:
        """Read ``+ 3`` or ``- INTERVAL '5 minutes'``; None if neither sign comes next."""
        reader = self._reader
        is_minus = reader.take("-")
        if not is_minus and not reader.take("+"):
            return None
        size = self._read_shift_size()
        return negate_shift(size) if is_minus else size

    def _read_shift_size(self) -> Shift:
        """Read a number, ``INTERVAL '5 minutes'``, ``INTERVAL '5' MINUTE`` or ``INTERVAL 5 …``."""
        reader = self._reader
        start = reader.at
        if not _is_word(reader, start, "INTERVAL"):
            if reader.kinds[start] not in (NUMBER, ".", "-"):
                raise reader.expected_error("a number, or an interval such as INTERVAL '5 minutes'")
            number = reader.read_number()
            assert isinstance(number, int | float | LongDecimal)
            return number
        if reader.kinds[start + 1] not in (STRING, NUMBER):
            reader.at += 1
            raise reader.expected_error("an interval such as INTERVAL '5 minutes'")
        text = reader.tokens[start + 1].text
        reader.at += 2
        if text.strip().isdecimal() and reader.kinds[reader.at] == NAME:
            text += f" {reader.tokens[reader.at].text}"
            reader.at += 1
        return reader.blame(start + 1, interval_of, text)

    def _read_name(self) -> tuple[bool, str]:
        """Read an attribute, and whether it is the old document's."""
        reader = self._reader
        is_alias = reader.kinds[reader.at] == NAME and reader.kinds[reader.at + 1] == "."
        if is_alias and reader.tokens[reader.at].text.lower() == self._alias.lower():
            reader.at += 2
            if self._takes_bound and reader.tokens[reader.at].text == RECEIVED_BY:
                return True, reader.read_name()
            return True, reader.read_attribute()
        return False, reader.read_attribute()


def _at_value(reader: TokenReader) -> bool:
    """Whether a literal comes next."""
    return reader.kinds[reader.at] in LITERALS or reader.at_typed_literal()


def _connect(parts: list[Condition], connective: type[Every] | type[Some]) -> Condition:
    """The AND or OR of the parts, with nested ones of the same kind flattened."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Condition] = []
    for part in parts:
        flat += part.children if isinstance(part, connective) else (part,)
    return connective(tuple(flat))


def _negate_if(predicate: Predicate, negated: bool) -> Predicate:
    return Predicate(
        predicate.attribute, predicate.op, predicate.values, predicate.negated is not negated
    )
