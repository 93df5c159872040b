"""Reads join predicates: ``price < ANY (SELECT d.price FROM seen d WHERE …)``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr import validate
from tamis.expr.joins.predicate import (
    NO_CONDITION,
    Comparison,
    Condition,
    Every,
    Join,
    Quantifier,
    Some,
    Test,
)
from tamis.expr.joins.write import join_predicate, nesting, simplify
from tamis.expr.model import FLIPPED, Op, Predicate
from tamis.expr.names import JOINED, RECEIVED_BY
from tamis.expr.text.token_reader import COMPARISONS, LITERALS, TokenReader
from tamis.expr.text.tokens import END, NAME, QUOTED_NAME

__all__ = ["SubqueryReader", "at_exists", "at_quantifier", "at_select", "join_named"]

_TABLES: Final = {"SEEN": False, "RECEIVED": True}
"""The tables, and whether each has only what the rule's own subscription has received."""
_QUANTIFIERS: Final = {
    "ANY": Quantifier.ANY,
    "SOME": Quantifier.ANY,
    "ALL": Quantifier.ALL,
}
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
    if reader.kinds[reader.at] != END or join_predicate(join).attribute != name:
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
        while not (_is_word(reader, reader.at, "FROM") or reader.kinds[reader.at] in (END, ")")):
            reader.at += 1
        if reader.at == select:
            raise reader.expected_error("what to select", "EXISTS takes any: SELECT 1")
        where = self._read_from_and_where()
        return Join(Quantifier.EXISTS, where, received=self._received)

    def read_quantified(self, new: str, op: Op, negated: bool, quantifier: Quantifier) -> Join:
        """Read what follows ``x < ANY``; `new` is the attribute of the new document."""
        reader = self._reader
        select = self._open_select()
        while not (_is_word(reader, reader.at, "FROM") or reader.kinds[reader.at] in (END, ")")):
            reader.at += 1
        selected = reader.at
        where = self._read_from_and_where()
        end, reader.at = reader.at, select
        is_old, old = self._read_name()
        if not is_old or reader.at != selected:
            at = reader.at if is_old else select
            raise reader.error(f"expected one attribute of the old document, {self._alias}.…", at)
        reader.at = end
        compared = Comparison(old, FLIPPED[op], new, negated)
        return Join(quantifier, where, compared, self._received)

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
        kind = reader.kinds[reader.at]
        if kind in COMPARISONS:
            if at_quantifier(reader, reader.at + 1) is not None:
                raise reader.error("a subquery cannot contain a subquery", reader.at + 1)
            reader.at += 1
            if not _at_value(reader) and reader.kinds[reader.at] in (NAME, QUOTED_NAME):
                return self._read_comparison(is_old, name, *COMPARISONS[kind], negated)
            reader.at -= 1
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
        self, is_old: bool, name: str, op: Op, is_negated: bool, negated: bool
    ) -> Condition:
        start = self._reader.at
        other_is_old, other = self._read_name()
        if is_old is other_is_old:
            whose = "the old document's" if is_old else "the new document's"
            message = f"{name} and {other} are both {whose}; two attributes of one do not compare"
            raise self._reader.error(message, start)
        if is_old:
            return Comparison(name, op, other, is_negated is not negated)
        return Comparison(other, FLIPPED[op], name, is_negated is not negated)

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
