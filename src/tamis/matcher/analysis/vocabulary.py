"""What rules mention: attributes, how often, and the values of each."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tamis.deadline import check_time
from tamis.expr.event import Kind
from tamis.expr.functions.derive import bases_of
from tamis.expr.joins.subqueries import join_named
from tamis.expr.model import Value
from tamis.expr.names import DERIVED, JOINED
from tamis.expr.numbers import INT_MAX, INT_MIN
from tamis.expr.value_order import LINES
from tamis.matcher.segment import Segment

__all__ = ["AttributeUse", "Mentioned", "find_mentioned", "list_uses"]


class AttributeUse(NamedTuple):
    """How rules use an attribute."""

    attribute: str
    predicates: int
    """How many distinct predicates are about the attribute."""
    conjunctions: int
    """How many conjunctions have such a predicate. Rules kept as programs are not counted."""
    values: dict[str, int]
    """How many values rules mention, by kind: ``number``, ``string``, ``timestamp``."""
    is_computed: bool
    """Whether a rule applies a function to the attribute, or compares it with earlier documents."""


class Mentioned(NamedTuple):
    """The values of an attribute that rules mention."""

    attribute: str
    values: dict[Kind, list[Value]]
    """The values of each kind, rising. The truth of a predicate changes only at these."""
    is_complete: bool
    """Whether no rule looks inside strings, or computes something from the attribute: such rules
    may change their truth anywhere."""


def list_uses(segments: Iterable[Segment]) -> list[AttributeUse]:
    """List the attributes of events that rules mention, the most used first."""
    uses: dict[str, AttributeUse] = {}
    for segment in segments:
        rules = segment.engine.rules
        names = list(rules.dictionary.attributes)
        predicates = np.bincount(rules.atoms.attribute, minlength=len(names)).tolist()
        conjunctions = _count_conjunctions(segment, len(names))
        for name, axis, atoms, uses_of in zip(
            names, rules.dictionary.axes, predicates, conjunctions, strict=True
        ):
            values = {
                kind.name.lower(): axis.count_values(kind)
                for kind in (Kind.NUMBER, Kind.STRING, Kind.TIMESTAMP)
            }
            check_time()
            for base in _bases(name):
                is_computed = base != name
                shown = dict.fromkeys(values, 0) if is_computed else values
                known = uses.get(base, AttributeUse(base, 0, 0, dict.fromkeys(values, 0), False))
                uses[base] = AttributeUse(
                    base,
                    known.predicates + atoms,
                    known.conjunctions + uses_of,
                    {kind: known.values[kind] + count for kind, count in shown.items()},
                    known.is_computed or is_computed,
                )
    return sorted(
        uses.values(), key=lambda use: (-use.conjunctions, -use.predicates, use.attribute)
    )


def find_mentioned(segments: Iterable[Segment], attribute: str) -> Mentioned:
    """Find the values of an attribute that rules mention."""
    lists: dict[Kind, list[list[Value]]] = {line.kind: [] for line in LINES}
    is_complete = True
    for segment in segments:
        rules = segment.engine.rules
        for name, number in rules.dictionary.attributes.items():
            if name != attribute:
                is_complete &= not (name[0] in (DERIVED, JOINED) and attribute in _bases(name))
                continue
            is_complete &= number not in rules.texts.attributes
            for kind in lists:
                lists[kind].append(rules.dictionary.axes[number].list_values(kind))
    values = {
        kind: [_plain(value) for value, _ in groupby(merge(*some))] for kind, some in lists.items()
    }
    return Mentioned(attribute, values, is_complete)


def _plain(value: Value) -> Value:
    """The value as an event may hold it: a double beyond 64 bits is kept as a whole number."""
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return float(value)
    return value


def _bases(name: str) -> frozenset[str]:
    """The attributes of events that an attribute of rules is computed from."""
    if name.startswith(JOINED):
        return join_named(name).news
    return bases_of(name)


def _count_conjunctions(segment: Segment, attributes: int) -> list[int]:
    """How many conjunctions mention each attribute."""
    rules = segment.engine.rules
    starts, atoms = rules.forms.conjunction_start, rules.forms.conjunction_atom
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    attribute = rules.atoms.attribute[atoms].astype(np.int64)
    pairs = owner * max(attributes, 1) + attribute
    # Conjunctions are in order, so this merges short runs; np.unique takes 40 times as long.
    pairs.sort(kind="stable")
    is_first = np.ones(len(pairs), np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_first[1:])
    named = pairs[is_first] % max(attributes, 1)
    counts: list[int] = np.bincount(named, minlength=attributes).tolist()
    return counts
