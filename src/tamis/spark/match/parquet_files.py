"""The Parquet files that a user names: files, folders, Delta tables, on disks and in buckets."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tamis.errors import InputFileError, MissingExtraError
from tamis.spark.index.layout import PathLike

__all__ = ["ParquetFiles", "list_files", "open_file"]

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_PARTITION = re.compile(r"([^=/]+)=[^/]*")


class ParquetFiles(NamedTuple):
    """Parquet files with the same columns."""

    addresses: list[str]
    """Absolute paths, or addresses such as ``s3://bucket/events/1.parquet``."""
    partitions: frozenset[str]
    """The columns that only the names of folders hold, and not the files."""


def list_files(files: PathLike | Sequence[PathLike]) -> ParquetFiles:
    """List all files, also those in folders, without the ones that Spark ignores.

    The files of a Delta table are those of its current version.

    Raises
    ------
    InputFileError
        There is no file, or a folder cannot be read as files alone.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: list[str] = []
    partitions: set[str] = set()
    for path in [os.fspath(each) for each in given]:
        inside, columns = _list_remote(path) if _is_remote(path) else _list_local(_to_path(path))
        found += inside
        partitions |= columns
    if not found:
        raise InputFileError(
            "there are no Parquet files", path=", ".join(map(str, given)) or "files"
        )
    return ParquetFiles(found, frozenset(partitions))


def open_file(address: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a Parquet file; the columns `dictionaries` stay encoded.

    Raises
    ------
    InputFileError
        There is no such file, or it is not a Parquet file.
    """
    options = {"read_dictionary": list(dictionaries)}
    try:
        if not _is_remote(address):
            return pq.ParquetFile(address, memory_map=True, **options)
        filesystem, path = pafs.FileSystem.from_uri(address)
        return pq.ParquetFile(filesystem.open_input_file(path), **options)
    except FileNotFoundError:
        raise InputFileError(
            "there is no such file; every node has to see it", path=address
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise InputFileError(f"not a Parquet file: {error}", path=address) from None


def _is_remote(path: str) -> bool:
    return _ADDRESS.match(path) is not None and not path.startswith("file:")


def _to_path(path: str) -> Path:
    """An absolute path: the folder of a worker is not that of the driver."""
    local = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
    return Path(local).absolute()


def _list_local(path: Path) -> tuple[list[str], set[str]]:
    if not path.is_dir():
        return [str(path)], set()
    if (path / "_delta_log").is_dir():
        return _list_delta(str(path))
    if any((path / "metadata").glob("*.metadata.json")):
        raise _refuse_table("an Iceberg", str(path))
    inside = [file.relative_to(path).as_posix() for file in path.rglob("*.parquet")]
    return [str(path / name) for name in _drop_ignored(inside)], _find_partitions(inside)


def _list_remote(address: str) -> tuple[list[str], set[str]]:
    """List what is at an address that PyArrow knows how to read."""
    try:
        filesystem, path = pafs.FileSystem.from_uri(address)
        info = filesystem.get_file_info(path)
        if info.type == pafs.FileType.File:
            return [address], set()
        inside = filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
    except FileNotFoundError:
        raise InputFileError("there is no such file or folder", path=address) from None
    except (OSError, pa.ArrowException) as error:
        raise InputFileError(f"it cannot be read: {error}", path=address) from None
    names = [each.path.removeprefix(path).lstrip("/") for each in inside]
    if any(name.startswith("_delta_log/") for name in names):
        return _list_delta(address)
    if any(re.fullmatch(r"metadata/[^/]*\.metadata\.json", name) for name in names):
        raise _refuse_table("an Iceberg", address)
    parquet = [name for name in names if name.endswith(".parquet")]
    # What follows a question mark are options of the file system, such as its endpoint.
    root, mark, options = address.partition("?")
    found = [f"{root.rstrip('/')}/{name}{mark}{options}" for name in _drop_ignored(parquet)]
    return found, _find_partitions(parquet)


def _list_delta(address: str) -> tuple[list[str], set[str]]:
    """The files of the current version of a Delta table; others hold rows that were deleted."""
    try:
        deltalake: Any = import_module("deltalake")
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"{address} is a Delta table; type: pip install 'tamis[delta]', "
            "or read it as a table of Spark, and pass that to match()"
        ) from None
    try:
        table = deltalake.DeltaTable(address)
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise _refuse_table("a Delta table with deletion vectors, not", address)
        uris = [uri.removeprefix("file://") for uri in table.file_uris()]
        return sorted(uris), set(table.metadata().partition_columns)
    except deltalake.exceptions.DeltaError as error:
        raise InputFileError(f"the Delta table cannot be read: {error}", path=address) from None


def _refuse_table(what: str, address: str) -> InputFileError:
    return InputFileError(
        f"this is {what} table, whose rows its files alone do not tell; "
        "read it as a table of Spark, and pass that to match()",
        path=address,
    )


def _drop_ignored(names: list[str]) -> list[str]:
    """The files that Spark reads: it ignores names that begin with ``_`` or ``.``."""
    return sorted(
        name
        for name in names
        if not any(part.startswith(("_", ".")) and "=" not in part for part in name.split("/"))
    )


def _find_partitions(names: list[str]) -> set[str]:
    """The columns that folders such as ``day=2026-01-01`` stand for."""
    folders = {part for name in names for part in name.split("/")[:-1]}
    return {found[1] for folder in folders if (found := _PARTITION.fullmatch(folder))}
