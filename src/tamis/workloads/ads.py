"""The advertising workload of the k-index paper (its section 7 and Table 1).

The paper generated its rules from statistics of advertisers' contracts and took its events from
logs of page visits. Neither was published, so both are drawn here from distributions with the
averages that the paper gives. A rule in DNF has several conjunctions, their number by Zipf's law.
Each has several predicates ``attribute IN (…)`` or ``NOT IN``, over attributes of skewed frequency
and with one of the few value sets that contracts use for an attribute, so conjunctions repeat. A
later conjunction may copy predicates from the one before it. All conjunctions of a rule end in the
same month: the fewer months there are, the more rules an event matches. In CNF, disjunctions
replace conjunctions, and the month is one more.

**How many rules match.** The paper measures at 11.91 %, and at 5.16 % in CNF. Its ∉ holds if the
attribute is absent, which is our weak logic: there the defaults give 12 % (in the strong logic
8 %). The share is proportional to 1 / months, and grows with the number of conjunctions: 9 % at an
exponent of 3, 17 % at 2. In CNF one month gives 30 %, and six months the paper's 5 %.

Where the paper is silent or ambiguous:

- its averages of 1.6, 2.3 and 3.5 conjunctions for the exponents 3, 2.5 and 2 are those of Zipf's
  law with 2.5, 2 and 1.5. We keep the averages: sizes follow ``exponent - 1/2``;
- 3.65 predicates a conjunction and 2.65 a disjunction describe the same contracts, with and without
  the month: one to eight predicates besides it;
- events take their months from the same range as the rules. With all twelve, as in the paper, the
  range would not change how many match;
- attributes have 2 to 100 values and 12 value sets of one to six values; all frequencies follow
  Zipf's law with exponent 1. An event has the attribute of rank r with probability c / (c + r),
  where c is such that events have `event_size` attributes on average;
- a conjunction that copies takes each predicate of the one before it with probability `copied`, up
  to its own size;
- the paper defines the upper bound of a key as the inverse of its frequency in 1,000 events, but
  its example gives the frequency itself. Here it is 1 / (number of events), which does reflect
  rarity, and 1 for a key that no event has;
- a weight with a variance of 0.05 × UB would often be negative for a frequent key, so 0.05 × UB is
  the standard deviation here. A rule has one weight for a key, in all its conjunctions.

A seed gives the same workload on any machine; see `portable_random`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tamis.workloads.base import ChunkedWorkload, check_parameters
from tamis.workloads.portable_random import Ints, PortableRandom, cumulate

__all__ = ["Form", "Weights", "Workload"]

Form: TypeAlias = Literal["dnf", "cnf"]
Weights: TypeAlias = dict[tuple[str, int], float]
"""The weights of a rule or an event, by attribute and value."""

_MONTH = "month"

_MOST_PARTS = 20
"""The most conjunctions (disjunctions) of a rule, not counting the month of a CNF."""

_CONTRACT_SIZES: Final = np.array([25, 30, 20, 13, 7, 3, 1, 1])
"""How many of 100 contracts have 1, 2, … predicates: 2.65 on average."""

_LONGEST = len(_CONTRACT_SIZES)

_CARDINALITIES: Final = np.array([50, 20, 10, 5, 100, 2])
"""The number of values of each attribute, cyclically, from the most frequent one."""

_SETS = 12
"""The number of value sets of an attribute."""

_SET_SIZES: Final = np.array([50, 25, 12, 8, 3, 2])
"""How many of 100 value sets have 1, 2, … values, if the attribute has enough."""

_LOGGED = 1_000
"""The number of events that the upper bounds of weights are computed from."""


class _Stream(IntEnum):
    """The independent streams of random numbers of a workload."""

    SETS = 0
    RULES = 1
    RULE_WEIGHTS = 2
    EVENTS = 3
    EVENT_WEIGHTS = 4


class _Rules(NamedTuple):
    """A chunk of rules; a part is a conjunction in DNF and a disjunction in CNF."""

    parts: Ints
    """The number of parts of each rule."""
    month: Ints
    """The month of each rule."""
    size: Ints
    """The number of predicates of each part, without the month; parts are in the order of rules."""
    predicate: Ints
    """A row for each part: its predicates, padded with -1. A predicate is twice the number of its
    value set, plus one if it is negated."""


@dataclass(frozen=True)
class Workload(ChunkedWorkload):
    """Rules and events of the k-index paper; the defaults are those of its Table 1.

    Parameters
    ----------
    size
        How many rules.
    form
        Whether rules are in DNF or in CNF.
    exponent
        The paper's e, from 2 to 3: how fast the frequency of longer rules falls.
    copied, copying
        The paper's p and q: the share of predicates copied from the conjunction before, and the
        probability that a conjunction copies.
    negated
        The paper's n: the share of predicates that are NOT IN.
    months
        The number of months; an event matches only rules of its month.
    dimensions
        How many attributes rules use, the month among them: the most frequent ones.
    attributes
        How many attributes there are, named ``a0``, ``a1``, … and ``month``.
    event_size
        How many attributes an event has on average.
    seed
        Workloads with the same parameters and seed are the same, on any machine.
    """

    rules_per_chunk: ClassVar[int] = 1 << 16
    events_per_chunk: ClassVar[int] = 1 << 10
    size: int = 1_000_000
    form: Form = "dnf"
    exponent: float = 2.5
    copied: float = 0.5
    copying: float = 0.5
    negated: float = 0.1
    months: int = 1
    dimensions: int = 1_461
    attributes: int = 1_461
    event_size: float = 91
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        required = {
            "size is at least 0": self.size >= 0,
            "form is dnf or cnf": self.form in ("dnf", "cnf"),
            "exponent is at least 1/2": self.exponent >= 0.5,
            "copied lies between 0 and 1": 0 <= self.copied <= 1,
            "copying lies between 0 and 1": 0 <= self.copying <= 1,
            "negated lies between 0 and 1": 0 <= self.negated <= 1,
            "months lies between 1 and 12": 1 <= self.months <= 12,
            f"dimensions lies above {_LONGEST} and at most at attributes": (
                _LONGEST < self.dimensions <= self.attributes
            ),
            "event_size lies above 1 and below attributes": 1 < self.event_size < self.attributes,
        }
        check_parameters(required, self)

    def weighted_rules(self) -> Iterator[tuple[int, str, Weights]]:
        """The same rules as (id, text, weights); the values of their INs have weights."""
        for start in range(0, self.size, self.rules_per_chunk):
            rules = self._draw_rules(start)
            texts = self._write_texts(rules).to_pylist()
            weights = self._draw_rule_weights(rules, start // self.rules_per_chunk)
            yield from zip(range(start, start + len(texts)), texts, weights, strict=True)

    def events(self, n: int) -> list[dict[str, int]]:
        """`n` events; fewer are a prefix of more."""
        return [event for values in self._draw_events(n) for event in self._to_dicts(values)]

    def weighted_events(self, n: int) -> Iterator[tuple[dict[str, int], Weights]]:
        """The same `n` events with a weight from 0 to 1 for each of their keys."""
        places = {name: place for place, name in enumerate(self._names)}
        for chunk, values in enumerate(self._draw_events(n)):
            rng = PortableRandom(self.seed, _Stream.EVENT_WEIGHTS, chunk)
            shape = (self.events_per_chunk, self.attributes)
            weights = (rng.below(1 << 32, shape) / 2**32)[: len(values)]
            for event, row in zip(self._to_dicts(values), weights.tolist(), strict=True):
                yield event, {key: row[places[key[0]]] for key in event.items()}

    @property
    def _names(self) -> list[str]:
        return [*(f"a{place}" for place in range(self.attributes - 1)), _MONTH]

    @cached_property
    def _cardinality(self) -> Ints:
        """The number of values of each attribute but the month."""
        return np.resize(_CARDINALITIES, self.attributes - 1)

    @cached_property
    def _sets(self) -> Ints:
        """The values of each value set, sorted and padded with -1; `_SETS` rows an attribute."""
        rng = PortableRandom(self.seed, _Stream.SETS)
        cardinality = self._cardinality.repeat(_SETS)
        size = 1 + rng.by_frequency(cumulate(_SET_SIZES), cardinality.size)
        # A set of all values would only require that the attribute is present.
        size = np.minimum(size, cardinality - 1)
        slots = np.arange(_SET_SIZES.size)
        sets = np.full((cardinality.size, slots.size), -1, dtype=np.int64)
        for slot in slots:
            rows = np.flatnonzero(slot < size)
            while rows.size:
                value = _draw_value(cardinality[rows], rng)
                fresh = (sets[rows, :slot] != value[:, None]).all(axis=1)
                sets[rows[fresh], slot] = value[fresh]
                rows = rows[~fresh]
        last = np.where(sets < 0, np.iinfo(np.int64).max, sets)
        last.sort(axis=1)
        return np.where(last == np.iinfo(np.int64).max, -1, last)

    @cached_property
    def _predicate_texts(self) -> pa.StringArray:
        """The text of each predicate by its number, followed by those of the twelve months."""
        names = np.array(self._names, dtype=object).repeat(_SETS)
        texts = []
        for name, row in zip(names, self._sets.tolist(), strict=False):
            first, *more = [str(value) for value in row if value >= 0]
            values = ", ".join([first, *more])
            texts.append(f"{name} IN ({values})" if more else f"{name} = {first}")
            texts.append(f"{name} NOT IN ({values})" if more else f"{name} <> {first}")
        return pa.array([*texts, *(f"{_MONTH} = {month}" for month in range(1, 13))])

    def _draw_rules(self, start: int) -> _Rules:
        """Draw the chunk of rules from `start` on."""
        rng = PortableRandom(self.seed, _Stream.RULES, start // self.rules_per_chunk)
        parts = 1 + rng.by_frequency(_part_frequencies(self.exponent), self.rules_per_chunk)
        month = 1 + rng.below(self.months, self.rules_per_chunk)
        size = 1 + rng.by_frequency(cumulate(_CONTRACT_SIZES), int(parts.sum()))
        predicate = np.full((size.size, _LONGEST), -1, dtype=np.int64)
        first = parts.cumsum() - parts
        for nth in range(_MOST_PARTS):
            rows = first[parts > nth] + nth
            if nth:
                predicate[rows] = self._draw_copies(predicate[rows - 1], size[rows], rng)
            self._fill(predicate, rows, size, rng)
        kept = min(self.rules_per_chunk, self.size - start)
        ends = int(parts[:kept].sum())
        return _Rules(parts[:kept], month[:kept], size[:ends], predicate[:ends])

    def _draw_copies(self, before: Ints, size: Ints, rng: PortableRandom) -> Ints:
        """Draw what parts of `size` copy from the parts before them, padded with -1."""
        copying = rng.chance(self.copying, size.size)
        kept = rng.chance(self.copied, before.shape) & copying[:, None] & (before >= 0)
        order = np.argsort(~kept, axis=1, kind="stable")
        copies = np.take_along_axis(np.where(kept, before, -1), order, axis=1)
        copies[np.arange(_LONGEST) >= size[:, None]] = -1
        return copies

    def _fill(self, predicate: Ints, rows: Ints, size: Ints, rng: PortableRandom) -> None:
        """Draw the missing predicates of some parts, each on another attribute."""
        attributes = cumulate(_by_rank(self.dimensions - 1))
        sets = cumulate(_by_rank(_SETS))
        for slot in range(_LONGEST):
            lacking = rows[(slot < size[rows]) & (predicate[rows, slot] < 0)]
            while lacking.size:
                attribute = rng.by_frequency(attributes, lacking.size)
                value_set = attribute * _SETS + rng.by_frequency(sets, lacking.size)
                drawn = 2 * value_set + rng.chance(self.negated, lacking.size)
                others = predicate[lacking, :slot] // (2 * _SETS)
                fresh = (others != attribute[:, None]).all(axis=1)
                predicate[lacking[fresh], slot] = drawn[fresh]
                lacking = lacking[~fresh]

    def _texts(self, start: int) -> pa.StringArray:
        return self._write_texts(self._draw_rules(start))

    def _write_texts(self, rules: _Rules) -> pa.StringArray:
        month = 2 * len(self._sets) + rules.month - 1
        if self.form == "dnf":
            ends = month.repeat(rules.parts)
            parts = self._join_predicates(np.column_stack([rules.predicate, ends]), " AND ")
            several = rules.parts.repeat(rules.parts) > 1
            return _join_lists(_parenthesize(parts, several), rules.parts, " OR ")
        parts = _parenthesize(self._join_predicates(rules.predicate, " OR "), rules.size > 1)
        months = self._predicate_texts.take(pa.array(month))
        conjuncts = _join_lists(parts, rules.parts, " AND ")
        return pc.binary_join_element_wise(conjuncts, months, " AND ")

    def _join_predicates(self, predicate: Ints, separator: str) -> pa.StringArray:
        """The text of each row of predicates."""
        there = predicate >= 0
        texts = self._predicate_texts.take(pa.array(predicate[there]))
        return _join_lists(texts, there.sum(axis=1), separator)

    def _draw_rule_weights(self, rules: _Rules, chunk: int) -> list[Weights]:
        """Draw a weight for each value of each IN of each rule."""
        rule, attribute, value = self._list_weighted_values(rules)
        bound = self._upper_bounds[attribute, value]
        # The sum of twelve uniform numbers has mean 6 and variance 1, and is nearly normal.
        rng = PortableRandom(self.seed, _Stream.RULE_WEIGHTS, chunk)
        normal = rng.below(1 << 32, (rule.size, 12)).sum(axis=1) / 2**32 - 6
        weight = bound * np.minimum(0.8 + 0.05 * normal, 1.0)
        weights: list[Weights] = [{} for _ in rules.parts]
        names = np.array(self._names, dtype=object)[attribute]
        columns = (rule.tolist(), names.tolist(), value.tolist(), weight.tolist())
        for owner, name, member, w in zip(*columns, strict=True):
            weights[owner][name, member] = w
        return weights

    def _list_weighted_values(self, rules: _Rules) -> tuple[Ints, Ints, Ints]:
        """The rule, attribute and value of each value in an IN, once for each rule, by rule."""
        owner = np.arange(rules.parts.size).repeat(rules.parts)
        row, slot = np.nonzero((rules.predicate >= 0) & (rules.predicate % 2 == 0))
        value_set = rules.predicate[row, slot] // 2
        place, member = np.nonzero(self._sets[value_set] >= 0)
        attribute, value = value_set[place] // _SETS, self._sets[value_set[place], member]
        month = np.full_like(rules.month, self.attributes - 1)
        keys = [
            np.concatenate([owner[row[place]], np.arange(rules.parts.size)]),
            np.concatenate([attribute, month]),
            np.concatenate([value, rules.month]),
        ]
        rule, attribute, value = np.unique(np.stack(keys), axis=1)
        return rule, attribute, value

    @cached_property
    def _upper_bounds(self) -> NDArray[np.float64]:
        """The upper bound UB of a weight, by attribute and value."""
        number = np.zeros((self.attributes, max(13, _CARDINALITIES.max())), dtype=np.int64)
        for values in self._draw_events(_LOGGED):
            row, attribute = np.nonzero(values >= 0)
            np.add.at(number, (attribute, values[row, attribute]), 1)
        return 1 / np.maximum(number, 1)

    @cached_property
    def _presence(self) -> NDArray[np.uint64]:
        """The probability that an event has each attribute but the month, in units of 2**-32."""
        rank = range(1, self.attributes)
        low, high = 0.0, float(2**40)
        while (middle := (low + high) / 2) not in (low, high):
            size = 1 + math.fsum(middle / (middle + r) for r in rank)
            low, high = (middle, high) if size < self.event_size else (low, middle)
        return np.array([round(2**32 * low / (low + r)) for r in rank], dtype=np.uint64)

    def _draw_events(self, n: int) -> Iterator[NDArray[np.int32]]:
        """Draw `n` events in chunks: a row an event, a column an attribute, -1 where absent."""
        for start in range(0, n, self.events_per_chunk):
            yield self._draw_event_chunk(start)[: n - start]

    def _draw_event_chunk(self, start: int) -> NDArray[np.int32]:
        """Draw the chunk of events from `start` on."""
        rng = PortableRandom(self.seed, _Stream.EVENTS, start // self.events_per_chunk)
        shape = (self.events_per_chunk, self.attributes - 1)
        present = rng.below(1 << 32, shape).astype(np.uint64) < self._presence
        value = _draw_value(np.broadcast_to(self._cardinality, shape), rng)
        month = 1 + rng.below(self.months, (self.events_per_chunk, 1))
        return np.concatenate([np.where(present, value, -1), month], axis=1).astype(np.int32)

    def _events(self, start: int, count: int) -> pa.Table:
        cells = self._draw_event_chunk(start)[:count]
        columns = [pa.array(column, mask=column < 0) for column in cells.T.copy()]
        return pa.table(columns, names=self._names)

    def _to_dicts(self, values: NDArray[np.int32]) -> Iterator[dict[str, int]]:
        """The events of a chunk as mappings."""
        names = np.array(self._names, dtype=object)
        for row in values:
            present = np.flatnonzero(row >= 0)
            yield dict(zip(names[present], row[present].tolist(), strict=True))


def _by_rank(count: int) -> Ints:
    """Frequencies by Zipf's law with exponent 1."""
    return (1 << 24) // np.arange(1, count + 1)


def _part_frequencies(exponent: float) -> Ints:
    """Cumulative frequencies of rules with 1, 2, … parts."""
    weights = [round((1 << 24) * k ** (0.5 - exponent)) for k in range(1, _MOST_PARTS + 1)]
    return cumulate(np.array(weights))


def _draw_value(cardinality: Ints, rng: PortableRandom) -> Ints:
    """Draw a value below each cardinality; 0 is the most frequent."""
    cumulative = cumulate(_by_rank(int(_CARDINALITIES.max())))
    return np.searchsorted(cumulative, rng.below(cumulative[cardinality - 1]), side="right")


def _join_lists(texts: pa.StringArray, lengths: Ints, separator: str) -> pa.StringArray:
    """Join concatenated lists of texts, of the given lengths, into one text each."""
    offsets = pa.array(np.concatenate([[0], lengths.cumsum()]), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), separator)


def _parenthesize(texts: pa.StringArray, where: NDArray[Any]) -> pa.StringArray:
    bracketed = pc.binary_join_element_wise("(", texts, ")", "")
    return pc.if_else(pa.array(where), bracketed, texts)
