"""Features, strategies and constraints of Unleash."""

from __future__ import annotations

from typing import Any

import pytest

import tamis
from tamis.importers import unleash


def constraint(operator: str, value: Any, **more: Any) -> dict[str, Any]:
    key = "values" if isinstance(value, list) else "value"
    return {"contextName": "x", "operator": operator, key: value, **more}


def strategy(*constraints: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "default", "parameters": {}, "constraints": list(constraints), **more}


def holds(document: dict[str, Any], event: dict[str, Any]) -> bool:
    imported = unleash.read({"r": document})
    assert not imported.refused, imported.refused
    return tamis.evaluate(imported.rules[0].expr, event, "weak")


def refusal(document: dict[str, Any]) -> str:
    imported = unleash.read({"r": document})
    assert not imported.rules
    return imported.refused[0].reason


CONSTRAINTS = [
    (constraint("IN", ["a", " b "]), ["a", "b"], ["c", "A"]),
    (constraint("IN", ["7", "true"]), ["7", 7, True, "true"], [1, "1", False]),
    (constraint("IN", ["Abc"], caseInsensitive=True), ["aBC"], ["ab"]),
    (constraint("IN", []), [], ["a"]),
    (constraint("NOT_IN", ["a", "b"]), ["c", None], ["a", "b"]),
    (constraint("NOT_IN", ["a"], inverted=True), ["a"], ["b", None]),
    (constraint("STR_CONTAINS", ["b%", "c"]), ["ab%", "xcx"], ["ab", "C", None]),
    (constraint("STR_STARTS_WITH", ["ab"]), ["abc"], ["xab", "Abc"]),
    (constraint("STR_ENDS_WITH", ["@X.org"], caseInsensitive=True), ["a@x.ORG"], ["x.org@x"]),
    (constraint("STR_ENDS_WITH", ["a"], inverted=True), ["b", None], ["a"]),
    (constraint("NUM_EQ", "5"), [5, 5.0], [6, "x", None]),
    (constraint("NUM_GT", "5.5"), [6], [5.5, 5]),
    (constraint("NUM_GTE", 5), [5], [4.9]),
    (constraint("NUM_LT", "-2"), [-3], [-2]),
    (constraint("NUM_LTE", "-2"), [-2], [-1, None]),
    (
        constraint("DATE_AFTER", "2022-01-29T13:00:00.000Z"),
        ["2022-01-29T13:00:00.001Z", "2022-01-30T00:00:00Z"],
        ["2022-01-29T13:00:00Z", "soon", None],
    ),
    (constraint("DATE_BEFORE", "2022-01-29T13:00:00Z"), ["2022-01-01T00:00:00Z"], [None]),
    (constraint("SEMVER_EQ", "1.2.2"), ["1.2.2", "1.2.2+meta"], ["v1.2.2", "1.2", "1.2.20"]),
    (constraint("SEMVER_GT", "2.0.0-alpha.1"), ["2.0.0-beta.1", "2.0.0"], ["1.9.9", "v3.0.0"]),
    (constraint("SEMVER_GTE", "1.2.2"), ["1.2.2", "1.10.0"], ["1.2.1", "next"]),
    (constraint("SEMVER_LT", "2.0.0"), ["1.9.1-beta.1", "2.0.0-rc"], ["2.0.0", "v1.0.0", None]),
    (constraint("SEMVER_LTE", "2.0.0", inverted=True), ["2.0.1", "v1.0.0", None], ["2.0.0"]),
    (constraint("REGEX", "^ab+$"), ["abb"], ["ABB", "xab", None]),
    (constraint("REGEX", "^ab+$", caseInsensitive=True), ["ABB"], ["a"]),
    (constraint("REGEX", "^ab+$", inverted=True), ["a", None], ["ab"]),
    (
        constraint("IN_CIDR", ["127.invalid", "192.168.1.0/24", "2001:db8::/32"]),
        ["192.168.1.42", "2001:db8::1"],
        ["192.168.2.1", "127.0.0.1", None],
    ),
    (constraint("IN_CIDR", ["127.invalid"]), [], ["127.0.0.1", None]),
]


@pytest.mark.parametrize(("given", "held", "failed"), CONSTRAINTS)
def test_constraints_mean_the_same(given: dict[str, Any], held: Any, failed: Any) -> None:
    for value in held:
        assert holds(strategy(given), {"x": value}), value
    for value in failed:
        assert not holds(strategy(given), {"x": value}), value


def test_strategies_and_segments_make_a_feature() -> None:
    state = {
        "version": 2,
        "segments": [{"id": 1, "constraints": [constraint("IN", ["a"])]}],
        "features": [
            {
                "name": "beta",
                "enabled": True,
                "strategies": [
                    strategy(segments=[1]),
                    {"name": "userWithId", "parameters": {"userIds": "u1, u2"}},
                    strategy(disabled=True),
                ],
            },
            {"name": "off", "enabled": False, "strategies": [strategy()]},
            {"name": "on", "enabled": True, "strategies": []},
            {"name": "child", "strategies": [], "dependencies": [{"feature": "beta"}]},
        ],
    }
    imported = unleash.read(state)
    matcher = tamis.Matcher()
    matcher.add_many(imported.rules)
    assert matcher.match({"x": "a"}) == ["beta", "on"]
    assert matcher.match({"x": "b", "userId": "u2"}) == ["beta", "on"]
    assert matcher.match({"x": "b", "userId": "u3"}) == ["on"]
    assert [refused.id for refused in imported.refused] == ["child"]


def test_an_invalid_address_is_left_out_with_a_note() -> None:
    office = {"name": "remoteAddress", "parameters": {"IPs": "10.0.0.7, nowhere, 192.168.0.0/16"}}
    imported = unleash.read({"office": office})
    assert imported.notes == (
        "rule 'office': 'nowhere' is not an address or a network, and was left out",
    )
    assert holds(office, {"remoteAddress": "10.0.0.7"})
    assert holds(office, {"remoteAddress": "192.168.3.4"})
    assert not holds(office, {"remoteAddress": "10.0.0.8"})


def test_a_rollout_reaches_all_or_none() -> None:
    def roll_out(share: str, stickiness: str = "default") -> dict[str, Any]:
        parameters = {"rollout": share, "stickiness": stickiness, "groupId": "g"}
        return {"name": "flexibleRollout", "parameters": parameters}

    assert holds(roll_out("100"), {})
    assert not holds(roll_out("0"), {"userId": "u"})
    assert holds(roll_out("100", "userId"), {"userId": "u"})
    assert not holds(roll_out("100", "userId"), {})
    assert "depends on a hash" in refusal(roll_out("50"))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (strategy(constraint("SEMVER_EQ", "v2.0.0")), "not a semantic version"),
        (strategy(constraint("REGEX", "(a")), "pattern"),
        (strategy(constraint("NUM_EQ", "five")), "not a number"),
        (strategy(constraint("NUM_EQ", "inf")), "not a number"),
        (strategy(constraint("NUM_EQ", "1_000")), "not a number"),
        (strategy(constraint("NUM_EQ", "\u0661")), "not a number"),
        (strategy(constraint("DATE_AFTER", "soon")), "not a time"),
        (strategy(constraint("SOUNDS_LIKE", ["a"])), "'SOUNDS_LIKE' is not supported"),
        (strategy({"operator": "IN", "values": ["a"]}), "contextName"),
        (strategy(segments=[3]), "segment 3"),
        ({"name": "ownStrategy", "parameters": {}}, "'ownStrategy' is not supported"),
        ({"name": "userWithId", "parameters": {}}, "expected a text"),
    ],
)
def test_what_has_no_meaning_is_refused(document: dict[str, Any], reason: str) -> None:
    assert reason in refusal(document)
