"""The disk of the power cuts keeps what was synced, and may lose the rest."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from attack.disk import Disk, Recorder


def record(root: Path, sync: bool) -> Disk:
    """Write a file in two steps and rename it, with or without waiting for the disk."""
    root.mkdir()
    with Recorder(root) as recorder:
        fd = os.open(root / "new", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"a" * 600)
        os.write(fd, b"b" * 600)
        if sync:
            os.fsync(fd)
        os.close(fd)
        (root / "new").replace(root / "file")
        if sync:
            folder = os.open(root, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
    disk = Disk(root)
    for call in recorder.calls:
        disk.follow(call)
    return disk


def left(disk: Disk, to: Path, survival: str, seed: int = 0) -> dict[str, bytes]:
    disk.write(to, survival, Random(seed))  # type: ignore[arg-type]
    return {path.name: path.read_bytes() for path in to.iterdir()}


def test_what_was_synced_survives(tmp_path: Path) -> None:
    disk = record(tmp_path / "disk", sync=True)
    whole = {"file": b"a" * 600 + b"b" * 600}
    for number, survival in enumerate(("all", "synced", "torn", "torn")):
        assert left(disk, tmp_path / str(number), survival, number) == whole


def test_what_was_not_synced_may_be_lost_in_many_ways(tmp_path: Path) -> None:
    disk = record(tmp_path / "disk", sync=False)
    assert left(disk, tmp_path / "killed", "all") == {"file": b"a" * 600 + b"b" * 600}
    assert left(disk, tmp_path / "cut", "synced") == {}
    found = [left(disk, tmp_path / f"{seed}", "torn", seed) for seed in range(60)]
    names = {name for files in found for name in files}
    assert names == {"new", "file"}
    contents = {content for files in found for content in files.values()}
    assert any(0 < len(content) < 1_200 for content in contents)
    assert any(b"\0" in content for content in contents)
