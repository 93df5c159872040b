"""What the rules of a collection remember, against a model of documents, over restarts."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tamis
from attack.document_model import DocumentModel
from tamis.pubsub import Collection

START = datetime(2020, 1, 1, tzinfo=UTC)
RULES = {
    "new": "x <> ALL (SELECT d.x FROM seen d)",
    "higher": "EXISTS (SELECT 1 FROM seen d WHERE NOT (d.x < x))",
    "many": "(SELECT COUNT(*) FROM seen d) >= 3",
}
RETENTIONS: list[dict[str, Any]] = [
    {"count": 3},
    {"count": 0},
    {"count": 2, "age": 600.0, "by": "at"},
    {"age": 600.0, "by": "at"},
    {},
]


def make_event(random: Random, number: int) -> tuple[dict[str, Any], str | None]:
    minutes = number - random.choice((0, 0, 1, 5, 30))
    event: dict[str, Any] = {"x": random.randrange(6)}
    if random.random() < 0.8:
        event["at"] = START + timedelta(minutes=minutes)
    return event, random.choice((None, None, "a", "b"))


@pytest.mark.parametrize("retention", RETENTIONS, ids=str)
def test_restarts_change_no_answer(tmp_path: Path, retention: dict[str, Any]) -> None:
    random = Random(str(retention))
    clock = None if "by" in retention else time.time
    model = DocumentModel(**retention, clock=clock, believed=time.time)
    number = 0
    for _ in range(8):
        with Collection.open(
            tmp_path / "c", sync=False, engine="scan", documents=tamis.Retention(**retention)
        ) as c:
            if not number:
                c.matcher.add_many(RULES)
                c.subscriptions.put("all", rules=list(RULES))
            for _ in range(random.randrange(1, 9)):
                event, id = make_event(random, number)
                number += 1
                model.note(event)
                seen = model.look()
                expected = {
                    id for id, text in RULES.items() if tamis.evaluate(text, event, documents=seen)
                }
                model.add(event, id)
                found = c.publish(event, id=id).deliveries
                assert {rule for match in found for rule in match.rules} == expected
