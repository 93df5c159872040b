"""Shards that Spark brings to its nodes, for clusters without a file system that all of them see.

Spark distributes files under their names, once to a node, and refuses another file of the same
name. So each file of a shard travels as ``tamis-HASH-NAME`` with the hash of the whole shard, and
a node puts the directory together again out of links.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.spark.index.versions import Shard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["received", "ship"]


def ship(spark: SparkSession, shards: tuple[Shard, ...]) -> tuple[str, ...]:
    """Have Spark bring shards to every node; the names by which `received` finds them."""
    links = [link for shard in shards for link in _links(shard)]
    # What the session has under the same name is the same, and not sent again.
    spark.addArtifacts(*map(str, links), file=True)
    return tuple(_name(shard) for shard in shards)


def received(name: str) -> str:
    """The directory of a shard that was shipped, on a node."""
    from pyspark import SparkFiles

    # On a node of a cluster it is the worker's own folder, and may be given as ".".
    root = Path(SparkFiles.getRootDirectory()).absolute()
    folder = root / name
    if not folder.exists():
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
        for file in root.glob(f"{name}-*"):
            (aside / file.name.removeprefix(f"{name}-")).symlink_to(file)
        try:
            aside.rename(folder)
        except OSError:
            # Another worker of this node was faster.
            shutil.rmtree(aside, ignore_errors=True)
    return str(folder)


def _name(shard: Shard) -> str:
    return f"tamis-{shard.hash}"


def _links(shard: Shard) -> list[Path]:
    """The files of a shard under the names by which they travel."""
    links = []
    for file in sorted(shard.path.iterdir()):
        link = _folder() / f"{_name(shard)}-{file.name}"
        if not link.exists():
            _link(file, link)
        links.append(link)
    return links


def _link(file: Path, link: Path) -> None:
    """Give a file another name. A symbolic link will not do: Spark follows it to the old one."""
    try:
        os.link(file, link)
    except OSError:
        # It is on another disk, or on one without links.
        shutil.copyfile(file, link)


@cache
def _folder() -> Path:
    """Where the links are, as long as this process and its session live."""
    folder = tempfile.mkdtemp(prefix="tamis-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
