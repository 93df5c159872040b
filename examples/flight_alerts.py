"""Alerts on a day of real flights: which fired, how often, for whom, and why one did not.

python examples/flight_alerts.py
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import tamis
from tamis import samples
from tamis.files import load_rules

DATA = Path(__file__).parent / "data"


def main() -> None:
    """Match the flights of a blizzard against the alerts in a file."""
    matcher = tamis.Matcher()
    load_rules(matcher, DATA / "alerts.jsonl")
    flights = samples.flights()

    matches = matcher.match_many(flights)
    counts = Counter(matches["rule"].to_pylist())
    print(f"{len(flights)} flights, {len(matcher)} alerts, {matches.num_rows} matches")
    for id, count in counts.most_common():
        rule = matcher.rule(id)
        print(f"{count:5}  {id:<20} for {', '.join(sorted(rule.tags))}")
    print("never:", ", ".join(str(id) for id in matcher if id not in counts))

    worst = max(flights, key=lambda flight: flight.get("dep_delay", 0))
    print(f"\nThe latest flight, {worst['flight']}: {worst['dep_delay']} minutes")
    print("alerts:", ", ".join(map(str, matcher.match(worst))))
    print("why not 'blind takeoff':")
    print(matcher.why_not("blind takeoff", worst))


if __name__ == "__main__":
    main()
