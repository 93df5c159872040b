"""Which subscriptions own the rules that an event satisfies."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tamis.matcher.publishing import Matches, SegmentMatches
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.rule_columns import RuleColumns
from tamis.pubsub.subscriptions.subscription import Subscription

__all__ = ["Owners"]


class Owners:
    """Finds the subscriptions that own rules. It never changes.

    Parameters
    ----------
    subscriptions
        All subscriptions.
    """

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self._names: set[str] = set()
        self._by_id: dict[RuleId, list[str]] = {}
        self._by_tag: dict[str, list[str]] = {}
        for subscription in subscriptions:
            self._names.add(subscription.name)
            for id in subscription.rules:
                self._by_id.setdefault(id, []).append(subscription.name)
            for tag in subscription.tags:
                self._by_tag.setdefault(tag, []).append(subscription.name)
        self._of_segments: weakref.WeakKeyDictionary[RuleColumns, _SegmentOwners] = (
            weakref.WeakKeyDictionary()
        )

    def find(self, matches: Matches) -> dict[str, list[RuleId]]:
        """The matching rules of each subscription that has some, in the order of addition."""
        owned: dict[str, list[RuleId]] = {}
        for part in matches.segments:
            self._find_in_segment(part, owned)
        for rule in matches.tail:
            for name in self._names_of(rule):
                owned.setdefault(name, []).append(rule.id)
        return owned

    def _find_in_segment(self, part: SegmentMatches, owned: dict[str, list[RuleId]]) -> None:
        owners = self._of_segments.get(part.columns)
        if owners is None:
            owners = self._of_segments[part.columns] = self._find_segment_owners(part.columns)
        if not (owners.by_tag or owners.by_subscription):
            if self._by_id:
                _file(owned, part.ids, map(self._by_id.get, part.ids))
            return
        if not (owners.by_tag or self._by_id):
            numbers = part.columns.subscriptions_at(part.places).tolist()
            named = owners.by_subscription
            _file(owned, part.ids, (named[n] if n >= 0 else None for n in numbers))
            return
        _file(owned, part.ids, self._list_names(part, owners))

    def _list_names(self, part: SegmentMatches, owners: _SegmentOwners) -> Iterator[Iterable[str]]:
        """The names of the subscriptions that own each rule, in whatever way."""
        numbers = part.columns.subscriptions_at(part.places).tolist()
        starts, tags = part.columns.tags_at(part.places)
        bounds, flat = starts.tolist(), tags.tolist()
        for at, id in enumerate(part.ids):
            names = list(self._by_id.get(id, ()))
            if numbers[at] >= 0 and owners.by_subscription:
                names += owners.by_subscription[numbers[at]]
            if owners.by_tag:
                for number in flat[bounds[at] : bounds[at + 1]]:
                    names += owners.by_tag[number]
            yield names if len(names) < 2 else dict.fromkeys(names)

    def _find_segment_owners(self, columns: RuleColumns) -> _SegmentOwners:
        by_tag = [self._by_tag.get(tag, ()) for tag in columns.tag_names]
        named = [(name,) if name in self._names else () for name in columns.subscription_names]
        return _SegmentOwners(by_tag if any(by_tag) else (), named if any(named) else ())

    def _names_of(self, rule: Rule) -> dict[str, None]:
        names = list(self._by_id.get(rule.id, ()))
        if rule.subscription in self._names:
            names.append(str(rule.subscription))
        for tag in rule.tags:
            names += self._by_tag.get(tag, ())
        return dict.fromkeys(names)


class _SegmentOwners(NamedTuple):
    """The subscriptions that own rules of a segment, each list empty if it has none."""

    by_tag: Sequence[Sequence[str]]
    """For each tag of the segment, by number."""
    by_subscription: Sequence[Sequence[str]]
    """For each name of a subscription that its rules have, by number."""


def _file(
    owned: dict[str, list[RuleId]], ids: list[RuleId], owners: Iterable[Iterable[str] | None]
) -> None:
    """Add rules to the lists of their owners."""
    for id, names in zip(ids, owners, strict=True):
        if names:
            for name in names:
                if name in owned:
                    owned[name].append(id)
                else:
                    owned[name] = [id]
