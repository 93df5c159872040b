"""Documents in a directory survive a restart, a crash and a torn write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tamis
from tamis.matcher.storage import document_file as files
from tamis.matcher.storage import log

LOWEST = "price < ALL (SELECT d.price FROM seen d)"


def test_documents_survive_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with tamis.open(folder, documents=tamis.Retention(count=3)) as matcher:
        matcher.add("low", LOWEST)
        assert [matcher.publish({"price": price}) for price in (30, 40, 20)] == [
            ["low"],
            [],
            ["low"],
        ]
        matcher.publish({"price": 25, "tags": ["a", "b"]}, id="named")
        matcher.documents.remove(1)
    with tamis.open(folder) as matcher:
        assert list(matcher.documents) == [2, "named"]
        assert matcher.documents["named"] == {"price": 25, "tags": ["a", "b"]}
        assert matcher.documents.retention.count == 3
        assert matcher.match({"price": 22}) == []
        assert matcher.match({"price": 19}) == ["low"]
        assert matcher.documents.add({"price": 1}) == 4
    with pytest.raises(tamis.StorageError, match="it was closed"):
        matcher.publish({"price": 1})


def test_a_saved_copy_has_the_documents(tmp_path: Path) -> None:
    matcher = tamis.Matcher()
    matcher.add("low", LOWEST)
    matcher.publish({"price": 3})
    matcher.save(tmp_path / "copy")
    matcher.publish({"price": 2})
    with tamis.open(tmp_path / "copy") as copy:
        assert copy.match({"price": 2}) == ["low"]
    matcher.save(tmp_path / "copy", overwrite=True)
    with tamis.open(tmp_path / "copy") as copy:
        assert copy.match({"price": 2}) == []
        assert list(copy.documents) == [0, 1]


def test_readers_see_documents_when_they_refresh(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with tamis.open(folder) as matcher:
        matcher.add("low", LOWEST)
        matcher.publish({"price": 3})
        reader = tamis.open(folder, read_only=True)
        assert reader.match({"price": 2}) == ["low"]
        matcher.publish({"price": 1})
        assert reader.match({"price": 2}) == ["low"]
        assert reader.refresh()
        assert reader.match({"price": 2}) == []
        assert not reader.refresh()
        with pytest.raises(tamis.StorageError, match="read-only"):
            reader.publish({"price": 1})
        with pytest.raises(tamis.StorageError, match="read-only"):
            reader.documents.remove(0)


def test_retention_is_stored_before_any_document(tmp_path: Path) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    with tamis.open(folder):
        assert not list(folder.glob("documents-*"))
    with tamis.open(folder, documents=tamis.Retention(count=3, age=60.0)):
        pass
    with tamis.open(folder) as matcher:
        assert (matcher.documents.retention.count, matcher.documents.retention.age) == (3, 60.0)
        matcher.save(copy)
    with tamis.open(copy, read_only=True) as matcher:
        assert matcher.documents.retention.count == 3


def test_opening_with_another_retention_replaces_the_stored_one(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with tamis.open(folder) as matcher:
        matcher.documents.add_many([{"x": x} for x in range(5)])
    with tamis.open(folder, documents=tamis.Retention(count=2)) as matcher:
        matcher.documents.add({"x": 5})
    with tamis.open(folder) as matcher:
        assert [matcher.documents[id]["x"] for id in matcher.documents] == [4, 5]
        assert matcher.documents.retention.count == 2


def test_a_file_of_mostly_removed_documents_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_REWRITE_BYTES", 2_000)
    folder = tmp_path / "index"
    with tamis.open(folder, documents=tamis.Retention(count=5)) as matcher:
        for x in range(300):
            matcher.documents.add({"x": x})
        (file,) = folder.glob("documents-*")
        assert int(file.name.removeprefix("documents-")) > 2
        assert file.stat().st_size < 4_000
    with tamis.open(folder) as matcher:
        assert [matcher.documents[id]["x"] for id in matcher.documents] == list(range(295, 300))
        assert matcher.documents.add({}) == 300


PUBLISHER = """
import sys, tamis
with tamis.open(sys.argv[1], documents=tamis.Retention(count=50)) as matcher:
    for x in range(1_000_000):
        matcher.documents.add({"x": x, "text": "y" * 100})
        print(x, flush=True)
"""


def test_documents_survive_a_killed_process(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    command = [sys.executable, "-c", PUBLISHER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = 0
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged >= 300:
                process.send_signal(signal.SIGKILL)
                break
        acknowledged = max([acknowledged, *(int(x) for x in process.stdout.read().split())])
    with tamis.open(folder) as matcher:
        kept = [matcher.documents[id]["x"] for id in matcher.documents]
    assert kept[-1] in (acknowledged, acknowledged + 1)
    assert kept == list(range(kept[-1] - 49, kept[-1] + 1))


def test_a_torn_record_is_dropped_and_corruption_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with tamis.open(folder) as matcher:
        matcher.documents.add_many([{"x": x} for x in range(3)])
        matcher.documents.sync()
    (file,) = folder.glob("documents-*")
    whole = file.read_bytes()
    record = log.make_frame(b"never acknowledged")
    for length in range(1, len(record)):
        file.write_bytes(whole + record[:length])
        with tamis.open(folder) as matcher:
            assert [matcher.documents[id]["x"] for id in matcher.documents] == [0, 1, 2]
            matcher.documents.add({"x": 9})
        with tamis.open(folder) as matcher:
            assert [matcher.documents[id]["x"] for id in matcher.documents] == [0, 1, 2, 9]
    damaged = bytearray(whole)
    damaged[log.EMPTY_LENGTH + 44] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(tamis.CorruptFileError, match="damaged"):
        tamis.open(folder)
    os.truncate(file, 5)
    with pytest.raises(tamis.CorruptFileError, match="header"):
        tamis.open(folder)
