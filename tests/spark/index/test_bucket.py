"""An index in a bucket: published, opened and repaired, on a real S3 server with real faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.app import app
from tamis.errors import CorruptFileError, LockedError, StorageError
from tamis.matcher.published.address import Address, resolve_place
from tamis.matcher.published.cache import Cache, open_cache
from tamis.matcher.published.shard_files import FILES
from tamis.matcher.published.versions import current, versions
from tamis.spark.index import bucket as bucket_module
from tamis.spark.index import exclusive
from tamis.spark.index.exclusive import ClaimedWrites, choose_writes
from tamis.spark.index.layout import BUILDER, CURRENT, Draft, Place, Version
from tamis.spark.index.publish import forget, publish, rollback
from tests.buckets import publish_rules, s3_server

RULES = [("teens", "age BETWEEN 13 AND 19"), ("north", "lat > 60"), ("any", "age > 0")]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def index(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an index that does not exist yet, and an empty cache."""
    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path / "cache"))
    root, _, options = server.partition("?")
    return f"{root}/{uuid4().hex}?{options}"


def root_of(index: str) -> Address:
    place = resolve_place(index)
    assert isinstance(place, Address)
    return place


def first_object(version: Version) -> Address:
    """A file of the first shard with content."""
    shard = version.shards[0].path
    assert isinstance(shard, Address)
    files = json.loads((shard / FILES).read_bytes())
    largest = max(files, key=lambda file: file["size"])
    return shard / str(largest["name"])


def test_a_published_index_is_opened_and_changed(index: str) -> None:
    assert publish_rules(index, RULES).number == 1
    with tamis.open(index, read_only=True) as matcher:
        assert sorted(matcher.match({"age": 15, "lat": 70})) == ["any", "north", "teens"]
    assert publish_rules(index, RULES[:1], shards=3).number == 2
    with tamis.open(index, read_only=True) as matcher:
        assert matcher.match({"age": 15, "lat": 70}) == ["teens"]
    assert [each.number for each in versions(index)] == [1, 2]
    assert rollback(index, 1).number == current(index).number == 1
    assert forget(index, keep=1) == []
    rollback(index, 2)
    assert forget(index, keep=1) == [1]
    assert [each.number for each in versions(index)] == [2]
    with pytest.raises(StorageError, match="there is no version 1"):
        rollback(index, 1)


def test_shards_are_merged_and_kept_in_the_cache(index: str) -> None:
    publish_rules(index, RULES, shards=2)
    before = open_cache().counts.copy()
    for _ in range(2):
        with tamis.open(index, read_only=True) as matcher:
            assert sorted(matcher.match({"age": 15, "lat": 70})) == ["any", "north", "teens"]
    counted = open_cache().counts - before
    assert (counted["misses"], counted["hits"]) == (3, 1)


def test_a_bucket_is_not_written_to_by_open(index: str) -> None:
    publish_rules(index, RULES)
    with pytest.raises(StorageError, match="pass read_only=True"):
        tamis.open(index)
    with pytest.raises(StorageError, match="there is no such index"):
        tamis.open(f"{index.replace('/index', '/other')}", read_only=True)


def test_a_local_index_opens_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.spark.indexes import publish_rules as publish_locally

    monkeypatch.setenv("TAMIS_CACHE", str(tmp_path / "cache"))
    publish_locally(tmp_path / "index", RULES, shards=2)
    with tamis.open(tmp_path / "index", read_only=True) as matcher:
        assert sorted(matcher.match({"age": 15})) == ["any", "teens"]


def test_the_command_takes_an_address(index: str, tmp_path: Path) -> None:
    publish_rules(index, RULES, shards=2)
    (tmp_path / "events.jsonl").write_text('{"age": 15, "lat": 70}\n{"age": -1}\n')
    command = CliRunner()
    found = command.invoke(app, ["match", index, str(tmp_path / "events.jsonl")])
    assert [sorted(json.loads(line)["rules"]) for line in found.stdout.splitlines()] == [
        ["any", "north", "teens"],
        [],
    ]
    stats = command.invoke(app, ["stats", index, "--json"])
    assert json.loads(stats.stdout)["rules"] == 3
    exported = command.invoke(app, ["export", index, "-o", "-"])
    assert {json.loads(line)["id"] for line in exported.stdout.splitlines()} == dict(RULES).keys()


def test_a_secret_is_not_shown(index: str) -> None:
    assert "test:test@" in index
    assert "test:…@" in str(root_of(index))
    with pytest.raises(StorageError) as caught:
        current(index)
    assert "test:test@" not in str(caught.value)


@pytest.mark.parametrize("kind", ["conditions", "claims", "ignored conditions"])
def test_two_builders_at_once(index: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wins; the other says so, and its version is kept."""
    if kind == "claims":
        monkeypatch.setattr(exclusive, "connect_to_s3", lambda root: None)
    if kind == "ignored conditions":
        monkeypatch.setattr(exclusive, "connect_to_s3", lambda root: Unconditional())
    publish_rules(index, RULES)
    both_began = threading.Barrier(2, timeout=60)
    outcomes: list[Version | LockedError] = []

    def build() -> None:
        def write(place: Place, parent: Version | None) -> Draft:
            assert parent is not None
            both_began.wait()
            return Draft(parent.shards, 0, "strong", "tiles", {}, "string")

        try:
            outcomes.append(publish(index, write))
        except LockedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    won = [each for each in outcomes if isinstance(each, Version)]
    lost = [each for each in outcomes if isinstance(each, LockedError)]
    assert (len(won), len(lost)) == (1, 1)
    assert current(index).number == won[0].number
    kept = ({2, 3} - {won[0].number}).pop()
    assert f"version {won[0].number} current meanwhile; yours is kept as version {kept}" in str(
        lost[0]
    )
    assert rollback(index, kept).rules == 3


class Unconditional:
    """A store that takes conditions and ignores them."""

    def create(self, place: Address, data: bytes) -> bool:
        place.write_bytes(data)
        return True


@pytest.mark.parametrize("claims", [False, True])
def test_writes_are_exclusive(index: str, claims: bool) -> None:
    root = root_of(index)
    writes = ClaimedWrites(root) if claims else choose_writes(root)
    place = root / CURRENT
    nothing = writes.read(place)
    assert nothing.data is None
    assert writes.create(place, b"1")
    assert not writes.create(place, b"2")
    assert not writes.replace(place, b"2", nothing)
    first = writes.read(place)
    assert first.data == b"1"
    assert writes.replace(place, b"2", first)
    assert not writes.replace(place, b"3", first)
    assert place.read_bytes() == b"2"


def test_a_claim_of_a_dead_builder(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = root_of(index)
    (root / "CLAIMS" / "dead").write_bytes(b"")
    monkeypatch.setattr(exclusive, "_PATIENCE", 0.1)
    with pytest.raises(LockedError, match="remove dead if it has died"):
        ClaimedWrites(root).create(root / CURRENT, b"1")
    monkeypatch.setattr(exclusive, "_STALE", timedelta(0))
    assert ClaimedWrites(root).create(root / CURRENT, b"1")


def test_a_failed_build_leaves_nothing(index: str) -> None:
    publish_rules(index, RULES)

    def write(place: Place, _: Version | None) -> Draft:
        assert isinstance(place, Address)
        (place / "shard-0000").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(index, write)
    assert current(index).number == 1
    assert not (root_of(index) / "versions/000002/BUILDER").exists()


def test_what_a_killed_builder_left_is_removed_after_a_day(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_rules(index, RULES)
    left = root_of(index) / "versions/000002"
    for name in (BUILDER, "shard-0000-1/log"):
        (left / name).write_bytes(b"half")
    forget(index)
    assert (left / BUILDER).exists()
    assert publish_rules(index, RULES).number == 3
    monkeypatch.setattr(bucket_module, "_ABANDONED", timedelta(0))
    forget(index, keep=2)
    assert left.list_objects() == []
    assert [each.number for each in versions(index)] == [1, 3]


def test_forgetting_keeps_shared_shards(index: str) -> None:
    publish_rules(index, RULES, shards=2)

    def share(place: Place, parent: Version | None) -> Draft:
        assert parent is not None
        return Draft(parent.shards[:1], 0, "strong", "tiles", {}, "string")

    publish(index, share)
    assert forget(index) == [1]
    with tamis.open(index, read_only=True) as matcher:
        assert sorted(matcher) == ["any", "teens"]


# Faults


def test_an_interrupted_download_goes_on(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks is tried again; after a crash, complete files are kept."""
    version = publish_rules(index, RULES)
    read_range = Address.read_range
    broken: list[str] = []

    def break_once(self: Address, start: int, length: int) -> bytes:
        if self.name not in broken:
            broken.append(self.name)
            raise OSError("curlCode: 18, Transferred a partial file")
        return read_range(self, start, length)

    monkeypatch.setattr(Address, "read_range", break_once)
    with tamis.open(index, read_only=True) as matcher:
        assert len(matcher) == 3
    assert len(broken) == len(json.loads((version.shards[0].path / FILES).read_bytes()))


def test_a_download_that_keeps_failing(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = publish_rules(index, RULES)
    read_range, largest = Address.read_range, first_object(version)
    reads: list[str] = []

    def break_one(self: Address, start: int, length: int) -> bytes:
        reads.append(self.name)
        if self.name == largest.name:
            raise OSError("the network is down")
        return read_range(self, start, length)

    monkeypatch.setattr("tamis.matcher.published.shard_files._PAUSE", 0.001)
    monkeypatch.setattr(Address, "read_range", break_one)
    with pytest.raises(StorageError, match="not be downloaded in 4 attempts: the network is down"):
        tamis.open(index, read_only=True)
    assert not (tmp_path / "cache" / version.shards[0].hash).exists()

    def count(self: Address, start: int, length: int) -> bytes:
        reads.append(self.name)
        return read_range(self, start, length)

    monkeypatch.setattr(Address, "read_range", count)
    reads.clear()
    with tamis.open(index, read_only=True) as matcher:
        assert len(matcher) == 3
    # Files that were complete are not downloaded again.
    files = json.loads((version.shards[0].path / FILES).read_bytes())
    before = [file["name"] for file in files].index(largest.name)
    assert len(reads) == len(files) - before


def test_a_wrong_checksum(index: str, tmp_path: Path) -> None:
    place = first_object(publish_rules(index, RULES))
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(bytes(content))
    with pytest.raises(CorruptFileError, match="not what was published") as caught:
        tamis.open(index, read_only=True)
    assert place.name in str(caught.value)
    place.write_bytes(content[:-1])
    with pytest.raises(CorruptFileError, match="not what was published"):
        tamis.open(index, read_only=True)


def test_a_list_of_files_of_another_shard(index: str) -> None:
    """Every file is as listed, but the shard is not the one that the version names."""
    first, second = (publish_rules(index, rules) for rules in (RULES, RULES[:1]))
    source, target = first.shards[0].path, second.shards[0].path
    assert isinstance(source, Address)
    for path in source.list_objects():
        (target / path).write_bytes((source / path).read_bytes())
    with pytest.raises(CorruptFileError, match="not those that the version was published with"):
        tamis.open(index, read_only=True)


@pytest.mark.parametrize("name", ["../../etc", "a/b", ".size", ""])
def test_a_hostile_list_of_files(index: str, name: str) -> None:
    shard = publish_rules(index, RULES).shards[0].path
    assert isinstance(shard, Address)
    (shard / FILES).write_bytes(json.dumps([{"name": name, "size": 1, "hash": "0"}]).encode())
    with pytest.raises(CorruptFileError, match="it lists a file"):
        tamis.open(index, read_only=True)


def test_a_vanished_object(index: str) -> None:
    version = publish_rules(index, RULES)
    first_object(version).unlink()
    with pytest.raises(StorageError, match="the object is missing; forget"):
        tamis.open(index, read_only=True)
    shard = version.shards[0].path
    assert isinstance(shard, Address)
    (shard / FILES).unlink()
    with pytest.raises(StorageError, match=r"FILES\.json"):
        tamis.open(index, read_only=True)
    publish_rules(index, RULES)
    with pytest.raises(StorageError, match="version 1 is not complete"):
        rollback(index, 1)


def test_a_stale_listing(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may list what was there a while ago: no version is lost or overwritten."""
    publish_rules(index, RULES)
    publish_rules(index, RULES[:1])
    iterdir: Callable[[Address], list[Address]] = Address.iterdir
    monkeypatch.setattr(
        Address, "iterdir", lambda self: [e for e in iterdir(self) if e.name != "000002"]
    )
    assert [each.number for each in versions(index)] == [1, 2]
    assert publish_rules(index, RULES[:2]).number == 3
    assert forget(index, keep=2) == [1]
    with tamis.open(index, read_only=True) as matcher:
        assert sorted(matcher) == ["north", "teens"]


def test_a_damaged_cache_is_filled_again(index: str, tmp_path: Path) -> None:
    version = publish_rules(index, RULES)
    with tamis.open(index, read_only=True):
        pass
    place = tmp_path / "cache" / version.shards[0].hash / first_object(version).name
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    with tamis.open(index, read_only=True) as matcher:
        assert len(matcher) == 3


def test_the_store_cannot_be_reached(tmp_path: Path) -> None:
    index = "s3://key:secret@rules/index?endpoint_override=127.0.0.1:1&scheme=http&region=x"
    with pytest.raises(StorageError, match="connect") as caught:
        current(index)
    assert "secret" not in str(caught.value)


def test_cache_is_bounded(index: str, tmp_path: Path) -> None:
    sizes = publish_rules(index, RULES).shards[0].bytes
    cache = Cache(tmp_path / "small", 2 * sizes)
    filled: list[str] = []

    def get(key: str) -> Any:
        def fill(folder: Path) -> None:
            filled.append(key)
            (folder / "content").write_bytes(b"x" * sizes)

        return cache.get(key, lambda: sizes, fill)

    for key in ("a", "b"):
        get(key).release()
    get("a").release()
    get("c").release()
    # b was used least recently.
    assert sorted(path.name for path in (tmp_path / "small").iterdir() if path.is_dir()) == [
        "a",
        "c",
    ]
    used = [get("a"), get("c")]
    with pytest.raises(StorageError, match="raise TAMIS_CACHE_SIZE"):
        get("d")
    used.pop().release()
    get("d").release()
    assert filled == ["a", "b", "c", "d"]
