"""Which processes may write to a directory, and which files they write to."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tamis
from tamis import LockedError, Matcher, StorageError
from tamis.matcher.storage.directory import remove_abandoned_folders
from tamis.matcher.storage.file_names import LOCK, UNFINISHED
from tamis.matcher.storage.lock import FolderLock


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with tamis.open(tmp_path / "index", engine="scan") as matcher:
        matcher.add("r", "x = 1")
    return tmp_path / "index"


def test_a_failed_open_releases_the_lock(index: Path) -> None:
    with tamis.open(index) as matcher:
        matcher.documents.add({"x": 1})
    (file,) = index.glob("documents-*")
    whole = file.read_bytes()
    file.write_bytes(b"damage" + whole)
    with pytest.raises(tamis.CorruptFileError) as caught:
        tamis.open(index)
    file.write_bytes(whole)
    with tamis.open(index) as matcher:  # while `caught` keeps the frames of the failed call
        assert len(matcher.documents) == 1
    assert caught.value.path == str(file)


def test_a_forked_child_does_not_keep_the_lock(index: Path) -> None:
    matcher = tamis.open(index)
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends[1])
        os.read(ends[0], 1)  # until the parent closes its end
        os._exit(0)
    try:
        matcher.close()
        tamis.open(index).close()
    finally:
        os.close(ends[1])
        os.close(ends[0])
        os.waitpid(child, 0)


def test_the_end_of_a_forked_child_does_not_release_the_lock(index: Path) -> None:
    with tamis.open(index) as matcher:
        child = os.fork()
        if child == 0:
            matcher.close()
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(LockedError):
            tamis.open(index)
        matcher.add("s", "x = 1")


def test_a_writer_whose_lock_file_is_removed_stays_the_only_one(index: Path) -> None:
    with tamis.open(index) as first:
        (index / LOCK).unlink()
        with pytest.raises(LockedError):
            tamis.open(index)
        with pytest.raises(LockedError):
            Matcher().save(index, overwrite=True)
        first.add("s", "x = 1")
    with tamis.open(index) as opened:
        assert list(opened) == ["r", "s"]


def test_a_directory_that_was_replaced_acknowledges_nothing(index: Path) -> None:
    matcher = tamis.open(index)
    index.rename(index.with_name("moved"))
    with pytest.raises(StorageError, match="removed, moved or replaced"):
        matcher.add("s", "x = 1")
    shutil.copytree(index.with_name("moved"), index)
    with pytest.raises(StorageError, match="removed, moved or replaced"):
        matcher.add("s", "x = 1")
    with pytest.raises(StorageError, match="removed, moved or replaced"):
        matcher.documents.add({"x": 1})
    assert list(matcher) == ["r"]
    matcher.close()
    with tamis.open(index) as opened:
        assert list(opened) == ["r"]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_file_that_links_to_another_file(index: Path, tmp_path: Path, link: object) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (index / LOCK).unlink()
    (os.symlink if link is os.symlink else os.link)(other, index / LOCK)
    with pytest.raises(StorageError, match=r"LOCK: .*(symbolic link|another name)"):
        tamis.open(index)
    assert other.read_text() == "mine"


def test_a_log_or_an_unfinished_file_that_links_to_another_file(
    index: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (index / f"MANIFEST{UNFINISHED}").symlink_to(other)
    Matcher().save(index, overwrite=True)
    assert other.read_text() == "mine"
    (log,) = index.glob("log-*")
    log.rename(tmp_path / "log")
    log.symlink_to(tmp_path / "log")
    with pytest.raises(StorageError, match=r"log-\d+: it is a symbolic link"):
        tamis.open(index)


@pytest.mark.parametrize("kind", ["MANIFEST", "LOCK", "log-*", "segment-*", "documents-*"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_pipe_in_place_of_a_file(index: Path, kind: str, read_only: bool) -> None:
    with tamis.open(index) as matcher:
        matcher.documents.add({"x": 1})
    (file,) = index.glob(kind)
    file.unlink()
    os.mkfifo(file)
    if kind == "LOCK" and read_only:
        tamis.open(index, read_only=True).close()
        return
    with pytest.raises(StorageError, match="it is not a regular file"):
        tamis.open(index, read_only=read_only)


SAVED = 20


def test_savers_to_one_new_path(tmp_path: Path) -> None:
    """One wins, the others are refused, and the rules of the winner are all there."""
    matcher = Matcher(engine="scan")
    matcher.add_many([(n, "x = 1") for n in range(SAVED)])

    def save(path: Path) -> bool:
        barrier.wait()
        try:
            matcher.save(path)
        except StorageError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            barrier = threading.Barrier(4)
            path = tmp_path / f"index{number}"
            assert sum(pool.map(save, [path] * 4)) == 1
            with tamis.open(path, read_only=True, verify=True) as opened:
                assert len(opened) == SAVED
    assert not list(tmp_path.glob(f"*{UNFINISHED}*"))


def test_openers_of_one_new_path(tmp_path: Path) -> None:
    def count(_: int) -> int:
        barrier.wait()
        try:
            with tamis.open(path) as matcher:
                return len(matcher)
        except LockedError:
            return 0

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            barrier = threading.Barrier(4)
            path = tmp_path / f"index{number}"
            assert list(pool.map(count, range(4))) == [0] * 4


KILLED_SAVER = """
import os, signal, sys, tamis
from tamis.matcher.storage import directory
directory.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tamis.Matcher(engine="scan").save(sys.argv[1])
"""


def test_what_a_killed_saver_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED_SAVER, str(path)], check=False)
        assert len(list(tmp_path.glob(f".index{UNFINISHED}-*"))) == 1
    alive = tmp_path / f"index{UNFINISHED}-0123456789abcdef"
    alive.mkdir()
    lock = FolderLock(alive)
    foreign = tmp_path / f"index{UNFINISHED}-notes"
    foreign.mkdir()
    Matcher().save(path)
    assert sorted(tmp_path.iterdir()) == [path, alive, foreign]
    lock.release()
    tamis.open(path).close()
    assert sorted(tmp_path.iterdir()) == [path, foreign]
    # Somebody's rules, whatever their name.
    rules = tmp_path / alive.name
    Matcher().save(rules)
    tamis.open(path).close()
    assert sorted(tmp_path.iterdir()) == [path, rules, foreign]
    remove_abandoned_folders(tmp_path / "missing" / "index")


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.fixture
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_new_directories_are_their_owner_s(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with tamis.open(path) as matcher:
        matcher.add("r", "x = 1", payload="secret")
        matcher.documents.add({"x": 1})
        matcher.save(tmp_path / "copy")
    for folder in (path, tmp_path / "copy"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert modes(folder) == {0o600}


@pytest.mark.usefixtures("usual_umask")
def test_files_are_readable_as_their_directory_is(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.mkdir()
    path.chmod(0o750)
    Matcher().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert modes(path) == {0o640}
    path.chmod(0o755)
    with tamis.open(path) as matcher:
        matcher.add_many([(n, "x = 1") for n in range(20)])
    (segment,) = path.glob("segment-*")
    assert stat.S_IMODE(segment.stat().st_mode) == 0o644
