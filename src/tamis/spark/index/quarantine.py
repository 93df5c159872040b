"""The quarantine of a version: Parquet files with the refused rules and the reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamis.matcher.rule import OPTIONAL_FIELDS
from tamis.matcher.storage.atomic import storage_errors
from tamis.matcher.write.bad_rules import BadRule
from tamis.spark.index.layout import QUARANTINE, Place, Version, resolve_place
from tamis.spark.index.places import write_file
from tamis.spark.index.rows import ID, RULE, TAGS

__all__ = [
    "concat_refused",
    "gather_quarantine",
    "list_parts",
    "read_part",
    "select_refused",
    "show_examples",
    "write_part",
]

_ID_TYPES: Final = {"string": pa.string(), "long": pa.int64()}


def select_refused(rules: pa.Table, bad: list[BadRule]) -> pa.Table:
    """Select the refused among `rules` with all of their columns, and position and message.

    So a repaired table of them can be given to an update.
    """
    by_id = {each.id: each for each in bad}
    ids = pa.array(list(by_id), rules[ID].type)
    names = [name for name in (ID, RULE, *OPTIONAL_FIELDS) if name in rules.column_names]
    refused = rules.filter(pc.is_in(rules[ID], ids)).select(names)
    reasons = [by_id[id] for id in refused[ID].to_pylist()]
    return refused.append_column(
        "position", pa.array([each.position for each in reasons], pa.int64())
    ).append_column("message", pa.array([each.message for each in reasons], pa.string()))


def concat_refused(parts: list[pa.Table], id_type: str) -> pa.Table:
    """Put refused rules together; those of an older version may have fewer columns."""
    return pa.concat_tables([_align(part, id_type) for part in parts])


def write_part(path: Place, id_type: str, refused: pa.Table | None = None) -> None:
    """Write a file of refused rules; without any, a file without rows."""
    content = BytesIO()
    none = _schema(id_type).empty_table()
    pq.write_table(none if refused is None else _align(refused, id_type), content)
    write_file(path, content.getbuffer())


def read_part(path: Place) -> pa.Table:
    """Read a file of refused rules."""
    with storage_errors(path):
        return pq.read_table(pa.BufferReader(path.read_bytes()))


def _schema(id_type: str) -> pa.Schema:
    """The columns of the quarantine: what is not a list is a text, since it may be malformed."""
    optional = [
        (name, pa.list_(pa.string()) if name == TAGS else pa.string()) for name in OPTIONAL_FIELDS
    ]
    return pa.schema(
        [
            (ID, _ID_TYPES[id_type]),
            (RULE, pa.string()),
            *optional,
            ("position", pa.int64()),
            ("message", pa.string()),
        ]
    )


def _align(refused: pa.Table, id_type: str) -> pa.Table:
    """The same rules with all columns of the quarantine."""
    schema = _schema(id_type)
    columns = [
        refused[field.name].cast(field.type)
        if field.name in refused.column_names
        else pa.nulls(refused.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def list_parts(version: Version) -> Iterator[tuple[int, str]]:
    """List the shards of a version that have refused rules, each with its file."""
    names = {entry.name for entry in version.quarantine.iterdir()}
    for number in range(len(version.shards)):
        if _part_name(number) in names:
            yield number, os.fspath(version.quarantine / _part_name(number))


def gather_quarantine(
    folder: Place, id_type: str, new: Mapping[int, str], kept: Mapping[int, str]
) -> int:
    """Put the refused rules of all shards into one folder, and count them.

    Parameters
    ----------
    folder
        The folder of the version.
    id_type
        The type of the ids.
    new
        For each shard that was built, its file in `folder`; empty if it has no refused rules.
    kept
        For each shard that the parent shares, its file there.
    """
    quarantine, rows = folder / QUARANTINE, 0
    if isinstance(quarantine, Path):
        quarantine.mkdir()
    sources = {number: folder / name for number, name in new.items() if name}
    for number, source in {**sources, **{n: resolve_place(p) for n, p in kept.items()}}.items():
        with storage_errors(source):
            data = source.read_bytes()
        rows += int(pq.read_metadata(pa.BufferReader(data)).num_rows)
        # These files are small, and not every store has links or renames.
        write_file(quarantine / _part_name(number), data)
        if number in sources:
            source.unlink()
    if not rows:
        # A file without rows still gives readers the columns.
        write_part(quarantine / "part-none.parquet", id_type)
    return rows


def show_examples(folder: Place, count: int = 3) -> str:
    """Some refused rules of a version that is being written, and the reasons."""
    shown: list[str] = []
    for part in (folder / QUARANTINE).iterdir():
        rows = read_part(part).slice(0, count).to_pylist()
        shown += [f"{row[ID]!r}: {row['message']}" for row in rows]
    return "; ".join(shown[:count])


def _part_name(number: int) -> str:
    return f"part-{number:04d}.parquet"
