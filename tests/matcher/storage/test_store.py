"""Rules in a directory: what is read again, which processes may open it, and what is refused."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import CorruptFileError, LockedError, Matcher, StorageError, tagged
from tamis.matcher.storage import array_file, store
from tamis.matcher.storage import log as log_module
from tamis.matcher.storage.array_file import map_sections, write_sections
from tamis.matcher.storage.file_names import UNFINISHED
from tamis.matcher.storage.lock import Lock
from tamis.matcher.storage.log import EMPTY_LENGTH, Log, create_log, read_log
from tests.matcher.matchers import copy_as_killed, settle

MANY = 200
EVENT = {"x": 1, "y": 2}

as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


def describe(matcher: Matcher) -> tuple[Any, ...]:
    """All that a caller can observe of a matcher's rules."""
    events: list[Any] = [EVENT, {}, {"x": 2}, {"s": "abc"}, {"t": datetime(2024, 1, 1, tzinfo=UTC)}]
    ids = list(matcher)
    return (
        ids,
        [matcher.rule(id) for id in ids],
        [matcher.match(event) for event in events],
        [matcher.top(event, 5) for event in events],
        [matcher.match(event, only=tagged("even")) for event in events],
        matcher.count_many(events).to_pylist(),
    )


def varied(count: int = MANY) -> list[tamis.Rule]:
    """Rules with all that a rule may carry."""
    sources: list[Any] = [
        "x = 1",
        "x IN (1, 2) AND y <> 5",
        "s LIKE '%b%' OR s RLIKE '^z'",
        {"and": [{"attr": "x", ">": 0}, {"attr": "y", "between": [1, 3]}]},
        "t >= TIMESTAMP '2023-05-05 10:00:00'",
        True,
    ]
    matcher = Matcher()
    for number in range(count):
        weighted = number % len(sources) == 0
        matcher.add(
            number if number % 2 else f"r{number}é",
            sources[number % len(sources)],
            logic="weak" if number % 3 else "strong",
            weights={("x", 1): number / 7} if weighted else None,
            payload={"n": [number, None, "ü"]} if number % 5 == 0 else None,
            tags=["even"] if number % 2 == 0 else (),
        )
    return [matcher.rule(id) for id in matcher]


# --- What comes back --------------------------------------------------------------------


@pytest.mark.parametrize("engine", tamis.engines())
@pytest.mark.parametrize("count", [0, 1, MANY])
def test_saved_rules_come_back(tmp_path: Path, engine: str, count: int) -> None:
    matcher = Matcher(engine=engine)
    matcher.add_many(varied(count))
    matcher.save(tmp_path / "index")
    with tamis.open(tmp_path / "index", verify=True) as opened:
        assert describe(opened) == describe(matcher)
        assert opened.stats()["engine"] == engine
    with tamis.open(tmp_path / "index", read_only=True) as opened:
        assert describe(opened) == describe(matcher)


@pytest.mark.parametrize("count", [3, MANY])
def test_changes_come_back(tmp_path: Path, count: int) -> None:
    path, expected = tmp_path / "index", Matcher()
    rules = varied(count)
    for matcher in (tamis.open(path), expected):
        matcher.add_many(rules)
        matcher.add("one", "x = 1", payload=1)
        matcher.add("one", "y = 2", replace=True, tags=["even"])
        matcher.add_many([("two", "x = 1"), ("one", "x = 1"), ("bad", "x =")], on_error="skip")
        matcher.remove(rules[1].id)
        matcher.remove_many([rules[0].id, "two"])
        matcher.add(rules[0].id, "TRUE")
        matcher.close()
    for _ in range(3):
        with tamis.open(path, verify=True) as opened:
            assert describe(opened) == describe(expected)


def test_changes_come_back_from_the_log_alone(tmp_path: Path) -> None:
    path, expected = tmp_path / "index", Matcher()
    matcher = tamis.open(path)
    for each in (matcher, expected):
        each.add_many(varied())
        each.remove(1)
        each.replace_all([("a", "x = 1"), ("b", "y = 2")])
        each.add("c", "x = 1")
        each.remove("a")
    with tamis.open(path, read_only=True) as reader:
        assert reader.stats()["segments"] == 0
        assert describe(reader) == describe(expected)
    matcher.close()


def test_a_new_directory_and_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where"
    with tamis.open(path, logic="weak", schema={"t": "timestamp"}, engine="scan") as matcher:
        matcher.add("r", "t > '2024-01-01' AND x <> 1")
        assert str(path) in repr(matcher)
    with tamis.open(path) as matcher:
        assert matcher.match({"t": "2024-02-01"}) == ["r"]
        assert (matcher.stats()["engine"], matcher.stats()["logic"]) == ("scan", "weak")
    with pytest.raises(StorageError, match="its logic is 'weak', not 'strong'"):
        tamis.open(path, logic="strong")
    with pytest.raises(StorageError, match="its schema is"):
        tamis.open(path, schema={})


def test_another_engine_is_built_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "index"
    matcher = Matcher(engine="sift")
    matcher.add_many(varied())
    matcher.save(path)
    with tamis.open(path, engine="keyed") as opened:
        assert describe(opened) == describe(matcher)
        assert opened.stats()["engine"] == "keyed"
    with tamis.open(path) as opened:
        assert describe(opened) == describe(matcher)
        assert opened.stats()["engine"] == "keyed"
    with tamis.open(path, engine="scan", read_only=True) as opened:
        assert describe(opened) == describe(matcher)


def test_a_checkpoint_makes_the_log_superfluous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHECKPOINT_BYTES", 2_000)
    path = tmp_path / "index"
    with tamis.open(path) as matcher:
        for number in range(100):
            matcher.add(number, f"x = {number % 3}")
            while matcher._writer.compact(quiet=False):
                pass
            logs = [file.stat().st_size for file in path.glob("log-*")]
            assert sum(logs) < 3_000
        assert len(list(path.glob("segment-*"))) < 10
        expected = describe(matcher)
    with tamis.open(path) as matcher:
        assert describe(matcher) == expected


def test_a_save_of_a_stored_matcher(tmp_path: Path) -> None:
    with tamis.open(tmp_path / "a") as matcher:
        matcher.add_many(varied())
        matcher.remove(1)
        matcher.save(tmp_path / "b")
        matcher.add("later", "x = 1")
        with tamis.open(tmp_path / "b") as copy:
            assert "later" not in copy
            assert len(copy) == len(matcher) - 1
            assert copy.stats()["segments"] == 1


def test_what_is_saved_over(tmp_path: Path) -> None:
    old, new = Matcher(), Matcher(logic="weak", engine="scan")
    old.add("old", "x = 1")
    new.add_many([("new", "x = 1"), ("newer", "x <> 1")])
    path = tmp_path / "index"
    old.save(path)
    reader = tamis.open(path, read_only=True)
    with pytest.raises(StorageError, match=r"overwrite=True"):
        new.save(path)
    new.save(path, overwrite=True)
    assert list(reader) == ["old"]
    assert reader.match({"x": 1}) == ["old"]
    assert reader.refresh()
    assert list(reader) == ["new", "newer"]
    assert sorted(p.name.partition("-")[0] for p in path.iterdir()) == [
        "LOCK", "MANIFEST", "log", "segment",
    ]  # fmt: skip
    with tamis.open(path), pytest.raises(LockedError):
        old.save(path, overwrite=True)
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.png").touch()
    for overwrite in (False, True):
        with pytest.raises(StorageError, match=r"photos: "):
            new.save(folder, overwrite=overwrite)
    assert [file.name for file in folder.iterdir()] == ["cat.png"]
    empty = tmp_path / "empty"
    empty.mkdir()
    new.save(empty)
    with tamis.open(empty) as matcher:
        assert list(matcher) == ["new", "newer"]


# --- Who may open it --------------------------------------------------------------------


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with tamis.open(path) as matcher:
        for _ in range(2):
            with pytest.raises(LockedError, match=f"process {os.getpid()} writes") as caught:
                tamis.open(path)
            assert caught.value.pid == os.getpid()
        matcher.add("r", "x = 1")
    with pytest.raises(StorageError, match="closed"):
        matcher.add("s", "x = 1")
    with pytest.raises(StorageError, match="closed"):
        matcher.remove("r")
    assert matcher.match({"x": 1}) == ["r"]
    matcher.close()
    with tamis.open(path) as matcher:
        assert list(matcher) == ["r"]


def test_a_writer_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "index"
    code = f"import tamis; m = tamis.open({str(path)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(LockedError, match=f"process {process.pid} writes"):
            tamis.open(path)
        with tamis.open(path, read_only=True) as reader:
            assert len(reader) == 0
        process.kill()
    with tamis.open(path) as matcher:
        matcher.add("r", "x = 1")


def test_a_writer_that_is_not_used_any_more_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "index"
    matcher = tamis.open(path)
    matcher.add("r", "x = 1")
    del matcher
    for _ in range(100):
        try:
            opened = tamis.open(path)
            break
        except LockedError:  # the background thread holds it for a moment
            threading.Event().wait(0.05)
    assert list(opened) == ["r"]
    opened.close()


def test_a_fork_may_read_and_not_write(tmp_path: Path) -> None:
    code = f"""
import os, tamis
m = tamis.open({str(tmp_path / "index")!r})
m.add("r", "x = 1")
child = os.fork()
if child == 0:
    try:
        assert m.match({{"x": 1}}) == ["r"]
        try:
            m.add("s", "x = 1")
        except tamis.StorageError as error:
            assert "fork" in str(error)
            os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
m.add("t", "x = 1")
memory = tamis.Matcher()
memory.add("r", "x = 1")
child = os.fork()
if child == 0:
    for number in range(200):
        memory.add(number, "x = 1")
    os._exit(0 if len(memory.match({{"x": 1}})) == 201 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_readers_see_a_writer_s_changes_when_they_refresh(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with tamis.open(path) as matcher, tamis.open(path, read_only=True) as reader:
        assert not reader.refresh()
        matcher.add_many(varied())
        assert len(reader) == 0
        assert reader.refresh()
        assert describe(reader) == describe(matcher)
        matcher.remove(1)
        matcher.optimize()
        assert 1 in reader
        assert reader.refresh()
        assert describe(reader) == describe(matcher)
        for write in (
            lambda: reader.add("x", "x = 1"),
            lambda: reader.remove(3),
            lambda: reader.replace_all([]),
        ):
            with pytest.raises(StorageError, match="read-only"):
                write()
        assert not matcher.refresh()
    assert reader.refresh()
    assert describe(reader) == describe(matcher)


def test_a_log_that_grows_before_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that sees a record of the next log sees all of the last one."""
    with tamis.open(tmp_path / "other", sync=False) as other:
        other.add("c", "x = 1")
        (log,) = (tmp_path / "other").glob("log-*")
        later = shutil.copy(log, tmp_path / "later")
    real, read = log_module.read_log, list[Path]()
    with tamis.open(tmp_path / "index", sync=False) as matcher:
        matcher.add("a", "x = 1")
        (first,) = (tmp_path / "index").glob("log-*")
        following = first.with_name(f"log-{int(first.name.removeprefix('log-')) + 1:08d}")
        # A checkpoint creates it before it leaves the last one.
        shutil.copy(later, following)

        def read_log(file: Path, *arguments: Any, **options: Any) -> Any:
            content = real(file, *arguments, **options)
            if not read:
                read.append(file)
                matcher.add("b", "x = 1")
            return content

        monkeypatch.setattr(store, "read_log", read_log)
        with tamis.open(tmp_path / "index", read_only=True) as reader:
            assert reader.match({"x": 1}) == ["a", "b", "c"]
        assert read == [first]
        following.unlink()


def test_readers_while_a_writer_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHECKPOINT_BYTES", 500)
    path = tmp_path / "index"
    done = threading.Event()

    def read() -> int:
        times, known = 0, 0
        while not done.is_set() or not times:
            with tamis.open(path, read_only=True) as reader:
                for _ in range(3):
                    found = reader.match({"x": 1})
                    assert found == list(range(len(found)))
                    assert len(found) >= known
                    known = len(found)
                    reader.refresh()
            times += 1
        return times

    with tamis.open(path, sync=False) as matcher, ThreadPoolExecutor() as threads:
        readers = [threads.submit(read) for _ in range(2)]
        try:
            for number in range(300):
                matcher.add(number, "x = 1")
        finally:
            done.set()
        assert all(reader.result() for reader in readers)


def test_writers_share_a_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    matcher = tamis.open(path)
    syncs = 0
    started, go_on = threading.Event(), threading.Event()

    (log,) = path.glob("log-*")

    def fsync(fd: int) -> None:
        nonlocal syncs
        if os.path.samestat(os.fstat(fd), log.stat()):  # The background waits for other files.
            syncs += 1
        started.set()
        assert go_on.wait(30)

    monkeypatch.setattr(os, "fsync", fsync)
    writers = [threading.Thread(target=matcher.add, args=("first", "x = 1"))]
    writers[0].start()
    assert started.wait(30)
    writers += [threading.Thread(target=matcher.add, args=(n, "x = 1")) for n in range(5)]
    for writer in writers[1:]:
        writer.start()
    # The first one is still among them.
    while len(matcher._writer._queue) < len(writers):
        threading.Event().wait(0.001)
    assert len(matcher) == 0, "a rule was seen before it was safe"
    go_on.set()
    for writer in writers:
        writer.join()
    assert syncs == 2
    assert len(matcher) == 6
    monkeypatch.undo()
    matcher.close()


# --- What is refused --------------------------------------------------------------------


def test_what_is_no_directory_of_rules(tmp_path: Path) -> None:
    file, empty, other = tmp_path / "file", tmp_path / "empty", tmp_path / "other"
    file.write_text("rules")
    empty.mkdir()
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for path, words in (
        (file, "it is a file"),
        (empty, "is empty"),
        (other, "holds no stored rules"),
        (tmp_path / "nowhere", "no such directory"),
        (file / "below", "no such directory|not a directory"),
    ):
        for read_only in (True, False):
            if path.name == "nowhere" and not read_only:
                continue
            with pytest.raises(StorageError, match=words) as caught:
                tamis.open(path, read_only=read_only)
            assert str(path) in str(caught.value)
    assert not list(empty.iterdir())
    assert [found.name for found in other.iterdir()] == ["notes.txt"]
    assert not (tmp_path / "nowhere").exists()


def test_a_newer_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    with monkeypatch.context() as patch:
        patch.setattr("tamis.matcher.storage.array_file.FORMAT", 99)
        Matcher().save(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for read_only in (True, False):
        with pytest.raises(StorageError, match=r"MANIFEST: it has format 99, .*newer Tamis"):
            tamis.open(path, read_only=read_only)
    assert before == {file.name: file.read_bytes() for file in path.iterdir()}


@as_root
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Matcher().save(path)
    (path / "MANIFEST").chmod(0)
    with pytest.raises(StorageError, match="permission denied"):
        tamis.open(path)
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission denied"):
        tamis.open(tmp_path / "new")
    tmp_path.chmod(0o700)


def test_a_directory_that_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(StorageError, match="new: permission denied"):
        tamis.open(tmp_path / "new")


@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    path = tmp_path / "index"
    with tamis.open(path) as matcher:
        matcher.add("r", "x = 1")
        settle(matcher)
        expected = describe(matcher)
        with monkeypatch.context() as patch:
            half_full(patch, fails)
            for write in (
                lambda: matcher.add("s", "x = 1"),
                lambda: matcher.add_many([(n, "x = 1") for n in range(100)]),
                lambda: matcher.remove("r"),
                lambda: matcher.replace_all([]),
            ):
                with pytest.raises(StorageError, match=r"log-\d+: no space left"):
                    write()
            assert describe(matcher) == expected
        with tamis.open(path, read_only=True) as reader:
            assert describe(reader) == expected
        matcher.add("s", "x = 1")
    with tamis.open(path) as matcher:
        assert list(matcher) == ["r", "s"]


def half_full(patch: pytest.MonkeyPatch, fails: str) -> None:
    """A disk that takes a few bytes of a file and then no more."""
    write, fsync, cuts = os.write, os.fsync, []

    def some(fd: int, data: Any) -> int:
        if fails == "write" and len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: len(data) // 2] if fails == "write" else data)

    def none(fd: int) -> None:
        # The second one is that after the cut.
        cuts.append(fd)
        if fails == "fsync" and len(cuts) % 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(fd)

    patch.setattr(os, "write", some)
    patch.setattr(os, "fsync", none)


def test_a_disk_that_cannot_undo_takes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    matcher = tamis.open(path)
    matcher.add("r", "x = 1")

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StorageError, match="input/output error"):
            matcher.add("s", "x = 1")
    with pytest.raises(StorageError, match="open the directory again"):
        matcher.add("t", "x = 1")
    assert matcher.match({"x": 1}) == ["r"]
    del matcher


def test_a_checkpoint_that_fails_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    matcher = tamis.open(path)
    matcher.add_many(varied())
    expected = describe(matcher)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tamis.matcher.storage.segment_file.write_sections", _raising(full))
        patch.setattr(store, "_CHECKPOINT_BYTES", 10)
        with pytest.raises(OSError, match="space"):
            settle(matcher)
    matcher.add("after", "x = 1")
    copy = tmp_path / "copy"
    copy_as_killed(matcher, path, copy)
    with tamis.open(copy) as opened:
        assert describe(opened)[0] == [*expected[0], "after"]
    matcher.close()
    with tamis.open(path) as opened:
        assert describe(opened)[0] == [*expected[0], "after"]


def _raising(function: Any) -> Any:
    return lambda *arguments, **options: function()


def test_a_rule_that_is_refused_is_not_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with tamis.open(path) as matcher:
        matcher.add("r", "x = 1")
        size = sum(file.stat().st_size for file in path.glob("log-*"))
        with pytest.raises(tamis.RuleError):
            matcher.add("s", "x =")
        with pytest.raises(tamis.DuplicateRuleError):
            matcher.add("r", "x = 2")
        with pytest.raises(tamis.UnknownRuleError):
            matcher.remove_many(["r", "unknown"])
        with pytest.raises(tamis.RuleError):
            matcher.replace_all([("a", "x = 1"), ("b", "x =")])
        assert matcher.add_many([]) == (0, [])
        assert sum(file.stat().st_size for file in path.glob("log-*")) == size
        assert list(matcher) == ["r"]


def test_an_unknown_way_to_verify(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="True or False"):
        tamis.open(tmp_path / "index", verify="later")  # type: ignore[arg-type]


# --- Files of arrays --------------------------------------------------------------------


def test_arrays_come_back_aligned(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(7, dtype=np.int32),
        "b.c": np.arange(12.0).reshape(3, 4),
        "empty": np.empty((0, 3), np.int64),
        "number": np.array(5),
    }
    write_sections(tmp_path / "f", "test", {"says": "hello"}, arrays)
    sections = map_sections(tmp_path / "f", "test", verify=True)
    assert sections.about == {"says": "hello"}
    for name, array in arrays.items():
        found = sections.arrays[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert np.array_equal(found, array)
        assert found.size == 0 or found.ctypes.data % 64 == 0
    with pytest.raises(CorruptFileError, match="it is a test, not a segment"):
        map_sections(tmp_path / "f", "segment")
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))


def test_a_file_that_is_replaced_while_it_is_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint may replace the manifest between any two steps of a reader."""
    path = tmp_path / "f"
    write_sections(path, "test", {}, {"a": np.arange(9)})
    decode = array_file._decode_directory

    def replace_and_decode(*arguments: Any) -> Any:
        write_sections(path, "test", {}, {"a": np.arange(9, 18)})
        return decode(*arguments)

    monkeypatch.setattr(array_file, "_decode_directory", replace_and_decode)
    assert map_sections(path, "test", verify=True).arrays["a"].tolist() == list(range(9))


def test_a_file_that_does_not_close_is_no_error(tmp_path: Path) -> None:
    """What it holds was on the disk before; an `OSError` would hide that the rest was done."""
    create_log(tmp_path / "log")
    journal = Log(tmp_path / "log", EMPTY_LENGTH, sync=True)
    journal.append(b"content")
    journal.confirm()
    lock = Lock(tmp_path / "LOCK", "writes to it", "close it there")
    close = os.close

    def fail(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "close", fail)
        journal.close()
        lock.release()
    assert read_log(tmp_path / "log", bytes).records == [b"content"]
    Lock(tmp_path / "LOCK", "writes to it", "close it there").release()
