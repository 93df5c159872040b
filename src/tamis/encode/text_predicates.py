"""LIKE, ILIKE and RLIKE, evaluated once per distinct predicate and distinct value.

Most patterns of real rules are a literal with or without a ``%`` at either end. An Aho-Corasick
automaton finds all of those on one attribute in one pass over a value; RE2 matches the rest, many
at a time. Results are cached by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
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
memory than a single expression, and only a failure reveals that (see `_RegexSet`)."""

_MOST_CACHED = 100_000
"""How many values are cached for each attribute."""


_MOST_PLACES = 8
_SHORT = 1024
"""How many places of literals are listed for each character of a value; a value counts as so many
characters longer."""


class _Literal(NamedTuple):
    """A LIKE pattern that is a literal with or without ``%`` at either end."""

    text: str
    at_start: bool
    at_end: bool


def _literal_of(predicate: Predicate) -> _Literal | None:
    if predicate.op is Op.RLIKE:
        return None
    parts = like_parts(predicate)
    at_start, at_end = parts[:1] != [None], parts[-1:] != [None]
    inner = parts[not at_start : len(parts) - (not at_end)]
    if not inner or not all(inner):
        return None
    return _Literal("".join(part for part in inner if part), at_start, at_end)


class _LiteralSet:
    """Literals, all found in one pass.

    The pass lists every place of every literal. In a value such as a long run of one letter, these
    can be as many as literals times characters. After a few for each character, the literals that
    were not found yet are looked up one by one, which stops at the first place of each.
    """

    def __init__(self, literals: Sequence[tuple[int, _Literal]]) -> None:
        words: dict[str, list[tuple[int, bool, bool]]] = {}
        for text_id, (text, at_start, at_end) in literals:
            words.setdefault(text, []).append((text_id, at_start, at_end))
        self._words = words
        self._automaton = ahocorasick.Automaton()
        for word, uses in words.items():
            self._automaton.add_word(word, (len(word), uses))
        self._automaton.make_automaton()

    def match(self, value: str) -> set[int]:
        result: set[int] = set()
        last = len(value) - 1
        places = self._automaton.iter(value)
        for end, (length, uses) in islice(places, _MOST_PLACES * (len(value) + _SHORT)):
            for text_id, at_start, at_end in uses:
                if (not at_start or end + 1 == length) and (not at_end or end == last):
                    result.add(text_id)
        if next(places, None) is not None:
            self._look_up(value, result)
        return result

    def _look_up(self, value: str, result: set[int]) -> None:
        """Add the literals of `value` to `result`, which has some of them."""
        for word, uses in self._words.items():
            for text_id, at_start, at_end in uses:
                if text_id in result:
                    continue
                if at_start and at_end:
                    holds = value == word
                elif at_start or at_end:
                    holds = value.startswith(word) if at_start else value.endswith(word)
                else:
                    holds = word in value
                if holds:
                    result.add(text_id)


class _RegexSet:
    """Expressions matched together by RE2.

    A set that needs too much memory may fail to compile; its expressions are then tried one by
    one. Or it may run out of memory later, and then reports no match instead of an error. So each
    set also has the empty expression, which matches every text: if it is not reported, the set has
    failed.
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

    def match(self, value: str, folded: str) -> list[int]:
        found = () if self._set is None else self._set.Match(folded)
        if self._always in found:
            return [self._tests[i][0] for i in found if i != self._always]
        return [text_id for text_id, _, test in self._tests if test(value)]


class _AttributeTexts:
    """All text predicates of one attribute."""

    def __init__(self, predicates: Sequence[tuple[int, Predicate]]) -> None:
        literals: dict[bool, list[tuple[int, _Literal]]] = {False: [], True: []}
        regex: dict[bool, list[tuple[int, str, TextTest]]] = {False: [], True: []}
        for text_id, predicate in predicates:
            folds = predicate.op is Op.ILIKE
            literal = _literal_of(predicate)
            if literal is not None:
                literals[folds].append((text_id, literal))
            else:
                regex[folds].append((text_id, regex_of(predicate), text_test(predicate)))
        self._literals = {folds: _LiteralSet(items) for folds, items in literals.items() if items}
        self._regex = {
            folds: [_RegexSet(items[i : i + _SET_SIZE]) for i in range(0, len(items), _SET_SIZE)]
            for folds, items in regex.items()
        }
        self.cache: dict[str, tuple[int, ...]] = {}

    def match(self, value: str) -> tuple[int, ...]:
        satisfied = self._evaluate(value)
        if len(self.cache) >= _MOST_CACHED:
            self.cache = {}
        self.cache[value] = satisfied
        return satisfied

    def _evaluate(self, value: str) -> tuple[int, ...]:
        result: set[int] = set()
        for folds in (False, True):
            seen = fold(value) if folds else value
            if folds in self._literals:
                result |= self._literals[folds].match(seen)
            for regexes in self._regex[folds]:
                result.update(regexes.match(value, seen))
        return tuple(sorted(result))


class TextIndex:
    """The text predicates of a set of rules; a predicate's id is its place in the list.

    The automata of an attribute are built when its first value is matched. Safe to use from several
    threads: a race only builds them twice, or evaluates a value twice.
    """

    def __init__(self, arrays: TextArrays) -> None:
        self.arrays = arrays
        self.size = len(arrays.attribute)
        self.attributes = frozenset(np.unique(arrays.attribute).tolist())
        """The numbers of the attributes with text predicates."""
        self._by_attribute: dict[int, _AttributeTexts] = {}

    @classmethod
    def of(cls, predicates: Iterable[Predicate], attributes: dict[str, int]) -> TextIndex:
        """The index of `predicates`, whose ids are their places here."""
        listed = list(predicates)
        numbers = [attributes[predicate.attribute] for predicate in listed]
        texts = [_ENCODER.encode([p.op, *p.values]).decode() for p in listed]
        return cls(TextArrays(np.array(numbers, np.int32), *pack_texts(texts)))

    def cached_match(self, attribute: int, value: str) -> tuple[int, ...] | None:
        """The result of `match`, if it is cached."""
        texts = self._by_attribute.get(attribute)
        return None if texts is None else texts.cache.get(value)

    def match(self, attribute: int, value: str) -> tuple[int, ...]:
        """The ids of the predicates on `attribute` that `value` satisfies, rising."""
        cached = self.cached_match(attribute, value)
        if cached is not None:
            return cached
        texts = self._by_attribute.get(attribute)
        if texts is None:
            texts = self._by_attribute.setdefault(attribute, self._build(attribute))
        return texts.match(value)

    def _build(self, attribute: int) -> _AttributeTexts:
        ids = np.flatnonzero(self.arrays.attribute == attribute).tolist()
        return _AttributeTexts([(text_id, self._predicate(text_id)) for text_id in ids])

    def _predicate(self, text_id: int) -> Predicate:
        (text,) = unpack_texts(self.arrays.start, self.arrays.text, text_id, text_id + 1)
        op, *values = _DECODER.decode(text)
        # The attribute makes no difference to what a predicate says about a text.
        return Predicate("", Op(op), tuple(values))


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(list[str])
