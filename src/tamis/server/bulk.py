"""Many rules or events in one body: JSON lines or an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import IO, Any, Final

import msgspec
import pyarrow as pa

from tamis.files import rule_to_json
from tamis.matcher.rule import Rule
from tamis.server.operation import Bulk, Call
from tamis.server.problems import ProblemError
from tamis.wire.media import ARROW, JSON_LINES

__all__ = [
    "choose_media",
    "encode_json_lines",
    "encode_table",
    "read_items",
    "read_lines",
    "write_rules",
    "write_rules_table",
]

_ROWS: Final = 10_000
_PIECE: Final = 1 << 20
"""An Arrow stream is sent in pieces of about this many bytes."""
_decode = msgspec.json.Decoder().decode
_encoder = msgspec.json.Encoder()


def read_lines(file: IO[bytes], most: int) -> list[dict[str, Any]]:
    """The objects of JSON lines; empty lines count as none.

    Raises
    ------
    ProblemError
        A line is not an object (400), or there are too many (413).
    """
    objects: list[dict[str, Any]] = []
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        try:
            found = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
            raise ProblemError(
                400, "malformed-body", f"line {number} is not JSON: {reason}"
            ) from None
        if not isinstance(found, dict):
            raise ProblemError(400, "malformed-body", f"line {number} is not a JSON object")
        objects.append(found)
        if len(objects) > most:
            _refuse_count(most)
    return objects


def read_table(file: IO[bytes], most: int) -> pa.Table:
    """The table of an Arrow stream.

    Raises
    ------
    ProblemError
        It is not one (400), or it has too many rows (413).
    """
    batches: list[pa.RecordBatch] = []
    rows = 0
    try:
        with pa.ipc.open_stream(file) as stream:
            schema = stream.schema
            for batch in stream:
                batch.validate(full=True)
                rows += batch.num_rows
                if rows > most:
                    _refuse_count(most)
                batches.append(batch)
            return pa.Table.from_batches(batches, schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProblemError(
            400, "malformed-body", f"the body is not an Arrow stream: {_first_line(error)}"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def _refuse_count(most: int) -> None:
    raise ProblemError(
        413,
        "batch-too-large",
        f"the body has more than {most:,} rules or events; send fewer at once",
        limit=most,
    )


def read_items(bulk: Bulk, most: int) -> Any:
    """The rules or events of a body, in a form that a matcher takes."""
    read: Callable[[IO[bytes], int], Any] = read_table if bulk.media == ARROW else read_lines
    return read(bulk.file, most)


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
