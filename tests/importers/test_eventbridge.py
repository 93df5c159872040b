"""The behaviour that Amazon documents under "Comparison operators in event patterns"."""

from __future__ import annotations

from typing import Any

import pytest

import tamis
from tamis.importers import eventbridge
from tamis.importers.eventbridge import parse_pattern

CASES: list[tuple[Any, dict[str, Any], bool]] = [
    ({"source": ["aws.ec2", "aws.s3"]}, {"source": "aws.s3"}, True),
    ({"source": ["aws.ec2"]}, {}, False),
    ({"detail": {"state": ["on"], "n": [1]}}, {"detail": {"state": "on", "n": 1}}, True),
    ({"detail": {"state": ["on"], "n": [1]}}, {"detail": {"state": "on", "n": 2}}, False),
    ({"resources": ["a", "b"]}, {"resources": ["c", "b"]}, True),
    ({"s": [""]}, {"s": ""}, True),
    ({"s": [True]}, {"s": 1}, False),
    ({"time": [{"prefix": "2017-10-02"}]}, {"time": "2017-10-02T18:43:48Z"}, True),
    ({"s": [{"prefix": "10%"}]}, {"s": "100"}, False),
    ({"s": [{"prefix": {"equals-ignore-case": "EventB"}}]}, {"s": "eventbridge"}, True),
    ({"f": [{"suffix": ".png"}]}, {"f": "a.png"}, True),
    ({"f": [{"suffix": ".png"}]}, {"f": "a.PNG"}, False),
    ({"f": [{"suffix": {"equals-ignore-case": ".png"}}]}, {"f": "a.PNG"}, True),
    ({"s": [{"equals-ignore-case": "alice"}]}, {"s": "ALICE"}, True),
    ({"s": [{"equals-ignore-case": "alice"}]}, {"s": "alices"}, False),
    ({"s": [{"anything-but": "init"}]}, {"s": "run"}, True),
    ({"s": [{"anything-but": "init"}]}, {"s": "init"}, False),
    ({"s": [{"anything-but": "init"}]}, {}, False),
    ({"s": [{"anything-but": ["a", "b"]}]}, {"s": "b"}, False),
    ({"n": [{"anything-but": 123}]}, {"n": 124}, True),
    ({"s": [{"anything-but": {"prefix": ["in", "ou"]}}]}, {"s": "outer"}, False),
    ({"s": [{"anything-but": {"suffix": ".txt"}}]}, {"s": "a.log"}, True),
    ({"s": [{"anything-but": {"equals-ignore-case": ["INIT"]}}]}, {"s": "init"}, False),
    ({"s": [{"anything-but": {"wildcard": "*/lib/*"}}]}, {"s": "/usr/lib/x"}, False),
    ({"n": [{"numeric": ["=", 300]}]}, {"n": 300.0}, True),
    ({"n": [{"numeric": [">", 0, "<=", 5]}]}, {"n": 5}, True),
    ({"n": [{"numeric": [">", 0, "<=", 5]}]}, {"n": 0}, False),
    ({"n": [{"numeric": [">", 0, "<=", 5]}]}, {"n": 5e-324}, True),
    ({"n": [{"numeric": [">", 0, "<=", 5]}]}, {"n": [-1, 9]}, False),
    ({"n": [{"numeric": ["<", 10]}]}, {"n": -1}, True),
    ({"n": [{"numeric": ["<", 10]}]}, {"n": "9"}, False),
    ({"s": [{"wildcard": "arn:*:user/*"}]}, {"s": "arn:aws:user/x"}, True),
    ({"s": [{"wildcard": "a\\*b\\\\*"}]}, {"s": "a*b\\c"}, True),
    ({"s": [{"wildcard": "a\\*b"}]}, {"s": "axb"}, False),
    ({"s": [{"exists": True}]}, {"s": "x"}, True),
    ({"s": [{"exists": False}]}, {"s": "x"}, False),
    ({"d": {"s": [{"exists": False}]}}, {"d": {"t": 1}}, True),
    ({"s": ["a", {"prefix": "b"}, {"exists": False}]}, {}, True),
    ({"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, {"b": 2, "c": 3}, True),
    ({"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, {"c": 3}, False),
    ({"d": {"$or": [{"a": [1]}, {"b": [2]}]}}, {"d": {"b": 2}}, True),
    ('{"s": ["x"]}', {"s": "x"}, True),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.0.255"}, True),
    ({"ip": [{"cidr": "10.0.0.0/24"}]}, {"ip": "10.0.1.0"}, False),
    ({"ip": [{"cidr": "2001:db8::/32"}]}, {"ip": "2001:db8::1"}, True),
]


def test_patterns_keep_their_meaning() -> None:
    for document, event, expected in CASES:
        assert tamis.evaluate(parse_pattern(document), event) is expected, (document, event)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"s": []},
        {"s": "x"},
        {"s": [None]},
        {"s": [["x"]]},
        {"s": [{"prefix": "a", "suffix": "b"}]},
        {"s": [{"unheard-of": "a"}]},
        {"s": [{"prefix": 3}]},
        {"s": [{"exists": "yes"}]},
        {"s": [{"numeric": ["~", 3]}]},
        {"s": [{"numeric": [">", 3, ">", 4]}]},
        {"s": [{"numeric": [">", "3"]}]},
        {"s": [{"anything-but": []}]},
        {"s": [{"anything-but": {"numeric": ["=", 3]}}]},
        {"s": [{"wildcard": "a\\b"}]},
        {"s": [{"cidr": "10.0.0.0/33"}]},
        {"$or": [{"a": [1]}]},
        "{",
    ],
)
def test_unsupported_rules_are_refused(document: Any) -> None:
    with pytest.raises(tamis.RuleError):
        parse_pattern(document)


def test_the_output_of_aws_events_list_rules_is_read() -> None:
    listed = {"Rules": [{"Name": "stopped", "EventPattern": '{"state": ["stopped"]}'}]}
    imported = eventbridge.read(listed)
    assert [(rule.id, rule.text) for rule in imported.rules] == [("stopped", "state = 'stopped'")]
