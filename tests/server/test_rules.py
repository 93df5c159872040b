"""Rules over HTTP: one at a time, many at once, conditions, pages, export, changes."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote

import httpx2
import pyarrow as pa
import pytest

from tests.server.servers import ARROW_MEDIA, JSON_LINES, Served


def lines(*objects: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.Encoder().encode_lines(list(objects))


def table_of(answer: httpx2.Response) -> pa.Table:
    with pa.ipc.open_stream(answer.content) as stream:
        return stream.read_all()


def test_a_rule_comes_back_as_it_was_put(served: Served, name: str) -> None:
    path = served.make(name)
    body = {
        "rule": "price < 25",
        "tags": ["b", "a"],
        "payload": {"send": ["mail"]},
        "weights": [["price < 25", 2.0]],
        "priority": 3,
        "valid_from": "2026-01-01T00:00:00Z",
        "logic": "weak",
    }
    put = served.http.put(f"{path}/rules/r1", json=body)
    assert put.status_code == 201
    got = served.http.get(f"{path}/rules/r1")
    assert got.status_code == 200
    assert got.json() == put.json()
    assert got.json() == {
        **body,
        "id": "r1",
        "tags": ["a", "b"],
        "valid_until": None,
        "subscription": None,
    }
    assert served.http.put(f"{path}/rules/r1", json=body).status_code == 200
    assert served.http.delete(f"{path}/rules/r1").status_code == 204
    assert served.http.get(f"{path}/rules/r1").status_code == 404
    assert served.http.delete(f"{path}/rules/r1").status_code == 404


@pytest.mark.parametrize("id", ["a/b", "a b", "ü", "%", "a?b#c", "..%2f", "x" * 500])
def test_any_text_is_an_id(served: Served, id: str) -> None:
    import urllib.parse

    served.http.put("/ids", json={})
    quoted = urllib.parse.quote(id, safe="")
    assert served.http.put(f"/ids/rules/{quoted}", json={"rule": "x = 1"}).status_code == 201
    assert served.http.get(f"/ids/rules/{quoted}").json()["id"] == id
    assert id in served.http.post("/ids/match", json={"event": {"x": 1}}).json()["rules"]


def test_an_integer_id_stays_one(served: Served, name: str) -> None:
    path = served.make(name)
    served.http.put(f"{path}/rules/7", json={"id": 7, "rule": "x = 1"})
    assert served.http.post(f"{path}/match", json={"event": {"x": 1}}).json() == {"rules": [7]}
    assert served.http.get(f"{path}/rules/7").json()["id"] == 7
    wrong = served.http.put(f"{path}/rules/8", json={"id": 7, "rule": "x = 1"})
    assert wrong.status_code == 422


@pytest.mark.parametrize("other", ["007", "+7", "7 ", "\u0667", "\uff17", "-0", "7.0", "1_0"])
def test_spelling_of_an_integer_names_no_other_rule(served: Served, name: str, other: str) -> None:
    path = served.make(f"spelling{other.encode().hex()}", {7: "x = 1", 10: "x = 2", 0: "x = 0"})
    place = f"{path}/rules/{quote(other, safe='')}"
    assert served.http.get(place).status_code == 404
    assert served.http.delete(place).status_code == 404
    assert served.http.put(place, json={"rule": "x = 3"}).status_code == 201
    matcher = served.server.catalog.find(path[1:]).matcher
    assert list(matcher) == [7, 10, 0, other]
    assert [rule.text for rule in matcher.rules()] == ["x = 1", "x = 2", "x = 0", "x = 3"]


@pytest.mark.parametrize("id", [-(2**63), 2**63 - 1, -1, 0, -(10**18) - 1])
def test_path_reaches_every_integer_id(served: Served, id: int) -> None:
    path = served.make(f"reach{abs(id)}", {id: "x = 1"})
    assert served.http.get(f"{path}/rules/{id}").json()["id"] == id
    assert served.http.delete(f"{path}/rules/{id}").status_code == 204
    beyond = served.http.get(f"{path}/rules/{2**63}", params={"id_type": "integer"})
    assert (beyond.status_code, beyond.json()["type"]) == (400, "urn:tamis:problem:not-an-id")


def test_path_that_names_two_rules_is_refused(served: Served, name: str) -> None:
    path = served.make(name, {7: "x = 1", "7": "x = 2"})
    for method in ("GET", "PUT", "DELETE"):
        answer = served.http.request(method, f"{path}/rules/7", json={"rule": "x = 3"})
        assert (answer.status_code, answer.json()["type"]) == (
            400,
            "urn:tamis:problem:ambiguous-id",
        )
    for kind, id, rule in (("integer", 7, "x = 1"), ("text", "7", "x = 2")):
        found = served.http.get(f"{path}/rules/7", params={"id_type": kind}).json()
        assert (found["id"], found["rule"]) == (id, rule)
    served.http.delete(f"{path}/rules/7", params={"id_type": "text"})
    assert list(served.server.catalog.find(name).matcher) == [7]


def test_path_of_bytes_that_are_no_text_is_refused(served: Served, name: str) -> None:
    path = served.make(name, {"\ufffd": "x = 1"})
    for bad in ("%FF", "%FE", "%C3"):
        assert served.http.get(f"{path}/rules/{bad}").status_code == 400
    assert served.http.get(f"{path}/rules/%EF%BF%BD").json()["id"] == "\ufffd"


def test_id_of_dots_does_not_name_the_collection(served: Served, name: str) -> None:
    path = served.make(name, {"..": "x = 1", ".": "x = 1", "": "x = 1"})
    # What a browser or httpx makes of rules/..
    assert served.http.delete(f"{path}/").status_code == 404
    for dots in ("%2E%2E", "%2E"):
        assert served.http.delete(f"{path}/rules/{dots}").status_code == 204
    assert list(served.server.catalog.find(name).matcher) == [""]


@pytest.mark.parametrize(
    "number", ["\u0667", "1_000", " 7", "+7", "007", "7 ", "0x7", "", "-1", "nan"]
)
def test_number_in_a_query_is_spelt_in_one_way(served: Served, number: str) -> None:
    if "/numbers" not in {f"/{one.name}" for one in served.server.catalog.list()}:
        served.make("numbers", {"a": "x = 1"})
        served.http.put("/numbers/subscriptions/ann", json={})
    for place in (
        "log?after=",
        "log?limit=",
        "changes?after=",
        "subscriptions/ann/deliveries?wait=",
    ):
        answer = served.http.get(f"/numbers/{place}{quote(number, safe='')}")
        assert answer.status_code == 422, (place, number)


def test_a_refused_rule_comes_back_with_position_and_caret(served: Served, name: str) -> None:
    answer = served.http.put(f"{served.make(name)}/rules/r1", json={"rule": "a = 1 AND b = = 2"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "urn:tamis:problem:rule-syntax"
    assert (problem["rule"], problem["position"]) == ("r1", 14)
    text, caret = problem["excerpt"].split("\n")
    assert text[caret.index("^") :] == "= 2"


def test_writes_may_depend_on_what_is_there(served: Served, name: str) -> None:
    path = f"{served.make(name)}/rules/r1"
    assert (
        served.http.put(path, json={"rule": "x = 1"}, headers={"if-match": "*"}).status_code == 412
    )
    new = served.http.put(path, json={"rule": "x = 1"}, headers={"if-none-match": "*"})
    assert new.status_code == 201
    again = served.http.put(path, json={"rule": "x = 9"}, headers={"if-none-match": "*"})
    assert again.status_code == 412
    etag = new.headers["etag"]
    assert again.headers["etag"] == etag
    changed = served.http.put(path, json={"rule": "x = 2"}, headers={"if-match": etag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag
    assert served.http.delete(path, headers={"if-match": etag}).status_code == 412
    not_new = served.http.get(path, headers={"if-none-match": changed.headers["etag"]})
    assert (not_new.status_code, not_new.content) == (304, b"")
    assert (
        served.http.delete(path, headers={"if-match": changed.headers["etag"]}).status_code == 204
    )


def test_of_many_conditional_writes_one_succeeds(served: Served, name: str) -> None:
    path = f"{served.make(name)}/rules/counter"
    etag = served.http.put(path, json={"rule": "x = 0"}).headers["etag"]
    statuses: list[int] = []

    def write(number: int) -> None:
        body = {"rule": f"x = {number}"}
        statuses.append(
            httpx2.put(
                f"{served.url}/v1/collections{path}", json=body, headers={"if-match": etag}
            ).status_code
        )

    threads = [threading.Thread(target=write, args=(i,)) for i in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [412] * 7


def test_many_rules_as_json_lines(served: Served, name: str) -> None:
    path = served.make(name)
    good, bad = {"id": "a", "rule": "x = 1"}, {"id": "b", "rule": "x ="}
    body = lines(good, bad, {"id": 7, "rule": "x = 1", "tags": ["t"]})
    refused = served.http.post(f"{path}/rules", content=body, headers=JSON_LINES)
    assert (refused.status_code, refused.json()["rule"]) == (422, "b")
    assert served.http.get(path).json()["rules"] == 0
    skipped = served.http.post(f"{path}/rules?on_error=skip", content=body, headers=JSON_LINES)
    report = skipped.json()
    assert (report["added"], report["refused"]) == (2, 1)
    assert (report["bad"][0]["id"], report["bad"][0]["position"]) == ("b", 3)
    taken = served.http.post(f"{path}/rules", content=lines(good), headers=JSON_LINES)
    assert taken.status_code == 409
    replaced = served.http.post(
        f"{path}/rules?replace=true", content=lines(good), headers=JSON_LINES
    )
    assert replaced.json()["added"] == 1


def test_a_broken_line_is_named(served: Served, name: str) -> None:
    path = served.make(name)
    body = lines({"id": "a", "rule": "x = 1"}) + b"{]\n"
    answer = served.http.post(f"{path}/rules", content=body, headers=JSON_LINES)
    assert answer.status_code == 400
    assert "line 2" in answer.json()["detail"]
    assert served.http.get(path).json()["rules"] == 0


def test_many_rules_as_arrow_and_back(served: Served, name: str) -> None:
    path = served.make(name)
    table = pa.table({"id": ["a", "b"], "rule": ["x = 1", "x > 3"], "tags": [["t"], []]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    added = served.http.post(
        f"{path}/rules", content=sink.getvalue().to_pybytes(), headers={"content-type": ARROW_MEDIA}
    )
    assert added.json()["added"] == 2
    exported = served.http.get(f"{path}/export", headers={"accept": ARROW_MEDIA})
    back = table_of(exported)
    assert back.select(["id", "rule", "tags"]).to_pylist() == table.to_pylist()
    again = served.http.put(
        f"{path}/rules", content=exported.content, headers={"content-type": ARROW_MEDIA}
    )
    assert again.json()["added"] == 2


def test_all_rules_are_replaced_at_once_if_nothing_changed(served: Served, name: str) -> None:
    path = served.make(name, {"old": "x = 1"})
    revision = served.http.get(path).headers["etag"]
    served.http.put(f"{path}/rules/other", json={"rule": "x = 1"})
    body = lines({"id": "new", "rule": "x = 1"})
    headers = {**JSON_LINES, "if-match": revision}
    stale = served.http.put(f"{path}/rules", content=body, headers=headers)
    assert stale.status_code == 412
    headers["if-match"] = stale.headers["etag"]
    assert served.http.put(f"{path}/rules", content=body, headers=headers).json()["added"] == 1
    answer = served.http.post(f"{path}/match", json={"event": {"x": 1}})
    assert answer.json() == {"rules": ["new"]}


def test_pages_show_every_rule_once(served: Served, name: str) -> None:
    path = served.make(name, {f"r{i}": f"x = {i}" for i in range(25)})
    found: list[str] = []
    query: dict[str, Any] = {"limit": 7}
    while True:
        page = served.http.get(f"{path}/rules", params=query).json()
        found += [rule["id"] for rule in page["rules"]]
        if len(found) == 14:
            # Rules that are removed meanwhile move the others, but hide none.
            served.http.post(f"{path}/remove", json={"ids": ["r0", "r1"]})
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert found == [f"r{i}" for i in range(25)]
    assert served.http.get(f"{path}/rules", params={"after": "nonsense"}).status_code == 422


def test_search_by_text_and_tag(served: Served, name: str) -> None:
    path = served.make(name)
    for id, rule, tags in [
        ("a", "Price > 1", ["t"]),
        ("b", "x = 1", ["t", "u"]),
        ("price", "y = 1", []),
    ]:
        served.http.put(f"{path}/rules/{id}", json={"rule": rule, "tags": tags})

    def ids(**query: Any) -> list[str]:
        return [r["id"] for r in served.http.get(f"{path}/rules", params=query).json()["rules"]]

    assert ids(search="price") == ["a", "price"]
    assert ids(tag="t") == ["a", "b"]
    assert ids(tag=["u", "v"]) == ["b"]
    assert ids(tag="t", search="x") == ["b"]
    exported = served.http.get(f"{path}/export", params={"tag": "u"}).text.splitlines()
    assert len(exported) == 1


def test_removing_many_is_all_or_nothing(served: Served, name: str) -> None:
    path = served.make(name, {"a": "x = 1", "b": "x = 2"})
    assert served.http.post(f"{path}/remove", json={"ids": ["a", "zz"]}).status_code == 404
    assert served.http.get(path).json()["rules"] == 2
    assert served.http.post(f"{path}/remove", json={"ids": ["a", "b"]}).json()["removed"] == 2


def test_changes_are_read_by_revision(served: Served, name: str) -> None:
    path = served.make(name)
    for id in "ab":
        served.http.put(f"{path}/rules/{id}", json={"rule": "x = 1"})
    served.http.delete(f"{path}/rules/a")
    page = served.http.get(f"{path}/changes", params={"after": 1}).json()
    assert page["revision"] == 3
    assert page["changes"] == [
        {"revision": 2, "kind": "put", "ids": ["b"]},
        {"revision": 3, "kind": "remove", "ids": ["a"]},
    ]
    assert served.http.get(f"{path}/changes", params={"after": 99}).status_code == 422
    assert (
        served.http.get(f"{path}/changes", params={"after": 3, "wait": 0.05}).json()["changes"]
        == []
    )


def test_a_stream_of_changes_goes_on(served: Served, name: str) -> None:
    path = served.make(name)
    served.http.put(f"{path}/rules/a", json={"rule": "x = 1"})
    headers = {"accept": "text/event-stream", "last-event-id": "0"}
    with served.http.stream("GET", f"{path}/changes", headers=headers) as answer:
        events = (line for line in answer.iter_lines() if line.startswith("data:"))
        assert '"ids":["a"]' in next(events)
        other = httpx2.put(f"{served.url}/v1/collections{path}/rules/b", json={"rule": "x = 1"})
        assert other.status_code == 201
        assert '"ids":["b"]' in next(events)


def test_changes_before_the_start_are_gone(served: Served, name: str) -> None:
    from tamis.server.changes import Changes
    from tamis.server.problems import ProblemError

    matcher = served.server.catalog.find(served.make(name)[1:]).matcher
    matcher.add("a", "x = 1")
    later = Changes(matcher)
    with pytest.raises(ProblemError) as caught:
        later.read(0, 10)
    assert (caught.value.problem.status, caught.value.problem.earliest) == (410, 1)
    assert later.read(1, 10) == []
