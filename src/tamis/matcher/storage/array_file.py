"""Files of named arrays that are mapped into memory.

::

    header       36 bytes: magic, format version, checksum and length of the directory, length of
                 the file, checksum of these
    directory    JSON: the kind of file, what its writer says about it, and for each array its
                 name, type, shape, offset and checksum
    arrays       each at a multiple of 64 bytes

Opening reads the header and the directory, and checks them and the length of the file. The arrays
are read when they are used, and checked before if the reader asks for it. Checksums are CRC-32,
numbers little-endian.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from tamis.encode.checks import NamedArrays
from tamis.engines.threads import map_in_threads
from tamis.errors import CorruptFileError
from tamis.matcher.storage.atomic import open_regular, storage_errors, write_atomically
from tamis.matcher.storage.file_format import CHECKSUM, FORMAT, check_format

__all__ = ["Sections", "map_sections", "select_group", "write_sections"]

_MAGIC: Final = b"\x89TAMIS\r\n"
_HEADER: Final = struct.Struct("<8sIIQQ")
"""Magic, format version, checksum of the directory, its length, the length of the file."""
_START: Final = _HEADER.size + CHECKSUM.size
"""Where the directory begins."""
_ALIGNMENT: Final = 64
_TYPES: Final = frozenset(np.dtype(kind).str for kind in "?bBhHiIlLfd")
_CHECKED_AT_ONCE: Final = 1 << 20
_LARGE: Final = 1 << 24
"""Bytes; threads share the work on a file that is larger than the second."""


class _Section(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    at: int
    checksum: int

    @property
    def nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


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
        The arrays by name. They share the file's pages; changes to them are not stored.
    """

    def __init__(self, path: Path, directory: _Directory, data: mmap.mmap) -> None:
        self.path = path
        self.about = directory.about
        self._sections = directory.sections
        self.arrays = NamedArrays((n, _array(data, s)) for n, s in self._sections.items())

    def group(self, name: str) -> NamedArrays:
        """The arrays whose names begin with `name` and a dot, by the rest of their names."""
        return select_group(self.arrays, name)


def select_group(arrays: Mapping[str, NDArray[Any]], name: str) -> NamedArrays:
    """The arrays whose names begin with `name` and a dot, by the rest of their names."""
    prefix = f"{name}."
    return NamedArrays(
        (full.removeprefix(prefix), array)
        for full, array in arrays.items()
        if full.startswith(prefix)
    )


def write_sections(
    path: Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Create or replace a file of arrays, atomically."""
    flat = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    checksums = {name: _checksum(array) for name, array in flat.items()}
    sections: dict[str, _Section] = {}
    encoded, length = b"", -1
    # The offsets of the arrays depend on the length of the directory, which holds the offsets.
    while len(encoded) != length:
        length = len(encoded)
        at = _align(_START + length)
        sections = {}
        for name, array in flat.items():
            sections[name] = _Section(array.dtype.str, array.shape, at, checksums[name])
            at = _align(at + array.nbytes)
        encoded = msgspec.json.encode(_Directory(kind, dict(about), sections))
    write_atomically(path, _pieces(encoded, sections, flat, at))


def _pieces(
    directory: bytes,
    sections: Mapping[str, _Section],
    arrays: Mapping[str, NDArray[Any]],
    length: int,
) -> Iterator[Any]:
    header = _HEADER.pack(_MAGIC, FORMAT, zlib.crc32(directory), len(directory), length)
    yield header + CHECKSUM.pack(zlib.crc32(header)) + directory
    at = _START + len(directory)
    for name, section in sections.items():
        yield bytes(section.at - at)
        yield arrays[name].reshape(-1).view(np.uint8)
        at = section.at + section.nbytes
    yield bytes(length - at)


def map_sections(path: Path, kind: str, *, verify: bool = False) -> Sections:
    """Map a file of arrays into memory.

    Parameters
    ----------
    path, kind
        The file, and what it has to be.
    verify
        Whether to read all arrays and compare them with their checksums, in several threads if they
        are large.

    Raises
    ------
    MissingFileError
        There is no such file.
    CorruptFileError
        It is damaged, as far as the header, the directory, the length and what is verified show.
    StorageError
        It is of a newer format, or cannot be read.
    """
    with storage_errors(path):
        fd = open_regular(path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            checksum, directory_length, length = _read_header(path, os.pread(fd, _START, 0))
            if length != size:
                _refuse(path, f"it has {size:,} bytes, not {length:,} as when it was written")
            # Private, writable pages: kernels would have to be compiled again for read-only arrays.
            data = mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
            encoded = data[_START : _START + directory_length]
            if len(encoded) != directory_length or zlib.crc32(encoded) != checksum:
                _refuse(path, "its directory is damaged")
            directory = _decode_directory(path, kind, encoded, size)
            if verify:
                _verify(path, fd, directory.sections)
        finally:
            os.close(fd)
    return Sections(path, directory, data)


def _verify(path: Path, fd: int, sections: Mapping[str, _Section]) -> None:
    """Compare all arrays with their checksums.

    They are read from the file: where a disk fails, that is an error, while reading memory to which
    the file is mapped would end the process. It is the file that was mapped, by its descriptor: by
    now another one may have its name.
    """
    named = sorted(sections.items(), key=lambda one: -one[1].nbytes)

    def is_damaged(place: int) -> bool:
        section = named[place][1]
        return _read_checksum(fd, section) != section.checksum

    is_small = sum(section.nbytes for _, section in named) < _LARGE
    places = range(len(named))
    found = map(is_damaged, places) if is_small else map_in_threads(is_damaged, places)
    # All answers are in before the caller closes the file.
    damaged = [name for (name, _), bad in zip(named, found, strict=True) if bad]
    if damaged:
        _refuse(path, f"its part {damaged[0]!r} does not match its checksum")


def _read_header(path: Path, start: bytes) -> tuple[int, int, int]:
    """The checksum and the length of the directory, and the length of the file."""
    if len(start) < _START:
        _refuse(path, f"it has only {len(start)} bytes")
    header, (checksum,) = start[: _HEADER.size], CHECKSUM.unpack(start[_HEADER.size :])
    magic, version, directory_checksum, directory_length, length = _HEADER.unpack(header)
    if magic != _MAGIC or zlib.crc32(header) != checksum:
        _refuse(path, "its header is damaged, or it is not a file of Tamis")
    check_format(path, version)
    return directory_checksum, directory_length, length


def _decode_directory(path: Path, kind: str, encoded: bytes, length: int) -> _Directory:
    try:
        directory = msgspec.json.decode(encoded, type=_Directory)
    except msgspec.MsgspecError as error:
        _refuse(path, f"its directory cannot be decoded: {error}")
    if directory.kind != kind:
        _refuse(path, f"it is a {directory.kind}, not a {kind}")
    for name, section in directory.sections.items():
        if section.dtype not in _TYPES:
            _refuse(path, f"its part {name!r} has the type {section.dtype!r}")
        is_misplaced = section.at % _ALIGNMENT or min(0, section.at, *section.shape) < 0
        if is_misplaced or section.at + section.nbytes > length:
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
    for start in range(0, len(data), _CHECKED_AT_ONCE):
        checksum = zlib.crc32(data[start : start + _CHECKED_AT_ONCE], checksum)
    return checksum


def _read_checksum(fd: int, section: _Section) -> int:
    """The checksum of an array as it is in a file; -1 if the file ends before."""
    buffer = memoryview(bytearray(min(_CHECKED_AT_ONCE, section.nbytes)))
    checksum, at, end = 0, section.at, section.at + section.nbytes
    while at < end:
        count = os.preadv(fd, [buffer[: end - at]], at)
        if not count:
            return -1
        checksum = zlib.crc32(buffer[:count], checksum)
        at += count
    return checksum


def _align(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _refuse(path: Path, message: str) -> NoReturn:
    raise CorruptFileError(f"the file is damaged: {message}", path=str(path))
