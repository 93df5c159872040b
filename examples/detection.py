"""Sigma rules over real Windows events: alerts by level, and why one fired.

python examples/detection.py        # needs: pip install 'tamis[sigma]'
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import tamis
from tamis.importers import sigma

DATA = Path(__file__).parent / "data"


def main() -> None:
    """Import the rules of a folder, and match the events of a file."""
    imported = sigma.read(DATA / "sigma")
    matcher = tamis.Matcher(logic="weak")
    matcher.add_many(imported.rules)
    events = [json.loads(line) for line in (DATA / "windows_events.jsonl").read_text().splitlines()]

    print(f"{len(events)} events, {len(matcher)} rules, {len(imported.refused)} refused")
    counts = Counter(matcher.match_many(events)["rule"].to_pylist())
    for id, count in counts.most_common():
        payload = matcher.rule(id).payload
        print(f"{count:4}  {payload['level']:<7} {payload['title']}")

    high = tamis.tagged("level:high")
    event = next(event for event in events if matcher.match(event, only=high))
    (id,) = matcher.match(event, only=high)
    print(f"\nThe first of level high, on {event['Computer']}:")
    print(matcher.explain(id, event))


if __name__ == "__main__":
    main()
