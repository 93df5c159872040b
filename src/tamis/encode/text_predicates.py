"""LIKE, ILIKE and RLIKE, evaluated once per distinct predicate and distinct value.

Most patterns of real rules are a plain text with or without a ``%`` at either end. All of those
on one attribute are found in one pass over a value by an Aho-Corasick automaton; the rest go
through RE2, many at a time. Which predicates a value satisfies is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import ahocorasick
import msgspec
import numpy as np
import re2

from tamis.encode.arrays import TextArrays
from tamis.encode.values import pack_texts, unpack_texts
from tamis.expr.model import Op, Predicate
from tamis.expr.patterns import TextTest, fold, like_parts, regex_of, text_test

__all__ = ["TextIndex"]

_SET_SIZE = 64
_SET_MEMORY = 64 << 20
"""How many expressions share one RE2 set, and how many bytes it may use: a set needs far more
than an expression of its own, and says so only by failing (see `_RegexSet`)."""

_REMEMBERED = 100_000
"""How many values' answers are kept for each attribute."""


class _Plain(NamedTuple):
    """A LIKE that is a plain text with or without ``%`` at either end."""

    text: str
    at_start: bool
    at_end: bool


def _plain(predicate: Predicate) -> _Plain | None:
    if predicate.op is Op.RLIKE:
        return None
    parts = like_parts(predicate)
    at_start, at_end = parts[:1] != [None], parts[-1:] != [None]
    inner = parts[not at_start : len(parts) - (not at_end)]
    if not inner or not all(inner):
        return None
    return _Plain("".join(part for part in inner if part), at_start, at_end)


class _PlainSet:
    """Plain texts, all found in one pass."""

    def __init__(self, plains: Sequence[tuple[int, _Plain]]) -> None:
        words: dict[str, list[tuple[int, bool, bool]]] = {}
        for text_id, plain in plains:
            words.setdefault(plain.text, []).append((text_id, plain.at_start, plain.at_end))
        self._automaton = ahocorasick.Automaton()
        for word, uses in words.items():
            self._automaton.add_word(word, (len(word), uses))
        self._automaton.make_automaton()

    def held(self, value: str) -> set[int]:
        result: set[int] = set()
        last = len(value) - 1
        for end, (length, uses) in self._automaton.iter(value):
            for text_id, at_start, at_end in uses:
                if (not at_start or end + 1 == length) and (not at_end or end == last):
                    result.add(text_id)
        return result


class _RegexSet:
    """Expressions matched together by RE2.

    A set that takes too much memory may fail to compile; its expressions are then tried one by
    one. Or it may run out of memory later, and then reports no match rather than an error. So each
    set also holds the empty expression, which is found in every text: when it is not reported, the
    set has failed.
    """

    def __init__(self, tests: Sequence[tuple[int, str, TextTest]]) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _SET_MEMORY
        self._tests = tests
        self._set: Any = re2.Set.SearchSet(options)
        for _, regex, _ in tests:
            self._set.Add(regex)
        self._always = len(tests)
        self._set.Add("")
        try:
            self._set.Compile()
        except re2.error:
            self._set = None

    def held(self, value: str, folded: str) -> list[int]:
        found = () if self._set is None else self._set.Match(folded)
        if self._always in found:
            return [self._tests[i][0] for i in found if i != self._always]
        return [text_id for text_id, _, test in self._tests if test(value)]


class _AttributeTexts:
    """All text predicates of one attribute."""

    def __init__(self, predicates: Sequence[tuple[int, Predicate]]) -> None:
        plain: dict[bool, list[tuple[int, _Plain]]] = {False: [], True: []}
        regex: dict[bool, list[tuple[int, str, TextTest]]] = {False: [], True: []}
        for text_id, predicate in predicates:
            folds = predicate.op is Op.ILIKE
            simple = _plain(predicate)
            if simple is not None:
                plain[folds].append((text_id, simple))
            else:
                regex[folds].append((text_id, regex_of(predicate), text_test(predicate)))
        self._plain = {folds: _PlainSet(items) for folds, items in plain.items() if items}
        self._regex = {
            folds: [_RegexSet(items[i : i + _SET_SIZE]) for i in range(0, len(items), _SET_SIZE)]
            for folds, items in regex.items()
        }
        self.remembered: dict[str, tuple[int, ...]] = {}

    def held(self, value: str) -> tuple[int, ...]:
        known = self._evaluate(value)
        if len(self.remembered) >= _REMEMBERED:
            self.remembered = {}
        self.remembered[value] = known
        return known

    def _evaluate(self, value: str) -> tuple[int, ...]:
        result: set[int] = set()
        for folds in (False, True):
            seen = fold(value) if folds else value
            if folds in self._plain:
                result |= self._plain[folds].held(seen)
            for regexes in self._regex[folds]:
                result.update(regexes.held(value, seen))
        return tuple(sorted(result))


class TextIndex:
    """The text predicates of a set of rules; a predicate's id is its place in the list.

    What finds those of an attribute is made when the first value is asked for. Safe to use from
    several threads: a race only makes it twice, or evaluates a value twice.
    """

    def __init__(self, arrays: TextArrays) -> None:
        self.arrays = arrays
        self.size = len(arrays.attribute)
        self.attributes = frozenset(np.unique(arrays.attribute).tolist())
        """The attributes that some predicate asks about."""
        self._by_attribute: dict[int, _AttributeTexts] = {}

    @classmethod
    def of(cls, predicates: Iterable[Predicate], attributes: dict[str, int]) -> TextIndex:
        """The index of `predicates`, whose ids are their places here."""
        found = list(predicates)
        numbers = [attributes[predicate.attribute] for predicate in found]
        texts = [_ENCODER.encode([p.op, *p.values]).decode() for p in found]
        return cls(TextArrays(np.array(numbers, np.int32), *pack_texts(texts)))

    def remembered(self, attribute: int, value: str) -> tuple[int, ...] | None:
        """What `held` answered for this value not long ago."""
        found = self._by_attribute.get(attribute)
        return None if found is None else found.remembered.get(value)

    def held(self, attribute: int, value: str) -> tuple[int, ...]:
        """The ids of the predicates on `attribute` that `value` satisfies, in rising order."""
        known = self.remembered(attribute, value)
        if known is not None:
            return known
        found = self._by_attribute.get(attribute)
        if found is None:
            found = self._by_attribute.setdefault(attribute, self._made(attribute))
        return found.held(value)

    def _made(self, attribute: int) -> _AttributeTexts:
        ids = np.flatnonzero(self.arrays.attribute == attribute).tolist()
        return _AttributeTexts([(text_id, self._predicate(text_id)) for text_id in ids])

    def _predicate(self, text_id: int) -> Predicate:
        (text,) = unpack_texts(self.arrays.start, self.arrays.text, text_id, text_id + 1)
        op, *values = _DECODER.decode(text)
        # Which attribute it asks about plays no part in what it asks of a text.
        return Predicate("", Op(op), tuple(values))


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(list[str])
