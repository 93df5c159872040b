"""The collections of a directory: each is a folder with rules, subscriptions and an event log."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tamis.errors import StorageError
from tamis.matcher.rule import RuleId
from tamis.matcher.schema import Schema
from tamis.matcher.storage.atomic import storage_errors, sync_folder
from tamis.matcher.storage.directory import (
    is_index,
    is_name_of_leftover,
    read_identity,
)
from tamis.pubsub import Collection
from tamis.pubsub.marks import ForeignMarkError, make_mark, read_mark, read_position
from tamis.server.changes import Changes
from tamis.server.latencies import Latencies
from tamis.server.problems import ProblemError
from tamis.server.settings import ServerSettings

__all__ = ["Catalog", "OpenCollection"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""Starts with a letter or a digit: what Tamis writes for itself beside collections is hidden."""

_DROPPED: Final = ".dropped-"
"""What the name of a folder begins with that was a collection."""

_FORMER: Final = ".former"
"""A folder with an empty file for each name that a collection had which was removed."""

_STRIPES: Final = 64
_SLOW_SECONDS: Final = 0.003


class OpenCollection:
    """A collection that is open.

    Parameters
    ----------
    name
        Its name.
    pubsub
        Its rules, subscriptions and log.
    has_predecessor
        Whether there was another collection of this name, so that a number alone may be one of its.
    """

    def __init__(self, name: str, pubsub: Collection, has_predecessor: bool = False) -> None:
        self.name = name
        self.has_predecessor = has_predecessor
        self.identity = pubsub.identity
        self.pubsub = pubsub
        self.matcher = pubsub.matcher
        self.changes = Changes(pubsub.matcher)
        self.latencies = Latencies()
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._mean_seconds = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether searches take so long that they would hold up the event loop."""
        return self._mean_seconds > _SLOW_SECONDS

    def note_time(self, seconds: float) -> None:
        """Note how long a search took: a mean in which recent searches count most."""
        self._mean_seconds += (seconds - self._mean_seconds) * 0.05

    @contextmanager
    def writing(self, ids: Iterable[RuleId] | None) -> Iterator[None]:
        """Keep others from changing rules between a check and a write; None stands for all rules.

        Writes to other rules go on meanwhile, and share one wait for the disk.
        """
        stripes = range(_STRIPES) if ids is None else sorted({hash(id) % _STRIPES for id in ids})
        with ExitStack() as stack:
            for number in stripes:
                stack.enter_context(self._stripes[number])
            yield

    def mark(self, position: object) -> str:
        """A position in this collection, as a text that no other collection takes for its own."""
        return make_mark(self.pubsub.identity, position)

    def read_mark(self, mark: str) -> str:
        """The position that a client gives.

        Raises
        ------
        ProblemError
            It is, or may be, one in an earlier collection of this name (410).
        """
        try:
            position, is_marked = read_mark(self.pubsub.identity, mark)
        except ForeignMarkError:
            position, is_marked = "", False
        if is_marked or position == "0" or (position and not self.has_predecessor):
            return position
        raise ProblemError(
            410,
            "other-collection",
            f"{mark!r:.100} is a position in an earlier collection of this name, or may be one: "
            "begin anew, and use the cursors that this one gives",
            earliest=self.pubsub.log.earliest,
        )

    def read_position(self, mark: str) -> int:
        """As `read_mark`, where the position is a number.

        Raises
        ------
        ProblemError
            As in `read_mark`; or it is no number (422).
        """
        try:
            return read_position(self.read_mark(mark))
        except ValueError:
            raise ProblemError(
                422, "invalid-request", f"{mark!r:.100} is neither a number nor a cursor"
            ) from None

    def refresh(self) -> bool:
        """Load what another process has written; False if that is another collection by now."""
        before = self.matcher.revision
        try:
            is_new = self.pubsub.refresh()
        except StorageError:
            if read_identity(self.pubsub.path) != self.identity:
                return False
            raise
        if self.identity and self.pubsub.identity != self.identity:
            return False
        self.identity = self.pubsub.identity
        if is_new and self.matcher.revision != before:
            self.changes.note_refresh()
        return True

    def close(self) -> None:
        """End its streams, store what is in memory, and release the directory."""
        self.changes.close()
        self.pubsub.close()


class Catalog:
    """All collections of a directory.

    Parameters
    ----------
    settings
        The directory, and how to open it.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._folder = settings.folder
        self._open: dict[str, OpenCollection] = {}
        self._opening = threading.Lock()

    def open_all(self) -> None:
        """Open every collection of the directory."""
        if not self._settings.read_only:
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in self._folder.glob(f"{_DROPPED}*"):
                shutil.rmtree(path, ignore_errors=True)
        for path in sorted(self._folder.iterdir()):
            if path.is_dir() and _NAME.fullmatch(path.name) and is_index(path):
                self._open.setdefault(path.name, self._open_folder(path))

    def find(self, name: str) -> OpenCollection:
        """The collection of this name.

        Raises
        ------
        ProblemError
            There is none (404).
        """
        found = self._open.get(name)
        if found is None:
            raise ProblemError(404, "collection-not-found", f"there is no collection {name!r}")
        return found

    def list(self) -> list[OpenCollection]:
        """All collections, by name."""
        return [self._open[name] for name in sorted(self._open)]

    def create(self, name: str, logic: str, schema: Mapping[str, str]) -> OpenCollection:
        """Create a collection.

        Raises
        ------
        ProblemError
            The name is taken (409), or not one (422).
        """
        self.check_writable()
        if not _NAME.fullmatch(name) or is_name_of_leftover(name):
            raise ProblemError(
                422,
                "collection-name",
                "a name has 1 to 100 letters, digits, '_', '.' and '-', the first of them a "
                "letter or a digit; it does not end like one of an unfinished directory",
            )
        Schema(schema)  # Raises before there is a folder.
        with self._opening:
            if name in self._open or (self._folder / name).exists():
                raise ProblemError(409, "collection-exists", f"there is a collection {name!r}")
            path = self._folder / name
            created = self._open[name] = self._open_folder(path, logic, schema)
        return created

    def drop(self, name: str) -> None:
        """Remove a collection with everything in it."""
        self.check_writable()
        with self._opening:
            found = self.find(name)
            # Renamed first: it is gone at once, or as it was. A crash leaves a hidden folder.
            dropped = self._folder / f"{_DROPPED}{name}-{secrets.token_hex(8)}"
            with storage_errors(self._folder / name):
                (self._folder / _FORMER).mkdir(exist_ok=True)
                (self._folder / _FORMER / name).touch()
                sync_folder(self._folder / _FORMER)
                (self._folder / name).rename(dropped)
            del self._open[name]
            with suppress(StorageError):
                # There is nothing to store any more.
                found.close()
            shutil.rmtree(dropped, ignore_errors=True)
            with storage_errors(self._folder):
                sync_folder(self._folder)

    def check_writable(self) -> None:
        """Raise `ProblemError` (403) if this server only reads."""
        if self._settings.read_only:
            raise ProblemError(
                403, "read-only", "this server follows another one; send changes to that one"
            )

    def refresh(self) -> None:
        """Load what another process has written, its new collections included."""
        for path in sorted(self._folder.iterdir()):
            if path.name not in self._open and _NAME.fullmatch(path.name) and is_index(path):
                self._open[path.name] = self._open_folder(path)
        for name, collection in list(self._open.items()):
            path = self._folder / name
            if not is_index(path):
                del self._open[name]
                collection.close()
            elif not collection.refresh():
                self._open[name] = self._open_folder(path)
                collection.close()

    def _open_folder(
        self, path: Path, logic: str | None = None, schema: Mapping[str, str] | None = None
    ) -> OpenCollection:
        settings = self._settings
        pubsub = Collection.open(
            path,
            read_only=settings.read_only,
            logic=logic,
            schema=schema,
            sync=settings.sync,
            limits=settings.limits.for_matcher(),
            retention=settings.retention,
            webhooks=settings.webhooks,
        )
        has_predecessor = (self._folder / _FORMER / path.name).exists()
        return OpenCollection(path.name, pubsub, has_predecessor)

    def sizes(self) -> Iterator[tuple[str, str, float]]:
        """Figures for the metrics: a name, the collection, and the value."""
        for collection in self.list():
            yield "rules", collection.name, len(collection.matcher)
            yield "revision", collection.name, collection.matcher.revision
            yield "subscriptions", collection.name, len(collection.pubsub.subscriptions)
            yield "events", collection.name, collection.pubsub.log.latest
            yield "log_bytes", collection.name, collection.pubsub.log.stored_bytes
            yield "clock_jumps", collection.name, collection.pubsub.log.clock.jumps
            yield "clock_ahead_seconds", collection.name, collection.pubsub.log.clock.ahead

    def close(self) -> None:
        """Close all collections."""
        while self._open:
            self._open.popitem()[1].close()
