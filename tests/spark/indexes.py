"""Published indexes that are made of matchers, without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tamis
from tamis.spark.index.versions import Draft, Shard, Version, publish


def published(
    path: Path,
    rules: Sequence[Any],
    *,
    shards: int = 1,
    logic: str = "strong",
    schema: Mapping[str, str] | None = None,
) -> Version:
    """Publish rules, given as for `Matcher.add_many`, dealt out to shards one by one."""

    def write(folder: Path, _: Version | None) -> Draft:
        made = [
            saved(folder / f"shard-{i:04d}", rules[i::shards], logic, schema) for i in range(shards)
        ]
        first = rules[0] if rules else ""
        id = first.id if isinstance(first, tamis.Rule) else first[0] if first else ""
        kind = "long" if isinstance(id, int) else "string"
        return Draft(tuple(made), 0, logic, "auto", schema or {}, kind)

    return publish(path, write)


def saved(
    folder: Path, rules: Sequence[Any], logic: str, schema: Mapping[str, str] | None
) -> Shard:
    """Rules in a directory."""
    matcher = tamis.Matcher(logic=logic, schema=schema)
    matcher.add_many(rules)
    matcher.save(folder)
    files = sorted(folder.iterdir())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return Shard(folder, len(matcher), sum(file.stat().st_size for file in files), digest)
