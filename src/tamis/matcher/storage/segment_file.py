"""Segments as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tamis.encode.serialize import from_arrays, to_arrays
from tamis.engines.base import Engine, Parts
from tamis.errors import CorruptFileError
from tamis.matcher.rule_columns import RuleColumns
from tamis.matcher.segment import Segment
from tamis.matcher.storage.array_file import Sections, map_sections, write_sections
from tamis.matcher.write.builder import Maker

__all__ = ["StoredSegment", "map_segment", "write_segment"]

_KIND = "segment"


class StoredSegment(NamedTuple):
    """A segment that was mapped from a file."""

    segment: Segment
    sections: Sections
    is_as_stored: bool
    """Whether nothing had to be built: the engine is the stored one."""

    def places(self, stored: NDArray[np.int32]) -> NDArray[np.int32]:
        """Where the rules stand that stand at these places in the file."""
        if self.is_as_stored:
            return stored
        return self.segment.places_of(self.sections.arrays["order"][stored])


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment, its engine included."""
    engine = segment.engine
    arrays = {
        **{f"rules.{name}": array for name, array in to_arrays(engine.rules).items()},
        **{f"engine.{name}": array for name, array in _flat(engine.arrays).items()},
        **{f"records.{name}": array for name, array in segment.columns.arrays().items()},
        "order": engine.order,
    }
    write_sections(path, _KIND, {"engine": engine.name, "rules": len(segment)}, arrays)


def map_segment(path: Path, maker: Maker, verify: bool = False) -> StoredSegment:
    """Map a segment from its file; its engine is built anew only if it is another one's.

    Raises
    ------
    CorruptFileError
        The file is not as it was written.
    """
    sections = map_sections(path, _KIND)
    if verify:
        sections.verify()
    try:
        rules = from_arrays(sections.group("rules"))
        columns = RuleColumns.of_arrays(sections.group("records"))
        order = sections.arrays["order"]
        arrays = _own_arrays(maker.engine, sections)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise CorruptFileError(
            f"the file is damaged: its parts do not fit together ({error!r})", path=str(path)
        ) from error
    if arrays is not None:
        engine = maker.engine(rules, Parts(rules, order, arrays))
        return StoredSegment(Segment(columns, engine, maker.schema), sections, True)
    return StoredSegment(maker.rebuilt(columns, rules, order), sections, False)


def _own_arrays(engine: type[Engine], sections: Sections) -> tuple[Any, ...] | None:
    """The stored arrays of `engine`; None if they are another one's, or of an older layout."""
    if sections.about["engine"] != engine.name:
        return None
    try:
        return _restored(engine.arrays_type, sections.group("engine"))
    except KeyError:
        return None


def _flat(arrays: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """A NamedTuple of arrays, numbers and such NamedTuples as named arrays."""
    flat: dict[str, NDArray[Any]] = {}
    fields: dict[str, Any] = arrays._asdict() if hasattr(arrays, "_asdict") else {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            flat |= {f"{name}.{inner}": array for inner, array in _flat(value).items()}
        else:
            flat[name] = np.asarray(value)
    return flat


def _restored(kind: type[tuple[Any, ...]], flat: dict[str, NDArray[Any]]) -> tuple[Any, ...]:
    """The NamedTuple of type `kind` that `_flat` took apart."""
    values: list[Any] = []
    for name, hint in get_type_hints(kind).items() if hasattr(kind, "_fields") else ():
        if isinstance(hint, type) and issubclass(hint, tuple):
            prefix = f"{name}."
            inner = {
                full.removeprefix(prefix): array
                for full, array in flat.items()
                if full.startswith(prefix)
            }
            values.append(_restored(hint, inner))
        else:
            value = flat[name]
            values.append(value if value.ndim else value.item())
    return kind(*values)
