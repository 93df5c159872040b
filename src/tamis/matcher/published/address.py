"""Places in object stores: `Address` is to them what `pathlib.Path` is to folders.

PyArrow reaches the stores: ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``. Credentials and
endpoints are those of the environment; what follows a question mark in an address overrides them:
``s3://bucket/index?endpoint_override=localhost:9000&scheme=http``.

A store has no folders, no renames and no locks: an object is there, complete, or it is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from tamis.errors import StorageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["Address", "PathLike", "Place", "is_address", "resolve_place"]

PathLike: TypeAlias = str | os.PathLike[str]

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(.*)", re.DOTALL)
_SECRET = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_SCHEMES: Final = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gs", "gcs": "gs",
    "abfs": "abfs", "abfss": "abfss",
    "hdfs": "hdfs", "viewfs": "viewfs",
}  # fmt: skip
"""The schemes of addresses, and what PyArrow calls them. Hadoop says ``s3a``."""

_PATIENCE: Final = 60.0
"""Seconds to wait for an answer of a store."""

CHUNK: Final = 16 << 20
"""How many bytes to read or write at a time."""


class Address:
    """A place in an object store: an object, or the beginning of the names of objects.

    Its methods are those of :class:`pathlib.Path` as far as an index needs them, and raise the
    same errors. `text` has to be an address of a store: see `is_address`.
    """

    __slots__ = ("_options", "_root")

    def __init__(self, text: str) -> None:
        root, _, self._options = text.partition("?")
        scheme, _, rest = root.partition(":")
        self._root = f"{_SCHEMES[scheme.lower()]}:{rest.rstrip('/')}"

    def __fspath__(self) -> str:
        return f"{self._root}?{self._options}" if self._options else self._root

    def __str__(self) -> str:
        """The address without a secret key, for messages; ``os.fspath`` returns all of it."""
        return _SECRET.sub(r"\1:…@", os.fspath(self))

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and os.fspath(self) == os.fspath(other)

    def __hash__(self) -> int:
        return hash(os.fspath(self))

    def __lt__(self, other: Address) -> bool:
        return os.fspath(self) < os.fspath(other)

    def __truediv__(self, name: str | PurePosixPath) -> Address:
        return self._with_root(f"{self._root}/{name}")

    def _with_root(self, root: str) -> Address:
        return Address(f"{root}?{self._options}" if self._options else root)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._root.rpartition("/")[2]

    @property
    def parent(self) -> Address:
        """The address without its last part."""
        return self._with_root(self._root.rpartition("/")[0])

    def is_relative_to(self, other: object) -> bool:
        """Whether this is below another address, or the same."""
        return isinstance(other, Address) and f"{self._root}/".startswith(f"{other._root}/")

    def relative_to(self, other: Address) -> PurePosixPath:
        """What `other` lacks to be this address."""
        if not self.is_relative_to(other):
            raise ValueError(f"{self} is not below {other}")
        return PurePosixPath(self._root[len(other._root) :].lstrip("/"))

    def locate(self) -> tuple[FileSystem, str]:
        """PyArrow's file system, and the path in it."""
        scheme, _, rest = self._root.partition("://")
        bucket, _, inside = rest.partition("/")
        suffix = f"?{self._options}" if self._options else ""
        with _store_errors():
            filesystem, base = _connect(f"{scheme}://{bucket}{suffix}")
        return filesystem, f"{base.rstrip('/')}/{inside}".rstrip("/")

    def read_bytes(self) -> bytes:
        """Read an object."""
        filesystem, path = self.locate()
        with _store_errors(), filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())

    def write_bytes(self, data: Any) -> None:
        """Create or replace an object: readers see all of it or what was there before."""
        filesystem, path = self.locate()
        with _store_errors(), filesystem.open_output_stream(path) as stream:
            stream.write(data)

    def upload(self, file: Path) -> None:
        """Create or replace an object with the content of a file."""
        filesystem, path = self.locate()
        with (
            file.open("rb") as source,
            _store_errors(),
            filesystem.open_output_stream(path) as stream,
        ):
            while chunk := source.read(CHUNK):
                stream.write(chunk)

    def read_range(self, start: int, length: int) -> bytes:
        """Read a part of an object; shorter than asked for only at its end."""
        filesystem, path = self.locate()
        with _store_errors(), filesystem.open_input_file(path) as file:
            return bytes(file.read_at(length, start))

    def exists(self) -> bool:
        """Whether there is such an object, or an object below this address."""
        return self._find_type() != "NotFound"

    def is_dir(self) -> bool:
        """Whether there are objects below this address."""
        return self._find_type() == "Directory"

    def _find_type(self) -> str:
        filesystem, path = self.locate()
        with _store_errors():
            return str(filesystem.get_file_info(path).type.name)

    def age(self, now: datetime) -> float:
        """How many seconds before `now` the object was written, by the store's clock."""
        return (now - self.written()).total_seconds()

    def written(self) -> datetime:
        """When the object was written, by the store's clock."""
        filesystem, path = self.locate()
        with _store_errors():
            info = filesystem.get_file_info(path)
        if info.mtime is None:
            raise FileNotFoundError(str(self))
        return info.mtime  # type: ignore[no-any-return]  # PyArrow has no types

    def iterdir(self) -> list[Address]:
        """List what is directly below this address; nothing if there is nothing."""
        return [self / name.as_posix() for name, _ in sorted(self._list(recursive=False))]

    def list_objects(self) -> list[PurePosixPath]:
        """The objects below this address, relative to it."""
        return [name for name, is_object in self._list(recursive=True) if is_object]

    def _list(self, recursive: bool) -> list[tuple[PurePosixPath, bool]]:
        from pyarrow.fs import FileSelector, FileType

        filesystem, path = self.locate()
        selector = FileSelector(path, recursive=recursive, allow_not_found=True)
        with _store_errors():
            found = filesystem.get_file_info(selector)
        return [
            (PurePosixPath(info.path[len(path) :].lstrip("/")), info.type == FileType.File)
            for info in found
        ]

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove an object."""
        filesystem, path = self.locate()
        try:
            with _store_errors():
                filesystem.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_tree(self) -> None:
        """Remove an object, or all objects below this address; it may be gone already."""
        filesystem, path = self.locate()
        kind = self._find_type()
        with _store_errors(), suppress(FileNotFoundError):
            if kind == "Directory":
                # PyArrow would leave an empty object for the folder of a single one.
                filesystem.delete_dir(path)
            elif kind == "File":
                filesystem.delete_file(path)


Place: TypeAlias = Path | Address
"""Where an index is: a folder, or a place in a bucket."""


def is_address(path: PathLike) -> bool:
    """Whether `path` is the address of an object store that PyArrow can reach."""
    found = _ADDRESS.fullmatch(os.fspath(path))
    return found is not None and found[1].lower() in _SCHEMES


def resolve_place(path: PathLike) -> Place:
    """Turn the user's name of an index into an absolute path or an address.

    Raises
    ------
    StorageError
        It is an address of an unknown kind.
    """
    text = os.fspath(path)
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return Path(text).absolute()
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return Path("/" + rest.lstrip("/"))
    if scheme not in _SCHEMES:
        known = ", ".join(sorted(f"{each}:" for each in set(_SCHEMES)))
        raise StorageError(
            f"there are no addresses that begin with {scheme}:; name a folder, "
            f"or an address with one of {known}",
            path=text,
        )
    if not rest.lstrip("/"):
        raise StorageError("the address names no bucket", path=text)
    return Address(text)


@lru_cache(maxsize=8)
def _connect(uri: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem, S3FileSystem

    filesystem, base = FileSystem.from_uri(uri)
    if isinstance(filesystem, S3FileSystem):
        filesystem = _be_patient(uri, filesystem.region)
    return filesystem, base


def _be_patient(uri: str, region: str) -> FileSystem:
    """The same store of S3, with more time for an answer: PyArrow gives up after 3 seconds.

    A busy store then gets the same request again and again, and is busier.
    """
    from pyarrow.fs import S3FileSystem

    parts = urlsplit(uri)
    options: dict[str, Any] = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    for name, value in options.items():
        if value in ("true", "false"):
            options[name] = value == "true"
    if parts.username:
        options["access_key"] = unquote(parts.username)
        options["secret_key"] = unquote(parts.password or "")
    options.setdefault("region", region)
    return S3FileSystem(**options, request_timeout=_PATIENCE, connect_timeout=_PATIENCE / 6)


@contextmanager
def _store_errors() -> Iterator[None]:
    """Raise what PyArrow reports as an `OSError`, as the functions of `pathlib` do."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ArrowException) as error:
        raise OSError(str(error).partition("\n")[0]) from error
