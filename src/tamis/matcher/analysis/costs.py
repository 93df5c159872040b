"""What searches cost, measured: the parts of the index, the slowest rules, and what merging gains.

Rules share predicates and are searched together, so no clock can be put on one rule in its index.
Each is measured *alone* instead, in an index of its own, over the same events. Plain comparisons
then cost next to nothing, and what computes something for each event stands out. To find the slow
ones quickly, rules are measured in groups first, and then those of the slowest groups one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.expr.event import Event
from tamis.expr.names import is_computed
from tamis.expr.normalize import nnf
from tamis.matcher.analysis.hard_events import EventSampler, sample_rules, to_event
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.snapshot import Snapshot

if TYPE_CHECKING:
    from tamis.matcher.matcher import Matcher

__all__ = ["CostMeter", "Costs", "PartCost", "RuleCost"]

MOST_EVENTS: Final = 200
_DRAWN_EVENTS: Final = 64
_MOST_RULES: Final = 1_024
"""How many rules of a larger set are measured: those that compute something first."""
_ALONE_EVENTS: Final = 50
_GROUP: Final = 32
_SLOWEST_GROUPS: Final = 4
_SLOWEST_RULES: Final = 10
_SUSPECTS: Final = 2 * _SLOWEST_RULES
"""How many of the rules that seem slow are measured again."""
_MORE_LOOKS: Final = 3
"""How often they are."""
_STANDS_OUT: Final = 1.25
"""Rules that take less than this multiple of the median are as fast as any."""
_REPEATS: Final = 3
_MOST_MERGED: Final = 100_000
"""Up to this number of rules, a merged copy is built to see how fast it is."""


class PartCost(NamedTuple):
    """What the search of one part of the index takes."""

    name: str
    """``segment 1``, …, or ``tail``."""
    rules: int
    microseconds: float
    """The mean time for an event."""


class RuleCost(NamedTuple):
    """What a rule takes alone."""

    rule: RuleId
    text: str
    microseconds: float
    """The mean time for an event, in an index of its own."""


class Costs(NamedTuple):
    """What the search for the rules of an event costs."""

    events: int
    """Over how many events it was measured."""
    microseconds: float
    """The mean time for an event, of all rules together."""
    parts: tuple[PartCost, ...]
    merged: float | None
    """The same after `optimize`, measured on a copy; None if there is nothing to merge, or too
    much for a copy."""
    rules: int
    measured: int
    """How many of the rules were measured."""
    typical: float
    """The median of the rules measured alone: what any rule takes."""
    slowest: tuple[RuleCost, ...]
    """Those that take clearly longer than the median, the slowest first."""
    advice: list[str]


Search: TypeAlias = Callable[[Mapping[str, Any]], object]


class CostMeter:
    """Measures what searches cost; see :meth:`tamis.Matcher.costs`.

    Parameters
    ----------
    matcher, snapshot, schema
        The matcher, its rules now, and its declared types.
    search_in
        Makes a search in the rules of a snapshot.
    merge
        Builds a segment with all rules.
    fresh
        Creates an empty matcher with the same logic and types, for a few rules.
    seed
        Draws the rules to measure, and events where there are none.
    """

    def __init__(
        self,
        matcher: Matcher,
        snapshot: Snapshot,
        schema: Schema,
        *,
        search_in: Callable[[Snapshot], Search],
        merge: Callable[[], Segment | None],
        fresh: Callable[[], Matcher],
        seed: int,
    ) -> None:
        self._matcher = matcher
        self._snapshot = snapshot
        self._schema = schema
        self._search_in = search_in
        self._merge = merge
        self._fresh = fresh
        self._random = Random(seed)

    def draw_events(self) -> list[Event]:
        """Draw events around the values that rules mention, where there are no real ones."""
        rules = sample_rules(self._matcher, _MOST_RULES, self._random)
        if not rules:
            return []
        trees = [nnf(self._schema.adapt_rule(rule.expr), rule.logic) for rule in rules]
        sampler = EventSampler(trees, self._schema, self._random)
        return [to_event(sampler.draw()) for _ in range(_DRAWN_EVENTS)]

    def measure(self, events: Iterable[Event]) -> Costs:
        """Measure all rules, each part of the index, and rules alone."""
        some = list(islice(events, MOST_EVENTS))
        whole = _time(self._search_in(self._snapshot), some)
        parts = tuple(
            PartCost(name, part.size, _time(self._search_in(part), some))
            for name, part in self._snapshot.parts()
        )
        merged = self._measure_merged(some) if len(parts) > 1 else None
        chosen = self._choose_rules()
        alone = self._measure_alone(chosen, some[:_ALONE_EVENTS])
        typical = median(cost.microseconds for cost in alone) if alone else 0.0
        slowest = [cost for cost in alone if cost.microseconds > _STANDS_OUT * typical]
        return Costs(
            len(some),
            whole,
            parts,
            merged,
            self._snapshot.size,
            len(chosen),
            typical,
            tuple(slowest[:_SLOWEST_RULES]),
            _advise(whole, parts, merged),
        )

    def _measure_merged(self, events: Sequence[Event]) -> float | None:
        if self._snapshot.size > _MOST_MERGED:
            return None
        segment = self._merge()
        if segment is None:
            return None
        return _time(self._search_in(self._snapshot.replaced_by(segment)), events)

    def _choose_rules(self) -> list[Rule]:
        """All rules of a small set; of a large one those that compute, and others at random."""
        random = self._random
        if self._snapshot.size <= _MOST_RULES:
            return sample_rules(self._matcher, _MOST_RULES, random)
        found: dict[RuleId, Rule] = {}
        for view in self._snapshot.frozen_views:
            places = _find_computing(view.segment)
            for place in random.sample(range(len(places)), min(len(places), _MOST_RULES // 2)):
                rule = view.segment.columns.rule(int(places[place]))
                found[rule.id] = rule
        for rule in sample_rules(self._matcher, _MOST_RULES, random):
            found[rule.id] = rule
        return list(found.values())[:_MOST_RULES]

    def _measure_alone(self, rules: Sequence[Rule], events: Sequence[Event]) -> list[RuleCost]:
        """Measure groups of rules, then each rule of the slowest groups; the slowest first."""

        def measure(some: Sequence[Rule]) -> float:
            check_time()
            alone = self._fresh()
            alone.add_many(some)
            alone.optimize()
            return _time(alone.match, events)

        groups = [rules[start : start + _GROUP] for start in range(0, len(rules), _GROUP)]
        if len(groups) > _SLOWEST_GROUPS:
            times = [measure(group) for group in groups]
            order = sorted(range(len(groups)), key=lambda number: -times[number])
            groups = [groups[number] for number in order[:_SLOWEST_GROUPS]]
        measured = [(measure([rule]), rule) for group in groups for rule in group]
        measured.sort(key=lambda pair: -pair[0])
        # More looks at those that seem slow: the processor may have been busy for a while.
        for _ in range(_MORE_LOOKS):
            again = [(min(cost, measure([rule])), rule) for cost, rule in measured[:_SUSPECTS]]
            measured = sorted([*again, *measured[_SUSPECTS:]], key=lambda pair: -pair[0])
        return [RuleCost(rule.id, rule.text, cost) for cost, rule in measured]


def _time(search: Search, events: Sequence[Event]) -> float:
    """The mean time for an event in microseconds: the best of a few rounds.

    The time is that of the processor, so other processes do not count.
    """
    best = float("inf")
    for _ in range(_REPEATS):
        started = time.thread_time_ns()
        for event in events:
            search(event)
        best = min(best, time.thread_time_ns() - started)
    return best / 1000 / max(1, len(events))


def _find_computing(segment: Segment) -> NDArray[np.int64]:
    """The places of rules that look inside texts, compute something, or are programs."""
    rules = segment.engine.rules
    names = rules.dictionary.attributes
    is_costly = np.zeros(max(1, len(names)), np.bool_)
    for name, number in names.items():
        is_costly[number] = is_computed(name) or number in rules.texts.attributes
    forms = rules.forms
    entries = is_costly[rules.atoms.attribute[forms.conjunction_atom]]
    starts = forms.conjunction_start
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    has_costly = np.zeros(len(starts) - 1, np.bool_)
    has_costly[owner[entries]] = True
    # Without owners, each rule is the conjunction of its own number.
    owners = np.flatnonzero(has_costly)
    if len(forms.owner):
        owners = forms.owner[np.repeat(has_costly, np.diff(forms.owner_start))].astype(np.int64)
    return np.unique(np.concatenate([owners, forms.program_rule]))


def _advise(whole: float, parts: Sequence[PartCost], merged: float | None) -> list[str]:
    if len(parts) < 2:
        return ["optimize() would gain nothing: all rules are in one segment."]
    largest = max(parts, key=lambda part: part.rules)
    if merged is None:
        return [
            (
                f"An event takes {whole:,.0f} µs in {len(parts)} parts, of which {largest.name} "
                f"with {largest.rules:,} rules takes {largest.microseconds:,.0f} µs. optimize() "
                "leaves one part, which takes little more than that."
            )
        ]
    if merged >= 0.95 * whole:
        return [f"optimize() would gain nothing: {whole:,.0f} µs an event, {merged:,.0f} after it."]
    return [
        (
            f"optimize() would bring {whole:,.0f} µs an event down to {merged:,.0f} µs "
            f"({1 - merged / whole:.0%} less), measured on a copy."
        )
    ]
