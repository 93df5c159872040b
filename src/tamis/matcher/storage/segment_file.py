"""Segments as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import ArrayError, check_order, check_type, read_hints
from tamis.encode.merge.rules import merge_rules
from tamis.encode.rules import EncodedRules
from tamis.encode.serialize import from_arrays, to_arrays
from tamis.engines.base import Engine, Parts
from tamis.errors import CorruptFileError, TamisError
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.schema import Schema
from tamis.matcher.segment import Segment
from tamis.matcher.storage.array_file import Sections, map_sections, select_group, write_sections

__all__ = ["StoredSegment", "map_segment", "write_segment"]

_KIND: Final = "segment"


class StoredSegment(NamedTuple):
    """A segment that was mapped from a file."""

    segment: Segment
    is_as_stored: bool
    """Whether the engine was stored; otherwise it was built, and rules may stand elsewhere."""
    order: NDArray[np.int32]
    """The age of each rule by its place in the file."""

    def places(self, stored: NDArray[np.int32]) -> NDArray[np.int32]:
        """The places in the segment of rules given by their places in the file."""
        if self.is_as_stored:
            return stored
        return self.segment.places_of(self.order[stored])


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment with its engine."""
    engine = segment.engine
    arrays = {
        **{f"rules.{name}": array for name, array in to_arrays(engine.rules).items()},
        **{f"engine.{name}": array for name, array in _flatten(engine.arrays).items()},
        **{f"records.{name}": array for name, array in segment.columns.arrays().items()},
        "order": engine.order,
    }
    write_sections(path, _KIND, {"engine": engine.name, "rules": len(segment)}, arrays)


def map_segment(path: Path, engine: type[Engine], schema: Schema, verify: bool) -> StoredSegment:
    """Map a segment from its file.

    `engine` is built only if neither it nor one of its variants was stored.

    Parameters
    ----------
    path
        The file.
    engine, schema
        Those of the segment.
    verify
        Whether to compare the file with its checksums and to check that its arrays fit together,
        so that no kernel can leave them. Otherwise the file is trusted.

    Raises
    ------
    CorruptFileError
        The file is damaged.
    """
    sections = map_sections(path, _KIND, verify=verify)
    try:
        return _restore(sections, engine, schema, verify)
    # No other error: an IndexError in a check is a defect of the check, not of the file.
    except (ArrayError, TamisError) as error:
        raise CorruptFileError(
            f"the file is damaged: its parts do not fit together ({error})", path=str(path)
        ) from error


def _restore(
    sections: Sections, engine: type[Engine], schema: Schema, check: bool
) -> StoredSegment:
    order = sections.arrays["order"]
    if check:
        check_type("order", order, np.int32)
        check_order("order", order)
    rules = from_arrays(sections.group("rules"), len(order) if check else None)
    columns = RuleColumns.of_arrays(sections.group("records"))
    if check:
        columns.check(len(order))
    kind, arrays = _read_engine(engine, sections)
    if arrays is not None and check:
        arrays = _check_engine_arrays(kind, rules, arrays)
    if arrays is not None:
        stored = kind(rules, Parts(rules, order, arrays))
        return StoredSegment(Segment(columns, stored, schema), True, order)
    return StoredSegment(_rebuild(columns, rules, order, engine, schema), False, order)


def _check_engine_arrays(
    engine: type[Engine], rules: EncodedRules, arrays: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """The arrays, once checked; None if they cannot be."""
    if engine.check_arrays is None:
        return None
    engine.check_arrays(rules, arrays)
    return arrays


def _rebuild(
    columns: RuleColumns,
    rules: EncodedRules,
    order: NDArray[np.int32],
    engine: type[Engine],
    schema: Schema,
) -> Segment:
    """Build a segment from rules that another engine has laid out in its own `order`."""
    places = np.argsort(order).astype(np.int32)
    if not np.array_equal(places, np.arange(len(places))):
        columns, rules = columns.take(places), merge_rules([(rules, places)])
    return Segment.build(columns, rules, engine, schema)


def _read_engine(
    engine: type[Engine], sections: Sections
) -> tuple[type[Engine], tuple[Any, ...] | None]:
    """The stored engine, `engine` or a variant, and its arrays.

    None in place of arrays if it is another one, or they have an older layout.
    """
    for kind in (engine, *engine.variants):
        if sections.about.get("engine") == kind.name:
            try:
                return kind, _unflatten(kind.arrays_type, sections.group("engine"))
            except ArrayError:
                break
    return engine, None


def _flatten(arrays: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """The arrays and numbers of nested NamedTuples as arrays with dotted names."""
    flat: dict[str, NDArray[Any]] = {}
    fields: dict[str, Any] = arrays._asdict() if hasattr(arrays, "_asdict") else {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            flat |= {f"{name}.{inner}": array for inner, array in _flatten(value).items()}
        else:
            flat[name] = np.asarray(value)
    return flat


def _unflatten(kind: type[tuple[Any, ...]], flat: dict[str, NDArray[Any]]) -> tuple[Any, ...]:
    """The NamedTuple of type `kind` that `_flatten` took apart."""
    values: list[Any] = []
    for name, hint in read_hints(kind).items() if hasattr(kind, "_fields") else ():
        if isinstance(hint, type) and issubclass(hint, tuple):
            values.append(_unflatten(hint, select_group(flat, name)))
        else:
            value = flat[name]
            values.append(value if value.ndim else value.item())
    return kind(*values)
