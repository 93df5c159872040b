"""The ids of a segment's rules: the id at a place, and the place of an id.

Everything is in flat arrays, which can be mapped from a file: opening a million ids creates no
Python objects. Ids are looked up by a sorted array of 64-bit *keys*: the integer itself, or the
hash of a text. Different ids may have the same key, so a hit is compared with the id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tamis.encode.arrays import NO_INT64
from tamis.encode.arrow_arrays import to_arrow
from tamis.encode.checks import (
    check_lengths,
    check_numbers,
    check_order,
    check_type,
    check_types,
)
from tamis.encode.hashes import hash_text, hash_texts
from tamis.engines.kernels.sorting import take
from tamis.matcher.rule import RuleId
from tamis.matcher.string_column import NO_STRINGS, Strings

__all__ = ["IdIndex", "Ids", "id_column", "key_of"]

_NO_MARKS = np.empty(0, np.uint8)

_FEW = 100
"""How many ids NumPy takes faster than a kernel."""

_MOST_TEXT_BYTES = 1 << 30
"""How many bytes of texts are in one Arrow array; its offsets have 32 bits."""


class IdIndex(NamedTuple):
    """Sorted keys, and the place of each."""

    key: NDArray[np.uint64]
    place: NDArray[np.int32]


class Ids:
    """A column of ids, by place.

    Parameters
    ----------
    numbers
        The integers, with 0 for each text; empty if all ids are texts.
    texts
        The texts, with an empty one for each integer; no entries if all ids are integers.
    is_text
        A mark for each id that is a text; empty if all ids are of one kind.
    index
        The index, if it was built before.
    """

    def __init__(
        self,
        numbers: NDArray[np.int64],
        texts: Strings = NO_STRINGS,
        is_text: NDArray[np.uint8] = _NO_MARKS,
        index: IdIndex | None = None,
    ) -> None:
        self.numbers = numbers
        self.texts = texts
        self.is_text = is_text
        self.size = max(len(numbers), texts.size)
        self._index = index
        self._range: tuple[int, int] | None = None
        """The least and the highest key of the index."""
        # Texts are decoded when they are first needed, and kept.
        self._objects: NDArray[np.object_] | None = None
        self._decoded: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, ids: Sequence[RuleId]) -> Ids:
        """Make a column of these ids."""
        are_texts = {issubclass(kind, str) for kind in set(map(type, ids))}
        if True not in are_texts:
            return cls(np.array(ids, np.int64))
        if False not in are_texts:
            return cls(NO_INT64, Strings.of(ids))  # type: ignore[arg-type]  # all are texts
        is_text = np.fromiter((isinstance(id, str) for id in ids), np.uint8, len(ids))
        numbers = [0 if isinstance(id, str) else id for id in ids]
        texts = [id if isinstance(id, str) else "" for id in ids]
        return cls(np.array(numbers, np.int64), Strings.of(texts), is_text)

    @classmethod
    def concat(cls, parts: Sequence[Ids]) -> Ids:
        """Concatenate several columns."""
        parts = [part for part in parts if part.size] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        if not any(part.texts.size for part in parts):
            return cls(np.concatenate([part.numbers for part in parts]))
        texts = Strings.concat([part._all_texts() for part in parts])
        if not any(len(part.numbers) for part in parts):
            return cls(NO_INT64, texts)
        numbers = np.concatenate([part._all_numbers() for part in parts])
        return cls(numbers, texts, np.concatenate([part.text_marks() for part in parts]))

    def take(self, places: NDArray[np.integer]) -> Ids:
        """The ids at these places."""
        return Ids(
            self._numbers_at(places) if self.has_numbers else self.numbers,
            self.texts.take(places) if self.texts.size else self.texts,
            self.is_text[places] if len(self.is_text) else self.is_text,
        )

    def between(self, begin: int, end: int) -> Ids:
        """The ids at the places from `begin` to `end` (exclusive)."""
        return Ids(
            self.numbers[begin:end] if self.has_numbers else self.numbers,
            self.texts.between(begin, end) if self.texts.size else self.texts,
            self.is_text[begin:end] if len(self.is_text) else self.is_text,
        )

    def _numbers_at(self, places: NDArray[np.integer]) -> NDArray[np.int64]:
        if len(places) <= _FEW:
            return self.numbers.take(places)
        numbers = np.empty(len(places), np.int64)
        take(self.numbers, places, numbers)
        return numbers

    def check(self, size: int) -> None:
        """Check ids of `size` rules that were read from a file."""
        check_type("numbers", self.numbers, np.int64)
        check_type("is_text", self.is_text, np.uint8)
        self.texts.check("texts", size if self.has_texts else 0)
        check_lengths(0 if self.has_texts and not len(self.is_text) else size, numbers=self.numbers)
        if len(self.is_text):
            check_lengths(size, is_text=self.is_text, texts=self.texts.start[1:])
        index = self.index
        check_types(index)
        check_lengths(size, key=index.key, key_place=index.place)
        check_order("key_place", index.place)
        check_numbers("is_text", self.is_text, 0, 2)

    # --- Kinds ---

    @property
    def has_texts(self) -> bool:
        """Whether some id is a text."""
        return self.texts.size > 0

    @property
    def has_numbers(self) -> bool:
        """Whether some id is an integer."""
        return len(self.numbers) > 0

    def text_marks(self) -> NDArray[np.uint8]:
        """A mark for each id that is a text."""
        if len(self.is_text):
            return self.is_text
        return np.full(self.size, self.has_texts, np.uint8)

    def _all_texts(self) -> Strings:
        return self.texts if self.has_texts else Strings.blank(self.size)

    def _all_numbers(self) -> NDArray[np.int64]:
        return self.numbers if self.has_numbers else np.zeros(self.size, np.int64)

    # --- Ids by place ---

    def at(self, place: int) -> RuleId:
        """The id at `place`."""
        is_text = self.is_text[place] if len(self.is_text) else self.has_texts
        return self.texts.at(place) if is_text else int(self.numbers[place])

    def array(self, places: NDArray[np.integer]) -> NDArray[Any]:
        """The ids at these places: integers if all ids are integers, objects otherwise."""
        if not self.has_texts:
            return self._numbers_at(places)
        objects, decoded = self._objects, self._decoded
        if objects is None or decoded is None:
            objects = self._objects = np.empty(self.size, object)
            decoded = self._decoded = np.zeros(self.size, np.bool_)
        known = decoded.take(places)
        if np.count_nonzero(known) < len(places):
            unknown = places[~known]
            objects[unknown] = self._decode(unknown)
            decoded[unknown] = True
        found: NDArray[Any] = objects.take(places)
        return found

    def _decode(self, places: NDArray[np.integer]) -> NDArray[np.object_]:
        found = np.empty(len(places), object)
        found[:] = self.texts.take(places).arrow(pa.large_string()).to_pylist()
        if len(self.is_text):
            integers = self.is_text[places] == 0
            found[integers] = self.numbers[places[integers]].tolist()
        return found

    # --- Places by id ---

    @property
    def index(self) -> IdIndex:
        """The look-up index, built when it is first needed."""
        index = self._index
        if index is None:
            keys = self._keys()
            order = np.argsort(keys, kind="stable").astype(np.int32)
            index = self._index = IdIndex(keys[order], order)
        return index

    def _keys(self) -> NDArray[np.uint64]:
        if not self.has_texts:
            return self.numbers.view(np.uint64)
        keys = hash_texts(self.texts.start, self.texts.data)
        if len(self.is_text):
            return np.where(self.is_text, keys, self.numbers.view(np.uint64))
        return keys

    def find(self, id: RuleId, key: int | None = None) -> int | None:
        """Find the place of `id`, whose key may be known already."""
        if not (self.has_texts if isinstance(id, str) else self.has_numbers):
            return None
        index = self.index
        if key is None:
            key = key_of(id)
        # New integers are often above all others, and Python compares faster than NumPy.
        if self._range is None:
            self._range = int(index.key[0]), int(index.key[-1])
        if not self._range[0] <= key <= self._range[1]:
            return None
        at = int(index.key.searchsorted(np.uint64(key)))
        while at < self.size and index.key[at] == key:
            place = int(index.place[at])
            if self.at(place) == id:
                return place
            at += 1
        return None

    def find_repeated(self) -> NDArray[np.int64]:
        """The places of ids that may be there more than once, rising; few others are among them."""
        keys = self._keys()
        order = np.argsort(keys)
        sorted_keys = keys[order]
        is_equal = sorted_keys[1:] == sorted_keys[:-1]
        if not is_equal.any():
            return NO_INT64
        marks = np.zeros(self.size, np.bool_)
        marks[order[1:][is_equal]] = marks[order[:-1][is_equal]] = True
        return np.flatnonzero(marks)

    def find_all(self, others: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the ids that are also in `others`: their places here, and there."""
        if not (self.size and others.size):
            return NO_INT64, NO_INT64
        index, keys = self.index, others._keys()
        at = np.minimum(np.searchsorted(index.key, keys), self.size - 1)
        there = np.flatnonzero(index.key[at] == keys)
        here = index.place[at[there]].astype(np.int64)
        if not (self.has_texts or others.has_texts):
            return here, there
        # Two ids may share a key; where the ids differ, the id is looked up by itself.
        pairs = []
        for mine, other in zip(here.tolist(), there.tolist(), strict=True):
            id = others.at(other)
            place: int | None = mine if self.at(mine) == id else self.find(id)
            if place is not None:
                pairs.append((place, other))
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def key_of(id: RuleId) -> int:
    """The key of an id, an integer of 64 bits."""
    return hash_text(id) if isinstance(id, str) else id & 0xFFFF_FFFF_FFFF_FFFF


def id_column(
    parts: Sequence[tuple[Ids, NDArray[np.integer]]], order: NDArray[np.int64] | None
) -> pa.ChunkedArray:
    """Build an Arrow column of the ids at some places of several segments.

    The ids are laid end to end and then put in `order`. The column has strings or integers; if the
    segments have both kinds of ids, it is a dense union of the two. It comes in several chunks if
    the texts are too long for one.
    """
    has_texts = any(ids.has_texts for ids, _ in parts)
    has_numbers = any(ids.has_numbers for ids, _ in parts)
    found = Ids.concat([ids.take(places) for ids, places in parts])
    if order is not None and found.size:
        found = found.take(order)
    if not has_texts and has_numbers:
        return pa.chunked_array([to_arrow(found.numbers)])
    return pa.chunked_array([_texts_and_numbers(piece, has_numbers) for piece in _pieces(found)])


def _pieces(ids: Ids) -> Iterator[Ids]:
    """Cut ids into runs whose texts fit in an Arrow array; one run if there are no ids."""
    start, begin = ids.texts.start, 0
    while True:
        end = ids.size
        if ids.has_texts:
            most = start[begin] + _MOST_TEXT_BYTES
            end = min(end, max(begin + 1, int(np.searchsorted(start, most, "right")) - 1))
        yield ids if end - begin == ids.size else ids.between(begin, end)
        begin = end
        if begin >= ids.size:
            return


def _texts_and_numbers(ids: Ids, has_numbers: bool) -> pa.Array:
    """An Arrow array of ids that are texts, or texts and integers."""
    if not has_numbers:
        return ids._all_texts().arrow(pa.large_string()).cast(pa.string())
    marks = ids.text_marks()
    offsets = np.where(marks, np.cumsum(marks), np.cumsum(marks == 0)) - 1
    texts = ids._all_texts().take(np.flatnonzero(marks)).arrow(pa.large_string())
    return pa.UnionArray.from_dense(
        to_arrow(marks.astype(np.int8)),
        to_arrow(offsets.astype(np.int32)),
        [to_arrow(ids._all_numbers()[marks == 0]), texts.cast(pa.string())],
        ["integer", "string"],
    )
