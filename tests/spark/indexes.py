"""Publish indexes and read what they hold, without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.spark.index.layout import Draft, Shard, Version
from tamis.spark.index.publish import publish


def publish_rules(
    path: Path,
    rules: Sequence[Any],
    *,
    shards: int = 1,
    logic: str = "strong",
    schema: Mapping[str, str] | None = None,
) -> Version:
    """Publish rules, given as for `Matcher.add_many`, dealt out to shards one by one."""

    def write(folder: Path, _: Version | None) -> Draft:
        saved = [
            save_shard(folder / f"shard-{i:04d}", rules[i::shards], logic, schema)
            for i in range(shards)
        ]
        first = rules[0] if rules else ""
        id = first.id if isinstance(first, tamis.Rule) else first[0] if first else ""
        id_type = "long" if isinstance(id, int) else "string"
        return Draft(tuple(saved), 0, logic, "auto", schema or {}, id_type)

    return publish(path, write)


def save_shard(
    folder: Path, rules: Sequence[Any], logic: str, schema: Mapping[str, str] | None
) -> Shard:
    matcher = tamis.Matcher(logic=logic, schema=schema)
    matcher.add_many(rules)
    matcher.save(folder)
    files = sorted(folder.iterdir())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return Shard(folder, len(matcher), sum(file.stat().st_size for file in files), digest)


def read_rules(version: Version) -> dict[str | int, tamis.Rule]:
    """All rules of all shards; no id is in two of them."""
    rules: dict[str | int, tamis.Rule] = {}
    for shard in version.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            assert len(matcher) == shard.rules
            assert not rules.keys() & set(matcher)
            rules |= {id: matcher.rule(id) for id in matcher}
    assert len(rules) == version.rules
    return rules


def read_texts(version: Version) -> dict[str | int, str]:
    return {id: rule.text for id, rule in read_rules(version).items()}


def read_quarantine(version: Version) -> list[tuple[Any, ...]]:
    """Id, rule, position and message of each refused rule, by id."""
    rows: Iterable[dict[str, Any]] = pq.read_table(version.quarantine).to_pylist()
    refused = [(row["id"], row["rule"], row["position"], row["message"]) for row in rows]
    assert len(refused) == version.bad
    return sorted(refused)


def match_version(version: Version, events: pa.Table) -> set[tuple[int, str | int]]:
    """Pairs of event and rule, of all shards together."""
    pairs: set[tuple[int, str | int]] = set()
    for shard in version.shards:
        with tamis.open(shard.path, read_only=True) as matcher:
            pairs |= match_pairs(matcher, events)
    return pairs


def match_pairs(matcher: tamis.Matcher, events: pa.Table) -> set[tuple[int, str | int]]:
    found = matcher.match_many(events)
    return set(zip(found["event"].to_pylist(), found["rule"].to_pylist(), strict=True))
