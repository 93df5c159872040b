"""Opens a matcher that is stored in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tamis.engines.registry import load_engine
from tamis.errors import StorageError
from tamis.expr.model import check_logic
from tamis.joins.retention import Retention
from tamis.limits import Limits
from tamis.matcher.matcher import Matcher
from tamis.matcher.published.address import is_address, resolve_place
from tamis.matcher.published.layout import is_published
from tamis.matcher.schema import Schema
from tamis.matcher.storage.directory import create_directory, is_index, read_settings
from tamis.matcher.storage.document_file import read_documents
from tamis.matcher.storage.manifest import Settings, draw_identity
from tamis.matcher.storage.store import Store
from tamis.matcher.validity import Clock
from tamis.matcher.write.builder import SegmentBuilder

if TYPE_CHECKING:
    from tamis.matcher.analysis.ratify import Difference

__all__ = ["open_matcher", "open_stored"]


def open_matcher(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    engine: str | None = None,
    logic: str | None = None,
    schema: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    sync: bool = True,
    verify: bool = True,
    documents: Retention | None = None,
    limits: Limits | None = None,
    ratify: Literal["continuous"] | None = None,
    budget: float = 0.01,
    on_difference: Callable[[Difference], None] | None = None,
) -> Matcher:
    """Open the rules that are stored in a directory, or create the directory.

    Every change by :meth:`Matcher.add`, :meth:`Matcher.remove` and their relatives is on the disk
    when the call returns. Files are mapped into memory and checked, not parsed: a million rules
    open in a fraction of a second.

    Parameters
    ----------
    path
        The directory. If it exists, it has to contain stored rules; an empty one is an error.
        With `read_only` it may be an index that :func:`tamis.spark.build` has published, also in
        a bucket: ``"s3://bucket/index"``. Then its current version is opened.
    read_only
        Whether to leave the directory unchanged. Any number of processes may read while one
        writes; they see the rules as of their opening, or of their last :meth:`Matcher.refresh`.
    engine
        An engine other than the stored one; its index is then built anew.
    logic, schema
        As in :class:`Matcher`, for a new directory. For an existing one they must be the same.
    clock
        As in :class:`Matcher`.
    sync
        Whether each change waits until it is on the disk. Otherwise it survives a crash of the
        process, but perhaps not one of the machine.
    verify
        Whether to compare all files with their checksums, and to check that their contents fit
        together. Without this, a damaged file may give wrong answers or end the process. Lengths,
        headers and logs are always checked; a log from whose end acknowledged changes are missing
        is refused, and opened with a warning without this.
    documents
        How long :meth:`Matcher.publish` remembers events; by default as stored.
    limits
        As in :class:`Matcher`. Rules that are stored already are taken as they are.
    ratify, budget, on_difference
        As in :class:`Matcher`.

    Returns
    -------
    Matcher
        Close it, or use it in a ``with`` statement, to let other processes write.

    Raises
    ------
    LockedError
        Another process writes to the directory.
    CorruptFileError
        A file is damaged; nothing was changed.
    StorageError
        The directory has no stored rules, or rules of a newer format, or cannot be read or written.

    Examples
    --------
    >>> import tamis, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with tamis.open(f"{folder}/rules") as m:
    ...         m.add("adults", "age >= 18")
    ...     with tamis.open(f"{folder}/rules", read_only=True) as m:
    ...         print(m.match({"age": 30}))
    ['adults']
    """
    place = resolve_place(path) if is_address(path) else Path(path)
    open_folder = partial(
        open_stored,
        read_only=read_only,
        engine=engine,
        logic=logic,
        schema=schema,
        clock=clock,
        sync=sync,
        verify=verify,
        documents=documents,
        limits=limits,
        ratify=ratify,
        budget=budget,
        on_difference=on_difference,
    )
    if isinstance(place, Path) and not (read_only and is_published(place)):
        return open_folder(path)
    if not read_only:
        raise StorageError(
            "a published index is never changed; pass read_only=True, or publish a version of it "
            "with tamis.spark.update",
            path=str(place),
        )
    from tamis.matcher.published.open import open_published

    return open_published(place, open_folder)


def open_stored(
    path: str | os.PathLike[str],
    *,
    read_only: bool,
    engine: str | None,
    logic: str | None,
    schema: Mapping[str, str] | None,
    clock: Clock | None,
    sync: bool,
    verify: bool,
    documents: Retention | None,
    limits: Limits | None,
    keeps_documents: bool = True,
    ratify: Literal["continuous"] | None = None,
    budget: float = 0.01,
    on_difference: Callable[[Difference], None] | None = None,
) -> Matcher:
    """As `open_matcher`; `keeps_documents` says whether the directory has the documents, too."""
    folder = Path(path).absolute()
    if verify not in (True, False):
        raise ValueError(f"verify is True or False, not {verify!r}")
    if not folder.exists() and not read_only:
        name = load_engine(engine or "auto").name
        first = Settings(name, check_logic(logic or "strong"), Schema(schema or {}).types)
        try:
            create_directory(folder, first, identity=draw_identity())
        except StorageError:
            # Another process may have created it at the same time.
            if not is_index(folder):
                raise
    settings = read_settings(folder)
    _check_same(folder, "logic", logic, settings.logic)
    _check_same(folder, "schema", None if schema is None else Schema(schema).types, settings.schema)
    builder = SegmentBuilder(load_engine(engine or settings.engine), Schema(settings.schema))
    store = Store(folder, builder, read_only=read_only, sync=sync, verify=verify)
    try:
        return Matcher(
            builder.engine.name,
            settings.logic,
            settings.schema,
            clock,
            documents=documents or _read_retention(folder, verify),
            limits=limits,
            ratify=ratify,
            budget=budget,
            on_difference=on_difference,
            _store=store,
            _keeps_documents=keeps_documents,
        )
    except BaseException:
        # The traceback keeps the store alive, and with it the lock.
        store.close(None)
        raise


def _read_retention(folder: Path, verify: bool) -> Retention | None:
    state = read_documents(folder, accept_loss=not verify)
    return None if state is None else state.retention


def _check_same(folder: Path, what: str, given: object, stored: object) -> None:
    if given is not None and given != stored:
        raise StorageError(f"its {what} is {stored!r}, not {given!r}", path=str(folder))
