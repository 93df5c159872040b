"""Acknowledged records that are missing from the end of a log or of the documents are noticed."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis import CorruptFileError
from tamis.matcher.storage import document_file, log, log_statement, store
from tamis.matcher.storage.atomic import write_all_at
from tests.matcher.matchers import copy_as_killed, settle

FRAME = struct.Struct("<4sIQI")


@pytest.fixture
def reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes it seem that the machine was booted again."""

    def boot_again() -> None:
        name = tmp_path / "boot_id"
        name.write_text("00112233-4455-6677-8899-aabbccddeeff\n")
        monkeypatch.setattr(log_statement, "_BOOT_FILE", name)

    return boot_again


def find_ends(data: bytes) -> list[int]:
    """Where the records of a log end, and where the first one begins."""
    ends = [log.EMPTY_LENGTH]
    while ends[-1] < len(data):
        ends.append(ends[-1] + FRAME.size + FRAME.unpack_from(data, ends[-1])[2])
    assert ends[-1] == len(data)
    return ends


def write_and_kill(folder: Path, copy: Path, sync: bool = True) -> None:
    """Fill a directory; `copy` is what a kill would leave of it."""
    with tamis.open(folder, engine="scan", sync=sync) as matcher:
        for number in range(4):
            matcher.add(f"r{number}", f"x = {number}")
            matcher.publish({"x": number})
        copy_as_killed(matcher, folder, copy)


def read(folder: Path, **options: Any) -> tuple[list[Any], list[Any]]:
    with tamis.open(folder, **options) as matcher:
        return list(matcher), [matcher.documents[id]["x"] for id in matcher.documents]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("kind", ["log", "documents"])
def test_a_cut_between_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, sync: bool
) -> None:
    killed, cut = tmp_path / "killed", tmp_path / "cut"
    write_and_kill(tmp_path / "index", killed, sync)
    (file,) = killed.glob(f"{kind}-*")
    *ends, whole = find_ends(file.read_bytes())
    assert len(ends) >= 4
    assert read(killed, read_only=True) == (["r0", "r1", "r2", "r3"], [0, 1, 2, 3])
    for kept, end in enumerate(ends):
        shutil.copytree(killed, cut)
        os.truncate(cut / file.name, end)
        for read_only in (True, False):
            with pytest.raises(
                CorruptFileError, match=rf"{file.name}.*acknowledged.*{whole - end}"
            ):
                tamis.open(cut, read_only=read_only)
        assert (cut / file.name).stat().st_size == end
        # What is left may be used, by a decision of the user.
        assert not caplog.records
        found = read(cut, verify=False)[kind == "documents"]
        assert len(found) == (kept if kind == "log" else max(0, kept - 1))
        assert {record.levelname for record in caplog.records} == {"WARNING"}
        assert read(cut)[kind == "documents"] == found
        caplog.clear()
        shutil.rmtree(cut)


def test_a_cut_of_saved_documents(tmp_path: Path) -> None:
    matcher = tamis.Matcher()
    matcher.documents.add_many([{"x": x} for x in range(3_000)])
    matcher.save(tmp_path / "copy")
    (file,) = (tmp_path / "copy").glob("documents-*")
    for end in find_ends(file.read_bytes())[-2::-1]:
        os.truncate(file, end)
        with pytest.raises(CorruptFileError, match="acknowledged"):
            tamis.open(tmp_path / "copy")


@pytest.mark.parametrize("sync", [True, False])
def test_after_a_crash_of_the_machine(
    tmp_path: Path, reboot: Callable[[], None], sync: bool
) -> None:
    """What was not on the disk may be missing then, and nothing else."""
    killed = tmp_path / "killed"
    write_and_kill(tmp_path / "index", killed, sync)
    (rules,), (documents,) = killed.glob("log-*"), killed.glob("documents-*")
    reboot()
    assert read(killed, read_only=True) == (["r0", "r1", "r2", "r3"], [0, 1, 2, 3])
    os.truncate(documents, find_ends(documents.read_bytes())[-2])
    assert read(killed, read_only=True)[1] == [0, 1, 2]
    os.truncate(rules, find_ends(rules.read_bytes())[-2])
    if sync:
        with pytest.raises(CorruptFileError, match="acknowledged"):
            tamis.open(killed)
    else:
        assert read(killed) == (["r0", "r1", "r2"], [0, 1, 2])
        assert read(killed) == (["r0", "r1", "r2"], [0, 1, 2])


def test_documents_that_were_synced_or_closed(tmp_path: Path, reboot: Callable[[], None]) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    with tamis.open(folder) as matcher:
        matcher.publish({"x": 1})
        matcher.documents.sync()
        matcher.publish({"x": 2})
        copy_as_killed(matcher, folder, copy)
    reboot()
    (file,) = copy.glob("documents-*")
    ends = find_ends(file.read_bytes())
    os.truncate(file, ends[-2])
    assert read(copy, read_only=True)[1] == [1]
    os.truncate(file, ends[-3])
    with pytest.raises(CorruptFileError, match="acknowledged"):
        tamis.open(copy)
    (file,) = folder.glob("documents-*")
    os.truncate(file, ends[-2])
    with pytest.raises(CorruptFileError, match="acknowledged"):
        tamis.open(folder)


def test_a_record_that_no_statement_covers_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed before it states that the log is longer."""
    folder, copy = tmp_path / "index", tmp_path / "copy"
    matcher = tamis.open(folder, engine="scan")
    matcher.add("r0", "x = 1")

    def fail(fd: int, data: bytes, at: int) -> None:
        write_all_at(fd, data[:7], at)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(log, "write_all_at", fail)
        matcher.add("r1", "x = 1")
        copy_as_killed(matcher, folder, copy)
    assert read(copy, read_only=True)[0] == ["r0", "r1"]
    matcher.add("r2", "x = 1")
    matcher.close()
    assert read(folder)[0] == ["r0", "r1", "r2"]


def test_both_statements_damaged(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    write_and_kill(tmp_path / "index", killed)
    (file,) = killed.glob("log-*")
    data = bytearray(file.read_bytes())
    for place in (20, 20 + log_statement.STATEMENTS_LENGTH // 2):
        data[place] ^= 1
        file.write_bytes(data)
        if place == 20:
            assert read(killed, read_only=True)[0] == ["r0", "r1", "r2", "r3"]
    with pytest.raises(CorruptFileError, match=r"log-.*both statements"):
        tamis.open(killed)


def test_a_log_that_continues_another_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    matcher = tamis.open(folder, engine="scan")
    matcher.add("r0", "x = 1")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        # A checkpoint that does not get to its manifest leaves two logs.
        patch.setattr(store, "write_manifest", full)
        patch.setattr(store, "_CHECKPOINT_BYTES", 0)
        with pytest.raises(OSError, match="space"):
            settle(matcher)
    matcher.add("r1", "x = 1")
    copy_as_killed(matcher, folder, copy)
    assert read(copy, read_only=True)[0] == ["r0", "r1"]
    _, last = sorted(copy.glob("log-*"))
    last.unlink()
    for read_only in (True, False):
        with pytest.raises(CorruptFileError, match=rf"{last.name}: the file is missing"):
            tamis.open(copy, read_only=read_only)
    matcher.close()
    assert read(folder)[0] == ["r0", "r1"]


def test_the_file_of_documents_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_file, "_REWRITE_BYTES", 500)
    folder = tmp_path / "index"
    with tamis.open(folder) as matcher:
        matcher.save(tmp_path / "saved without")
        for x in range(20):
            matcher.publish({"x": x}, id="same")
        matcher.save(tmp_path / "saved")
    for path in (folder, tmp_path / "saved"):
        (file,) = path.glob("documents-*")
        file.unlink()
        with pytest.raises(CorruptFileError, match=r"documents-\d+: the file is missing"):
            tamis.open(path)
    assert read(tmp_path / "saved without") == ([], [])


def test_no_wait_for_the_disk_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    with tamis.open(tmp_path / "index", engine="scan") as matcher:
        matcher.add("r0", "x = 1")
        matcher.publish({"x": 1})
        monkeypatch.setattr(os, "fsync", waits.append)
        matcher.add("r1", "x = 1")
        assert len(waits) == 1
        matcher.publish({"x": 1})
        assert len(waits) == 1
