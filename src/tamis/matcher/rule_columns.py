"""The rules of a segment as columns, from which single rules are built on demand.

A million rules are a dozen flat arrays, in memory as in a file. No Python objects grow in number
with the rules, so the garbage collector has nothing to traverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.deadline import check_time
from tamis.encode.arrays import NO_INT32, NO_INT64
from tamis.encode.checks import (
    check_lengths,
    check_lists,
    check_numbers,
    check_type,
    check_types,
)
from tamis.matcher.compressed_strings import CompressedStrings, compress_strings
from tamis.matcher.ids import IdIndex, Ids
from tamis.matcher.rule import IS_MODEL, Row, Rule
from tamis.matcher.selection import Tagged
from tamis.matcher.string_column import NO_STRINGS, Strings, select_lists
from tamis.matcher.validity import Validities

__all__ = ["RuleColumns", "RuleColumnsBuilder"]

_NO_STARTS = np.zeros(1, np.int64)


class _Tags(NamedTuple):
    """The tags of each rule."""

    names: Strings
    """All distinct tags."""
    start: NDArray[np.int64]
    """Where the tags of each rule begin in `tag`; just a 0 if no rule has tags."""
    tag: NDArray[np.int32]
    """The tags of all rules, end to end, as positions in `names`."""

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]]) -> _Tags:
        if not any(lists):
            return _UNTAGGED
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(tag, len(numbers)) for tags in lists for tag in tags]
        starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return cls(Strings.of(list(numbers)), starts, np.array(flat, np.int32))

    @classmethod
    def concat(cls, parts: Sequence[tuple[_Tags, int]]) -> _Tags:
        """Concatenate several columns, each given with the number of its rules."""
        if not any(len(tags.tag) for tags, _ in parts):
            return _UNTAGGED
        numbers: dict[bytes, int] = {}
        sizes, flat = [], []
        for tags, count in parts:
            names = [tags.names.bytes_at(i) for i in range(tags.names.size)]
            new = np.array([numbers.setdefault(n, len(numbers)) for n in names], np.int32)
            sizes.append(np.diff(tags.start) if len(tags.tag) else np.zeros(count, np.int64))
            flat.append(new[tags.tag] if len(names) else NO_INT32)
        starts = np.cumsum(np.concatenate([[0], *sizes]), dtype=np.int64)
        return cls(Strings.of(list(numbers)), starts, np.concatenate(flat))

    def take(self, places: NDArray[np.integer]) -> _Tags:
        if not len(self.tag):
            return _UNTAGGED
        starts, at = select_lists(self.start, places)
        return _Tags(self.names, starts, self.tag[at])

    def at(self, place: int) -> tuple[str, ...]:
        if not len(self.tag):
            return ()
        numbers = self.tag[self.start[place] : self.start[place + 1]].tolist()
        return tuple(self.names.at(number) for number in numbers)

    def check(self, size: int) -> None:
        """Check tags of `size` rules that were read from a file."""
        check_types(self)
        self.names.check("tag_names")
        check_lists("tag_start", self.start, len(self.tag), size if len(self.tag) else None)
        check_numbers("tag", self.tag, 0, self.names.size)

    def used(self) -> set[str]:
        """The tags that some rule has; `names` may list others as well."""
        return {self.names.at(number) for number in np.unique(self.tag).tolist()}

    def find(self, name: str) -> NDArray[np.int64]:
        """Find the places of the rules with the tag `name`."""
        wanted = name.encode()
        for number in range(self.names.size):
            if self.names.bytes_at(number) == wanted:
                found = np.flatnonzero(self.tag == number)
                return np.searchsorted(self.start, found, side="right") - 1
        return NO_INT64


_UNTAGGED = _Tags(NO_STRINGS, _NO_STARTS, NO_INT32)


class _Subscriptions(NamedTuple):
    """The subscription of each rule."""

    names: Strings
    """All distinct names."""
    number: NDArray[np.int32]
    """The name of each rule as a position in `names`, -1 without one; empty if no rule has one."""

    @classmethod
    def of(cls, names: Sequence[str]) -> _Subscriptions:
        if not any(names):
            return _UNSUBSCRIBED
        numbers: dict[str, int] = {}
        flat = [numbers.setdefault(name, len(numbers)) if name else -1 for name in names]
        return cls(Strings.of(list(numbers)), np.array(flat, np.int32))

    @classmethod
    def concat(cls, parts: Sequence[tuple[_Subscriptions, int]]) -> _Subscriptions:
        """Concatenate several columns, each given with the number of its rules."""
        if not any(len(part.number) for part, _ in parts):
            return _UNSUBSCRIBED
        numbers: dict[bytes, int] = {}
        flat = []
        for part, count in parts:
            names = [part.names.bytes_at(i) for i in range(part.names.size)]
            new = [numbers.setdefault(name, len(numbers)) for name in names]
            # The last entry is what -1 finds.
            known = np.array([*new, -1], np.int32)
            flat.append(known[part.number] if len(part.number) else np.full(count, -1, np.int32))
        return cls(Strings.of(list(numbers)), np.concatenate(flat))

    def take(self, places: NDArray[np.integer]) -> _Subscriptions:
        return _Subscriptions(self.names, self.number[places]) if len(self.number) else self

    def at(self, place: int) -> str:
        number = int(self.number[place]) if len(self.number) else -1
        return "" if number < 0 else self.names.at(number)

    def used(self, places: NDArray[np.integer] | None) -> set[str]:
        """The subscriptions of the rules at these places; None stands for all places."""
        if not len(self.number):
            return set()
        numbers = np.unique(self.number if places is None else self.number[places])
        return {self.names.at(number) for number in numbers[numbers >= 0].tolist()}

    def check(self, size: int) -> None:
        """Check the subscriptions of `size` rules that were read from a file."""
        check_types(self)
        self.names.check("subscription_names")
        check_lengths(size if len(self.number) else 0, subscription=self.number)
        check_numbers("subscription", self.number, -1, self.names.size)


_UNSUBSCRIBED = _Subscriptions(NO_STRINGS, NO_INT32)


class RuleColumns:
    """The rules of a segment by place; `Row` lists what is stored of each.

    `weights` and `payloads` have no entries if no rule has any.
    """

    def __init__(
        self,
        ids: Ids,
        kind: NDArray[np.uint8],
        sources: Strings | CompressedStrings,
        weights: Strings,
        payloads: Strings,
        tags: _Tags,
        validities: Validities,
        subscriptions: _Subscriptions,
        row: NDArray[np.int32] | None = None,
    ) -> None:
        self.ids = ids
        self._kind = kind
        self._sources = sources
        self._weights = weights
        self._payloads = payloads
        self._tags = tags
        self.validities = validities
        self._subscriptions = subscriptions
        self._row = row
        """Where the source of each rule is in `_sources`; None if it is at the rule's place."""

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> RuleColumns:
        """Build the columns of these rules."""
        builder = RuleColumnsBuilder()
        builder.add(rules)
        return builder.finish()

    @classmethod
    def concat(cls, parts: Sequence[RuleColumns]) -> RuleColumns:
        """Concatenate several sets of columns."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Ids.concat([part.ids for part in parts]),
            np.concatenate([part._kind for part in parts]),
            Strings.concat([part.sources for part in parts]),
            _concat_optional([(part._weights, len(part)) for part in parts]),
            _concat_optional([(part._payloads, len(part)) for part in parts]),
            _Tags.concat([(part._tags, len(part)) for part in parts]),
            Validities.concat((part.validities, len(part)) for part in parts),
            _Subscriptions.concat([(part._subscriptions, len(part)) for part in parts]),
        )

    def __len__(self) -> int:
        return len(self._kind)

    def take(self, places: NDArray[np.integer]) -> RuleColumns:
        """The rules at these places, in this order."""
        return self._take(places, self._take_sources(places), None)

    def arrange(self, places: NDArray[np.int32]) -> RuleColumns:
        """As `take`, for good: many texts are compressed, in the order in which they stand here.

        They stay in that order, in which rules were added, since they are read in it if many are.
        """
        compressed = compress_strings(self.sources) if self._row is None else None
        return self.take(places) if compressed is None else self._take(places, compressed, places)

    def _take(
        self,
        places: NDArray[np.integer],
        sources: Strings | CompressedStrings,
        row: NDArray[np.int32] | None,
    ) -> RuleColumns:
        return RuleColumns(
            self.ids.take(places),
            self._kind[places],
            sources,
            self._weights.take(places) if self._weights.size else self._weights,
            self._payloads.take(places) if self._payloads.size else self._payloads,
            self._tags.take(places),
            self.validities.take(places),
            self._subscriptions.take(places),
            row,
        )

    def _take_sources(self, places: NDArray[np.integer]) -> Strings:
        stored = self._sources
        plain = stored if isinstance(stored, Strings) else stored.plain()
        rows = places if self._row is None else self._row[places]
        return plain if np.array_equal(rows, np.arange(plain.size)) else plain.take(rows)

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """`Row.kind` of each rule."""
        return self._kind

    @property
    def sources(self) -> Strings:
        """The text of each rule, or the JSON form of its model, by place."""
        if isinstance(self._sources, Strings) and self._row is None:
            return self._sources
        return self._take_sources(np.arange(len(self)))

    def rows(self, begin: int, end: int) -> list[Row]:
        """The stored forms of the rules at the places from `begin` to `end` (exclusive)."""
        is_plain = self._row is None and isinstance(self._sources, Strings)
        has_more = self._weights.size or self._payloads.size or len(self._tags.tag)
        if not is_plain or has_more or len(self._subscriptions.number):
            return [self.row(place) for place in range(begin, end)]
        places = np.arange(begin, end)
        validities = [self.validities.at(place) for place in range(begin, end)]
        return [
            Row(id, kind, source, validity=validity)
            for id, kind, source, validity in zip(
                self.ids.array(places).tolist(),
                self._kind[begin:end].tolist(),
                self.sources.between(begin, end).arrow(pa.large_string()).to_pylist(),
                validities,
                strict=True,
            )
        ]

    def keep_with_payload(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Of these places, those of rules that carry a payload."""
        if not self._payloads.size:
            return places[:0]
        return places[np.diff(self._payloads.start)[places] > 0]

    def row(self, place: int) -> Row:
        """The stored form of the rule at `place`."""
        return Row(
            self.ids.at(place),
            int(self._kind[place]),
            self._sources.at(place if self._row is None else int(self._row[place])),
            self._weights.bytes_at(place) if self._weights.size else b"",
            self._payloads.bytes_at(place) if self._payloads.size else b"",
            self._tags.at(place),
            self.validities.at(place),
            self._subscriptions.at(place),
        )

    def rule(self, place: int) -> Rule:
        """The rule at `place`."""
        check_time()
        return self.row(place).rule()

    def tags(self, places: NDArray[np.integer] | None) -> set[str]:
        """The tags of the rules at these places; None stands for all places."""
        return (self._tags if places is None else self._tags.take(places)).used()

    @property
    def has_subscriptions(self) -> bool:
        """Whether some rule may have a subscription."""
        return len(self._subscriptions.number) > 0

    def subscriptions(self, places: NDArray[np.integer] | None) -> set[str]:
        """The subscriptions of the rules at these places; None stands for all places."""
        return self._subscriptions.used(places)

    @property
    def has_weights(self) -> bool:
        """Whether some rule has weights."""
        return bool(self._weights.size)

    @property
    def tag_names(self) -> list[str]:
        """All tags of the segment; `tags_at` refers to them by number."""
        return [self._tags.names.at(number) for number in range(self._tags.names.size)]

    def tags_at(self, places: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The tags of the rules at these places, end to end, after where those of each begin."""
        if not len(self._tags.tag):
            return np.zeros(len(places) + 1, np.int64), NO_INT32
        starts, at = select_lists(self._tags.start, places)
        return starts, self._tags.tag[at]

    @property
    def subscription_names(self) -> list[str]:
        """All subscriptions of the segment; `subscriptions_at` refers to them by number."""
        names = self._subscriptions.names
        return [names.at(number) for number in range(names.size)]

    def subscriptions_at(self, places: NDArray[np.integer]) -> NDArray[np.int32]:
        """The subscription of each of the rules at these places; -1 for a rule without one."""
        numbers = self._subscriptions.number
        return numbers[places] if len(numbers) else np.full(len(places), -1, np.int32)

    def mask_tagged(self, tagged: Tagged) -> NDArray[np.uint8]:
        """A mask of the rules with certain tags."""
        marks = np.ones(len(self), np.uint8)
        if tagged.some is not None:
            marks[:] = 0
            for tag in tagged.some:
                marks[self._tags.find(tag)] = 1
        for tag in tagged.every:
            has = np.zeros(len(self), np.uint8)
            has[self._tags.find(tag)] = 1
            marks &= has
        for tag in tagged.without:
            marks[self._tags.find(tag)] = 0
        return marks

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All columns by the names that they have in a file; see `of_arrays`."""
        ids = self.ids
        return {
            "numbers": ids.numbers,
            "is_text": ids.is_text,
            "key": ids.index.key,
            "key_place": ids.index.place,
            "kind": self._kind,
            "tag_start": self._tags.start,
            "tag": self._tags.tag,
            "lives": self.validities.numbers.ravel(),
            "subscription": self._subscriptions.number,
            **_arrays_of("texts", ids.texts),
            **_arrays_of("sources", self.sources),
            **_arrays_of("weights", self._weights),
            **_arrays_of("payloads", self._payloads),
            **_arrays_of("tag_names", self._tags.names),
            **_arrays_of("subscription_names", self._subscriptions.names),
        }

    def check(self, size: int) -> None:
        """Check columns of `size` rules that were read from a file.

        Raises
        ------
        ArrayError
            They contradict each other.
        """
        self.ids.check(size)
        check_type("kind", self._kind, np.uint8)
        check_lengths(size, kind=self._kind)
        check_numbers("kind", self._kind, 0, 2 * IS_MODEL)
        self.sources.check("sources", size)
        for name, strings in (("weights", self._weights), ("payloads", self._payloads)):
            strings.check(name, size if strings.size else 0)
        self._tags.check(size)
        self.validities.check(size)
        self._subscriptions.check(size)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RuleColumns:
        """Reassemble columns from the result of `arrays`; nothing is copied.

        Raises
        ------
        ArrayError
            They cannot be taken apart.
        """

        def strings(name: str) -> Strings:
            return Strings(arrays[f"{name}_start"], arrays[f"{name}_data"])

        index = IdIndex(arrays["key"], arrays["key_place"])
        # Format 2 has no subscriptions.
        has_subscriptions = "subscription" in arrays
        return cls(
            Ids(arrays["numbers"], strings("texts"), arrays["is_text"], index),
            arrays["kind"],
            strings("sources"),
            strings("weights"),
            strings("payloads"),
            _Tags(strings("tag_names"), arrays["tag_start"], arrays["tag"]),
            Validities.of_array(arrays["lives"]),
            _Subscriptions(strings("subscription_names"), arrays["subscription"])
            if has_subscriptions
            else _UNSUBSCRIBED,
        )


def _arrays_of(name: str, strings: Strings) -> dict[str, NDArray[Any]]:
    return {f"{name}_start": strings.start, f"{name}_data": strings.data}


def _concat_optional(parts: Sequence[tuple[Strings, int]]) -> Strings:
    """Concatenate columns that have no entries if no rule has any, each with its rule count."""
    if not any(strings.size for strings, _ in parts):
        return NO_STRINGS
    return Strings.concat([s if s.size else Strings.blank(count) for s, count in parts])


class RuleColumnsBuilder:
    """Builds columns from rules that come a few thousand at a time."""

    def __init__(self) -> None:
        self._parts: list[RuleColumns] = []

    def add(self, rules: Iterable[Rule]) -> None:
        """Add rules. Other threads wait during a long call, so do not pass too many at once."""
        self.add_rows([Row.of(rule) for rule in rules])

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add rules in their stored form, as few as in `add`."""
        if rows:
            self._parts.append(_build_columns(rows))

    def add_texts(self, ids: Ids, texts: Strings, kinds: NDArray[np.uint8]) -> None:
        """Add rules that are texts with an id and a logic, as `Row` has it, and nothing else."""
        if ids.size:
            self._parts.append(
                RuleColumns(
                    ids,
                    kinds,
                    texts,
                    NO_STRINGS,
                    NO_STRINGS,
                    _UNTAGGED,
                    Validities(),
                    _UNSUBSCRIBED,
                )
            )

    def __len__(self) -> int:
        """How many rules were added."""
        return sum(map(len, self._parts))

    def finish(self) -> RuleColumns:
        """Build the columns of all rules added."""
        parts, self._parts = self._parts, []
        return RuleColumns.concat(parts or [_build_columns([])])


def _build_columns(rows: Sequence[Row]) -> RuleColumns:
    ids, kinds, sources, weights, payloads, tags, validities, subscriptions = (
        zip(*rows, strict=True) if rows else ((),) * 8
    )
    return RuleColumns(
        Ids.of(ids),
        np.array(kinds, np.uint8),
        Strings.of(sources),
        Strings.of(weights) if any(weights) else NO_STRINGS,
        Strings.of(payloads) if any(payloads) else NO_STRINGS,
        _Tags.of(tags),
        Validities.of(validities),
        _Subscriptions.of(subscriptions),
    )
