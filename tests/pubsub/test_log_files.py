"""The files of the event log: which ones retention removes, and that readers close them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.pubsub import Collection, LogRetention
from tamis.pubsub.log.log_files import size_of


def fill(path: Path) -> Collection:
    """A collection whose log has some twenty files."""
    collection = Collection.open(
        path, sync=False, segment_bytes=400, retention=LogRetention(age=None), webhooks=None
    )
    for number in range(100):
        collection.publish({"n": number, "text": "x" * 40})
    return collection


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_retention_by_bytes_removes_as_few_files_as_it_can(tmp_path: Path, share: float) -> None:
    with fill(tmp_path / "c") as collection:
        log = collection.log
        limit = int(log.stored_bytes * share)
        log.retention = LogRetention(age=None, bytes=limit)
        sizes = [size_of(file.path) for file in log.find_outdated()]
        assert log.stored_bytes - sum(sizes) <= limit
        assert log.stored_bytes - sum(sizes[:-1]) > limit


def test_readers_of_the_log_close_its_files(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("the system does not list descriptors")
    fill(tmp_path / "c").close()
    # The writer's own threads open files, too.
    with Collection.open(tmp_path / "c", read_only=True) as collection:
        assert len(list(collection.log.read(0, 1_000))) == 100
        before = len(list(descriptors.iterdir()))
        for _ in range(3):
            assert len(list(collection.log.read(0, 1_000))) == 100
        assert len(list(descriptors.iterdir())) == before
