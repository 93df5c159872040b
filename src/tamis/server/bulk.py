"""Many rules or events in one body: JSON lines or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from io import BytesIO
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

import msgspec
import pyarrow as pa

from tamis.deadline import check_time
from tamis.files import rule_to_json
from tamis.matcher.inputs import EventChunk
from tamis.matcher.rule import Rule
from tamis.server.arrow_stream import measure_stream
from tamis.server.operation import Bulk, Call
from tamis.server.problems import ProblemError
from tamis.server.settings import ServerLimits
from tamis.wire.media import ARROW, JSON_LINES

__all__ = [
    "BulkReader",
    "choose_media",
    "encode_json_lines",
    "encode_table",
    "spool_answer",
    "write_rules",
    "write_rules_table",
]

_ROWS: Final = 10_000

_OBJECTS: Final = 8_192
_TEXT: Final = 1 << 20
"""At most so many lines, of about so many bytes, are objects at a time: an object takes up to 25
times the memory of its text."""

_IN_MEMORY: Final = 8 << 20
"""Longer answers about many events go to a file."""

_PIECE: Final = 1 << 20
"""An Arrow stream is sent in pieces of about this many bytes."""
_decode = msgspec.json.Decoder().decode
_encoder = msgspec.json.Encoder()


class BulkReader:
    """Reads the rules or events of a body in pieces of bounded size.

    Parameters
    ----------
    bulk
        The body.
    limits
        How many there may be, and how long a line.
    """

    def __init__(self, bulk: Bulk, limits: ServerLimits) -> None:
        self._media = bulk.media
        self._file = bulk.file
        self._most = limits.batch
        self._longest = limits.body
        self._most_bytes = limits.bulk_body
        self._count = 0

    def chunks(self) -> Iterator[EventChunk]:
        """The objects of the lines, or the rows of an Arrow stream, a few at a time.

        Raises
        ------
        ProblemError
            They cannot be read (400), or they are too many (413).
        """
        return self._batches() if self._media == ARROW else self.objects()

    def rules(self) -> Iterable[Any]:
        """The rules, in a form that a matcher takes."""
        if self._media == ARROW:
            batches = self._batches()
            first = next(batches, None)
            if first is None:
                return ()
            rows: Iterable[Any] = pa.RecordBatchReader.from_batches(
                first.schema, chain([first], batches)
            )
            return rows
        return chain.from_iterable(self.objects())

    def objects(self) -> Iterator[list[Any]]:
        """The objects of JSON lines, some at a time; empty lines count as none."""
        objects: list[dict[str, Any]] = []
        size = number = 0
        self._count = 0
        while line := self._file.readline(self._longest + 1):
            number += 1
            if len(line) > self._longest:
                _refuse_line(number, self._longest)
            if line.isspace():
                continue
            objects.append(_read_object(line, number))
            self._add(1)
            size += len(line)
            if size >= _TEXT or len(objects) == _OBJECTS:
                yield objects
                objects, size = [], 0
        if objects:
            yield objects

    def rewind(self) -> None:
        """Read the body from its beginning again."""
        self._file.seek(0)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self._count = 0
        try:
            self._check_size()
            with pa.ipc.open_stream(self._file) as stream:
                for batch in stream:
                    batch.validate(full=True)
                    self._add(batch.num_rows)
                    for start in range(0, batch.num_rows, _ROWS):
                        yield batch.slice(start, _ROWS)
                    if not batch.num_rows:
                        yield batch
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ProblemError(
                400, "malformed-body", f"the body is not an Arrow stream: {_first_line(error)}"
            ) from None

    def _check_size(self) -> None:
        """Refuse a stream whose compressed buffers become too large."""
        size = 0
        for some in measure_stream(self._file):
            check_time()
            size += some
            if size > self._most_bytes:
                raise ProblemError(
                    413,
                    "body-too-large",
                    f"the body unpacks to more than {self._most_bytes:,} bytes; send less at once",
                    limit=self._most_bytes,
                )
        self.rewind()

    def _add(self, count: int) -> None:
        check_time()
        self._count += count
        if self._count > self._most:
            raise ProblemError(
                413,
                "batch-too-large",
                f"the body has more than {self._most:,} rules or events; send fewer at once",
                limit=self._most,
            )


def _read_object(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ProblemError(400, "malformed-body", f"line {number} is not JSON: {reason}") from None
    if not isinstance(found, dict):
        raise ProblemError(400, "malformed-body", f"line {number} is not a JSON object")
    return found


def _refuse_line(number: int, longest: int) -> None:
    raise ProblemError(
        413,
        "line-too-long",
        f"line {number} has more than {longest:,} bytes, the limit of a body",
        limit=longest,
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def spool_answer(batches: pa.RecordBatchReader, media: str, most: int) -> Iterator[bytes]:
    """Compute all answers into a temporary file, and return an iterator over its pieces.

    So an error in the last one still gets its own status.

    Raises
    ------
    ProblemError
        They have more than `most` bytes (413).
    """
    pieces = encode_table(batches, batches.schema) if media == ARROW else encode_json_lines(batches)
    file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # `_drain` closes it
    try:
        size = 0
        for piece in pieces:
            check_time()
            size += len(piece)
            if size > most:
                raise ProblemError(
                    413,
                    "answer-too-large",
                    f"the answer has more than {most:,} bytes; send fewer events at once",
                    limit=most,
                )
            file.write(piece)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return _drain(file)


def _drain(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, _PIECE), b"")


def choose_media(call: Call, default: str = JSON_LINES) -> str:
    """The media type that the client wants: JSON lines or an Arrow stream.

    Raises
    ------
    ProblemError
        It wants neither (406).
    """
    accept = (call.header(b"accept") or "*/*").lower()
    names = [name.partition(";")[0].strip() for name in accept.split(",")]
    for name in names:
        if name in (ARROW, JSON_LINES):
            return name
        if name in ("application/x-ndjson", "application/ndjson"):
            return JSON_LINES
        if name in ("*/*", "application/*"):
            return default
    raise ProblemError(406, "not-acceptable", f"the answer is {JSON_LINES} or {ARROW}")


def encode_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Batches as the pieces of an Arrow stream."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
            if sink.tell() > _PIECE:
                # Every message ends at a multiple of 8 bytes, so the next may begin at 0.
                yield _take(sink)
    yield _take(sink)


def _take(sink: BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def encode_json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Batches as JSON lines, one for each row."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield _encoder.encode_lines(batch.slice(start, _ROWS).to_pylist())


def write_rules(rules: Iterable[Rule]) -> Iterator[bytes]:
    """Rules as JSON lines with all their fields."""
    block: list[dict[str, Any]] = []
    for rule in rules:
        block.append(rule_to_json(rule))
        if len(block) == _ROWS:
            yield _encoder.encode_lines(block)
            block = []
    yield _encoder.encode_lines(block)


def write_rules_table(rules: Iterable[Rule]) -> Iterator[bytes]:
    """Rules as an Arrow stream with all their fields; weights and payload are JSON texts.

    Raises
    ------
    ProblemError
        Some ids are texts and some are integers, which one column cannot hold (409).
    """
    remaining = iter(rules)
    first = list(islice(remaining, 1))
    has_numbers = bool(first) and isinstance(first[0].id, int)
    fields = [pa.field("id", pa.int64() if has_numbers else pa.string()), *_RULE_FIELDS]
    schema = pa.schema(fields)
    blocks = chain([first], iter(lambda: list(islice(remaining, _ROWS)), []))
    yield from encode_table((_rule_batch(block, schema) for block in blocks), schema)


_RULE_FIELDS: Final = [
    pa.field("rule", pa.string()),
    pa.field("logic", pa.string()),
    pa.field("weights", pa.string()),
    pa.field("payload", pa.string()),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("priority", pa.int64()),
    pa.field("valid_from", pa.timestamp("us", "UTC")),
    pa.field("valid_until", pa.timestamp("us", "UTC")),
    pa.field("subscription", pa.string()),
]


def _rule_batch(rules: list[Rule], schema: pa.Schema) -> pa.RecordBatch:
    rows = []
    for rule in rules:
        fields = rule_to_json(rule)
        rows.append(
            {
                "id": rule.id,
                "rule": rule.text,
                "logic": rule.logic,
                "weights": _to_text(fields.get("weights")),
                "payload": _to_text(rule.payload),
                "tags": sorted(rule.tags),
                "priority": rule.priority,
                "valid_from": rule.valid_from,
                "valid_until": rule.valid_until,
                "subscription": rule.subscription,
            }
        )
    try:
        return pa.RecordBatch.from_pylist(rows, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise ProblemError(
            409, "mixed-ids", f"some ids are texts and some integers; ask for {JSON_LINES}"
        ) from None


def _to_text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
