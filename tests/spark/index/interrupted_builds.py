"""A script that kills builders; `test_interrupted_builds.py` runs it.

Each round forks a builder that publishes version after version, with the functions of executors but
without Spark, kills it, and reads the index. A builder is killed once it has published so many
versions, and in every other round while it writes one: on a slow machine as on a fast one. The
first version is published before any fork, so that kernels are loaded once.

Usage: python interrupted_builds.py FOLDER ROUNDS SEED
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import tamis
from tamis.spark.index.layout import Draft, Shard, Version
from tamis.spark.index.publish import publish
from tamis.spark.index.rows import SHARD
from tamis.spark.index.shards import BuildSpec, Report, build_shards, decode_report, merge_shards
from tamis.spark.index.versions import current, versions

SHARDS = 2
RULES = {f"r{i}": f"x = {i % 50}" for i in range(400)}


def write(folder: Path, parent: Version | None) -> Draft:
    """Build two pieces for each shard and merge them, as `tamis.spark.index.jobs` does."""
    spec = BuildSpec(str(folder), "tiles", "strong", {}, "string", True, b"")
    ids = list(RULES)
    pieces: list[list[Report]] = [[] for _ in range(SHARDS)]
    for piece in range(2 * SHARDS):
        piece_ids = ids[piece :: 2 * SHARDS]
        rows = {
            "id": piece_ids,
            "rule": [RULES[id] for id in piece_ids],
            SHARD: [piece] * len(piece_ids),
        }
        (done,) = build_shards(spec._replace(engine="scan"), iter([pa.record_batch(rows)]))
        pieces[piece % SHARDS].append(decode_report(done[0][0].as_py()))
    numbers = pa.record_batch({"id": list(range(SHARDS))})
    merged = [
        decode_report(done[0][0].as_py()) for done in merge_shards(spec, pieces, iter([numbers]))
    ]
    shards = tuple(Shard(folder / m.name, m.rules, m.bytes, m.hash) for m in merged)
    return Draft(shards, 0, "strong", "tiles", {}, "string")


def build_for_ever(path: Path, out: int) -> None:
    while True:
        os.write(out, f"{publish(path, write).number}\n".encode())


def kill_builder(path: Path, versions: int, is_writing: bool, random: Random) -> int:
    """Fork a builder and kill it; return the last version it reported as published, or 0.

    Parameters
    ----------
    path
        The index.
    versions
        How many versions the builder publishes before.
    is_writing
        Whether it is killed while it writes the next one, at any moment otherwise.
    random
        Draws how long to wait.
    """
    before = find_asides(path)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            build_for_ever(path, into)
        finally:
            os._exit(1)
    os.close(into)
    with os.fdopen(out) as reported:
        published = [int(reported.readline()) for _ in range(versions)]
        time.sleep(random.uniform(0, 0.05))
        while is_writing and not stops_while_writing(child, path, before):
            os.kill(child, signal.SIGCONT)
            time.sleep(random.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return max([0, *published, *map(int, reported.read().split())])


def stops_while_writing(child: int, path: Path, before: set[str]) -> bool:
    """Stop a builder. Returns whether there is a folder now that it had not finished."""
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    return not find_asides(path) <= before


def find_asides(path: Path) -> set[str]:
    """The folders of versions that are not finished."""
    return {entry.name for entry in (path / "versions").glob(".aside-*")}


def check_in_fork(path: Path, published: int) -> dict[str, Any]:
    """Check the index in a new process, after a builder was killed."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(into, json.dumps(check_index(path, published)).encode())
            os._exit(0)
        except BaseException as error:
            os.write(into, json.dumps({"wrong": repr(error)}).encode())
            os._exit(1)
    os.close(into)
    os.waitpid(child, 0)
    with os.fdopen(out) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


def check_index(path: Path, published: int) -> dict[str, Any]:
    names = [entry.name for entry in (path / "versions").iterdir()]
    numbers = sorted(int(name) for name in names if name.isdigit())
    assert numbers == list(range(1, numbers[-1] + 1)), numbers
    assert [version.number for version in versions(path)] == numbers
    assert published <= current(path).number <= published + 1
    for version in versions(path)[-2:]:
        texts: dict[str | int, str] = {}
        for shard in version.shards:
            with tamis.open(shard.path, read_only=True, verify=True) as matcher:
                texts |= {id: matcher.rule(id).text for id in matcher}
        assert texts == RULES
    return {"asides": len(find_asides(path)), "versions": len(numbers)}


if __name__ == "__main__":
    path, rounds, random = Path(sys.argv[1]), int(sys.argv[2]), Random(int(sys.argv[3]))
    published = publish(path, write).number
    results = []
    for number in range(rounds):
        killed = kill_builder(path, random.choice([0, 0, 1, 2]), number % 2 == 1, random)
        published = max(published, killed)
        results.append(check_in_fork(path, published))
        published = current(path).number
    sys.stdout.write(json.dumps(results))
