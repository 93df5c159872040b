"""Send shards to the nodes of a cluster that has no shared file system.

Spark distributes files by name, once to each node, and refuses another file of the same name. So
each file of a shard travels as ``tamis-HASH-NAME``, with the hash of the whole shard, and a node
puts the directory together again with links.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.matcher.published.open import hold_shard
from tamis.spark.index.layout import Shard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["find_shipped", "name_shipped", "ship_shards"]


def ship_shards(spark: SparkSession, shards: tuple[Shard, ...]) -> None:
    """Have Spark send shards to every node."""
    links = [link for shard in shards for link in _link_files(shard)]
    # A name stands for its content, so Spark skips the files it has.
    for link in links:
        # One by one: Spark 4.1 takes no more.
        spark.addArtifacts(str(link), file=True)


def find_shipped(name: str) -> str:
    """The directory of a shipped shard on this node."""
    from pyspark import SparkFiles

    # On a node of a cluster this is the worker's own folder, and may be given as ".".
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


def name_shipped(shard: Shard) -> str:
    """The name by which `find_shipped` finds a shard."""
    return f"tamis-{shard.hash}"


def _link_files(shard: Shard) -> list[Path]:
    """Link the files of a shard under the names by which they travel."""
    links, held = [], hold_shard(shard.path, shard.hash)
    for file in sorted(held.path.iterdir()):
        link = _link_folder() / f"{name_shipped(shard)}-{file.name}"
        if not link.exists():
            _link(file, link)
        links.append(link)
    return links


def _link(file: Path, link: Path) -> None:
    """Give a file a second name. Spark would resolve a symbolic link to the first one."""
    try:
        os.link(file, link)
    except OSError:
        # The file is on another disk, or on one without hard links.
        shutil.copyfile(file, link)


@cache
def _link_folder() -> Path:
    """The folder of the links, removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="tamis-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
