"""Rules about earlier events: a password is guessed again and again, by one address, in seconds.

    python examples/brute_force.py

A rule counts what was published before, in a window of time. The events are real: a tool tried
passwords on a domain controller (event 4771, a failed logon).
"""

from __future__ import annotations

import json
from pathlib import Path

import tamis

DATA = Path(__file__).parent / "data"

FAILED = "EventID = 4771"
WINDOW = "FROM seen d WHERE d.EventID = 4771 AND d.IpAddress = IpAddress"
RECENT = "d.TimeCreated > TimeCreated - INTERVAL '10 seconds'"


def main() -> None:
    """Publish the events in order, and print where an alert begins."""
    matcher = tamis.Matcher(
        schema={"TimeCreated": "timestamp"}, documents=tamis.Retention(count=1_000)
    )
    matcher.add("guessing", f"{FAILED} AND (SELECT COUNT(*) {WINDOW} AND {RECENT}) >= 4")
    matcher.add("spraying", f"{FAILED} AND (SELECT COUNT(DISTINCT d.TargetUserName) {WINDOW}) >= 5")
    matcher.add("first from there", f"{FAILED} AND NOT EXISTS (SELECT 1 {WINDOW})")

    before: list[str | int] = []
    alerts = 0
    for line in (DATA / "windows_events.jsonl").read_text().splitlines():
        event = json.loads(line)
        found = matcher.publish(event)
        alerts += bool(found)
        if found and found != before:
            user = event.get("TargetUserName")
            print(f"{event['TimeCreated'][:19]}  {user:<14} {', '.join(map(str, found))}")
        before = found
    print(f"{alerts} events raised an alert; {len(matcher.documents)} events are remembered")


if __name__ == "__main__":
    main()
