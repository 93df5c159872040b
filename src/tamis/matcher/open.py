"""Matchers that are stored in a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tamis.engines.registry import load_engine
from tamis.errors import StorageError
from tamis.expr.model import check_logic
from tamis.joins.retention import Retention
from tamis.matcher.matcher import Matcher
from tamis.matcher.schema import Schema
from tamis.matcher.storage.directory import create_directory, read_settings
from tamis.matcher.storage.document_file import read_documents
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store
from tamis.matcher.validity import Clock
from tamis.matcher.write.builder import SegmentBuilder

__all__ = ["open_matcher"]


def open_matcher(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    engine: str | None = None,
    logic: str | None = None,
    schema: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    sync: bool = True,
    verify: bool | Literal["background"] = "background",
    documents: Retention | None = None,
) -> Matcher:
    """Open rules that are stored in a directory; a new one is made if there is none.

    Whatever :meth:`Matcher.add`, :meth:`Matcher.add_many`, :meth:`Matcher.remove`,
    :meth:`Matcher.remove_many` and :meth:`Matcher.replace_all` do from then on is on the disk when
    they return. Files are mapped into memory, not read: a million rules are there at once.

    Parameters
    ----------
    path
        The directory. If it exists it has to hold stored rules: an empty one is an error.
    read_only
        Leave the directory as it is. Any number of processes may read while one writes; they see
        the rules as they were when they opened it, or at their last :meth:`Matcher.refresh`.
    engine
        Another engine than the stored one. It is built anew then.
    logic, schema
        As in :class:`Matcher`, for a new directory; of an existing one they must be the same.
    clock
        As in :class:`Matcher`.
    sync
        Whether a change waits until it is on the disk. Without that it survives the end of the
        process, but perhaps not that of the machine.
    verify
        When all files are compared with their checksums: ``True`` for now, ``"background"`` for
        soon, after which every call reports damage, ``False`` for never. Lengths, headers and logs
        are always checked now.
    documents
        How long :meth:`Matcher.publish` remembers events; by default as it was said before.

    Raises
    ------
    LockedError
        Another process writes to it.
    CorruptFileError
        A file is not as it was written; nothing was changed.
    StorageError
        It holds no stored rules, or ones of a newer format, or cannot be read or written.
    """
    folder = Path(path).absolute()
    if verify not in (True, False, "background"):
        raise ValueError(f"verify is True, False or 'background', not {verify!r}")
    if not folder.exists() and not read_only:
        name = load_engine(engine or "auto").name
        create_directory(folder, Settings(name, check_logic(logic or "strong"), dict(schema or {})))
    settings = read_settings(folder)
    _check_same(folder, "logic", logic, settings.logic)
    _check_same(folder, "schema", None if schema is None else dict(schema), settings.schema)
    builder = SegmentBuilder(load_engine(engine or settings.engine), Schema(settings.schema))
    store = Store(folder, builder, read_only=read_only, sync=sync, verify=verify is True)
    if verify is False:
        store.trust_files()
    retention = documents or _stored_retention(folder)
    return Matcher(
        builder.engine.name,
        settings.logic,
        settings.schema,
        clock,
        documents=retention,
        _store=store,
    )


def _stored_retention(folder: Path) -> Retention | None:
    state = read_documents(folder)
    return None if state is None else state.retention


def _check_same(folder: Path, what: str, given: object, stored: object) -> None:
    if given is not None and given != stored:
        raise StorageError(f"its {what} is {stored!r}, not {given!r}", path=str(folder))
