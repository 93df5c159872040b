"""The text form of join predicates: ``price < ANY (SELECT d.price FROM seen d WHERE …)``.

The text that :func:`join_text` writes is the name of the attribute that the predicate becomes, so
it is the same for all spellings of a predicate: the alias is ``d``, the old document stands on
the left of a comparison, every NOT is pushed down to one, and what AND and OR connect is sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from tamis.errors import RuleSyntaxError
from tamis.expr import validate
from tamis.expr.joins.predicate import (
    FLIPPED,
    NO_CONDITION,
    Comparison,
    Condition,
    Every,
    Join,
    Quantifier,
    Some,
    Test,
)
from tamis.expr.model import Op, Predicate
from tamis.expr.text.tokens import BOOLEAN, END, NAME, NUMBER, QUOTED_NAME, STRING, Token

__all__ = ["SubqueryReader", "at_exists", "at_quantifier", "at_select", "join_text"]

_SEEN: Final = "SEEN"
_ALIAS: Final = "d"
_QUANTIFIERS: Final = {
    "ANY": Quantifier.ANY,
    "SOME": Quantifier.ANY,
    "ALL": Quantifier.ALL,
}
_MAX_NESTING: Final = 32
"""The most parentheses and NOTs that may be open at once inside a subquery."""

_COMPARISONS: Final = {"<>": (Op.EQ, True), **{op.value: (op, False) for op in FLIPPED}}
_NEGATED: Final = {**{op: f"NOT {{}} {op} {{}}" for op in FLIPPED}, Op.EQ: "{} <> {}"}


# --- From the model to text -------------------------------------------------------------

PredicateText = Callable[[Predicate, str], str]
"""Writes a predicate on an attribute that is spelled as it is told."""


def join_text(join: Join, predicate_text: PredicateText, name_text: Callable[[str], str]) -> str:
    """The text of a join predicate; equal predicates have equal texts."""
    writer = _Writer(predicate_text, name_text)
    where = writer.condition(join.where)
    tail = f" WHERE {where}" if where else ""
    if join.compared is None:
        return f"EXISTS (SELECT 1 FROM seen {_ALIAS}{tail})"
    compared = join.compared
    sign = "<>" if compared.negated else FLIPPED[compared.op].value
    new, old = writer.name(compared.new, False), writer.name(compared.old, True)
    return f"{new} {sign} {join.quantifier} (SELECT {old} FROM seen {_ALIAS}{tail})"


class _Writer:
    def __init__(self, predicate_text: PredicateText, name_text: Callable[[str], str]) -> None:
        self.predicate_text = predicate_text
        self.name_text = name_text

    def name(self, name: str, of_old: bool) -> str:
        if of_old:
            return f"{_ALIAS}.{self.name_text(name)}"
        if name.partition(".")[0].lower() == _ALIAS:
            # Bare, it would be the old document's.
            return '"' + name.replace('"', '""') + '"'
        return self.name_text(name)

    def condition(self, condition: Condition) -> str:
        match condition:
            case Comparison(old, op, new, negated):
                form = _NEGATED[op] if negated else f"{{}} {op} {{}}"
                return form.format(self.name(old, True), self.name(new, False))
            case Test(predicate, of_old):
                return self.predicate_text(predicate, self.name(predicate.attribute, of_old))
            case Every(children):
                return " AND ".join(sorted({self.operand(child) for child in children}))
            case Some(children):
                return " OR ".join(sorted({self.operand(child) for child in children}))

    def operand(self, condition: Condition) -> str:
        text = self.condition(condition)
        return f"({text})" if isinstance(condition, Every | Some) else text


# --- From text to the model -------------------------------------------------------------


class Reader(Protocol):
    """What reads the tokens of a rule; see :mod:`tamis.expr.text.sql`."""

    at: int
    tokens: list[Token]
    kinds: list[str]

    def take(self, kind: str) -> bool:
        """Step over the next token if it is of that kind."""

    def attribute(self) -> str:
        """A dotted name."""

    def at_typed_literal(self) -> bool:
        """Whether ``DATE '…'`` or the like comes next."""

    def value(self) -> Any:
        """A literal."""

    def operands_of(self, kind: str) -> tuple[Any, ...]:
        """What follows IN, BETWEEN or LIKE."""

    def checked(self, culprit: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function` returns; its complaint is about the token `culprit`."""

    def error(self, message: str, at: int | None = None) -> RuleSyntaxError:
        """An error about a token."""

    def expected(self, what: str, hint: str = "") -> RuleSyntaxError:
        """An error about the next token."""


def at_exists(reader: Reader) -> bool:
    """Whether ``EXISTS (SELECT`` comes next."""
    return _is_word(reader, reader.at, "EXISTS") and at_select(reader, reader.at + 1)


def at_quantifier(reader: Reader, at: int) -> Quantifier | None:
    """The quantifier of ``ANY (``, ``SOME (`` or ``ALL (`` at a place, if there is one."""
    if at >= len(reader.tokens) or reader.kinds[at] != NAME or reader.kinds[at + 1] != "(":
        return None
    return _QUANTIFIERS.get(reader.tokens[at].text.upper())


def at_select(reader: Reader, at: int) -> bool:
    """Whether ``(SELECT`` stands at a place."""
    return reader.kinds[at] == "(" and _is_word(reader, at + 1, "SELECT")


def _is_word(reader: Reader, at: int, word: str) -> bool:
    return (
        at < len(reader.tokens)
        and reader.kinds[at] == NAME
        and reader.tokens[at].text.upper() == word
    )


class SubqueryReader:
    """Reads join predicates, with the tokens of `reader`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._alias = ""
        self._nesting = 0

    def exists(self) -> Join:
        """``EXISTS (SELECT 1 FROM seen d WHERE …)``."""
        reader = self._reader
        reader.at += 1
        select = self._open()
        # What is selected makes no difference; it is read again once the alias is known.
        while not (_is_word(reader, reader.at, "FROM") or reader.kinds[reader.at] in (END, ")")):
            reader.at += 1
        if reader.at == select:
            raise reader.expected("what to select", "EXISTS takes any: SELECT 1")
        return Join(Quantifier.EXISTS, self._from_and_where())

    def quantified(self, new: str, op: Op, negated: bool, quantifier: Quantifier) -> Join:
        """What follows ``x < ANY``; the comparison is the new document's with the old."""
        reader = self._reader
        select = self._open()
        while not (_is_word(reader, reader.at, "FROM") or reader.kinds[reader.at] in (END, ")")):
            reader.at += 1
        selected = reader.at
        where = self._from_and_where()
        end, reader.at = reader.at, select
        is_old, old = self._name()
        if not is_old or reader.at != selected:
            at = reader.at if is_old else select
            raise reader.error(f"expected one attribute of the old document, {self._alias}.…", at)
        reader.at = end
        return Join(quantifier, where, Comparison(old, FLIPPED[op], new, negated))

    def _open(self) -> int:
        """Step over ``(SELECT``."""
        reader = self._reader
        if not at_select(reader, reader.at):
            raise reader.expected("(SELECT … FROM seen d)")
        reader.at += 2
        return reader.at

    def _from_and_where(self) -> Condition:
        reader = self._reader
        if not _is_word(reader, reader.at, "FROM"):
            raise reader.expected("FROM seen", "a subquery reads the documents seen before")
        reader.at += 1
        if not _is_word(reader, reader.at, _SEEN):
            raise reader.expected("seen after FROM", "that is the only table there is")
        self._alias = reader.tokens[reader.at].text
        reader.at += 1
        if _is_word(reader, reader.at, "AS"):
            reader.at += 1
        if reader.kinds[reader.at] == NAME and not _is_word(reader, reader.at, "WHERE"):
            self._alias = reader.tokens[reader.at].text
            reader.at += 1
        where: Condition = NO_CONDITION
        if _is_word(reader, reader.at, "WHERE"):
            reader.at += 1
            where = self._alternatives(negated=False)
        if not reader.take(")"):
            hint = "a subquery has no more than SELECT, FROM and WHERE"
            raise reader.expected("AND, OR or ')' in the subquery", hint)
        return where

    def _alternatives(self, negated: bool) -> Condition:
        parts = [self._conjunction(negated)]
        while self._reader.take("OR"):
            parts.append(self._conjunction(negated))
        return _joined(parts, Every if negated else Some)

    def _conjunction(self, negated: bool) -> Condition:
        parts = [self._operand(negated)]
        while self._reader.take("AND"):
            parts.append(self._operand(negated))
        return _joined(parts, Some if negated else Every)

    def _operand(self, negated: bool) -> Condition:
        reader = self._reader
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise reader.error(f"the subquery is nested more than {_MAX_NESTING} levels deep")
        if reader.take("NOT"):
            result = self._operand(not negated)
        elif reader.take("("):
            result = self._alternatives(negated)
            if not reader.take(")"):
                raise reader.expected("')' in the subquery")
        else:
            result = self._leaf(negated)
        self._nesting -= 1
        return result

    def _leaf(self, negated: bool) -> Condition:
        reader = self._reader
        start = reader.at
        if at_exists(reader):
            raise reader.error("a subquery holds no subquery")
        if _at_value(reader):
            return self._flipped_test(negated)
        if reader.kinds[reader.at] not in (NAME, QUOTED_NAME):
            raise reader.expected("a condition in the subquery")
        is_old, name = self._name()
        kind = reader.kinds[reader.at]
        if kind in _COMPARISONS:
            if at_quantifier(reader, reader.at + 1) is not None:
                raise reader.error("a subquery holds no subquery", reader.at + 1)
            reader.at += 1
            if not _at_value(reader) and reader.kinds[reader.at] in (NAME, QUOTED_NAME):
                return self._comparison(is_old, name, *_COMPARISONS[kind], negated)
            reader.at -= 1
        op, values, is_negated = self._tested()
        predicate = reader.checked(start, validate.predicate, name, op, values, is_negated)
        return Test(_negated(predicate, negated), is_old)

    def _tested(self) -> tuple[Op, tuple[Any, ...], bool]:
        """What is asked of an attribute: an operator, its values, and whether it is negated."""
        reader = self._reader
        kind = reader.kinds[reader.at]
        if kind in _COMPARISONS:
            op, is_negated = _COMPARISONS[kind]
            reader.at += 1
            return op, (reader.value(),), is_negated
        if reader.take("IS"):
            is_absence = not reader.take("NOT")
            if not reader.take("NULL"):
                raise reader.expected("NULL or NOT NULL after IS", "compare with = instead")
            return Op.PRESENT, (), is_absence
        is_negated = reader.take("NOT")
        kind = reader.kinds[reader.at]
        if kind not in ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE"):
            raise reader.expected("a comparison in the subquery")
        reader.at += 1
        return Op(kind), reader.operands_of(kind), is_negated

    def _flipped_test(self, negated: bool) -> Condition:
        reader = self._reader
        start, value = reader.at, reader.value()
        kind = reader.kinds[reader.at]
        if kind not in _COMPARISONS:
            raise reader.expected("a comparison after the value, as in 3 < d.x")
        op, is_negated = _COMPARISONS[kind]
        reader.at += 1
        is_old, name = self._name()
        predicate = reader.checked(
            start, validate.predicate, name, FLIPPED[op], (value,), is_negated
        )
        return Test(_negated(predicate, negated), is_old)

    def _comparison(
        self, is_old: bool, name: str, op: Op, is_negated: bool, negated: bool
    ) -> Condition:
        start = self._reader.at
        other_is_old, other = self._name()
        if is_old is other_is_old:
            whose = "the old document's" if is_old else "the new document's"
            message = f"{name} and {other} are both {whose}; two attributes of one do not compare"
            raise self._reader.error(message, start)
        if is_old:
            return Comparison(name, op, other, is_negated is not negated)
        return Comparison(other, FLIPPED[op], name, is_negated is not negated)

    def _name(self) -> tuple[bool, str]:
        """An attribute, and whether it is the old document's."""
        reader = self._reader
        is_alias = reader.kinds[reader.at] == NAME and reader.kinds[reader.at + 1] == "."
        if is_alias and reader.tokens[reader.at].text.lower() == self._alias.lower():
            reader.at += 2
            return True, reader.attribute()
        return False, reader.attribute()


def _at_value(reader: Reader) -> bool:
    """Whether a literal comes next."""
    literal = reader.kinds[reader.at] in (STRING, NUMBER, BOOLEAN, "-", ".")
    return literal or reader.at_typed_literal()


def _joined(parts: list[Condition], connective: type[Every] | type[Some]) -> Condition:
    """The parts, connected; those that are connected in the same way become one."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Condition] = []
    for part in parts:
        flat += part.children if isinstance(part, connective) else (part,)
    return connective(tuple(flat))


def _negated(predicate: Predicate, negated: bool) -> Predicate:
    return Predicate(
        predicate.attribute, predicate.op, predicate.values, predicate.negated is not negated
    )
