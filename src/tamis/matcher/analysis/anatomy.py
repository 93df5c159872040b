"""What an index is made of: segments, groups and tiles, bytes, and the largest rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tamis.encode.arrays import NO_INT64
from tamis.engines.tiles.arrays import EMPTY_SLOT, TileArrays
from tamis.matcher.analysis.vocabulary import AttributeUse, list_uses
from tamis.matcher.rule import RuleId
from tamis.matcher.snapshot import View

__all__ = ["Anatomy", "LargeRule", "SegmentFigures", "examine"]

_LARGEST_RULES: Final = 10
_LARGEST_PARTS: Final = 12
_MANY_REMOVED: Final = 0.1
"""From this share of removed rules on, merging is worth a word."""


class SegmentFigures(NamedTuple):
    """A segment in figures."""

    engine: str
    rules: int
    removed: int
    """How many of its rules were removed, and wait for a merge."""
    conjunctions: int
    predicates: int
    programs: int
    """How many rules are too large for conjunctions, and are evaluated as programs."""
    bytes: int
    groups: int | None
    tiles: int | None
    """Only the engine tiles has groups and tiles."""


class LargeRule(NamedTuple):
    """A rule that takes much of the index."""

    rule: RuleId
    reason: str


class Anatomy(NamedTuple):
    """What an index is made of."""

    rules: int
    tail: int
    """How many of the rules are in no segment yet."""
    bytes: int
    segments: tuple[SegmentFigures, ...]
    attributes: list[AttributeUse]
    parts: list[tuple[str, int]]
    """The largest arrays of all segments, and their bytes."""
    conjunction_sizes: list[tuple[int, int]]
    """How many conjunctions there are of each size."""
    largest: list[LargeRule]
    advice: list[str]
    """What would make the index smaller or faster."""


def examine(views: Sequence[View], tail: int) -> Anatomy:
    """Find out what an index is made of.

    Parameters
    ----------
    views
        Segments with all rules.
    tail
        How many rules are in no segment yet; `views` has them in a segment of their own.
    """
    segments = tuple(_measure(view) for view in views)
    sizes: Counter[int] = Counter()
    for view in views:
        lengths = np.diff(view.segment.engine.rules.forms.conjunction_start)
        counts = np.bincount(lengths).tolist()
        sizes.update({size: count for size, count in enumerate(counts) if count})
    parts: Counter[str] = Counter()
    for view in views:
        for name, size in _list_arrays(view):
            parts[name] += size
    return Anatomy(
        sum(figures.rules - figures.removed for figures in segments),
        tail,
        sum(figures.bytes for figures in segments),
        segments,
        list_uses(view.segment for view in views),
        parts.most_common(_LARGEST_PARTS),
        sorted(sizes.items()),
        _find_largest(views),
        _advise(segments),
    )


def _measure(view: View) -> SegmentFigures:
    engine = view.segment.engine
    rules = engine.rules
    alive = view.alive()
    tiles = engine.arrays if isinstance(engine.arrays, TileArrays) else None
    return SegmentFigures(
        engine.name,
        rules.size,
        0 if alive is None else int(rules.size - np.count_nonzero(alive)),
        len(rules.forms.conjunction_start) - 1,
        len(rules.atoms.table),
        len(rules.forms.program_rule),
        engine.nbytes,
        None if tiles is None else int(np.count_nonzero(tiles.slot != EMPTY_SLOT)),
        None if tiles is None else len(tiles.tile) - 1,
    )


def _list_arrays(view: View) -> Iterator[tuple[str, int]]:
    """The arrays of a segment by name, and their bytes."""
    rules = view.segment.engine.rules
    groups: dict[str, Any] = {
        "predicates": rules.atoms,
        "forms": rules.forms,
        "scores": rules.scores,
        "dictionary": rules.dictionary.arrays,
        "texts": rules.texts.arrays,
        view.segment.engine.name: view.segment.engine.arrays,
    }
    for group, arrays in groups.items():
        yield from _walk(group, arrays)


def _walk(name: str, arrays: Any) -> Iterator[tuple[str, int]]:
    if isinstance(arrays, np.ndarray):
        yield name, arrays.nbytes
    elif isinstance(arrays, tuple) and hasattr(arrays, "_fields"):
        for field, inner in zip(arrays._fields, arrays, strict=True):
            yield from _walk(f"{name}.{field}", inner)


def _find_largest(views: Sequence[View]) -> list[LargeRule]:
    """The rules with the longest programs, then those with the most conjunctions."""
    found: list[tuple[int, LargeRule]] = []
    for view in views:
        forms, ids = view.segment.engine.rules.forms, view.segment.ids
        lengths = np.diff(forms.program_start)
        for place in np.argsort(-lengths, kind="stable")[:_LARGEST_RULES].tolist():
            rule = int(forms.program_rule[place])
            size = int(lengths[place])
            reason = f"a program of {size:,} instructions"
            found.append((size, LargeRule(ids.array(np.array([rule])).tolist()[0], reason)))
        owners = np.bincount(forms.owner) if len(forms.owner) else NO_INT64
        for rule in np.argsort(-owners, kind="stable")[:_LARGEST_RULES].tolist():
            size = int(owners[rule])
            if size > 1:
                reason = f"an OR of {size:,} conjunctions"
                found.append((size, LargeRule(ids.array(np.array([rule])).tolist()[0], reason)))
    found.sort(key=lambda each: -each[0])
    return [large for _, large in found[:_LARGEST_RULES]]


def _advise(segments: Sequence[SegmentFigures]) -> list[str]:
    advice = []
    removed = sum(figures.removed for figures in segments)
    rules = sum(figures.rules for figures in segments)
    if len(segments) > 1:
        advice.append(
            f"optimize() would merge {len(segments)} segments into one: an event is encoded and "
            "searched for once instead of once in each."
        )
    if removed > _MANY_REMOVED * max(rules, 1):
        advice.append(
            f"optimize() would drop {removed:,} removed rules, {removed / rules:.0%} of the index."
        )
    return advice
