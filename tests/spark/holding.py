"""What a published version holds, read without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.spark.index.versions import Version


def rules(version: Version) -> dict[str | int, tamis.Rule]:
    """All rules of all shards; no id is in two of them."""
    found: dict[str | int, tamis.Rule] = {}
    for shard in version.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            assert len(matcher) == shard.rules
            assert not found.keys() & set(matcher)
            found |= {id: matcher.rule(id) for id in matcher}
    assert len(found) == version.rules
    return found


def texts(version: Version) -> dict[str | int, str]:
    return {id: rule.text for id, rule in rules(version).items()}


def matches(version: Version, events: pa.Table) -> set[tuple[int, str | int]]:
    """Pairs of event and rule, by all shards together."""
    found: set[tuple[int, str | int]] = set()
    for shard in version.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            found |= pairs(matcher, events)
    return found


def pairs(matcher: tamis.Matcher, events: pa.Table) -> set[tuple[int, str | int]]:
    found = matcher.match_many(events)
    return set(zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True))


def quarantine(version: Version) -> list[tuple[Any, ...]]:
    """Id, rule, position and message of each refused rule, by id."""
    rows: Iterable[dict[str, Any]] = pq.read_table(version.quarantine).to_pylist()
    found = [(row["id"], row["rule"], row["position"], row["message"]) for row in rows]
    assert len(found) == version.bad
    return sorted(found)
