"""Random Arrow data of every type, each beside the events that it stands for.

A value is drawn as a *token*, which a kind builds into an array and shows as Python's value.
Neither reads the other's result, so that Arrow's own conversions are no part of what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from tamis.errors import RuleError
from tamis.expr.model import value_of_literal
from tests.randoms import Attribute

__all__ = ["LEAVES", "UNREADABLE", "Column", "Kind", "build", "draw_kind", "draw_table"]

UNREADABLE: Final = b"no kind can hold this"
"""Stands in events for every value that no kind can hold."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_EXACT: Final = Context(prec=100)
_NAMES: Final = ("x", "y", "b c")
_WORDS: Final = ("", "a", "ab", "A", "é", "a b", "🙂", "zzz")


class Kind:
    """A type of Arrow's, with the values to draw."""

    def draw(self, random: Random) -> Any:
        """A token: None for null."""
        raise NotImplementedError

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        """The array of some tokens."""
        raise NotImplementedError

    def show(self, token: Any) -> Any:
        """What an event holds for a token."""
        raise NotImplementedError

    def attributes(self, path: str) -> Iterator[Attribute]:
        """What rules may say of it."""
        raise NotImplementedError


@dataclass
class Leaf(Kind):
    """A type whose values are not nested."""

    type: pa.DataType
    values: Sequence[tuple[Any, Any]]
    """Values as they are built, and as events hold them."""
    make: Callable[[list[Any], pa.DataType], pa.Array]

    def draw(self, random: Random) -> Any:
        return None if random.random() < 0.2 else random.randrange(len(self.values))

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        return self.make([None if t is None else self.values[t][0] for t in tokens], self.type)

    def show(self, token: Any) -> Any:
        return None if token is None else self.values[token][1]

    def attributes(self, path: str) -> Iterator[Attribute]:
        literals = [_literal(view) for _, view in self.values if view is not UNREADABLE]
        yield Attribute(path, (), [v for v in literals if v is not None] or [1, "a"])


def _literal(view: Any) -> Any:
    """A value as a literal of a rule; None where rules have no such literal."""
    try:
        return None if view is None or view != view else value_of_literal(view)
    except RuleError:
        return None


def _array(items: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(items, kind)


def _leaf(kind: pa.DataType, values: Sequence[Any], make: Any = _array) -> Leaf:
    return Leaf(kind, [(value, value) for value in values], make)


def _dark(kind: pa.DataType, values: Sequence[Any], make: Any = _array) -> Leaf:
    return Leaf(kind, [(value, UNREADABLE) for value in values], make)


def _cast(items: list[Any], kind: pa.DataType) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(items, width).view(kind)


def _half(items: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if item is None else np.float16(item) for item in items], kind)


def _broken(items: list[Any], kind: pa.DataType) -> pa.Array:
    raw = pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()
    return pa.array(items, pa.binary_view() if pa.types.is_string_view(kind) else raw).view(kind)


def _extended(items: list[Any], kind: Any) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(items, kind.storage_type))


def _times(unit: str, zone: str | None, known: bool = True) -> Leaf:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = [0, -1, 86_400 * per_second, 1_700_000_000 * per_second + 1, 2**62, -(2**62)]
    shown = [_moment(number * 10**6 // per_second) if known else UNREADABLE for number in numbers]
    return Leaf(pa.timestamp(unit, zone), list(zip(numbers, shown, strict=True)), _cast)


def _moment(microseconds: int) -> Any:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return UNREADABLE


def _integers(bits: int, signed: bool) -> Leaf:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    return _leaf(kind, (least, least + 1, 1, 5, 100, most - 1, most))


def _floats(kind: pa.DataType, form: Any, make: Any = _array) -> Leaf:
    numbers = [form(n) for n in (0.5, -0.0, 1.0, 0.1, 2.5, 100.0, "nan", "inf", "-inf")]
    return Leaf(kind, [(float(n), float(n)) for n in numbers], make)


def _decimals(kind: pa.DataType, *texts: str) -> Leaf:
    values = [Decimal(text) for text in texts]
    shown = [v if len(v.normalize(_EXACT).as_tuple().digits) <= 38 else UNREADABLE for v in values]
    return Leaf(kind, list(zip(values, shown, strict=True)), _array)


class Boxed(pa.ExtensionType):  # type: ignore[misc]  # untyped base
    """An extension that nothing knows."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.boxed")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Boxed:
        return cls(storage)


def _leaves() -> Iterator[Leaf]:
    yield Leaf(pa.null(), [(None, None)], _array)
    yield _leaf(pa.bool_(), (False, True))
    for bits in (8, 16, 32, 64):
        yield _integers(bits, True)
        yield _integers(bits, False)
    yield _floats(pa.float16(), np.float16, _half)
    yield _floats(pa.float32(), np.float32)
    yield _floats(pa.float64(), float)
    for strings in (pa.string(), pa.large_string(), pa.string_view()):
        yield _leaf(strings, _WORDS)
    if hasattr(pa, "decimal32"):
        yield _decimals(pa.decimal32(9, 2), "0.1", "-9999999.99", "1", "2.50")
        yield _decimals(pa.decimal64(18, 4), "0.1", "-99999999999999.9999", "1", "2.5")
    long = "1234567890123456789012345678.0123456789"
    yield _decimals(pa.decimal128(38, 10), "0.1", long, "1", "2.5", "9007199254740993")
    yield _decimals(pa.decimal128(20, -2), "100", "-1234500", "12E19")
    yield _decimals(pa.decimal256(76, 5), "0.1", "1", "9" * 39, "9" * 38, "1e40")
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Paris", "+09:00"):
            yield _times(unit, zone)
        yield _dark(pa.duration(unit), (0, 1, -5), _cast)
    yield _times("s", "Mars/Olympus", known=False)
    days = (0, 19_000, -719_162, 2_932_896, 2_932_897, -719_163)
    dates = [_moment(day * 86_400 * 10**6) for day in days]
    yield Leaf(pa.date32(), list(zip(days, dates, strict=True)), _cast)
    in_ms = [day * 86_400_000 for day in days]
    yield Leaf(pa.date64(), list(zip(in_ms, dates, strict=True)), _cast)
    yield _dark(pa.time32("s"), (0, 5), _cast)
    yield _dark(pa.time64("ns"), (0, 5), _cast)
    yield _dark(pa.month_day_nano_interval(), [(1, 2, 3)])
    for raw in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)):
        yield _dark(raw, (b"ab", b"\xff\xff"))
    yield _leaf(Boxed(pa.int32()), (1, 5), _extended)
    if hasattr(pa, "uuid"):
        yield _dark(pa.uuid(), (UUID(int=5).bytes,), _extended)
    if hasattr(pa, "bool8"):
        yield Leaf(pa.bool8(), [(0, False), (1, True), (2, True)], _extended)
    if hasattr(pa, "json_"):
        yield _leaf(pa.json_(), ('{"a": 1}', "1"), _extended)
    if hasattr(pa, "opaque"):
        yield _leaf(pa.opaque(pa.string(), "name", "vendor"), _WORDS, _extended)


_VALID: Final = list(_leaves())
_EXTENDED: Final = [leaf for leaf in _VALID if leaf.make is _extended]
_PLAIN: Final = [leaf for leaf in _VALID if leaf not in _EXTENDED]
"""What runs are made of: Arrow checks that strings in them are valid, and ends the process where a
slice of an extension is among them."""

_MIXED: Final = [(b"a", "a"), (b"\xff", UNREADABLE), (b"ab", "ab")]

LEAVES: Final = [
    *_VALID,
    *(Leaf(kind, _MIXED, _broken) for kind in (pa.string(), pa.large_string(), pa.string_view())),
]
"""Every type that is not nested, and strings some of which are not UTF-8."""


def _draw_tokens(random: Random, kind: Kind, count: int) -> list[Any]:
    return [kind.draw(random) for _ in range(count)]


def build(random: Random, kind: Kind, tokens: list[Any]) -> pa.Array:
    """An array of some tokens, which may be a slice of a longer one."""
    if random.random() < 0.6:
        return kind.build(random, tokens)
    before = _draw_tokens(random, kind, random.randint(0, 9))
    after = _draw_tokens(random, kind, random.randint(0, 3))
    return kind.build(random, [*before, *tokens, *after]).slice(len(before), len(tokens))


@dataclass
class Several(Kind):
    """Lists, in one of five layouts."""

    inner: Kind
    layout: str
    size: int

    def draw(self, random: Random) -> Any:
        if random.random() < 0.2:
            return None
        count = self.size if self.layout == "fixed" else random.choice((0, 1, 1, 2, 3))
        return tuple(_draw_tokens(random, self.inner, count))

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        mask = pa.array([token is None for token in tokens], pa.bool_())
        # What lies under a null is not empty.
        junk = self.size if self.layout == "fixed" else random.randint(0, 2)
        lists = [_draw_tokens(random, self.inner, junk) if t is None else t for t in tokens]
        if self.layout.endswith("view"):
            return self._build_views(random, lists, mask)
        values = build(random, self.inner, [item for items in lists for item in items])
        if self.layout == "fixed":
            return pa.FixedSizeListArray.from_arrays(values, self.size, mask=mask)
        offsets = np.cumsum([0, *map(len, lists)])
        if self.layout == "large":
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)

    def _build_views(self, random: Random, lists: list[Any], mask: pa.Array) -> pa.Array:
        """Lists in any order, with gaps."""
        order = random.sample(range(len(lists)), len(lists))
        offsets, items = [0] * len(lists), list[Any]()
        for place in order:
            items += _draw_tokens(random, self.inner, random.choice((0, 0, 1)))
            offsets[place] = len(items)
            items += lists[place]
        is_large = self.layout == "large view"
        array = pa.LargeListViewArray if is_large else pa.ListViewArray
        kind = pa.int64() if is_large else pa.int32()
        sizes = pa.array(list(map(len, lists)), kind)
        values = build(random, self.inner, items)
        return array.from_arrays(pa.array(offsets, kind), sizes, values, mask=mask)

    def show(self, token: Any) -> Any:
        return None if token is None else [self.inner.show(item) for item in token]

    def attributes(self, path: str) -> Iterator[Attribute]:
        return self.inner.attributes(path)


@dataclass
class Struct(Kind):
    """Structs; two fields may have one name."""

    fields: list[tuple[str, Kind]]

    def draw(self, random: Random) -> Any:
        if random.random() < 0.2:
            return None
        return tuple(kind.draw(random) for _, kind in self.fields)

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        mask = pa.array([token is None for token in tokens], pa.bool_())
        children = []
        for number, (_, kind) in enumerate(self.fields):
            items = [kind.draw(random) if t is None else t[number] for t in tokens]
            children.append(build(random, kind, items))
        names = [name for name, _ in self.fields]
        return pa.StructArray.from_arrays(children, names, mask=mask if None in tokens else None)

    def show(self, token: Any) -> Any:
        if token is None:
            return None
        shown: dict[str, Any] = {}
        for (name, kind), item in zip(self.fields, token, strict=True):
            add_item(shown, name, kind.show(item))
        return shown

    def attributes(self, path: str) -> Iterator[Attribute]:
        for name, kind in self.fields:
            yield from kind.attributes(within(path, name))


@dataclass
class Map(Kind):
    """Maps, whose keys may be repeated."""

    keys: Sequence[Any]
    key: Kind
    inner: Kind

    def draw(self, random: Random) -> Any:
        if random.random() < 0.2:
            return None
        count = random.randint(0, 3)
        return tuple((random.randrange(3), self.inner.draw(random)) for _ in range(count))

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        lists = [((0, self.inner.draw(random)),) if t is None else t for t in tokens]
        entries = [entry for items in lists for entry in items]
        offsets: Any = np.cumsum([0, *map(len, lists)]).tolist()
        keys = build(random, self.key, [number for number, _ in entries])
        items = build(random, self.inner, [item for _, item in entries])
        built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)
        valid = np.packbits(np.array([t is not None for t in tokens], np.bool_), bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(np.array(offsets, np.int32))]
        entry = pa.StructArray.from_arrays(
            [keys, items], fields=[built.type.key_field, built.type.item_field]
        )
        return pa.Array.from_buffers(built.type, len(tokens), buffers, children=[entry])

    def show(self, token: Any) -> Any:
        if token is None:
            return None
        shown: dict[str, Any] = {}
        for number, item in token:
            add_item(shown, str(self.keys[number]), self.inner.show(item))
        return shown

    def attributes(self, path: str) -> Iterator[Attribute]:
        for key in self.keys[:2]:
            yield from self.inner.attributes(within(path, str(key)))


@dataclass
class Union(Kind):
    """Unions, sparse or dense."""

    kinds: list[Kind]
    is_dense: bool

    def draw(self, random: Random) -> Any:
        number = random.randrange(len(self.kinds))
        return number, self.kinds[number].draw(random)

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        filled = [(0, None) if token is None else token for token in tokens]
        codes = pa.array([number for number, _ in filled], pa.int8())
        if self.is_dense:
            counts = [0] * len(self.kinds)
            offsets, children = [], []
            for number, _ in filled:
                offsets.append(counts[number])
                counts[number] += 1
            for number, kind in enumerate(self.kinds):
                children.append(build(random, kind, [t for n, t in filled if n == number]))
            return pa.UnionArray.from_dense(codes, pa.array(offsets, pa.int32()), children)
        children = [
            build(random, kind, [t if n == number else kind.draw(random) for n, t in filled])
            for number, kind in enumerate(self.kinds)
        ]
        return pa.UnionArray.from_sparse(codes, children)

    def show(self, token: Any) -> Any:
        return None if token is None else self.kinds[token[0]].show(token[1])

    def attributes(self, path: str) -> Iterator[Attribute]:
        for kind in self.kinds:
            yield from kind.attributes(path)


@dataclass
class Dictionary(Kind):
    """Places in a dictionary, which may repeat values, hold nulls, and hold what none refers to."""

    inner: Kind
    index: pa.DataType

    def draw(self, random: Random) -> Any:
        return None if random.random() < 0.1 else self.inner.draw(random)

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        distinct: list[Any] = _draw_tokens(random, self.inner, random.randint(0, 2))
        places: list[int | None] = []
        for token in tokens:
            if token is None and random.random() < 0.5:
                places.append(None)
                continue
            known = [n for n, other in enumerate(distinct) if other == token]
            if not known or (random.random() < 0.2 and len(distinct) < 100):
                known = [len(distinct)]
                distinct.append(token)
            places.append(known[-1])
        indices = pa.array(places, self.index)
        return pa.DictionaryArray.from_arrays(indices, build(random, self.inner, distinct))

    def show(self, token: Any) -> Any:
        return None if token is None else self.inner.show(token)

    def attributes(self, path: str) -> Iterator[Attribute]:
        return self.inner.attributes(path)


@dataclass
class Runs(Kind):
    """Runs of equal values."""

    inner: Kind
    ends: pa.DataType

    def draw(self, random: Random) -> Any:
        return self.inner.draw(random)

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        ends, distinct = list[int](), list[Any]()
        for place, token in enumerate(tokens, 1):
            if distinct and distinct[-1] == token and random.random() < 0.8:
                ends[-1] = place
            else:
                ends.append(place)
                distinct.append(token)
        values = build(random, self.inner, distinct)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, self.ends), values)

    def show(self, token: Any) -> Any:
        return self.inner.show(token)

    def attributes(self, path: str) -> Iterator[Attribute]:
        return self.inner.attributes(path)


@dataclass
class Extension(Kind):
    """An extension that nothing knows, of any storage."""

    inner: Kind

    def draw(self, random: Random) -> Any:
        return self.inner.draw(random)

    def build(self, random: Random, tokens: list[Any]) -> pa.Array:
        stored = build(random, self.inner, tokens)
        return pa.ExtensionArray.from_storage(Boxed(stored.type), stored)

    def show(self, token: Any) -> Any:
        return self.inner.show(token)

    def attributes(self, path: str) -> Iterator[Attribute]:
        return self.inner.attributes(path)


def within(path: str, name: str) -> str:
    """The attribute of a name inside another; the column without a name is the whole event."""
    return f"{path}.{name}" if path else name


def add_item(row: dict[str, Any], name: str, item: Any) -> None:
    """Add a value; those of one name are values of one attribute."""
    row[name] = [row[name], item] if name in row else item


def draw_kind(random: Random, depth: int, leaves: Sequence[Kind] = LEAVES) -> Kind:
    """A random type, nested at most `depth` levels deep."""
    if depth <= 1 or random.random() < 0.25:
        return random.choice(leaves)
    choice = random.randrange(8)
    if choice == 6:
        leaves = _PLAIN
    inner = draw_kind(random, depth - 1, leaves)
    match choice:
        case 0 | 1:
            layouts = ("list", "large", "fixed", "view", "large view")
            return Several(inner, random.choice(layouts), random.randint(1, 3))
        case 2:
            more = [draw_kind(random, depth - 1, leaves) for _ in range(random.randint(0, 2))]
            return Struct([(random.choice(_NAMES), kind) for kind in (inner, *more)])
        case 3:
            return _draw_map(random, inner)
        case 4:
            return Union([inner, draw_kind(random, depth - 1, leaves)], random.random() < 0.5)
        case 5:
            index = random.choice((pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64()))
            return Dictionary(inner, index)
        case 6:
            return Runs(inner, random.choice((pa.int16(), pa.int32(), pa.int64())))
    if leaves is _PLAIN or isinstance(inner, Extension) or inner in _EXTENDED:
        return inner  # Arrow lacks extensions of extensions
    return Extension(inner)


def _draw_map(random: Random, inner: Kind) -> Map:
    class Keys(Leaf):
        def draw(self, random: Random) -> Any:
            return random.randrange(len(self.values))  # never null

    if random.random() < 0.3:
        keys: Sequence[Any] = (1, 2, 33)
        kinds = [pa.int8(), pa.uint64(), pa.int32()]
    else:
        keys = _NAMES
        kinds = [pa.string(), pa.large_string(), pa.string_view()]
    leaf = Keys(random.choice(kinds), [(key, key) for key in keys], _array)
    return Map(keys, leaf, inner)


@dataclass
class Column:
    """A column, and what each event holds for it."""

    name: str
    values: pa.ChunkedArray
    shown: list[Any]
    attributes: list[Attribute]


def draw_column(random: Random, name: str, rows: int, depth: int) -> Column:
    """A column of so many rows, in chunks of which some are empty."""
    kind = draw_kind(random, depth)
    tokens = _draw_tokens(random, kind, rows)
    for place in range(1, rows):
        if random.random() < 0.3:
            tokens[place] = tokens[place - 1]
    cuts = sorted(random.choices(range(rows + 1), k=random.randint(0, 3)))
    chunks = [
        build(random, kind, tokens[a:b]) for a, b in zip([0, *cuts], [*cuts, rows], strict=True)
    ]
    return Column(
        name, pa.chunked_array(chunks), list(map(kind.show, tokens)), list(kind.attributes(name))
    )


def draw_table(
    random: Random, rows: int, columns: int = 3, depth: int = 3
) -> tuple[pa.Table, list[dict[str, Any]], list[Attribute]]:
    """A table, the events that it stands for, and what rules may say of them."""
    names = [random.choice(("a", "b", "c", "d", "a.x", "b.y", "")) for _ in range(columns)]
    drawn = [draw_column(random, name, rows, depth) for name in names]
    events: list[dict[str, Any]] = [{} for _ in range(rows)]
    for column in drawn:
        for event, item in zip(events, column.shown, strict=True):
            if column.name:
                add_item(event, column.name, item)
            else:
                _add_event(event, item)
    table = pa.Table.from_arrays([column.values for column in drawn], names)
    attributes = [one for column in drawn for one in column.attributes if one.name]
    return table, events, attributes


def _add_event(event: dict[str, Any], item: Any) -> None:
    """Add what a column without a name holds: whole events, or lists of such."""
    if isinstance(item, dict):
        for name, inner in item.items():
            add_item(event, name, inner)
    elif isinstance(item, list):
        for inner in item:
            _add_event(event, inner)
