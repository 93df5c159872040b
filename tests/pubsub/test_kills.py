"""`tamis serve` is killed under load, a few times; `make crash` does it a hundred times."""

from __future__ import annotations

from tests.pubsub.kills import run


def test_a_killed_service_loses_and_repeats_nothing() -> None:
    figures, failures = run(3, seed=5)
    assert failures == []
    assert figures["events"] > 0
