"""Publishing, reading and removing versions, without Spark; and what a crash leaves."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import tamis
from tamis import CorruptFileError, LockedError, Matcher, StorageError
from tamis.spark.index.layout import Draft, Shard, Version
from tamis.spark.index.publish import forget, publish, rollback
from tamis.spark.index.versions import current, version, versions

RULES = {"a": "x = 1", "b": "x > 0"}

Writer = Callable[[Path, Version | None], Draft]


def draft(*shards: Shard, bad: int = 0) -> Draft:
    about = {"shards": len(shards)}
    return Draft(shards, bad, "strong", "tiles", {"x": "integer"}, "string", about)


def writes(rules: dict[str, str], name: str = "shard-0000") -> Writer:
    """A writer of one shard with these rules."""

    def write(folder: Path, parent: Version | None) -> Draft:
        matcher = Matcher(schema={"x": "integer"})
        matcher.add_many(rules)
        matcher.save(folder / name)
        return draft(Shard(folder / name, len(rules), 1, f"hash of {sorted(rules)}"))

    return write


def keeps(write: Writer) -> Writer:
    """A writer that names the parent's shards besides its own."""

    def write_more(folder: Path, parent: Version | None) -> Draft:
        assert parent is not None
        return draft(*parent.shards, *write(folder, parent).shards)

    return write_more


def fails(folder: Path, parent: Version | None) -> Draft:
    (folder / "half").write_text("of it")
    raise RuntimeError("no disk is large enough")


def ids(of: Version) -> set[str | int]:
    found: set[str | int] = set()
    for shard in of.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            found |= set(matcher)
    return found


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_a_version_describes_its_files(path: Path) -> None:
    published = publish(path, writes(RULES))
    assert published == current(path) == version(path, 1)
    assert versions(path) == [published]
    assert (published.number, published.rules, published.bad, published.parent) == (1, 2, 0, None)
    assert (published.logic, published.engine, published.schema) == (
        "strong",
        "tiles",
        {"x": "integer"},
    )
    assert (published.id_type, published.parameters) == ("string", {"shards": 1})
    assert published.created.tzinfo is not None
    assert published.folder == path / "versions" / "000001"
    assert ids(published) == {"a", "b"}
    assert (path / "CURRENT").read_text() == "000001\n"


def test_old_versions_stay(path: Path) -> None:
    first = publish(path, writes(RULES))
    second = publish(path, writes({"c": "x = 3"}))
    assert second.parent == 1
    assert versions(path) == [first, second]
    assert current(path) == second
    assert ids(first) == {"a", "b"}


def test_a_shard_may_belong_to_several_versions(path: Path) -> None:
    first = publish(path, writes(RULES))
    second = publish(path, keeps(writes({"c": "x = 3"}, "shard-0001")))
    assert second.shards[0] == first.shards[0]
    assert second.rules == 3
    assert ids(second) == {"a", "b", "c"}


def test_an_index_may_be_moved(path: Path) -> None:
    publish(path, writes(RULES))
    publish(path, keeps(writes({"c": "x = 3"}, "shard-0001")))
    moved = path.rename(path.with_name("elsewhere"))
    assert ids(current(moved)) == {"a", "b", "c"}


def test_rollback_goes_back_and_forth(path: Path) -> None:
    first, second = publish(path, writes(RULES)), publish(path, writes({"c": "x = 3"}))
    assert rollback(path, 1) == first == current(path)
    assert rollback(path, 2) == second == current(path)
    rollback(path, 1)
    third = publish(path, writes({"d": "x = 4"}))
    assert (third.number, third.parent) == (3, 1)


def test_rollback_to_an_unknown_version(path: Path) -> None:
    publish(path, writes(RULES))
    publish(path, writes(RULES))
    with pytest.raises(StorageError, match="no version 7; the versions are 1, 2"):
        rollback(path, 7)
    assert current(path).number == 2


def test_forget_keeps_the_newest_the_current_and_their_shards(path: Path) -> None:
    publish(path, writes(RULES))
    publish(path, keeps(writes({"c": "x = 3"}, "shard-0001")))
    for _ in range(3):
        publish(path, writes(RULES))
    rollback(path, 2)
    assert forget(path, keep=2) == [1, 3]
    assert [v.number for v in versions(path)] == [2, 4, 5]
    assert ids(current(path)) == {"a", "b", "c"}
    # Version 2 needs a shard of version 1; nothing needs version 3.
    assert names(path / "versions" / "000001") == {"shard-0000"}
    assert not (path / "versions" / "000003").exists()
    rollback(path, 5)
    assert forget(path, keep=1) == [2, 4]
    assert names(path / "versions") == {"000005"}
    assert forget(path) == []
    with pytest.raises(ValueError, match="at least 1"):
        forget(path, keep=0)


def test_a_number_is_never_used_again(path: Path) -> None:
    for _ in range(3):
        publish(path, writes(RULES))
    rollback(path, 1)
    forget(path)
    assert publish(path, writes(RULES)).number == 4


def test_a_failed_build_leaves_nothing(path: Path) -> None:
    before = publish(path, writes(RULES))
    with pytest.raises(RuntimeError, match="large enough"):
        publish(path, fails)
    assert versions(path) == [before]
    assert names(path / "versions") == {"000001"}
    assert publish(path, writes(RULES)).number == 2


def test_the_first_build_may_fail(path: Path) -> None:
    with pytest.raises(RuntimeError):
        publish(path, fails)
    with pytest.raises(StorageError, match="no version is published"):
        current(path)
    assert publish(path, writes(RULES)).number == 1


def test_other_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no such index"):
        current(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for ask in (current, versions, lambda p: publish(p, writes(RULES))):
        with pytest.raises(StorageError, match="it is a file"):
            ask(tmp_path / "file")
    Matcher().save(tmp_path / "matcher")
    for ask in (current, lambda p: publish(p, writes(RULES)), lambda p: rollback(p, 1)):
        with pytest.raises(StorageError, match="the rules of one matcher"):
            ask(tmp_path / "matcher")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("keep me")
    with pytest.raises(StorageError, match="holds other files"):
        publish(tmp_path / "notes", writes(RULES))
    assert names(tmp_path / "notes") == {"todo.txt"}


def test_file_addresses_are_paths(tmp_path: Path) -> None:
    publish(f"file://{tmp_path}/index", writes(RULES))
    assert current(f"file:{tmp_path}/index") == current(str(tmp_path / "index"))
    with pytest.raises(StorageError, match="no addresses that begin with ftp:"):
        current("ftp://host/index")
    with pytest.raises(StorageError, match="names no bucket"):
        current("s3://")


def test_a_newer_format_is_refused(path: Path) -> None:
    published = publish(path, writes(RULES))
    manifest = published.folder / "VERSION.json"
    content = msgspec.json.decode(manifest.read_bytes())
    manifest.write_bytes(msgspec.json.encode({"format": 2, "rest": content}))
    with pytest.raises(StorageError, match="format 2, and this version of Tamis reads up to 1"):
        current(path)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_damaged_manifest_is_named(path: Path, damage: bytes) -> None:
    (publish(path, writes(RULES)).folder / "VERSION.json").write_bytes(damage)
    with pytest.raises(CorruptFileError, match=r"VERSION\.json: the manifest is damaged"):
        current(path)


def test_damage_to_the_current_version_is_reported(path: Path) -> None:
    publish(path, writes(RULES))
    publish(path, writes(RULES))
    shutil.rmtree(path / "versions" / "000002")
    with pytest.raises(CorruptFileError, match="names version 2, which does not exist; rollback"):
        current(path)
    rollback(path, 1)
    assert current(path).number == 1
    (path / "CURRENT").write_text("../../etc")
    with pytest.raises(CorruptFileError, match="not the number of a version"):
        current(path)
    (path / "CURRENT").unlink()
    with pytest.raises(StorageError, match="no version is current"):
        current(path)


BUILDER_SCRIPT = """
    import sys, time
    from pathlib import Path
    from tamis.spark.index.publish import publish

    def write(folder, parent):
        (folder / "half").write_text("of it")
        print("building", flush=True)
        time.sleep(600)

    publish(sys.argv[1], write)
"""


def test_a_killed_builder_releases_its_lock(path: Path) -> None:
    before = publish(path, writes(RULES))
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BUILDER_SCRIPT), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "building\n"
        for ask in (lambda: publish(path, writes(RULES)), lambda: rollback(path, 1)):
            with pytest.raises(LockedError, match=f"process {other.pid} builds a ver") as caught:
                ask()
            assert caught.value.pid == other.pid
        with pytest.raises(LockedError):
            forget(path)
        assert current(path) == before
        assert len(names(path / "versions")) == 2
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    # Its folder stays until the next build, but is not a version.
    assert versions(path) == [before]
    assert len(names(path / "versions")) == 2
    assert publish(path, writes(RULES)).number == 2
    assert names(path / "versions") == {"000001", "000002"}
