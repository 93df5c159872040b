"""The schema: declared types of attributes, applied to rules and events.

A declared scalar has at most one value, so predicates on it may be intersected. ISO texts become
timestamps where a timestamp is declared. An event that contradicts the schema is an error.
Attributes that are not declared may have any values. A hierarchy (`hierarchies.py`) is declared in
place of a type; its values are strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import EventError, RuleError, SchemaError, combine_errors
from tamis.expr.event import Event, FlatEvent, Kind, flatten, kind_of, refuse_unreadable
from tamis.expr.joins.predicate import Function, map_tests
from tamis.expr.joins.subqueries import join_named
from tamis.expr.joins.write import join_name
from tamis.expr.model import Expr, Op, Predicate, Value, map_predicates
from tamis.expr.names import JOINED
from tamis.expr.value_order import BOOLEANS, INTEGERS, LINES, NUMBERS, STRINGS, TIMES, Line
from tamis.expr.weights import RuleWeights
from tamis.matcher.hierarchies import Hierarchy, Levels, Taxonomy, read_hierarchy

__all__ = ["Schema"]

_TYPES = {
    "string": Kind.STRING,
    "integer": Kind.NUMBER,
    "double": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "timestamp": Kind.TIMESTAMP,
}

_LINES = {
    "string": STRINGS,
    "integer": INTEGERS,
    "double": NUMBERS,
    "boolean": BOOLEANS,
    "timestamp": TIMES,
}


class _Declared(NamedTuple):
    type: str
    kind: Kind
    is_list: bool
    hierarchy: Hierarchy | None = None


class Schema:
    """Declared attributes: ``{"price": "double", "tags": "string[]", "when": "timestamp"}``.

    Attributes
    ----------
    scalars
        The attributes that have at most one value.
    adapted
        The attributes of which `adapt` changes or refuses predicates.
    has_levels
        Whether `expand` changes rules.
    """

    def __init__(self, types: Mapping[str, Any]) -> None:
        if not isinstance(types, Mapping):
            raise SchemaError(f"a schema maps attributes to types, not {type(types).__name__}")
        self._declared = {name: _declare(name, text) for name, text in types.items()}
        self.scalars = frozenset(n for n, d in self._declared.items() if not d.is_list)
        trees = {n: d.hierarchy for n, d in self._declared.items() if d.hierarchy is not None}
        self._hierarchies = trees
        self.has_levels = any(not tree.is_one_predicate for tree in trees.values())
        timestamps = {n for n, d in self._declared.items() if d.kind is Kind.TIMESTAMP}
        self.adapted = frozenset(timestamps.union(trees))

    def __bool__(self) -> bool:
        return bool(self._declared)

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    @property
    def types(self) -> dict[str, str]:
        """The schema as a mapping of attributes to types."""
        return {
            n: d.type + "[]" * d.is_list
            if d.hierarchy is None
            else _text_of(d.hierarchy, d.is_list)
            for n, d in self._declared.items()
        }

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the values of declared attributes."""
        return {name: declared.kind for name, declared in self._declared.items()}

    def adapt(self, predicate: Predicate) -> Predicate:
        """Apply the declaration of a predicate's attribute.

        Texts become timestamps where one is declared, and a node of a taxonomy all values below
        it. Levels are left to `expand`.

        Raises
        ------
        RuleError
            A text is not an ISO date or time, or not a node.
        """
        if predicate.attribute.startswith(JOINED):
            return self._adapt_join(predicate)
        declared = self._declared.get(predicate.attribute)
        if declared is not None and declared.hierarchy is not None:
            expanded = declared.hierarchy.expand(predicate)
            return expanded if isinstance(expanded, Predicate) else predicate
        if declared is None or declared.kind is not Kind.TIMESTAMP or predicate.op.is_text:
            return predicate
        if not any(isinstance(value, str) for value in predicate.values):
            return predicate
        values = []
        for value in predicate.values:
            read = _read_timestamp(value) if isinstance(value, str) else value
            if read is None:
                raise RuleError(
                    f"{predicate.attribute!r} is declared as a timestamp; "
                    f"{value!r} is not an ISO date or time"
                )
            values.append(read)
        return Predicate(predicate.attribute, predicate.op, tuple(values), predicate.negated)

    def _adapt_join(self, predicate: Predicate) -> Predicate:
        """Adapt the conditions of a join predicate on documents, which are earlier events."""
        join = join_named(predicate.attribute)
        adapted = msgspec.structs.replace(join, where=map_tests(join.where, self.adapt))
        values, aggregate = predicate.values, join.aggregate
        if aggregate is not None and aggregate.function in (Function.MIN, Function.MAX):
            assert aggregate.attribute is not None
            values = self.adapt(Predicate(aggregate.attribute, predicate.op, values)).values
        return Predicate(join_name(adapted), predicate.op, values, predicate.negated)

    def expand(self, expr: Expr) -> Expr:
        """Replace predicates on levels by what they mean; `adapt` does the rest.

        Raises
        ------
        RuleError
            A literal is not a node.
        """
        return map_predicates(expr, self._expand_levels) if self.has_levels else expr

    def _expand_levels(self, predicate: Predicate) -> Expr:
        tree = self._hierarchies.get(predicate.attribute)
        return predicate if tree is None or tree.is_one_predicate else tree.expand(predicate)

    def adapt_weights(self, weights: RuleWeights) -> RuleWeights:
        """The weights of a rule that `adapt` and `expand` change.

        The weight of a node is that of the values below it, unless one in between has its own.
        """
        plain = weights.map(self._adapt_plain)
        by_value: dict[tuple[str, Value], float] = {}
        by_predicate: dict[Predicate, float] = {}
        given = [(a, v, w) for a, v, w in plain.list_values() if a in self._hierarchies]
        # From the root on, so that the nearest node is the last to say.
        given.sort(key=lambda entry: -len(self._hierarchies[entry[0]].path(str(entry[1]))))
        for attribute, node, weight in reversed(given):
            tree = self._hierarchies[attribute]
            if isinstance(tree, Taxonomy):
                by_value.update({(attribute, value): weight for value in tree.below(node)})
            elif isinstance(tree, Levels):
                by_predicate[tree.below(str(node))] = weight
        return plain.extend(by_value, by_predicate)

    def _adapt_plain(self, predicate: Predicate) -> Predicate:
        """As `adapt`, but nodes stay as they are."""
        return predicate if predicate.attribute in self._hierarchies else self.adapt(predicate)

    def find_nodes(self, predicate: Predicate, values: Sequence[Value]) -> tuple[str, ...]:
        """The nodes among a predicate's literals that the event's values lie below."""
        tree = self._hierarchies.get(predicate.attribute)
        if tree is None or predicate.op not in (Op.EQ, Op.IN):
            return ()
        found: dict[str, None] = {}
        for value in values:
            path = tree.path(str(value))
            found.update(
                (node, None) for node in path if node in predicate.values and node != value
            )
        return tuple(found)

    def adapt_types(self, expr: Expr) -> Expr:
        """Adapt every predicate of a rule, except that nodes of hierarchies stay as they are."""
        return map_predicates(expr, self._adapt_plain) if self._declared else expr

    def adapt_rule(self, expr: Expr) -> Expr:
        """Adapt every predicate of a rule."""
        return map_predicates(self.expand(expr), self.adapt) if self._declared else expr

    def lines_of(self, attribute: str) -> tuple[Line, ...]:
        """The lines on which the values of an attribute lie."""
        declared = self._declared.get(attribute)
        return LINES if declared is None else (_LINES[declared.type],)

    def read(self, event: Event) -> FlatEvent:
        """Flatten an event, and convert ISO texts to timestamps where these are declared.

        Raises
        ------
        EventError
            A declared attribute has a value that no kind can hold.
        SchemaError
            A declared scalar has a list, or a value is not of the declared type.
        """
        flat = flatten(event)
        refuse_unreadable(flat, self._declared)
        for name, declared in self._declared.items():
            values = flat.get(name)
            if values is None:
                continue
            if not declared.is_list and (len(values) > 1 or _is_list(event.get(name))):
                raise SchemaError(
                    f"attribute {name!r} is declared as one {declared.type}, "
                    "but the event holds a list"
                )
            flat[name] = [_conform_value(name, declared, value) for value in values]
        return flat

    def conform_value(self, name: str, value: Value) -> Value:
        """Convert the only value of an attribute, if one is declared.

        Raises
        ------
        SchemaError
            The value is not of the declared type.
        """
        declared = self._declared.get(name)
        return value if declared is None else _conform_value(name, declared, value)

    def read_many(self, events: Iterable[Event], first: int) -> list[FlatEvent]:
        """Read many events; an error names the event by its number, counted from `first`."""
        flat = []
        errors: dict[int, EventError | SchemaError] = {}
        for number, event in enumerate(events, first):
            try:
                flat.append(self.read(event))
            except (EventError, SchemaError) as error:
                errors[number] = error
        if errors:
            raise combine_errors(errors)
        return flat

    def conform(self, name: str, column: pa.Array, in_list: bool) -> pa.Array:
        """Convert the values of an attribute, in a column or in the lists of a column.

        Raises
        ------
        SchemaError
            The column contradicts the declaration.
        """
        declared = self._declared.get(name)
        if declared is None or pa.types.is_null(column.type):
            return column
        if in_list and not declared.is_list:
            raise SchemaError(
                f"attribute {name!r} is declared as one {declared.type}, but the column holds lists"
            )
        if declared.kind is Kind.TIMESTAMP and _is_text(column.type):
            return _read_timestamps(name, column)
        is_decimal = pa.types.is_decimal(column.type)
        if declared.type == "integer" and (is_decimal or pa.types.is_floating(column.type)):
            return _check_whole(name, column)
        if not _fits(declared, column.type):
            raise SchemaError(
                f"attribute {name!r} is declared as {declared.type}, "
                f"but the column is {column.type}"
            )
        return column


def _text_of(tree: Hierarchy, is_list: bool) -> str:
    """The declaration of a hierarchy. A taxonomy always takes lists."""
    return tree.text + "[]" * (is_list and not isinstance(tree, Taxonomy))


def _declare(name: Any, text: Any) -> _Declared:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a schema's attributes are non-empty strings, not {name!r}")
    hierarchy = read_hierarchy(name, text)
    if hierarchy is not None:
        return _Declared("string", Kind.STRING, hierarchy[1], hierarchy[0])
    if isinstance(text, str):
        plain = text.removesuffix("[]").strip()
        if plain in _TYPES:
            return _Declared(plain, _TYPES[plain], text.endswith("[]"))
    known = ", ".join(_TYPES)
    raise SchemaError(
        f"the schema declares {name!r} as {text!r}; expected one of {known}, "
        "followed by [] for a list, or a hierarchy: levels(a, b), or the parents of nodes"
    )


def _is_list(item: Any) -> bool:
    return isinstance(item, Sequence | set | frozenset) and not isinstance(item, str)


def _read_timestamp(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _conform_value(name: str, declared: _Declared, value: Value) -> Value:
    if declared.kind is Kind.TIMESTAMP and isinstance(value, str):
        read = _read_timestamp(value)
        if read is None:
            raise SchemaError(
                f"attribute {name!r} is declared as a timestamp; "
                f"{value!r} is not an ISO date or time"
            )
        return read
    fits = kind_of(value) is declared.kind
    if fits and declared.type == "integer":
        fits = INTEGERS.holds(value)
    if not fits:
        raise SchemaError(
            f"attribute {name!r} is declared as {declared.type}, but the event holds {value!r}"
        )
    return value


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(inner)
        or pa.types.is_large_string(inner)
        or pa.types.is_string_view(inner)
    )


def _fits(declared: _Declared, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    match declared.kind:
        case Kind.STRING:
            return _is_text(kind)
        case Kind.BOOLEAN:
            return bool(pa.types.is_boolean(kind))
        case Kind.TIMESTAMP:
            return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
        case Kind.NUMBER:
            is_integer = bool(pa.types.is_integer(kind))
            has_fractions = bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))
            return is_integer or (declared.type == "double" and has_fractions)


def _read_timestamps(name: str, column: pa.Array) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    encoded = pc.dictionary_encode(plain.cast(pa.large_string()))
    read = []
    for text in encoded.dictionary.to_pylist():
        stamp = _read_timestamp(text)
        if stamp is None:
            raise SchemaError(
                f"attribute {name!r} is declared as a timestamp; "
                f"{text!r} is not an ISO date or time"
            )
        read.append(stamp)
    return pa.array(read, pa.timestamp("us", "UTC")).take(encoded.indices)


def _check_whole(name: str, column: pa.Array) -> pa.Array:
    """Check that numbers are whole: pandas turns integers with gaps into doubles."""
    values = column if pa.types.is_decimal(column.type) else column.cast(pa.float64())
    broken = pc.fill_null(pc.not_equal(values, pc.floor(values)), False)
    if not pa.types.is_decimal(values.type):
        broken = pc.and_(broken, pc.invert(pc.fill_null(pc.is_nan(values), True)))
    if pc.any(broken).as_py():
        culprit = values.filter(broken)[0].as_py()
        raise SchemaError(
            f"attribute {name!r} is declared as integer, but the column holds {culprit!r}"
        )
    return column
