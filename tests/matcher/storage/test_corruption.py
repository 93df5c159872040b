"""Damaged files: either the file is named and nothing is touched, or the answers are as before."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tamis
from tamis import CorruptFileError, StorageError
from tamis.matcher.storage.log import EMPTY_LENGTH, make_frame
from tests.matcher.matchers import copy_as_killed
from tests.matcher.storage.test_store import describe, varied

Files = dict[str, bytes]


def content(folder: Path) -> Files:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "LOCK"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two segments, removed rules, and a log of several changes."""
    path = tmp_path_factory.mktemp("corruption") / "index"
    with tamis.open(path, engine="scan") as matcher:
        matcher.add_many(varied(150))
        matcher.remove_many([3, 5])
        matcher.optimize()
        matcher.add_many([(f"more {n}", f"x = {n} OR s LIKE 'a%'") for n in range(40)])
        matcher.remove("more 7")
    matcher = tamis.open(path)
    for number in range(5):
        matcher.add(f"late {number}", "x = 1", payload=number)
    copy = path.with_name("copy")
    copy_as_killed(matcher, path, copy)
    matcher.close()
    assert {name.partition("-")[0] for name in content(copy)} == {"MANIFEST", "log", "segment"}
    return copy


@pytest.fixture
def damaged(index: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(index, tmp_path / "index"))


def read_whole(index: Path) -> Any:
    """What the directory holds."""
    with tamis.open(index, read_only=True) as matcher:
        return describe(matcher)


def outcome(folder: Path, changed: str, read_only: bool) -> Any:
    """The rules of a damaged directory; None if the error names the file and nothing changed."""
    before = content(folder)
    try:
        with tamis.open(folder, read_only=read_only) as matcher:
            return describe(matcher)
    except StorageError as error:
        assert changed in str(error), error
        assert content(folder) == before
        return None


def tear(log: Path) -> bytes:
    """Append the beginning of a record, as a killed writer may leave it; returns the content."""
    log.write_bytes(log.read_bytes() + make_frame(b"never acknowledged")[:-5])
    return log.read_bytes()


def kinds() -> Iterator[str]:
    yield from ("MANIFEST", "log", "segment")


@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("read_only", [True, False])
def test_a_flipped_byte(index: Path, tmp_path: Path, kind: str, read_only: bool) -> None:
    whole = read_whole(index)
    random = Random(kind)
    refused = 0
    names = [name for name in content(index) if name.startswith(kind)]
    for name in names:
        data = (index / name).read_bytes()
        begin = list(range(0, min(len(data), 60), 3))
        for at in [*begin, *(random.randrange(len(data)) for _ in range(100 // len(names)))]:
            folder = Path(shutil.copytree(index, tmp_path / f"{name} {at}", dirs_exist_ok=True))
            changed = bytearray(data)
            changed[at] ^= 1 << random.randrange(8)
            (folder / name).write_bytes(changed)
            found = outcome(folder, name, read_only)
            assert found is None or found == whole, f"byte {at} of {name}"
            refused += found is None
            shutil.rmtree(folder)
    assert refused > 20


@pytest.mark.parametrize("kind", list(kinds()))
def test_a_file_that_was_cut(index: Path, tmp_path: Path, kind: str) -> None:
    random = Random(kind)
    for name in [name for name in content(index) if name.startswith(kind)]:
        data = (index / name).read_bytes()
        for size in [0, 1, 20, len(data) - 1, *(random.randrange(len(data)) for _ in range(15))]:
            folder = Path(shutil.copytree(index, tmp_path / f"{name} {size}", dirs_exist_ok=True))
            (folder / name).write_bytes(data[:size])
            found = outcome(folder, name, False)
            assert found is None, f"{name} cut at {size}"
            shutil.rmtree(folder)


@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_gone(damaged: Path, kind: str, read_only: bool) -> None:
    name = next(name for name in content(damaged) if name.startswith(kind))
    (damaged / name).unlink()
    assert outcome(damaged, name, read_only) is None


def test_bytes_after_the_end(index: Path, tmp_path: Path) -> None:
    whole = read_whole(index)
    for name in content(index):
        folder = Path(shutil.copytree(index, tmp_path / name))
        with (folder / name).open("ab") as file:
            file.write(bytes(1_000) if name.startswith("log") else b"more")
        found = outcome(folder, name, False)
        assert found == (whole if name.startswith("log") else None)


def test_damage_in_the_middle_of_the_log_is_no_torn_end(damaged: Path) -> None:
    (name,) = (name for name in content(damaged) if name.startswith("log"))
    data = bytearray((damaged / name).read_bytes())
    data[EMPTY_LENGTH + 4 : EMPTY_LENGTH + 44] = bytes(40)
    (damaged / name).write_bytes(data)
    with pytest.raises(CorruptFileError, match="whole records follow a damaged one"):
        tamis.open(damaged)
    assert (damaged / name).read_bytes() == data


def test_a_torn_end_is_cut_once(index: Path, damaged: Path) -> None:
    whole = read_whole(index)
    (name,) = (name for name in content(damaged) if name.startswith("log"))
    data = tear(damaged / name)
    with tamis.open(damaged, read_only=True) as reader:
        assert describe(reader) == whole
        assert (damaged / name).read_bytes() == data
    with tamis.open(damaged) as matcher:
        assert describe(matcher) == whole
        matcher.add("late 5", "x = 1", payload=4)
        with tamis.open(damaged, read_only=True) as reader:
            assert list(reader) == [*whole[0], "late 5"]


def test_a_torn_log_before_another(index: Path, damaged: Path) -> None:
    """Killed just when the next log was made; and once more after it was opened again."""
    whole = read_whole(index)
    (name,) = (name for name in content(damaged) if name.startswith("log"))
    with tamis.open(damaged.with_name("new")):
        pass
    empty = next(damaged.with_name("new").glob("log-*")).read_bytes()
    tear(damaged / name)
    (damaged / "log-00000099").write_bytes(empty)
    matcher = tamis.open(damaged)
    assert describe(matcher) == whole
    matcher.add("late 5", "x = 1", payload=4)
    copy = Path(shutil.copytree(damaged, damaged.with_name("again")))
    matcher.close()
    with tamis.open(copy) as matcher:
        assert list(matcher) == [*whole[0], "late 5"]


def damage_segment(folder: Path) -> str:
    """Flip a byte of the texts of a segment, which only a checksum can tell."""
    name = max(name for name in content(folder) if name.startswith("segment"))
    data = bytearray((folder / name).read_bytes())
    at = data.rindex(b"LIKE 'a%'")
    data[at] ^= 1
    (folder / name).write_bytes(data)
    return name


@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_segment_is_not_opened_unless_trusted(damaged: Path, read_only: bool) -> None:
    name = damage_segment(damaged)
    before = content(damaged)
    for engine in (None, "tiles"):
        with pytest.raises(CorruptFileError, match=name):
            tamis.open(damaged, read_only=read_only, engine=engine)
    assert content(damaged) == before
    with tamis.open(damaged, read_only=True, verify=False) as matcher:
        assert "more 8" in matcher.match({"x": 8})


def test_a_reader_that_refreshes_verifies_new_files(damaged: Path) -> None:
    reader = tamis.open(damaged, read_only=True)
    with tamis.open(damaged) as matcher:
        matcher.add_many([(f"newest {n}", "s LIKE 'a%'") for n in range(40)])
    name = damage_segment(damaged)
    with pytest.raises(CorruptFileError, match=name):
        reader.refresh()


def test_a_newer_log(damaged: Path) -> None:
    (name,) = (name for name in content(damaged) if name.startswith("log"))
    header = struct.pack("<8sI", b"TAMISLOG", 7)
    data = (damaged / name).read_bytes()
    (damaged / name).write_bytes(header + struct.pack("<I", zlib.crc32(header)) + data[16:])
    with pytest.raises(StorageError, match=r"format 7.*newer Tamis"):
        tamis.open(damaged)


@pytest.mark.parametrize("kind", ["log", "documents"])
def test_a_torn_end_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    with tamis.open(folder) as matcher:
        matcher.add("r", "x = 1")
        matcher.publish({"x": 1})
        copy_as_killed(matcher, folder, copy)
    (file,) = copy.glob(f"{kind}-*")
    with tamis.open(copy):
        assert not caplog.records
    shutil.rmtree(copy)
    with tamis.open(folder) as matcher:
        matcher.add("s", "x = 1")
        matcher.publish({"x": 2})
        copy_as_killed(matcher, folder, copy)
    (file,) = copy.glob(f"{kind}-*")
    tear(file)
    with tamis.open(copy):
        (record,) = caplog.records
    assert file.name in record.getMessage()


def test_documents_are_closed_before_another_process_may_write(tmp_path: Path) -> None:
    first = tamis.open(tmp_path / "index")
    first.publish({"x": 1})
    release = first._store._lock.release  # type: ignore[union-attr]
    seen: list[int] = []

    def release_and_let_another_write() -> None:
        release()
        with tamis.open(tmp_path / "index") as second:
            second.publish({"x": 2})
            seen.append(len(second.documents))

    first._store._lock.release = release_and_let_another_write  # type: ignore[method-assign, union-attr]
    first.close()
    with tamis.open(tmp_path / "index") as third:
        assert seen == [len(third.documents)] == [2]


def test_a_disk_that_fails(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = os.preadv

    def fail(fd: int, buffers: Any, at: int) -> int:
        if at > 10_000:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", fail)
    for read_only in (True, False):
        with pytest.raises(StorageError, match=r"segment-\d+: input/output error"):
            tamis.open(index, read_only=read_only)


@pytest.mark.parametrize("kind", ["segment", "documents"])
def test_a_flipped_bit_with_the_default_engine(tmp_path: Path, kind: str) -> None:
    """Opened with the defaults and asked at once: right answers, or an error with the file."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    with tamis.open(good) as matcher:
        matcher.add_many(varied(150))
        for x in range(20):
            matcher.publish({"x": x}, id=f"d{x}")

    def ask(folder: Path) -> Any:
        with tamis.open(folder) as matcher:
            documents = {id: dict(matcher.documents[id]) for id in matcher.documents}
            return describe(matcher), documents

    expected, refused = ask(good), 0
    (name,) = (file.name for file in good.glob(f"{kind}-*"))
    data, random = (good / name).read_bytes(), Random(kind)
    for _ in range(90):
        at = random.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << random.randrange(8)
        shutil.copytree(good, bad)
        (bad / name).write_bytes(changed)
        try:
            assert ask(bad) == expected, at
        except StorageError as error:
            assert name in str(error), at
            refused += 1
        shutil.rmtree(bad)
    assert refused > 60
