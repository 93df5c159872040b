"""LIKE, ILIKE and RLIKE, evaluated once per distinct predicate and distinct value.

Most patterns of real rules are a literal with or without a ``%`` at either end. An Aho-Corasick
automaton finds all of those on one attribute in one pass over a value. For the rest, an automaton
finds the texts that a match must contain (`required_texts.py`), and RE2 matches what remains: one
by one where few remain or the value is long, many at a time otherwise. Results are cached by value.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import ahocorasick
import msgspec
import numpy as np
import re2

from tamis.deadline import check_time
from tamis.encode.arrays import TextArrays
from tamis.encode.required_texts import required_text
from tamis.encode.values import pack_texts, unpack_texts
from tamis.errors import PatternError
from tamis.expr.model import Op, Predicate
from tamis.expr.patterns import fold, like_parts, regex_of
from tamis.forks import call_in_child, computed_once, parent_had_threads

__all__ = ["TextIndex"]

_SET_SIZE = 64
_SET_MEMORY = 64 << 20
"""How many expressions share one RE2 set, and how many bytes it may use: a set needs far more
memory than a single expression, and only a failure reveals that (see `_RegexSet`)."""

_FEW = 4
"""Up to how many expressions of a set are matched one by one: that takes less time than the set."""

_LONG = 4096
"""From how many characters on a value is matched with one expression after the other. A set has
states for combinations of its expressions, and on a hostile value a new one for every character;
RE2 notices that for a single expression, and then takes linear time, but not for a set."""

_SINGLE_MEMORY = 1 << 20
_SINGLES = 256
"""How many bytes RE2 may use for the states of a single expression, and how many expressions keep
theirs."""

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
            check_time()
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


class _Expression(NamedTuple):
    """A pattern that is no literal."""

    text_id: int
    regex: str
    """What RE2 finds in a value, or in a folded one."""
    required: str | None
    """A text that every match contains."""


@lru_cache(maxsize=_SINGLES)
def _compile(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _SINGLE_MEMORY
    try:
        return re2.compile(regex, options)
    except re2.error:
        # A large expression needs more; rules were checked with RE2's own limit.
        options.max_mem = re2.Options().max_mem
        return re2.compile(regex, options)


class _RegexSet:
    """Expressions matched together by RE2.

    A set that needs too much memory may fail to compile; its expressions are then tried one by
    one. Or it may run out of memory later, and then reports no match instead of an error. So each
    set also has the empty expression, which matches every text: if it is not reported, the set has
    failed.
    """

    def __init__(self, expressions: Sequence[_Expression]) -> None:
        self._expressions = expressions
        self._always = len(expressions)

    @computed_once
    def _set(self) -> Any:
        """The set; None if it cannot be compiled. Many are never needed."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _SET_MEMORY
        together = re2.Set.SearchSet(options)
        for expression in self._expressions:
            together.Add(expression.regex)
        together.Add("")
        try:
            together.Compile()
        except re2.error:
            return None
        return together

    def match(self, value: str, places: Collection[int]) -> list[int]:
        """The ids of the expressions at `places` that match, and maybe of others that match."""
        if len(places) > _FEW and len(value) < _LONG and self._set is not None:
            found = self._set.Match(value)
            if self._always in found:
                return [self._expressions[i].text_id for i in found if i != self._always]
        matching: list[int] = []
        for place in places:
            expression = self._expressions[place]
            check_time()
            if _compile(expression.regex).search(value) is not None:
                matching.append(expression.text_id)
        return matching


class _RegexIndex:
    """Expressions, of which only those are matched whose required text is in the value."""

    def __init__(self, expressions: Sequence[_Expression]) -> None:
        self._sets = [
            _RegexSet(expressions[i : i + _SET_SIZE]) for i in range(0, len(expressions), _SET_SIZE)
        ]
        texts = [(n, e.required) for n, e in enumerate(expressions) if e.required is not None]
        literals = [(n, _Literal(text, False, False)) for n, text in texts]
        self._texts = _LiteralSet(literals) if literals else None
        self._always = [n for n, e in enumerate(expressions) if e.required is None]

    def match(self, value: str) -> list[int]:
        places: list[list[int]] = [[] for _ in self._sets]
        required = () if self._texts is None else self._texts.match(value)
        for number in (*self._always, *required):
            places[number // _SET_SIZE].append(number % _SET_SIZE)
        found: list[int] = []
        for regexes, some in zip(self._sets, places, strict=True):
            if some:
                check_time()
                found += regexes.match(value, some)
        return found


class _AttributeTexts:
    """All text predicates of one attribute."""

    def __init__(self, predicates: Sequence[tuple[int, Predicate]]) -> None:
        literals: dict[bool, list[tuple[int, _Literal]]] = {False: [], True: []}
        regex: dict[bool, list[_Expression]] = {False: [], True: []}
        for text_id, predicate in predicates:
            folds = predicate.op is Op.ILIKE
            literal = _literal_of(predicate)
            if literal is not None:
                literals[folds].append((text_id, literal))
            else:
                required = required_text(predicate)
                regex[folds].append(_Expression(text_id, regex_of(predicate), required))
        self._literals = {folds: _LiteralSet(items) for folds, items in literals.items() if items}
        self._regex = {folds: _RegexIndex(items) for folds, items in regex.items() if items}
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
            if folds in self._regex:
                result.update(self._regex[folds].match(seen))
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
        _indexes.add(self)

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
        try:
            return _AttributeTexts([(text_id, self._predicate(text_id)) for text_id in ids])
        except (msgspec.MsgspecError, ValueError, re2.error) as error:
            raise PatternError(f"a stored pattern cannot be read: {error}") from error

    def drop_expressions(self) -> None:
        """Forget what RE2 has compiled."""
        self._by_attribute = {}

    def _predicate(self, text_id: int) -> Predicate:
        (text,) = unpack_texts(self.arrays.start, self.arrays.text, text_id, text_id + 1)
        op, *values = _DECODER.decode(text)
        # The attribute makes no difference to what a predicate says about a text.
        return Predicate("", Op(op), tuple(values))


_indexes: weakref.WeakSet[TextIndex] = weakref.WeakSet()


def _drop_expressions() -> None:
    # RE2 works without the interpreter's lock, and an expression has locks of its own.
    if parent_had_threads():
        _compile.cache_clear()
        for index in list(_indexes):
            index.drop_expressions()


call_in_child(_drop_expressions)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(list[str])
