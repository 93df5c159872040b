"""The events of a file of the log as Arrow columns, beside the file, for backtests.

A file that has ended never changes, so its events can be written once more in a form that a million
of them are matched from in a second. The columns are not needed for anything else: if they are
missing, events are read from the log itself.

A column has values of one kind, scalars or lists. An event that does not fit (its price is a text,
where others have numbers) is left out and read from the log. Integers become doubles where a column
has both; `MIXED` says so, because a function may tell them apart.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.encode.arrow_arrays import to_numpy
from tamis.errors import GoneError, TamisError
from tamis.expr.event import FlatEvent, flatten, has_unreadable, list_sizes
from tamis.matcher.analysis.backtest import PastChunk
from tamis.matcher.storage.atomic import write_atomically
from tamis.pubsub.log.log_files import SIDE, LogFile
from tamis.pubsub.log.records import EventRecord

if TYPE_CHECKING:
    from tamis.pubsub.log.event_log import EventLog

__all__ = ["ColumnWriter", "PastLog", "write_columns"]

_SEQUENCE: Final = "\x01sequence"
_TIME: Final = "\x01time"
"""Names that no attribute has."""

_MIXED: Final = b"tamis.mixed"
_LENGTH: Final = b"tamis.length"
"""Keys of the metadata: the columns with integers among doubles; the length of the log's file."""

_MOST_COLUMNS: Final = 1_000
_EXACT: Final = 2**53
"""Smaller integers are exact as doubles."""

_ROWS: Final = 8_192
_BLOCK: Final = 500
"""After this number of events, other threads get a turn."""

_TYPES: Final = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "time": pa.timestamp("us", "UTC"),
}


class PastLog:
    """The events of a log as a backtest reads them.

    Parameters
    ----------
    log
        The log.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def read_chunks(self, attributes: frozenset[str], exact: frozenset[str]) -> Iterator[PastChunk]:
        """Read all events; see `tamis.matcher.analysis.backtest.PastEvents`."""
        latest = self._log.latest
        for file in self._log.files:
            if file.first > latest:
                break
            # Of a file that retention removes meanwhile, the rest is left out.
            with suppress(GoneError):
                yield from self._read_file(file, latest, attributes, exact)

    def _read_file(
        self, file: LogFile, latest: int, attributes: frozenset[str], exact: frozenset[str]
    ) -> Iterator[PastChunk]:
        stored = _map_columns(file, exact) if attributes else None
        if stored is not None:
            yield from self._read_stored(file, stored, attributes)
        else:
            last = self._log.read_index(file).following - 1
            yield from self._read_rows(range(file.first, min(last, latest) + 1))

    def _read_stored(
        self, file: LogFile, stored: pa.Table, attributes: frozenset[str]
    ) -> Iterator[PastChunk]:
        numbers = to_numpy(stored[_SEQUENCE])
        names = [name for name in stored.column_names if name in attributes]
        if not names:
            # A table without columns has no rows.
            names = [_SEQUENCE]
        (batch,) = stored.select(names).combine_chunks().to_batches() or [None]
        if batch is not None:
            yield PastChunk(
                batch,
                numbers,
                to_numpy(stored[_TIME]),
                lambda place: self._log.find(int(numbers[place])).event,
            )
        following = int((stored.schema.metadata or {})[b"tamis.following"])
        left = np.setdiff1d(np.arange(file.first, following), numbers, assume_unique=True)
        yield from self._read_rows(left.tolist())

    def _read_rows(self, sequences: Sequence[int]) -> Iterator[PastChunk]:
        for start in range(0, len(sequences), _ROWS):
            some = sequences[start : start + _ROWS]
            records = self._log.read_deliveries(some)
            yield PastChunk(
                [record.event for record in records],
                np.fromiter(some, np.int64),
                np.fromiter((record.time for record in records), np.int64),
            )


def _map_columns(file: LogFile, exact: frozenset[str]) -> pa.Table | None:
    """The columns of a file; None if there are none that may be used."""
    path = file.path.with_name(file.path.name + SIDE)
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        metadata = table.schema.metadata or {}
        if int(metadata[_LENGTH]) != file.path.stat().st_size:
            return None
        mixed = set(metadata[_MIXED].decode().split("\x00"))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError):
        return None
    return None if mixed & exact else table


def write_columns(log: EventLog, file: LogFile) -> bool:
    """Write the columns of a file that has ended, unless it has them; returns whether it did.

    Raises
    ------
    StorageError
        They cannot be written.
    """
    path = file.path.with_name(file.path.name + SIDE)
    if path.exists():
        return False
    index = log.read_index(file)
    records = log.read_deliveries(range(file.first, index.following))
    table = _build_table(records)
    if table is None:
        return False
    length = file.path.stat().st_size
    metadata = {
        **(table.schema.metadata or {}),
        _LENGTH: str(length).encode(),
        b"tamis.following": str(index.following).encode(),
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table)
    write_atomically(path, [memoryview(sink.getvalue())])
    return True


def _build_table(records: list[EventRecord]) -> pa.Table | None:
    """The events that fit, as columns; None if there are too many columns."""
    flats = list(_flatten(records))
    signatures: dict[str, Counter[tuple[str, bool]]] = {}
    for flat in flats:
        for name, signature in _sign(flat):
            signatures.setdefault(name, Counter())[signature] += 1
    if len(signatures) > _MOST_COLUMNS:
        return None
    chosen = {name: _choose(counts) for name, counts in signatures.items()}
    fitting = [
        place
        for place, flat in enumerate(flats)
        if not has_unreadable(flat)
        and all(_fits(chosen[name], signature) for name, signature in _sign(flat))
    ]
    mixed = [
        name
        for name, (kind, _) in chosen.items()
        if kind == "double" and any(one[0] == "integer" for one in signatures[name])
    ]
    columns: dict[str, Any] = {
        _SEQUENCE: pa.array([records[place].sequence for place in fitting], pa.int64()),
        _TIME: pa.array([records[place].time for place in fitting], pa.int64()),
    }
    for name, (kind, is_list) in chosen.items():
        columns[name] = _build_column([flats[place].get(name) for place in fitting], kind, is_list)
    metadata = {_MIXED: "\x00".join(mixed).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def _flatten(records: list[EventRecord]) -> Iterator[FlatEvent]:
    for number, record in enumerate(records):
        if number % _BLOCK == 0:
            # This is background work.
            time.sleep(0.0005)
        yield flatten(record.event)


def _sign(flat: FlatEvent) -> Iterator[tuple[str, tuple[str, bool]]]:
    """The kind of each attribute's values, and whether they are a list."""
    sizes = list_sizes(flat)
    for name, values in flat.items():
        kinds = {_kind(value) for value in values}
        if kinds == {"integer", "double"}:
            kinds = {"double"}
        size = sizes.get(name)
        is_plain = len(kinds) == 1 and (len(values) == 1 if size is None else size == len(values))
        yield name, (kinds.pop() if is_plain else "other", size is not None)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -_EXACT < value < _EXACT else "other"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "string"
    return "time" if isinstance(value, datetime) else "other"


def _choose(counts: Counter[tuple[str, bool]]) -> tuple[str, bool]:
    """The most frequent kind of an attribute, where integers count as doubles if it has both."""
    kinds = Counter(counts)
    for is_list in (False, True):
        if kinds["double", is_list]:
            kinds["double", is_list] += kinds.pop(("integer", is_list), 0)
    kinds.pop(("other", False), None)
    kinds.pop(("other", True), None)
    return kinds.most_common(1)[0][0] if any(kinds.values()) else ("string", False)


def _fits(chosen: tuple[str, bool], signature: tuple[str, bool]) -> bool:
    kind, is_list = signature
    return signature == chosen or (kind == "integer" and chosen == ("double", is_list))


def _build_column(values: list[list[Any] | None], kind: str, is_list: bool) -> pa.Array:
    type_ = _TYPES[kind]
    if is_list:
        if kind == "double":
            values = [None if v is None else [float(x) for x in v] for v in values]
        return pa.array(values, pa.list_(type_))
    flat = [None if v is None else v[0] for v in values]
    if kind == "double":
        flat = [None if x is None else float(x) for x in flat]
    column = pa.array(flat, type_)
    if kind == "string" and len(column):
        coded = pc.dictionary_encode(column)
        if len(coded.dictionary) <= len(column) // 4:
            return coded
    return column


class ColumnWriter:
    """Writes the columns of files that have ended, in a thread of its own.

    Parameters
    ----------
    log
        The log.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._is_due = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.wake()

    def wake(self) -> None:
        """A file may have ended."""
        if len(self._log.files) > 1 and not self._is_closed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tamis-columns", daemon=True)
                self._thread.start()
            self._is_due.set()

    def close(self) -> None:
        """Write no more."""
        self._is_closed = True
        self._is_due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            self._is_due.wait()
            self._is_due.clear()
            self._write_missing()

    def _write_missing(self) -> None:
        for file in self._log.files[:-1]:
            # The disk may be full, or retention may have removed the file.
            with suppress(TamisError, OSError, pa.ArrowException):
                if not self._is_closed:
                    write_columns(self._log, file)
