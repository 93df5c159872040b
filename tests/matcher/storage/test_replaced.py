"""Directories that are replaced by others of the same name while they are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tamis
from tamis.errors import GoneError, StorageError
from tamis.matcher.storage.manifest import read_manifest, write_manifest
from tamis.pubsub import Collection


def make(folder: Path, rules: dict[str, str], **settings: dict[str, str]) -> Path:
    with tamis.open(folder, **settings) as made:  # type: ignore[arg-type]  # only texts here
        made.add_many(rules)
    return folder


def replace(folder: Path, other: Path) -> None:
    """Have `other` take the place of `folder`, as a deployment by rename does."""
    folder.rename(folder.with_name("before"))
    other.rename(folder)
    shutil.rmtree(folder.with_name("before"))


def forget_identity(folder: Path) -> None:
    """Make a directory one of an older Tamis."""
    write_manifest(folder, read_manifest(folder)._replace(identity=""))


@pytest.mark.parametrize("is_old", [True, False])
def test_reader_has_the_rules_of_the_directory_that_took_the_place(
    tmp_path: Path, is_old: bool
) -> None:
    folder = make(tmp_path / "index", {f"r{n}": f"x = {n}" for n in range(100)})
    other = make(tmp_path / "other", {f"new{n}": f"x = {n}" for n in range(100)})
    names = {path.name for path in folder.iterdir()}
    assert names == {path.name for path in other.iterdir()}
    if is_old:
        forget_identity(folder)
        forget_identity(other)
    with tamis.open(folder, read_only=True) as reader:
        assert reader.match({"x": 7}) == ["r7"]
        replace(folder, other)
        assert reader.refresh()
        assert reader.match({"x": 7}) == ["new7"]
        assert list(reader) == [f"new{n}" for n in range(100)]


def test_reader_of_another_schema_has_to_open_again(tmp_path: Path) -> None:
    folder = make(tmp_path / "index", {"r": "x = 1"})
    other = make(tmp_path / "other", {"r": "x = 1"}, schema={"x": "double"})
    with tamis.open(folder, read_only=True) as reader:
        replace(folder, other)
        with pytest.raises(StorageError, match="replaced"):
            reader.refresh()
        assert reader.match({"x": 1}) == ["r"]


def test_reader_of_a_collection_has_the_events_of_the_one_that_took_its_place(
    tmp_path: Path,
) -> None:
    for name, count in (("c", 5), ("other", 7)):
        with Collection.open(tmp_path / name, sync=False) as made:
            made.matcher.add("all", "TRUE")
            made.subscriptions.put("ann", rules=["all"])
            for n in range(count):
                made.publish({"from": name, "n": n})
    with Collection.open(tmp_path / "c", read_only=True) as reader:
        first = reader.read("ann")
        assert [one.event["from"] for one in first] == ["c"] * 5
        replace(tmp_path / "c", tmp_path / "other")
        assert reader.refresh()
        assert [one.event["from"] for one in reader.read("ann")] == ["other"] * 7
        assert [record.event["n"] for record in reader.log.read()] == list(range(7))
        for read in (lambda: reader.read("ann", after=first[0].cursor),):
            with pytest.raises(GoneError, match="another collection"):
                read()
        (last,) = reader.read("ann", limit=1)
        assert [one.sequence for one in reader.read("ann", after=last.cursor, limit=1)] == [2]


def test_identity_is_drawn_once_for_a_directory_of_an_older_version(tmp_path: Path) -> None:
    folder = make(tmp_path / "c", {"r": "x = 1"})
    forget_identity(folder)
    with tamis.open(folder, read_only=True) as reader:
        assert reader.match({"x": 1}) == ["r"]
    assert read_manifest(folder).identity == ""
    with Collection.open(folder) as opened:
        identity = opened.identity
        assert identity == read_manifest(folder).identity != ""
    with Collection.open(folder) as again:
        assert again.identity == identity
        again.matcher.add("r2", "x = 1")
    assert read_manifest(folder).identity == identity
    with Collection.open(folder, read_only=True) as reader_:
        assert reader_.identity == identity
        assert reader_.matcher.match({"x": 1}) == ["r", "r2"]


def test_directory_that_is_overwritten_is_another_one(tmp_path: Path) -> None:
    folder = make(tmp_path / "index", {"r": "x = 1"})
    before = read_manifest(folder).identity
    saved = tamis.Matcher()
    saved.add("new", "x = 1")
    saved.save(folder, overwrite=True)
    assert read_manifest(folder).identity not in ("", before)
