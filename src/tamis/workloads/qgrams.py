"""Strings as q-grams: the real workloads of the BE-Tree paper (section 7.1, Table 3).

A string is cut into its 3-grams, and each becomes an equality: the first two letters are the
attribute, the third is its value. ``strong`` becomes ``g_st = 'r' AND g_tr = 'o' AND g_ro = 'n'
AND g_on = 'g'``. Rules and events are such strings; a rule matches the events that contain all its
grams.

The paper takes authors and titles from DBLP. Here the texts come from sources on the machine (see
:mod:`tamis.workloads.text_sources`) or from a file.

**How the match probability is controlled.** Without one, each rule is a different text, events are
any of the texts, and a rule matches little but its own text. With `match_probability` there are
only ``round(1 / match_probability)`` texts, each with an equal share of the rules. Rules keep each
gram with probability `kept` and widen it as in `begen`, so that an event, which is one of the
texts, matches its share of them.

Where the paper is silent:

- grams stay within words, and case and accents are dropped: Western texts then have 26 letters, and
  there are 26 × 26 attributes. The paper has 677 and does not explain the last one. Here it has all
  grams with other letters, hashed to one of the 26;
- if two grams begin alike, the first one counts: an attribute has one value;
- texts with the same expression count once, and texts without a gram are dropped.

A seed gives the same workload on every machine that has the same texts.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from itertools import product
from typing import ClassVar, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.workloads.base import ChunkedWorkload, check_parameters
from tamis.workloads.begen import OPERATOR_CLASSES, OperatorClass, draw_operators
from tamis.workloads.portable_random import Ints, PortableRandom
from tamis.workloads.predicates import Values
from tamis.workloads.text_sources import read_texts

__all__ = ["ATTRIBUTES", "Workload", "count_distinct", "grams"]

_LETTERS: Final = string.ascii_lowercase
_OTHER: Final = len(_LETTERS) ** 2

ATTRIBUTES: Final = (*(f"g_{a}{b}" for a, b in product(_LETTERS, _LETTERS)), "g_other")
"""The 677 attributes."""

_WORD = re.compile(r"[^\W\d_]+")


class _Stream(IntEnum):
    """The independent streams of random numbers of a workload."""

    TEXTS = 0
    RULES = 1
    EVENTS = 2


class Expressions(NamedTuple):
    """Conjunctions of equalities, concatenated."""

    start: Ints
    attribute: Ints
    value: Ints
    """The number of the letter, from 0."""


def grams(text: str) -> dict[int, int]:
    """The numbers of a text's attributes, each with the number of its letter."""
    found: dict[int, int] = {}
    for word in _WORD.findall(_fold(text)):
        for at in range(len(word) - 2):
            attribute, value = _encode_gram(word[at : at + 3])
            found.setdefault(attribute, value)
    return found


def _fold(text: str) -> str:
    """`text` in lower case and without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in apart if not unicodedata.combining(char))


@cache
def _encode_gram(gram: str) -> tuple[int, int]:
    a, b, c = (_LETTERS.find(letter) for letter in gram)
    if min(a, b, c) < 0:
        return _OTHER, crc32(gram.encode()) % len(_LETTERS)
    return a * len(_LETTERS) + b, c


@cache
def _read_expressions(source: str) -> Expressions:
    """The distinct expressions of a source's texts."""
    return _flatten(dict.fromkeys(tuple(grams(text).items()) for text in read_texts(source)))


def count_distinct(source: str) -> int:
    """The number of distinct expressions of a source's texts."""
    return len(_read_expressions(source).start) - 1


def _flatten(expressions: Iterable[tuple[tuple[int, int], ...]]) -> Expressions:
    kept = [expression for expression in expressions if expression]
    pairs = np.array([pair for expression in kept for pair in expression], np.int64).reshape(-1, 2)
    sizes = np.array([0, *map(len, kept)], np.int64)
    return Expressions(sizes.cumsum(), pairs[:, 0], pairs[:, 1])


@cache
def _letter_literals() -> pa.StringArray:
    """The letters as rules write them, and the characters before the first and after the last.

    Not a constant: the first array that pyarrow makes imports pandas.
    """
    return pa.array([f"'{chr(code)}'" for code in range(ord("a") - 1, ord("z") + 2)])


def _letters(numbers: Ints) -> pa.StringArray:
    return _letter_literals().take(pa.array(numbers + 1))


@dataclass(frozen=True)
class Workload(ChunkedWorkload):
    """Rules and events from the 3-grams of real strings.

    Parameters
    ----------
    size
        How many rules.
    texts
        Where the strings come from: ``characters``, ``airports``, ``synopses``, ``maintainers``,
        or a file with one a line.
    match_probability
        The share of the rules that an event matches; None if each rule is a different text.
    kept
        The share of a text's grams that a rule keeps.
    equality
        The share of a rule's predicates that are equalities.
    operators
        The class of operators that the other predicates use; see `begen`.
    range_percent
        The average share of the letters that a BETWEEN spans, in percent.
    seed
        Workloads with the same parameters, texts and seed are the same, on any machine.
    """

    rules_per_chunk: ClassVar[int] = 1 << 15
    events_per_chunk: ClassVar[int] = 1 << 12
    size: int = 1_000
    texts: str = "characters"
    match_probability: float | None = None
    kept: float = 1
    equality: float = 0.3
    operators: OperatorClass = "min"
    range_percent: float = 12
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        required = {
            "size is at least 0": self.size >= 0,
            "match_probability lies above 0 and at most at 1": (
                self.match_probability is None or 0 < self.match_probability <= 1
            ),
            "kept lies above 0 and at most at 1": 0 < self.kept <= 1,
            "equality lies between 0 and 1": 0 <= self.equality <= 1,
            f"operators is one of {', '.join(OPERATOR_CLASSES)}": (
                self.operators in OPERATOR_CLASSES
            ),
            "range_percent lies above 0 and at most at 100": 0 < self.range_percent <= 100,
        }
        check_parameters(required, self)
        known = count_distinct(self.texts)
        wanted = self.size if self.match_probability is None else round(1 / self.match_probability)
        if wanted > known:
            raise ValueError(
                f"{self.texts} has {known:,} texts, but {wanted:,} are needed; ask for fewer rules "
                "or a higher match_probability"
            )

    @property
    def _known(self) -> Expressions:
        return _read_expressions(self.texts)

    @cached_property
    def _bases(self) -> Ints:
        """The texts that rules and events come from."""
        order = PortableRandom(self.seed, _Stream.TEXTS).permutation(count_distinct(self.texts))
        return (
            order if self.match_probability is None else order[: round(1 / self.match_probability)]
        )

    def events(self, n: int) -> list[dict[str, str]]:
        """`n` events; fewer are a prefix of more."""
        start, attribute, value = self._known
        return [
            {
                ATTRIBUTES[a]: _LETTERS[v]
                for a, v in zip(attribute[first:last], value[first:last], strict=True)
            }
            for base in self._draw_bases(0, n)
            for first, last in [start[base : base + 2]]
        ]

    def _events(self, start: int, count: int) -> pa.Table:
        bases = self._draw_bases(start, count)
        row, position = self._locate_grams(bases)
        cells = np.full((len(ATTRIBUTES), count), -1, np.int64)
        cells[self._known.attribute[position], row] = self._known.value[position]
        letters = pa.array(_LETTERS)
        columns = [letters.take(pa.array(column, mask=column < 0)) for column in cells]
        return pa.table(columns, names=list(ATTRIBUTES))

    def _draw_bases(self, start: int, count: int) -> Ints:
        """Draw the texts of `count` events from `start` on."""
        rng = PortableRandom(self.seed, _Stream.EVENTS)
        rng.skip(start)  # One number for each event.
        return self._bases[rng.below(len(self._bases), count)]

    def _locate_grams(self, bases: Ints) -> tuple[Ints, Ints]:
        """For each gram of some texts, which text it belongs to, and its position."""
        begin = self._known.start[bases]
        size = self._known.start[bases + 1] - begin
        row = np.repeat(np.arange(len(bases)), size)
        return row, np.arange(len(row)) + np.repeat(begin - (size.cumsum() - size), size)

    def _texts(self, start: int) -> pa.StringArray:
        """The texts of the chunk of rules from `start` on."""
        rng = PortableRandom(self.seed, _Stream.RULES, start // self.rules_per_chunk)
        rules = np.arange(start, min(start + self.rules_per_chunk, self.size))
        row, position = self._locate_grams(self._bases[rules % len(self._bases)])
        keep = self._draw_kept(np.bincount(row, minlength=len(rules)), rng)
        row, position = row[keep], position[keep]
        operator = draw_operators(self.operators, self.equality, len(position), rng)
        names = pa.array(ATTRIBUTES).take(pa.array(self._known.attribute[position]))
        values = Values(len(_LETTERS), self.range_percent, _letters)
        texts = values.predicates(names, operator, self._known.value[position], rng)
        offsets = np.searchsorted(row, np.arange(len(rules) + 1))
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
        return pc.binary_join(lists, " AND ")

    def _draw_kept(self, sizes: Ints, rng: PortableRandom) -> Ints:
        """Draw the positions of the grams that rules of these sizes keep: at least one each."""
        keep = rng.chance(self.kept, int(sizes.sum()))
        at_least = sizes.cumsum() - sizes + rng.below(sizes)
        row = np.repeat(np.arange(len(sizes)), sizes)
        empty = np.bincount(row[keep], minlength=len(sizes)) == 0
        keep[at_least[empty]] = True
        return np.flatnonzero(keep)
