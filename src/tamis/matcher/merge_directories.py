"""Merges several directories of rules into one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.engines.registry import load_engine
from tamis.errors import StorageError
from tamis.matcher.inputs import split_events
from tamis.matcher.schema import Schema
from tamis.matcher.snapshot import View
from tamis.matcher.storage.directory import create_directory, read_settings
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store
from tamis.matcher.write.builder import SegmentBuilder

__all__ = ["merge_directories"]


def merge_directories(
    folders: Sequence[Path], path: Path, *, engine: str, sample: Any = None
) -> int:
    """Store the rules of several directories in a new one, and return how many there are.

    No rule is parsed again, so several processes may read rules and one may merge them. If they are
    stored for the engine ``"scan"``, which builds nothing, no engine is built twice.

    Parameters
    ----------
    folders
        Directories as :meth:`Matcher.save` writes them, with the same logic and schema. They have
        no ids in common.
    path
        A directory that does not exist.
    engine
        The engine of the new directory.
    sample
        As in :meth:`Matcher.optimize`.

    Raises
    ------
    StorageError
        A directory cannot be read or written, or their logics or schemas differ.
    """
    first = read_settings(folders[0])
    builder = SegmentBuilder(load_engine(engine), Schema(first.schema))
    views: list[View] = []
    for folder in folders:
        settings = read_settings(folder)
        if (settings.logic, settings.schema) != (first.logic, first.schema):
            raise StorageError(f"{folders[0]} has another logic or schema", path=str(folder))
        stored_builder = SegmentBuilder(load_engine(settings.engine), builder.schema)
        store = Store(folder, stored_builder, read_only=True, sync=False, verify=True)
        state = store.take_state()
        views += state.views
        if state.tail:
            views.append(View(stored_builder.freeze(state.tail)))
    chunks = [] if sample is None else list(split_events(sample))
    segment = builder.merge(views, chunks) if views else None
    create_directory(path, Settings(builder.engine.name, first.logic, first.schema), segment)
    return 0 if segment is None else len(segment)
