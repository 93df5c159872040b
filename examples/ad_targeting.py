"""Ads on the screens of an airport: for each departure the best campaign that keeps its pace.

    python examples/ad_targeting.py

Every flight of the day is shown on the screen of its gate and on one in the hall. A campaign's
weights are its bids; its budget is to last the whole day.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import tamis
from tamis import samples
from tamis.files import load_rules

DATA = Path(__file__).parent / "data"


class Pacer:
    """Lets campaigns spend their budgets evenly, and removes those that are out of money."""

    def __init__(self, matcher: tamis.Matcher) -> None:
        self.matcher = matcher
        self.spent: defaultdict[Any, float] = defaultdict(float)

    def choose(self, view: dict[str, Any], share_of_day: float) -> tuple[Any, float] | None:
        """The best campaign for this view that is not ahead of its schedule, and its price."""
        for id, bid in self.matcher.top(view, n=5):
            budget = self.matcher.rule(id).payload["budget"]
            if self.spent[id] + bid > budget * share_of_day:
                continue
            self.spent[id] += bid
            if self.spent[id] + bid > budget:
                self.matcher.remove(id)
            return id, bid
        return None


def main() -> None:
    """Show ads for every flight of the day, in the order of departure."""
    matcher = tamis.Matcher(logic="weak")
    load_rules(matcher, DATA / "campaigns.jsonl")
    budgets = {rule.id: rule.payload["budget"] for rule in matcher.rules()}
    pacer = Pacer(matcher)

    shown: Counter[Any] = Counter()
    flights = samples.flights()
    for number, flight in enumerate(flights):
        for screen in ("gate", "hall"):
            chosen = pacer.choose({**flight, "screen": screen}, (number + 1) / len(flights))
            shown[chosen[0] if chosen else "nothing"] += 1

    print("campaign         shown    spent of budget")
    for id, budget in budgets.items():
        print(f"{id:<16} {shown[id]:5}  {pacer.spent[id]:7.1f} of {budget}")
    print(f"{'nothing':<16} {shown['nothing']:5}")


if __name__ == "__main__":
    main()
