"""A disk that fails at any call, and files that are torn or damaged."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from attack.failing_disk import FAULTS, FailingCalls
from tamis import CorruptFileError, StorageError
from tamis.matcher.storage.log import EMPTY_LENGTH, make_frame
from tamis.pubsub import Collection, LogRetention


def open_small(path: Path) -> Collection:
    retention = LogRetention(age=None, bytes=100_000)
    return Collection.open(path, segment_bytes=600, retention=retention, engine="scan")


def prepare(path: Path) -> None:
    with open_small(path) as c:
        c.matcher.add("all", "n >= 0")
        c.matcher.add("again", "EXISTS (SELECT 1 FROM seen d WHERE d.n = n)")
        c.subscriptions.put("s", rules=["all", "again"])
        c.publish({"n": 0}, message_id="m0")


def run(c: Collection, done: dict[str, Any]) -> None:
    """Publish and acknowledge; `done` gets what was acknowledged."""
    for n in range(1, 8):
        try:
            done[f"m{n}"] = c.publish({"n": n % 3, "text": "x" * 60}, message_id=f"m{n}")
        except StorageError:
            # It was not published, so that it can be published again.
            done[f"m{n}"] = c.publish({"n": n % 3, "text": "x" * 60}, message_id=f"m{n}")
            assert not done[f"m{n}"].duplicate
        try:
            c.acknowledge("s", n - 1)
        except StorageError:
            c.acknowledge("s", n - 1)
        done["acknowledged"] = n - 1
    try:
        c.subscriptions.put("t", rules=["all"])
    except StorageError:
        assert "t" not in c.subscriptions
        c.subscriptions.put("t", rules=["all"])
    done["t"] = True


def check(path: Path, done: dict[str, Any]) -> None:
    """Everything that was acknowledged is there, and nothing is there twice."""
    with open_small(path) as c:
        records = list(c.log.read())
        ids = [record.message_id for record in records]
        assert len(set(ids)) == len(ids)
        assert [record.sequence for record in records] == list(range(1, len(ids) + 1))
        for id, publication in done.items():
            if id.startswith("m"):
                assert ids[publication.sequence - 1] == id
        seen: set[int] = set()
        for record in records:
            n = record.event["n"]
            (match,) = record.matches
            assert match.rules == (("all", "again") if n in seen else ("all",))
            seen.add(n)
        assert c.subscriptions.state("s").acknowledged >= done.get("acknowledged", 0)
        assert ("t" in c.subscriptions) or "t" not in done
        assert c.publish({"n": 9}).sequence == len(ids) + 1


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_call_that_fails_loses_nothing(tmp_path: Path, fault: str) -> None:
    prepare(tmp_path / "start")
    # Every third call, to save time; the faults differ in their first one.
    place = list(FAULTS).index(fault) % 3
    tried = 0
    while True:
        path = tmp_path / f"{place}"
        shutil.copytree(tmp_path / "start", path)
        done: dict[str, Any] = {}
        calls = FailingCalls(path / "published", place, fault)
        c = None
        try:
            with calls:
                c = open_small(path)
                run(c, done)
                c.close()
        except StorageError:
            if c is not None:
                c.close()
        check(path, done)
        shutil.rmtree(path)
        if calls._left >= 0:
            break
        tried += calls.failed is not None
        place += 3
    assert tried > 10 or fault == "short write"


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path / "c")
    with open_small(tmp_path / "c") as c:
        real = os.write

        def write(fd: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(StorageError, match="no space left") as full:
            c.publish({"n": 1})
        assert full.value.is_full
        monkeypatch.setattr(os, "write", real)
        assert c.publish({"n": 1}).sequence == 2
        assert c.matcher.match({"n": 1}) == ["all", "again"]


def test_a_torn_end_is_cut_off_and_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with Collection.open(path) as c:
        c.matcher.add("all", "TRUE")
        c.subscriptions.put("s", rules=["all"])
        for n in range(5):
            c.publish({"n": n})
        c.acknowledge("s", 2)
    log = path / "published" / "events-000000000001"
    whole = log.read_bytes()
    last = make_frame(b"of a group that was never acknowledged")
    for length in range(1, len(last), 7):
        log.write_bytes(whole + last[:length])
        with Collection.open(path) as c:
            assert c.log.latest == 5
        assert log.read_bytes()[EMPTY_LENGTH:] == whole[EMPTY_LENGTH:]
    log.write_bytes(whole[:-5])
    with pytest.raises(CorruptFileError, match="acknowledged are missing"):
        Collection.open(path)
    for place in range(EMPTY_LENGTH, len(whole), 17):
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CorruptFileError):
            Collection.open(path)
    log.write_bytes(whole)
    cursors = path / "published" / "cursors-00000001"
    cursors.write_bytes(cursors.read_bytes()[:-3])
    with Collection.open(path) as c:
        # The acknowledgement is lost, so its messages come again.
        assert [d.sequence for d in c.read("s")] == [1, 2, 3, 4, 5]
        c.acknowledge("s", 5)
    with Collection.open(path) as c:
        assert c.read("s") == []
    subscriptions = path / "published" / "subscriptions-00000001"
    content = subscriptions.read_bytes()
    subscriptions.write_bytes(content[:150] + b"?" + content[151:])
    with pytest.raises(CorruptFileError):
        Collection.open(path)


def test_a_file_of_the_log_that_is_missing_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with Collection.open(path, segment_bytes=200, sync=False, deduplicated_events=1) as c:
        for n in range(20):
            c.publish({"n": n, "text": "x" * 100})
        files = c.log.files
    (path / "published" / files[2].path.name).unlink()
    with (
        Collection.open(path, deduplicated_events=1) as c,
        pytest.raises(CorruptFileError, match="the next file begins with"),
    ):
        list(c.log.read())


def test_cursors_are_written_anew_when_most_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamis.pubsub.subscriptions import journal

    monkeypatch.setattr(journal, "_REWRITE_BYTES", 500)
    path = tmp_path / "c"
    with Collection.open(path, sync=False) as c:
        c.matcher.add("all", "TRUE")
        c.subscriptions.put("s", rules=["all"])
        for n in range(100):
            c.publish({"n": n})
            c.acknowledge("s", n + 1)
            c.subscriptions.put("s", rules=["all"], priority=n)
        (cursors,) = (path / "published").glob("cursors-*")
        assert cursors.stat().st_size < 4_000
        assert cursors.name != "cursors-00000001"
    with Collection.open(path) as c:
        assert c.subscriptions.state("s").acknowledged == 100
        assert c.subscriptions.get("s").priority == 99
