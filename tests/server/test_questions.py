"""Questions over HTTP give the answers of the matcher."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tamis
from tests.server.servers import ARROW_MEDIA, JSON_LINES, Served

RULES: list[tuple[str, str, dict[str, Any]]] = [
    ("cheap", "price < 25", {"priority": 1, "tags": ["t"], "weights": [["price < 25", 0.5]]}),
    ("french", "country = 'FR'", {"weights": [["country", "FR", 2.0]]}),
    ("sale", "price < 25 AND country <> 'BE'", {"valid_until": "2026-01-01T00:00:00Z"}),
    ("text", "name LIKE 'a%'", {}),
]
EVENTS: list[dict[str, Any]] = [{"price": 20, "country": "FR"}, {"price": 99}, {"name": "ab"}]


@pytest.fixture(scope="module")
def path(served: Served) -> str:
    path = served.make("questions")
    for id, rule, more in RULES:
        answer = served.http.put(f"{path}/rules/{id}", json={"rule": rule, **more})
        assert answer.status_code == 201, answer.text
    return path


@pytest.fixture(scope="module")
def matcher(served: Served, path: str) -> tamis.Matcher:
    return served.server.catalog.find(path[1:]).matcher


def ask(served: Served, path: str, **body: Any) -> Any:
    answer = served.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("event", EVENTS)
def test_questions_about_one_event(
    served: Served, path: str, matcher: tamis.Matcher, event: dict[str, Any]
) -> None:
    assert ask(served, f"{path}/match", event=event) == {"rules": matcher.match(event)}
    assert ask(served, f"{path}/count", event=event) == {"count": len(matcher.match(event))}
    assert ask(served, f"{path}/first", event=event, n=1) == {"rules": matcher.first(event)}
    top = [{"rule": id, "score": score} for id, score in matcher.top(event)]
    assert ask(served, f"{path}/top", event=event) == {"rules": top}
    why = ask(served, f"{path}/why", event=event)["rules"]
    assert {one["rule"]: one["text"] for one in why} == {
        id: str(explanation) for id, explanation in matcher.why(event).items()
    }
    explained = ask(served, f"{path}/explain", rule="cheap", event=event)
    assert explained["explanation"] == matcher.explain("cheap", event).to_json()
    obstacles = ask(served, f"{path}/why-not", rule="cheap", event=event)
    assert obstacles["text"] == str(matcher.why_not("cheap", event))


def test_only_at_and_weights(served: Served, path: str) -> None:
    event = EVENTS[0]
    assert ask(served, f"{path}/match", event=event, only=["french"]) == {"rules": ["french"]}
    assert ask(served, f"{path}/match", event=event, only={"tags": ["t"]}) == {"rules": ["cheap"]}
    only = {"without": ["t"]}
    assert ask(served, f"{path}/match", event=event, only=only) == {"rules": ["french"]}
    then = ask(served, f"{path}/match", event=event, at="2025-06-01T00:00:00Z")
    assert then == {"rules": ["cheap", "french", "sale"]}
    weights = [["country", "FR", 0.1]]
    best = ask(served, f"{path}/top", event=event, n=1, weights=weights)["rules"]
    assert best[0]["rule"] == "cheap"


def test_a_partially_known_event(served: Served) -> None:
    path = served.make("partial", {"cheap": "price < 25", "dear": "price > 50"})
    found = ask(served, f"{path}/match-expression", event="price BETWEEN 20 AND 40")
    assert found == {"rules": ["cheap"]}


def test_unknown_rules_and_bad_events(served: Served, path: str) -> None:
    unknown = served.http.post(f"{path}/explain", json={"rule": "zz", "event": {}})
    assert unknown.status_code == 404
    for body in ({}, {"event": 3}, {"event": {}, "evnt": 1}, {"event": {}, "at": "noon"}):
        assert served.http.post(f"{path}/match", json=body).status_code == 422
    assert served.http.post("/nowhere/match", json={"event": {}}).status_code == 404


def encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("question", ["match-many", "count-many", "top-many"])
@pytest.mark.parametrize("is_arrow", [True, False])
def test_batches(
    served: Served, path: str, matcher: tamis.Matcher, question: str, is_arrow: bool
) -> None:
    import msgspec

    events = pa.Table.from_pylist(EVENTS) if is_arrow else EVENTS
    body = encode(events) if is_arrow else msgspec.json.Encoder().encode_lines(EVENTS)
    headers = {"content-type": ARROW_MEDIA} if is_arrow else JSON_LINES
    wanted = getattr(matcher, question.replace("-", "_"))(events)
    answer = served.http.post(f"{path}/{question}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    if is_arrow:
        with pa.ipc.open_stream(answer.content) as stream:
            assert stream.read_all().equals(wanted)
    else:
        assert [
            msgspec.json.decode(line) for line in answer.text.splitlines()
        ] == wanted.to_pylist()


def test_a_batch_takes_the_options_of_the_matcher(served: Served, path: str) -> None:
    body = b'{"price": 20, "country": "FR"}\n{"price": 1e999}\n'
    asked = served.http.post(
        f"{path}/match-many?form=lists&tag=t", content=body[:31], headers=JSON_LINES
    )
    assert asked.text == '{"event":0,"rules":["cheap"]}\n'
    only = served.http.post(f"{path}/match-many?only=french", content=body[:31], headers=JSON_LINES)
    assert only.text == '{"event":0,"rule":"french"}\n'
    both = served.http.post(
        f"{path}/match-many?only=a&tag=t", content=body[:31], headers=JSON_LINES
    )
    assert both.status_code == 422
    wrong = served.http.post(f"{path}/match-many?frm=lists", content=body[:31], headers=JSON_LINES)
    assert "frm" in wrong.json()["detail"]


def test_bad_events_of_a_batch_are_named_or_skipped(served: Served) -> None:
    path = "/typed"
    served.http.put(path, json={"schema": {"x": "integer"}})
    served.http.put(f"{path}/rules/a", json={"rule": "x = 1"})
    body = b'{"x": 1}\n{"x": "one"}\n{"x": 1}\n'
    refused = served.http.post(f"{path}/match-many", content=body, headers=JSON_LINES)
    assert (refused.status_code, refused.json()["event"]) == (422, 1)
    skipped = served.http.post(f"{path}/match-many?on_error=skip", content=body, headers=JSON_LINES)
    assert skipped.text == '{"event":0,"rule":"a"}\n{"event":2,"rule":"a"}\n'
    assert skipped.headers["tamis-skipped"] == "1"


def test_care(served: Served) -> None:
    path = served.make("care", {"adults": "age >= 18", "seniors": "age >= 65", "never": "FALSE"})
    found = served.http.post(f"{path}/lint").json()["findings"]
    assert {(one["kind"], one["rule"]) for one in found} == {
        ("subsumed", "seniors"),
        ("never", "never"),
    }
    similar = ask(served, f"{path}/similar", rule="age >= 66")
    assert similar["rules"][0]["rule"] == "seniors"
    report = ask(served, f"{path}/ratify", seconds=0.1)
    assert report["differences"] == []
    assert report["matches"] > 0
    stats = served.http.get(f"{path}/stats").json()
    assert stats["stats"]["rules"] == 3
    assert str(served.server.settings.folder) not in str(stats)
