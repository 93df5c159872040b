"""One directory of rules out of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.engines.registry import load_engine
from tamis.errors import StorageError
from tamis.matcher.inputs import event_chunks
from tamis.matcher.schema import Schema
from tamis.matcher.snapshot import View
from tamis.matcher.storage.manifest import Settings
from tamis.matcher.storage.store import Store, create, settings_of
from tamis.matcher.write.builder import Maker

__all__ = ["join"]


def join(folders: Sequence[Path], path: Path, *, engine: str, sample: Any = None) -> int:
    """Store the rules of several directories in a new one, and return how many there are.

    No rule is parsed again, so rules may be read by several processes and brought together by one.
    If they are stored for the engine ``"scan"``, which builds nothing, nothing is built twice.

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
        A directory cannot be read or written, or they do not go together.
    """
    first = settings_of(folders[0])
    maker = Maker(load_engine(engine), Schema(first.schema))
    views: list[View] = []
    for folder in folders:
        settings = settings_of(folder)
        if (settings.logic, settings.schema) != (first.logic, first.schema):
            raise StorageError(f"{folders[0]} has another logic or schema", path=str(folder))
        reader = Maker(load_engine(settings.engine), maker.schema)
        store = Store(folder, reader, read_only=True, sync=False, verify=True)
        assert store.state is not None
        views += store.state.views
        if store.state.tail:
            views.append(View(reader.segment([entry.rule for entry in store.state.tail])))
    chunks = [] if sample is None else list(event_chunks(sample))
    segment = maker.merged(views, chunks) if views else None
    create(path, Settings(maker.engine.name, first.logic, first.schema), segment)
    return 0 if segment is None else len(segment)
