"""Compressed files: any number of members and frames, and whatever is not whole is refused."""

from __future__ import annotations

import gc
import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tamis
from tamis.files import load_rules, read_events
from tamis.files.compression import CompressedDataError, Compression, decompress
from tamis.importers import jsonlogic

LINES = [b'{"id": %d, "rule": "TRUE"}\n' % number for number in range(3_000)]
FIRST, SECOND = b"".join(LINES[:2_000]), b"".join(LINES[2_000:])


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


def bgzip(data: bytes) -> bytes:
    """A member with a field of its own in the header, as bgzip writes it; the last one is empty."""
    deflated = zlib.compressobj(wbits=-15)
    body = deflated.compress(data) + deflated.flush()
    extra = b"BC" + struct.pack("<HH", 2, len(body) + 25)
    head = b"\x1f\x8b\x08\x04" + bytes(6) + struct.pack("<H", len(extra)) + extra
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))


SKIPPABLE = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"skip"

PACKERS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.GZIP: gzip.compress,
    Compression.ZSTANDARD: zstd,
    Compression.DEFLATE: zlib.compress,
}

WHOLE = {
    "gzip of two members": (".gz", gzip.compress(FIRST) + gzip.compress(SECOND)),
    "gzip of a member a line": (".gz", b"".join(map(gzip.compress, LINES))),
    "gzip with empty members": (
        ".gz",
        b"".join(map(gzip.compress, (b"", FIRST, b"", b"", SECOND, b""))),
    ),
    "gzip padded with zeros": (".gz", gzip.compress(FIRST + SECOND) + bytes(100_000)),
    "gzip with zeros between": (".gz", gzip.compress(FIRST) + bytes(9) + gzip.compress(SECOND)),
    "bgzip": (".gz", bgzip(FIRST) + bgzip(SECOND) + bgzip(b"")),
    "zlib": (".zz", zlib.compress(FIRST + SECOND)),
    "zstd of two frames": (".zst", zstd(FIRST) + zstd(SECOND)),
    "zstd of a frame a line": (".zst", b"".join(map(zstd, LINES))),
    "zstd with empty frames": (".zst", zstd(b"") + zstd(FIRST) + zstd(b"") + zstd(SECOND)),
    "zstd with skippable frames": (
        ".zst",
        SKIPPABLE + zstd(FIRST) + SKIPPABLE + SKIPPABLE + zstd(SECOND) + SKIPPABLE,
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_readers_read_every_member(case: str, tmp_path: Path) -> None:
    extension, packed = WHOLE[case]
    path = tmp_path / f"rules.jsonl{extension}"
    path.write_bytes(packed)
    matcher = tamis.Matcher()
    load_rules(matcher, str(path))
    assert list(matcher) == list(range(3_000))
    assert sum(batch.numbers.size for batch in read_events(str(path))) == 3_000


@pytest.mark.parametrize("extension", [".gz", ".zst", ".zz"])
def test_importers_read_every_member(extension: str, tmp_path: Path) -> None:
    text = json.dumps({"a": {"==": [{"var": "x"}, "y"]}, "b": {"!": {"var": "x"}}}).encode()
    pack = PACKERS[Compression(extension)]
    pieces = [text] if extension == ".zz" else [text[:20], b"", text[20:]]
    path = tmp_path / f"rules.json{extension}"
    path.write_bytes(b"".join(map(pack, pieces)))
    assert [rule.id for rule in jsonlogic.read(path).rules] == ["a", "b"]


@pytest.mark.parametrize("compression", Compression)
def test_reader_refuses_every_truncation(compression: Compression) -> None:
    pack = PACKERS[compression]
    single = pack(b"some bytes " * 30)
    members = [single] if compression is Compression.DEFLATE else [single, pack(b"and more")]
    packed = b"".join(members)
    read_through = 0
    for end in range(1, len(packed)):
        try:
            decompress(io.BytesIO(packed[:end]), compression).read()
            read_through += 1
        except CompressedDataError as error:
            assert "truncated" in str(error)
    # Between two members nothing says that more was there.
    assert read_through == len(members) - 1


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"\x1f\x8c and more", b"\x1f\x8b?"])
def test_reader_refuses_what_follows_the_data(compression: Compression, garbage: bytes) -> None:
    stream = decompress(io.BytesIO(PACKERS[compression](FIRST) + garbage), compression)
    with pytest.raises(CompressedDataError):
        stream.read()


@pytest.mark.parametrize("compression", Compression)
def test_reader_refuses_changed_bytes(compression: Compression) -> None:
    packed = bytearray(PACKERS[compression](FIRST))
    packed[len(packed) // 2] ^= 0xFF
    try:
        # A frame of zstd may lack a checksum.
        assert decompress(io.BytesIO(bytes(packed)), compression).read() != FIRST
        assert compression is Compression.ZSTANDARD
    except CompressedDataError:
        pass


@pytest.mark.parametrize("compression", Compression)
def test_reader_unpacks_in_bounded_pieces(compression: Compression) -> None:
    packed = io.BytesIO(PACKERS[compression](bytes(50_000_000)))
    stream = decompress(packed, compression)
    assert stream.read(10) == bytes(10)
    before = packed.tell()
    assert len(stream.read(1_000_000)) == 1_000_000
    assert packed.tell() - before <= 1 << 17
    stream.seek(0)
    assert sum(map(len, iter(lambda: stream.read(1 << 20), b""))) == 50_000_000


@pytest.mark.parametrize("extension", [".gz", ".zst", ".zz"])
def test_reading_prints_nothing(
    extension: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"rules.jsonl{extension}"
    path.write_bytes(PACKERS[Compression(extension)](FIRST))
    load_rules(tamis.Matcher(), str(path))
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(tamis.InputFileError, match="truncated"):
        load_rules(tamis.Matcher(), str(path))
    gc.collect()
    assert capfd.readouterr() == ("", "")
