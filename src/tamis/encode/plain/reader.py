"""Reads plain rules: most texts of large sets, from their bytes to encoded rules.

1. Cut each text into the pieces that are its predicates (`cut.py`).
2. Number the distinct pieces (`piece_table.py`), and read each of them once (`predicates.py`).
3. Number the values that they mention, sort them, and give them codes (`value_table.py`).
4. Write the atoms (`atoms.py`), and the conjunctions and score codes (`forms.py`).

All of that is done by kernels, over flat arrays. A rare predicate, such as a LIKE, is read by
:mod:`tamis.expr.text`, once for each distinct piece. A rule that is anything but plain is left out;
:class:`~tamis.encode.rules.RuleEncoder` reads it, and reports what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.arrays import SET, AtomArrays
from tamis.encode.atoms import encode_atoms, number_text_predicates, take_atoms
from tamis.encode.dictionary import Dictionary
from tamis.encode.merge.deduplicate import number_atoms
from tamis.encode.plain.atoms import make_atoms
from tamis.encode.plain.cut import NOT_PLAIN, cut_texts
from tamis.encode.plain.forms import Parts, leave_comparisons, make_forms
from tamis.encode.plain.piece_table import PieceTable, grow
from tamis.encode.plain.predicates import (
    BOOLEAN,
    EQ,
    IN,
    NUMBER,
    OPERATORS,
    OTHER,
    STRING,
    TIME,
    Predicates,
    read_predicates,
)
from tamis.encode.plain.value_table import ValueTable
from tamis.encode.plain.weights import BY_PREDICATE, BY_VALUE, UNCLEAR
from tamis.encode.ragged import run_places, starts, take_lists
from tamis.encode.rules import EncodedRules
from tamis.encode.text_predicates import TextIndex
from tamis.encode.values import pack_numbers
from tamis.errors import RuleError, report_defect
from tamis.expr.model import Atom, Logic, Not, Op, Predicate, Value
from tamis.expr.names import is_computed
from tamis.expr.normalize import atom_of
from tamis.expr.numbers import LongDecimal
from tamis.expr.patterns import mentioned_values
from tamis.expr.text.grammar import parse
from tamis.expr.text.predicates import read_predicate
from tamis.expr.times import count_microseconds

__all__ = ["PlainReader", "PlainRules"]

_BYTES_AT_ONCE: Final = 1 << 20
"""How many bytes of texts are cut at a time: what they need beside the result stays small."""


class PlainRules(NamedTuple):
    """The plain rules among some texts."""

    is_plain: NDArray[np.bool_]
    """For each text, whether it is a plain rule."""
    encoded: EncodedRules
    """The plain rules, in the order of the texts."""
    weighed: NDArray[np.uint8]
    """How each atom is weighed; see `tamis.encode.plain.weights`."""


class _Chunk(NamedTuple):
    """The rules of one call of `cut_texts`; `rule_end` and `part_end` count from its beginning."""

    form: NDArray[np.uint8]
    rule_end: NDArray[np.int64]
    part_end: NDArray[np.int64]
    piece: NDArray[np.int32]


class PlainReader:
    """Reads plain rules that come in any number of calls. Not safe to share between threads.

    Parameters
    ----------
    adapt
        Applied to each predicate, as in :class:`~tamis.expr.text.bulk.BulkReader`.
    adapted
        The attributes whose predicates `adapt` may change or refuse.
    scalars
        Attributes known to hold at most one value.
    """

    def __init__(
        self,
        adapt: Callable[[Predicate], Predicate] | None = None,
        adapted: Collection[str] = (),
        scalars: Collection[str] = (),
    ) -> None:
        self._adapt = adapt
        self._adapted = adapted
        self._scalars = scalars
        self._pieces = PieceTable()
        self._names = PieceTable()
        self._values = ValueTable()
        self._chunks: list[_Chunk] = []
        self._attribute = np.empty(1 << 12, np.int32)
        self._op = np.empty(1 << 12, np.uint8)
        self._negated = np.empty(1 << 12, np.uint8)
        self._value_end = np.zeros(1 << 12, np.int64)
        self._value_numbers: list[NDArray[np.int32]] = []
        self._value_count = 0
        self._read = 0
        """How many pieces were read so far."""

    def add(
        self, start: NDArray[np.int64], data: NDArray[np.uint8], weak: NDArray[np.uint8]
    ) -> None:
        """Add the rules data[start[i]:start[i + 1]], in UTF-8, each with a mark for weak logic."""
        first = 0
        while first < len(start) - 1:
            last = int(np.searchsorted(start, start[first] + _BYTES_AT_ONCE, "right")) - 1
            last = min(max(last, first + 1), len(start) - 1)
            self._add_some(start[first : last + 1], data, weak[first:last])
            first = last

    def _add_some(
        self, start: NDArray[np.int64], data: NDArray[np.uint8], weak: NDArray[np.uint8]
    ) -> None:
        cuts = cut_texts(start, data)
        part_count = np.diff(cuts.rule_end, prepend=0)
        piece_count = np.diff(cuts.part_end, prepend=0)
        piece_weak = np.repeat(np.repeat(weak, part_count), piece_count)
        piece = self._pieces.number(data, cuts.begin, cuts.end, piece_weak)
        self._chunks.append(
            _Chunk(cuts.form, cuts.rule_end.copy(), cuts.part_end.astype(np.int64), piece)
        )
        self._read_new()

    def _read_new(self) -> None:
        """Read the pieces that were not read before."""
        first, last = self._read, self._pieces.size
        if first == last:
            return
        data = self._pieces.data
        predicates = read_predicates(data, self._pieces.start, first, last)
        if last >= len(self._op):
            room = 2 * last
            self._attribute, self._op = grow(self._attribute, room), grow(self._op, room)
            self._negated, self._value_end = (
                grow(self._negated, room),
                grow(self._value_end, room),
            )
        known = np.flatnonzero(predicates.op != OTHER)
        attribute = np.full(last - first, -1, np.int32)
        attribute[known] = self._names.number(
            data,
            predicates.name_begin[known],
            predicates.name_end[known],
            np.zeros(len(known), np.uint8),
        )
        self._attribute[first:last] = attribute
        self._op[first:last] = predicates.op
        self._negated[first:last] = predicates.negated
        self._value_end[first:last] = self._value_count + predicates.value_end
        self._number_values(attribute, predicates)
        self._read = last

    def _number_values(self, attribute: NDArray[np.int32], predicates: Predicates) -> None:
        of_value = np.repeat(attribute, np.diff(predicates.value_end, prepend=0))
        numbers = self._values.number(
            self._pieces.data, of_value, predicates.kind, predicates.value, predicates.extra
        )
        self._value_numbers.append(numbers)
        self._value_count += len(numbers)

    def finish(self, allowed: NDArray[np.bool_] | None = None) -> PlainRules:
        """Encode the plain rules among all that were added; the reader is then of no more use.

        Parameters
        ----------
        allowed
            Marks the rules that may be plain; all by default.
        """
        parts = self._join_chunks()
        if allowed is not None:
            parts.form[~allowed] = NOT_PLAIN
        rare = self._read_rare()
        size = self._read
        good = self._op[:size] != OTHER
        good[list(rare)] = True
        is_scalar = np.array([name in self._scalars for name in self._attribute_names()], np.bool_)
        leave_comparisons(
            parts, good, self._attribute[:size], self._op[:size], self._negated[:size], is_scalar
        )
        is_plain = parts.form != NOT_PLAIN
        used = _mark_pieces(parts, size)
        rare = {piece: atom for piece, atom in rare.items() if used[piece]}
        atom, atoms, dictionary, texts = self._encode_pieces(used, rare)
        forms, scores = make_forms(parts, atom, atoms)
        encoded = EncodedRules(
            int(np.count_nonzero(is_plain)), atoms, forms, scores, dictionary, texts
        )
        is_value = np.isin(self._op[:size], (EQ, IN))
        is_value[[piece for piece, one in rare.items() if one.predicate.op in (Op.EQ, Op.IN)]] = (
            True
        )
        weighed = np.full(len(atoms.table), 255, np.uint8)
        weighed[atom[used & is_value]] = BY_VALUE
        others = atom[used & ~is_value]
        weighed[others] = np.where(weighed[others] == BY_VALUE, UNCLEAR, BY_PREDICATE)
        return PlainRules(is_plain, encoded, weighed)

    def _join_chunks(self) -> Parts:
        """All rules; the chunks are freed."""
        chunks, self._chunks = self._chunks, []
        form = np.concatenate([np.empty(0, np.uint8), *(chunk.form for chunk in chunks)])
        rules = starts(len(chunk.part_end) for chunk in chunks)
        pieces = starts(len(chunk.piece) for chunk in chunks)
        rule_end = [base + chunk.rule_end for base, chunk in zip(rules, chunks, strict=False)]
        part_end = [base + chunk.part_end for base, chunk in zip(pieces, chunks, strict=False)]
        nothing = np.zeros(1, np.int64)
        return Parts(
            form,
            np.concatenate([nothing, *rule_end]),
            np.concatenate([nothing, *part_end]),
            np.concatenate([np.empty(0, np.int32), *(chunk.piece for chunk in chunks)]),
        )

    def _attribute_names(self) -> list[str]:
        return [self._names.text(number) for number in range(self._names.size)]

    def _read_rare(self) -> dict[int, Atom]:
        """Read the pieces that kernels do not read, or that `adapt` may change; some are bad."""
        op = self._op[: self._read]
        if self._adapted:
            numbers = [n for n, name in enumerate(self._attribute_names()) if name in self._adapted]
            op[np.isin(self._attribute[: self._read], numbers)] = OTHER
        atoms: dict[int, Atom] = {}
        for piece in np.flatnonzero(op == OTHER).tolist():
            logic: Logic = "weak" if self._pieces.weak[piece] else "strong"
            atom = self._read_piece(self._pieces.text(piece), logic)
            if atom is not None:
                atoms[piece] = atom
        for piece, atom in atoms.items():
            self._attribute[piece] = self._number_name(atom.predicate.attribute)
            self._negated[piece] = atom.negated
        return atoms

    def _read_piece(self, text: str, logic: Logic) -> Atom | None:
        """The atom of a piece; None if it is not a predicate by itself, or an unusual one."""
        try:
            predicate = read_predicate(text)
            negated = False
            if predicate is None:
                expr = parse(text)
                while isinstance(expr, Not):
                    expr, negated = expr.child, not negated
                if not isinstance(expr, Predicate):
                    return None
                predicate = expr
            if self._adapt is not None:
                predicate = self._adapt(predicate)
        except RuleError:
            return None
        except Exception as error:
            report_defect(error)
            return None
        if is_computed(predicate.attribute):
            return None
        if any(isinstance(value, LongDecimal) for value in predicate.values):
            return None
        return atom_of(predicate, logic, negated)

    def _number_name(self, name: str) -> int:
        data = np.frombuffer(name.encode(), np.uint8)
        bounds = np.array([0, len(data)])
        return int(self._names.number(data, bounds[:1], bounds[1:], np.zeros(1, np.uint8))[0])

    def _encode_pieces(
        self, used: NDArray[np.bool_], rare: dict[int, Atom]
    ) -> tuple[NDArray[np.int32], AtomArrays, Dictionary, TextIndex]:
        """The atom of each used piece, all atoms, the dictionary and the text predicates."""
        size = self._read
        pieces = np.flatnonzero(used)
        op = self._op[:size][pieces]
        begin = np.concatenate(([0], self._value_end[:size]))[pieces]
        # What kernels have read of a rare piece does not count.
        sizes = np.where(op == OTHER, 0, self._value_end[:size][pieces] - begin)
        value_start = starts(sizes)
        number = np.concatenate([np.empty(0, np.int32), *self._value_numbers])
        self._value_numbers.clear()
        number = number[run_places(begin, sizes)]
        attribute = self._attribute[:size][pieces]
        rare_numbers = [self._number_rare_values(atom) for atom in rare.values()]
        used_value = np.zeros(self._values.size, np.bool_)
        for numbers in (number, *rare_numbers):
            used_value[numbers] = True

        # Attributes are numbered in the order in which pieces mention them.
        mentioned, first = np.unique(attribute, return_index=True)
        mentioned = mentioned[np.argsort(first)]
        number_of = np.full(self._names.size, -1, np.int32)
        number_of[mentioned] = np.arange(len(mentioned), dtype=np.int32)
        names = take_lists(self._names.start[: self._names.size + 1], self._names.data, mentioned)
        orders = np.zeros(len(mentioned), np.uint8)
        kinds = self._values.kinds(number)
        of_value = np.repeat(op, np.diff(value_start))
        orders_strings = (kinds == STRING) & (of_value != EQ) & (of_value != IN)
        orders[number_of[np.repeat(attribute, np.diff(value_start))[orders_strings]]] = 1
        for atom, numbers in zip(rare.values(), rare_numbers, strict=True):
            is_list = OPERATORS.get(atom.predicate.op) in (EQ, IN)
            if not is_list and (self._values.kinds(numbers) == STRING).any():
                orders[number_of[self._number_name(atom.predicate.attribute)]] = 1
        dictionary, code = self._values.encode(
            self._pieces.data, used_value, names, number_of, orders
        )
        atoms = make_atoms(
            dictionary,
            number_of[attribute],
            op,
            self._negated[:size][pieces],
            self._pieces.weak[:size][pieces],
            value_start,
            code[number],
        )
        texts = number_text_predicates(rare.values())
        atoms = _replace_rows(atoms, pieces, rare, dictionary, texts)
        # All rows are taken for different parts, so equal ones get the same number.
        numbering = number_atoms(atoms, np.arange(len(pieces)))
        atom_of_piece = np.full(size, -1, np.int32)
        atom_of_piece[pieces] = numbering.number
        index = TextIndex.of(texts, dictionary.attributes)
        return atom_of_piece, take_atoms(atoms, numbering.first), dictionary, index

    def _number_rare_values(self, atom: Atom) -> NDArray[np.int32]:
        """Number the values that an atom mentions."""
        columns = [self._value_columns(value) for value in mentioned_values(atom.predicate)]
        kind, value, extra = zip(*columns, strict=True) if columns else ((), (), ())
        attribute = self._number_name(atom.predicate.attribute)
        return self._values.number(
            self._pieces.data,
            np.full(len(columns), attribute, np.int32),
            np.array(kind, np.uint8),
            np.array(value, np.int64),
            np.array(extra, np.int64),
        )

    def _value_columns(self, value: Value) -> tuple[int, int, int]:
        """A value as `Predicates` has it."""
        if isinstance(value, bool):
            return BOOLEAN, int(value), 0
        if isinstance(value, str):
            begin, end = self._pieces.append(value.encode())
            return STRING, begin, end - begin
        if isinstance(value, datetime):
            return TIME, count_microseconds(value), 0
        packed = pack_numbers([value])
        below = int(packed.below[0]) if len(packed.below) else 0
        return NUMBER, int(packed.double.view(np.int64)[0]), below


def _mark_pieces(parts: Parts, size: int) -> NDArray[np.bool_]:
    """Mark the pieces of plain rules."""
    of_rule = np.diff(parts.part_start[parts.rule_start])
    used = np.zeros(size, np.bool_)
    used[parts.piece[np.repeat(parts.form != NOT_PLAIN, of_rule)]] = True
    return used


def _replace_rows(
    atoms: AtomArrays,
    pieces: NDArray[np.int64],
    rare: dict[int, Atom],
    dictionary: Dictionary,
    texts: dict[Predicate, int],
) -> AtomArrays:
    """`atoms` with the rows of rare atoms, which have none yet."""
    if not rare:
        return atoms
    own = encode_atoms(list(rare.values()), dictionary, texts)
    is_set = own.test == SET
    own.table[is_set, 2:] += len(atoms.codes)
    atoms.table[np.searchsorted(pieces, list(rare))] = own.table
    return AtomArrays(atoms.table, np.concatenate([atoms.codes, own.codes]))
