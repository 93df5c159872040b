"""BEGen: the synthetic workload of the BE-Tree paper (section 7.1, Tables 2 and 3).

Random rules over hundreds of attributes match almost nothing, so the paper derives its rules from
its events. First it draws *base expressions*, conjunctions of equalities: they are the events. Then
each rule is *derived* from one base: it keeps each of the base's predicates with probability
``rule_size / event_size`` and widens a kept equality with probability ``1 - equality`` into another
predicate that the base's value satisfies (Table 2b).

**How the match probability is controlled.** A rule always matches its own base, and another base
only if that happens to have fitting values of the attributes the rule kept. So there are
``round(1 / match_probability)`` bases, each with an equal share of the rules, and events are drawn
uniformly from the bases: an event matches ``size * match_probability`` rules of its own base, plus
accidental ones. With the defaults those are 3 in 100,000 rules, with Zipf's law some 20, nearly all
of them rules of one or two predicates: negligible at 1 %, but a probability of 0.01 % becomes
0.013 %. Only reciprocals of integers are exact: 9 % becomes 1/11.

**Unclustered.** With ``clustered=False`` each rule is derived from a base of its own that is not an
event, so rules share only the distributions with events and with each other. Then matches are
accidental, and `match_probability` has no effect: with the defaults 2 in 100,000 rules match, with
Zipf's law 16.

Where the paper is silent or ambiguous:

- it derives `<` with a bound that may equal the value, which the value would not satisfy; here the
  bound of `<` and `>` lies beyond the value, and that of `<=` and `>=` may equal it;
- the operators of a class other than `=` are equally likely;
- IN and NOT IN take two to six values, BETWEEN spans at least two;
- every event has exactly `event_size` attributes; rule sizes are binomial, never zero;
- values are uniform even where attributes follow Zipf's law (with exponent 1);
- the rules of different bases are shuffled together, as they would arrive.

A seed gives the same workload on any machine; see `portable_random`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.workloads.base import ChunkedWorkload, check_parameters
from tamis.workloads.portable_random import Ints, PortableRandom, cumulate
from tamis.workloads.predicates import ORDERED, Operator, Values

__all__ = ["OPERATOR_CLASSES", "Distribution", "OperatorClass", "Workload", "draw_operators"]

Distribution: TypeAlias = Literal["uniform", "zipf"]
OperatorClass: TypeAlias = Literal["min", "low", "med", "high"]

_UNCLUSTERED = 10_000
"""The number of bases of events if no rule is derived from them."""

OPERATOR_CLASSES: Final[dict[OperatorClass, tuple[Operator, ...]]] = {
    "min": (),
    "low": (Operator.IN,),
    "med": (*ORDERED, Operator.IN, Operator.BETWEEN),
    "high": (*ORDERED, Operator.IN, Operator.BETWEEN, Operator.NE, Operator.NOT_IN),
}
"""The operators that may replace an equality, by level of expressiveness (Table 2a)."""


class _Stream(IntEnum):
    """The independent streams of random numbers of a workload."""

    BASES = 0
    OWNERS = 1
    RULES = 2
    EVENTS = 3


class Bases(NamedTuple):
    """The base expressions: row `i` is the conjunction of `attribute[i, j] = value[i, j]`."""

    attribute: Ints
    value: Ints


class _Kept(NamedTuple):
    """The predicates that a chunk of rules keeps, rule by rule."""

    offsets: Ints
    """Rule `i` has the predicates from `offsets[i]` up to `offsets[i + 1]`."""
    attribute: Ints
    value: Ints
    """The base's value of the attribute, which the derived predicate accepts."""
    operator: Ints


@dataclass(frozen=True)
class Workload(ChunkedWorkload):
    """Rules and events of the BE-Tree paper; the defaults are those of its Table 3.

    Parameters
    ----------
    size
        How many rules.
    dimensions
        How many attributes there are, named ``a0``, ``a1``, …
    cardinality
        How many values an attribute has: the integers from 0.
    rule_size, event_size
        How many predicates a rule has on average, and attributes an event has.
    range_percent
        The average share of the values that a BETWEEN spans, in percent.
    equality
        The share of a rule's predicates that are equalities.
    operators
        The class of operators that the other predicates use.
    match_probability
        The share of the rules that an event matches.
    distribution
        How often attributes occur: equally, or by Zipf's law (``a0`` most often).
    clustered
        Whether rules are derived from the bases of events; see the module.
    seed
        Workloads with the same parameters and seed are the same, on any machine.
    """

    rules_per_chunk: ClassVar[int] = 1 << 17
    events_per_chunk: ClassVar[int] = 1 << 15
    size: int = 1_000_000
    dimensions: int = 400
    cardinality: int = 48
    rule_size: float = 7
    event_size: int = 15
    range_percent: float = 12
    equality: float = 0.3
    operators: OperatorClass = "med"
    match_probability: float = 0.01
    distribution: Distribution = "uniform"
    clustered: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        required = {
            "size is at least 0": self.size >= 0,
            "cardinality is at least 2": self.cardinality >= 2,
            "event_size lies between 1 and dimensions": 1 <= self.event_size <= self.dimensions,
            "rule_size lies above 0 and at most at event_size": (
                0 < self.rule_size <= self.event_size
            ),
            "range_percent lies above 0 and at most at 100": 0 < self.range_percent <= 100,
            "equality lies between 0 and 1": 0 <= self.equality <= 1,
            "match_probability lies above 0 and at most at 1": 0 < self.match_probability <= 1,
            f"operators is one of {', '.join(OPERATOR_CLASSES)}": (
                self.operators in OPERATOR_CLASSES
            ),
            "distribution is uniform or zipf": self.distribution in ("uniform", "zipf"),
        }
        check_parameters(required, self)

    def events(self, n: int) -> list[dict[str, int]]:
        """`n` events; fewer are a prefix of more."""
        names = np.array(self.names, dtype=object)[self.bases.attribute].tolist()
        bases = [
            dict(zip(*pair, strict=True))
            for pair in zip(names, self.bases.value.tolist(), strict=True)
        ]
        return [bases[base].copy() for base in self._draw_bases(0, n)]

    @property
    def names(self) -> list[str]:
        """The attributes."""
        return [f"a{dimension}" for dimension in range(self.dimensions)]

    @property
    def values(self) -> Values:
        """The values of an attribute, and the width of the predicates on it."""
        return Values(self.cardinality, self.range_percent)

    @cached_property
    def bases(self) -> Bases:
        """The bases that events are drawn from and rules are derived from."""
        rng = PortableRandom(self.seed, _Stream.BASES)
        count = round(1 / self.match_probability) if self.clustered else _UNCLUSTERED
        rows = [_draw_attributes(self.event_size, self._cumulative, rng) for _ in range(count)]
        attribute = np.array(rows)
        return Bases(attribute, rng.below(self.cardinality, attribute.shape))

    @cached_property
    def owners(self) -> Ints:
        """The base of each rule: equal shares, shuffled."""
        order = PortableRandom(self.seed, _Stream.OWNERS).permutation(self.size)
        return order % len(self.bases.value)

    @property
    def _cumulative(self) -> Ints:
        return cumulate(_frequencies(self.dimensions, self.distribution))

    @cached_property
    def _bases_table(self) -> pa.Table:
        """The bases as events."""
        cells = np.full((self.dimensions, len(self.bases.value)), -1, dtype=np.int32)
        cells[self.bases.attribute.T, np.arange(cells.shape[1])] = self.bases.value.T
        return pa.table([pa.array(row, mask=row < 0) for row in cells], names=self.names)

    def _events(self, start: int, count: int) -> pa.Table:
        return self._bases_table.take(pa.array(self._draw_bases(start, count)))

    def _draw_bases(self, start: int, count: int) -> Ints:
        """The bases of `count` events from `start` on."""
        rng = PortableRandom(self.seed, _Stream.EVENTS)
        rng.skip(start)  # One number for each event.
        return rng.below(len(self.bases.value), count)

    def _texts(self, start: int) -> pa.StringArray:
        """The texts of the chunk of rules from `start` on."""
        rng = PortableRandom(self.seed, _Stream.RULES, start // self.rules_per_chunk)
        kept = self._draw_kept(self.owners[start : start + self.rules_per_chunk], rng)
        names = pa.array(self.names).take(pa.array(kept.attribute))
        texts = self.values.predicates(names, kept.operator, kept.value, rng)
        lists = pa.ListArray.from_arrays(pa.array(kept.offsets, pa.int32()), texts)
        return pc.binary_join(lists, " AND ")

    def _draw_kept(self, owners: Ints, rng: PortableRandom) -> _Kept:
        """Draw the predicates that each rule keeps of its base, and their new operators."""
        keep = rng.chance(self.rule_size / self.event_size, (len(owners), self.event_size))
        at_least = rng.below(self.event_size, len(owners))
        empty = ~keep.any(axis=1)
        keep[empty, at_least[empty]] = True
        base, place = np.nonzero(keep)
        bases = self.bases
        if self.clustered:
            base = owners[base]
        else:
            bases = self._draw_own_bases(len(owners), rng)
        return _Kept(
            offsets=np.concatenate([[0], keep.sum(axis=1).cumsum()]),
            attribute=bases.attribute[base, place],
            value=bases.value[base, place],
            operator=draw_operators(self.operators, self.equality, len(base), rng),
        )

    def _draw_own_bases(self, count: int, rng: PortableRandom) -> Bases:
        """Draw a base for each of `count` rules."""
        attribute = rng.distinct_by_frequency(self._cumulative, (count, self.event_size))
        return Bases(attribute, rng.below(self.cardinality, attribute.shape))


def draw_operators(
    operators: OperatorClass, equality: float, count: int, rng: PortableRandom
) -> Ints:
    """Draw the operators that replace `count` equalities; a share `equality` of them stays."""
    widened = np.array(OPERATOR_CLASSES[operators], dtype=np.int64)
    if not widened.size:
        return np.full(count, Operator.EQ, dtype=np.int64)
    drawn = widened[rng.below(widened.size, count)]
    return np.where(rng.chance(equality, count), int(Operator.EQ), drawn)


def _frequencies(dimensions: int, distribution: Distribution) -> Ints:
    rank = np.arange(1, dimensions + 1)
    return np.ones_like(rank) if distribution == "uniform" else (1 << 24) // rank


def _draw_attributes(count: int, cumulative: Ints, rng: PortableRandom) -> list[int]:
    """The attributes of one base: the first `count` distinct ones that are drawn."""
    seen: dict[int, None] = {}
    while len(seen) < count:
        seen.update(dict.fromkeys(rng.by_frequency(cumulative, count).tolist()))
    return list(seen)[:count]
