"""Files of named arrays that are mapped into memory.

::

    header       64 bytes: magic, format version, lengths and checksums of the rest of this list
    directory    JSON: what kind of file it is, what its writer says about it, and for each array
                 its name, type, shape, where it begins, and its checksum
    arrays       each from a multiple of 64 bytes on

Opening reads the header and the directory and checks them, and that the file is as long as it was.
The arrays are read when they are used, and checked when `verify` is called. Checksums are CRC-32,
numbers little-endian.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.errors import CorruptFileError, StorageError
from tamis.matcher.storage.atomic import storing, write_aside

__all__ = ["FORMAT", "Sections", "map_sections", "write_sections"]

FORMAT = 1
"""The version of all formats here. Whoever changes one counts it up."""

_MAGIC = b"\x89TAMIS\r\n"
_HEADER = struct.Struct("<8sIIQQ")
"""Magic, format version, checksum of the directory, its length, the length of the file."""
_CHECKSUM = struct.Struct("<I")
_ALIGNMENT = 64
_PIECE = 1 << 22
"""How many bytes are checked at a time."""


class _Section(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    at: int
    checksum: int

    @property
    def nbytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


class _Directory(msgspec.Struct, frozen=True):
    kind: str
    about: dict[str, Any]
    sections: dict[str, _Section]


class Sections:
    """The arrays of a file.

    Attributes
    ----------
    path
        The file.
    about
        What its writer said about it.
    arrays
        The arrays by name. They share the file's pages; what is written to them is not kept.
    """

    def __init__(self, path: Path, directory: _Directory, data: mmap.mmap) -> None:
        self.path = path
        self.about = directory.about
        self._sections = directory.sections
        self.arrays = {name: _array(data, section) for name, section in self._sections.items()}

    def group(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays whose names begin with `name` and a dot, without that."""
        prefix = f"{name}."
        return {
            full.removeprefix(prefix): array
            for full, array in self.arrays.items()
            if full.startswith(prefix)
        }

    @property
    def nbytes(self) -> int:
        """The size of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def verify(self) -> None:
        """Read all arrays and compare them with their checksums.

        Raises
        ------
        CorruptFileError
            One is not as it was written.
        """
        for name, section in self._sections.items():
            if _checksum(self.arrays[name]) != section.checksum:
                _refuse(self.path, f"its part {name!r} is not as it was written")


def write_sections(
    path: Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a file of arrays, in the place of whatever is there."""
    flat = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksums = {name: _checksum(array) for name, array in flat.items()}
    start = _HEADER.size + _CHECKSUM.size
    sections: dict[str, _Section] = {}
    encoded = b""
    # Where arrays begin depends on the length of the directory, which says where they begin.
    while True:
        at = _aligned(start + len(encoded))
        sections = {}
        for name, array in flat.items():
            sections[name] = _Section(array.dtype.str, array.shape, at, checksums[name])
            at = _aligned(at + array.nbytes)
        again = msgspec.json.encode(_Directory(kind, dict(about), sections))
        if len(again) == len(encoded):
            encoded = again
            break
        encoded = again
    write_aside(path, _pieces(encoded, sections, flat, at))


def _pieces(
    directory: bytes,
    sections: Mapping[str, _Section],
    arrays: Mapping[str, NDArray[Any]],
    length: int,
) -> Iterator[Any]:
    header = _HEADER.pack(_MAGIC, FORMAT, zlib.crc32(directory), len(directory), length)
    begin = header + _CHECKSUM.pack(zlib.crc32(header)) + directory
    yield begin
    at = len(begin)
    for name, section in sections.items():
        yield bytes(section.at - at)
        yield arrays[name].reshape(-1).view(np.uint8)
        at = section.at + section.nbytes
    yield bytes(length - at)


def map_sections(path: Path, kind: str) -> Sections:
    """Map a file of arrays into memory.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is not as it was written, as far as that can be told without reading it all.
    StorageError
        It is of a newer format, or cannot be read.
    """
    with storing(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            begin = os.pread(fd, _HEADER.size + _CHECKSUM.size, 0)
            _, length = _lengths(path, begin)
            if length != size:
                _refuse(path, f"it has {size:,} bytes, not {length:,} as when it was written")
            # Private pages that may be written to: to the kernels these arrays are like any
            # other, while read-only ones would have to have every kernel compiled again.
            data = mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
        finally:
            os.close(fd)
    return Sections(path, _directory(path, kind, begin, data), data)


def _lengths(path: Path, begin: bytes) -> tuple[int, int]:
    """How long the directory and the file are."""
    if len(begin) < _HEADER.size + _CHECKSUM.size:
        _refuse(path, f"it has only {len(begin)} bytes")
    header, (checksum,) = begin[: _HEADER.size], _CHECKSUM.unpack(begin[_HEADER.size :])
    magic, version, _, directory, length = _HEADER.unpack(header)
    if magic != _MAGIC or zlib.crc32(header) != checksum:
        _refuse(path, "its header is damaged, or it is no file of Tamis")
    if version > FORMAT:
        raise StorageError(
            f"it has format {version}, and this Tamis reads formats up to {FORMAT}; "
            "use a newer Tamis",
            path=str(path),
        )
    return directory, length


def _directory(path: Path, kind: str, begin: bytes, data: mmap.mmap) -> _Directory:
    _, _, checksum, size, length = _HEADER.unpack(begin[: _HEADER.size])
    encoded = data[len(begin) : len(begin) + size]
    if len(encoded) != size or zlib.crc32(encoded) != checksum:
        _refuse(path, "its directory is damaged")
    try:
        directory = msgspec.json.decode(encoded, type=_Directory)
    except msgspec.MsgspecError as error:
        _refuse(path, f"its directory is not to be read: {error}")
    if directory.kind != kind:
        _refuse(path, f"it is a {directory.kind}, not a {kind}")
    for name, section in directory.sections.items():
        if section.at % _ALIGNMENT or section.at + section.nbytes > length:
            _refuse(path, f"its part {name!r} lies outside of it")
    return directory


def _array(data: mmap.mmap, section: _Section) -> NDArray[Any]:
    dtype = np.dtype(section.dtype)
    if not section.nbytes:
        return np.empty(section.shape, dtype)
    count = section.nbytes // dtype.itemsize
    return np.frombuffer(data, dtype, count, section.at).reshape(section.shape)


def _checksum(array: NDArray[Any]) -> int:
    data: Any = array.reshape(-1).view(np.uint8)
    checksum = 0
    for start in range(0, len(data), _PIECE):
        checksum = zlib.crc32(data[start : start + _PIECE], checksum)
    return checksum


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _refuse(path: Path, message: str) -> NoReturn:
    raise CorruptFileError(f"the file is damaged: {message}", path=str(path))
