"""Every format of rules and events gives the same matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.samples import (
    EVENTS,
    MATCHES,
    RULES,
    load_matcher,
    match_all,
    write,
)

FORMATS = ["jsonl", "ndjson", "jsonl.gz", "csv", "csv.gz", "parquet"]


@pytest.mark.parametrize("events", FORMATS)
@pytest.mark.parametrize("rules", FORMATS)
def test_every_format_gives_the_same_matches(rules: str, events: str, tmp_path: Path) -> None:
    matcher = load_matcher(write(tmp_path / f"rules.{rules}", RULES))
    assert match_all(matcher, write(tmp_path / f"events.{events}", EVENTS)) == MATCHES
