"""API keys: who may do what in which collection, and until when.

A key is ``tamis_ID_SECRET``. The file ``.keys.json`` in the served directory has the id, a name,
the scope and the SHA-256 of the secret: 256 random bits need no slower hash, and no file that leaks
opens a door. A comparison takes the same time whether or not the id exists and however much of the
secret is right.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from tamis.errors import StorageError, TamisError
from tamis.matcher.storage.atomic import sync_folder

__all__ = ["ALL", "KEYS_FILE", "Key", "KeyFile", "Right", "UnknownKeyError"]

Right: TypeAlias = Literal["read", "publish", "write", "admin"]
"""read: ask, list and receive. publish: publish events. write: change rules and subscriptions.
admin: all of these, and create, drop and reload collections."""

RIGHTS: Final[tuple[Right, ...]] = get_args(Right)

ALL: Final = "*"
"""Stands for every collection."""

KEYS_FILE: Final = ".keys.json"
"""No collection has such a name."""

_OLD_FILE: Final = "keys.json"
"""Where older versions have the keys. They move with the first change."""

_TOKEN: Final = re.compile(r"tamis_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NO_HASH: Final = "0" * 64
_LOOK_SECONDS: Final = 0.5
"""How long changes of the file may go unnoticed."""


class UnknownKeyError(TamisError, KeyError):
    """No key has that id."""

    def __str__(self) -> str:
        return str(self.args[0])


class Key(msgspec.Struct, frozen=True):
    """A key, without its secret."""

    id: str
    name: str
    rights: tuple[Right, ...]
    collections: tuple[str, ...]
    """Names of collections; ``*`` stands for all."""
    sha256: str
    """Of the secret, in hexadecimal digits."""
    created: datetime
    expires: datetime | None = None

    def allows(self, right: Right, collection: str | None) -> bool:
        """Whether the key gives a right in a collection, or without one on the whole server."""
        if right not in self.rights and "admin" not in self.rights:
            return False
        return ALL in self.collections or collection in self.collections

    def has_expired(self, now: datetime) -> bool:
        """Whether the key is no longer valid."""
        return self.expires is not None and self.expires <= now


class KeyFile:
    """The keys of a directory. A server notices what `tamis keys` changes while it runs.

    Parameters
    ----------
    folder
        The directory of the collections.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / KEYS_FILE
        self._old_path = folder / _OLD_FILE
        self._keys: dict[str, Key] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._next_look = 0.0

    def create(
        self,
        name: str,
        rights: Iterable[Right],
        collections: Iterable[str] = (ALL,),
        expires: datetime | None = None,
    ) -> tuple[Key, str]:
        """Create a key. Its token is returned only here: the file has no more than its hash."""
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = Key(
            id,
            name,
            tuple(right for right in RIGHTS if right in set(rights)),
            tuple(collections),
            _hash(secret),
            datetime.now(UTC),
            expires,
        )
        with self._locked():
            self._write({**self._read(), id: key})
        return key, f"tamis_{id}_{secret}"

    def revoke(self, id: str) -> Key:
        """Remove a key, and return it.

        Raises
        ------
        UnknownKeyError
            No key has that id.
        """
        with self._locked():
            keys = self._read()
            if id not in keys:
                raise UnknownKeyError(f"there is no key {id!r}")
            key = keys.pop(id)
            self._write(keys)
        return key

    def list(self) -> list[Key]:
        """All keys, the oldest first."""
        return sorted(self._read().values(), key=lambda key: key.created)

    def find(self, token: str) -> Key | None:
        """The key with this token, expired or not; None if there is none."""
        self._look_for_changes()
        found = _TOKEN.fullmatch(token)
        key = self._keys.get(found[1]) if found else None
        # The same work for every token: neither the id nor the secret shows in the time.
        given = _hash(found[2] if found else "")
        is_right = hmac.compare_digest(given, key.sha256 if key else _NO_HASH)
        return key if is_right else None

    def _look_for_changes(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        stamp = self._make_stamp()
        if stamp != self._stamp:
            self._keys = self._read()
            self._stamp = stamp

    def _make_stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._find_file().stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _find_file(self) -> Path:
        # A collection may have the old name.
        is_old = not self.path.exists() and self._old_path.is_file()
        return self._old_path if is_old else self.path

    def _read(self) -> dict[str, Key]:
        path = self._find_file()
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return {key.id: key for key in msgspec.json.decode(data, type=list[Key])}
        except msgspec.MsgspecError as error:
            raise StorageError(f"the file of keys is damaged: {error}", path=str(path)) from error

    def _write(self, keys: dict[str, Key]) -> None:
        unfinished = self.path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(list(keys.values()))) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)
        sync_folder(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_suffix(".lock")
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if self._find_file() == self._old_path:
                self._old_path.rename(self.path)
            yield
        finally:
            os.close(fd)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
