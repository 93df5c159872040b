"""Conditions of MongoDB and GrowthBook."""

from __future__ import annotations

from typing import Any

import pytest

import tamis
from tamis.importers import mongo, paths_of, widened
from tamis.importers.mongo import Dialect, parse_condition

# Cases that GrowthBook's own tests lack, decided by how its JavaScript SDK treats null.
GROWTHBOOK: list[tuple[Any, dict[str, Any], bool]] = [
    ({"age": {"$lt": 30}}, {}, True),
    ({"age": {"$gt": 30}}, {}, False),
    ({"age": {"$gte": 0}}, {}, True),
    ({"age": {"$lt": 0}}, {}, False),
    ({"name": {"$gt": "a"}}, {}, False),
    ({"name": {"$not": {"$eq": "a"}}}, {}, True),
    ({"name": {"$ne": None}}, {}, False),
    ({"name": {"$ne": None}}, {"name": "a"}, True),
    ({"name": {"$in": ["a", None]}}, {}, True),
    ({"name": {"$nin": ["a", None]}}, {}, False),
    ({"name": {"$in": []}}, {"name": "a"}, False),
    ({"name": {"$ini": ["A%", 3]}}, {"name": "a%"}, True),
    ({"name": {"$ini": ["A%", 3]}}, {"name": "ab"}, False),
    ({"name": {"$ini": ["A%", 3]}}, {"name": 3}, True),
    ({"name": {"$notRegex": "b"}}, {}, True),
    ({"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"n": [0, 9]}, False),
    ({"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"n": [0, 1, 5]}, False),
    ({"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"n": [0, 1.5, 9]}, True),
    ({"n": {"$elemMatch": {"$lt": 5}}}, {}, False),
    ({"h": {"$elemMatch": {"name": "bowling"}}}, {"h": [{"name": "x"}, {"name": "bowling"}]}, True),
    ({"$nor": []}, {}, False),
    ({"v": {"$vlt": "1.0.0"}}, {}, True),
    ({"v": {"$vgte": "1.0.0"}}, {}, False),
    ({"v": {"$vne": "1.0.0"}}, {}, True),
    ({"l": {"$size": {"$lt": 2}}}, {"l": [1]}, True),
    ({"l": {"$size": {"$lt": 2}}}, {}, False),
    ({"a": {"$type": "string"}}, {"a": "x"}, True),
    ({"a": {"$type": "string"}}, {"a": 1}, False),
    ({"a": {"$type": "number"}}, {"a": -1.5}, True),
    ({"a": {"$type": "boolean"}}, {"a": False}, True),
    ({"a": {"$type": "array"}}, {"a": []}, True),
    ({"a": {"$type": "array"}}, {"a": {"b": [1]}}, False),
    ({"a.b": {"$type": "array"}}, {"a": {"b": [1]}}, True),
    ({"a": {"$type": "object"}}, {}, False),
    # The size of an empty list is 0; only lists have a size.
    ({"l": {"$size": 0}}, {"l": []}, True),
    ({"l": {"$size": 0}}, {"l": [None]}, False),
    ({"l": {"$size": 0}}, {"l": ["a"]}, False),
    ({"l": {"$size": 0}}, {"l": ""}, False),
    ({"l": {"$size": 0}}, {}, False),
    ({"l": {"$size": {"$lt": 2}}}, {"l": []}, True),
    ({"l": {"$size": {"$not": {"$gt": 1}}}}, {"l": []}, True),
    ({"l": {"$not": {"$size": 0}}}, {"l": []}, False),
    ({"l": {"$not": {"$size": 0}}}, {}, True),
    # A text that spells a number is that number, for all but $eq, $ne, $in and $nin.
    ({"n": {"$gt": 5, "$lt": 10}}, {"n": " 8.0 "}, True),
    ({"n": {"$gt": 5, "$lt": 10}}, {"n": "80"}, False),
    ({"n": {"$gt": 5}}, {"n": "eight"}, False),
    ({"n": {"$lt": 5}}, {"n": "eight"}, False),
    ({"n": {"$gt": "5"}}, {"n": 10}, True),
    ({"n": {"$gt": "5"}}, {"n": "10"}, False),
    ({"n": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"n": ["0", "3"]}, True),
    ({"n": 5}, {"n": "5.0"}, True),
    ({"n": 5}, {"n": "5x"}, False),
    ({"n": 0}, {}, True),
    ({"n": "5"}, {"n": 5}, True),
    ({"n": "5.5"}, {"n": 5.5}, True),
    ({"n": "5.0"}, {"n": 5}, False),
    ({"n": {"$eq": 5}}, {"n": "5"}, False),
    ({"n": {"$ne": 5}}, {"n": "5"}, True),
    ({"n": {"$in": [5]}}, {"n": "5"}, False),
    # Lists and objects are equal if their JSON is.
    ({"l": ["a", 1]}, {"l": ["a", 1.0]}, True),
    ({"l": ["a", 1]}, {"l": [1, "a"]}, False),
    ({"l": []}, {"l": []}, True),
    ({"l": []}, {}, False),
    ({"o": {"a": {"b": None}}}, {"o": {"a": {"b": None}}}, True),
    ({"o": {"a": 1}}, {"o": {"a": 1, "b": 2}}, False),
]

# From MongoDB's manual: null and a missing field, lists, and negations.
MONGODB: list[tuple[Any, dict[str, Any], bool]] = [
    ({"age": {"$lt": 30}}, {}, False),
    ({"age": {"$not": {"$gt": 30}}}, {}, True),
    ({"age": {"$ne": 30}}, {}, True),
    ({"age": {"$nin": [30]}}, {"age": [29, 30]}, False),
    ({"item": None}, {}, True),
    ({"item": {"$exists": True}}, {"item": 0}, True),
    ({"n": {"$gt": 5, "$lt": 3}}, {"n": [2, 9]}, True),
    ({"n": {"$elemMatch": {"$gt": 5, "$lt": 3}}}, {"n": [2, 9]}, False),
    ({"tags": {"$all": ["a", "b"]}}, {"tags": ["b", "c", "a"]}, True),
    ({"tags": {"$all": ["a", "b"]}}, {"tags": ["b", "c"]}, False),
    ({"name": {"$regex": "^Ab", "$options": "i"}}, {"name": "abc"}, True),
    ({"name": {"$regex": "^Ab"}}, {"name": "abc"}, False),
    ({"$or": [{"a": 1}, {"b": {"$gte": 2}}]}, {"b": 2}, True),
    ({"$nor": [{"a": 1}, {"b": 2}]}, {"a": 3}, True),
]


@pytest.mark.parametrize(
    ("dialect", "cases"), [(Dialect.GROWTHBOOK, GROWTHBOOK), (Dialect.MONGODB, MONGODB)]
)
def test_conditions_keep_their_meaning(
    dialect: Dialect, cases: list[tuple[Any, dict[str, Any], bool]]
) -> None:
    for document, event, expected in cases:
        assert holds(document, event, dialect) is expected, (document, event)


def holds(document: Any, event: dict[str, Any], dialect: Dialect = Dialect.GROWTHBOOK) -> bool:
    (rule,) = mongo.read({"r": document}, dialect=dialect).rules
    return tamis.evaluate(rule.expr, widened(event, paths_of([rule])), "weak")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"tags": {"$eq": ["a", "b"]}}, "whole list"),
        ({"tags": {"$eq": {"a": 1}}}, "whole object"),
        ({"a": {"$type": "date"}}, "type 'date'"),
        ({"": [1]}, "has no path"),
        ({"a": {"$near": 3}}, r"\$near"),
        ({"a": {"$gt": True}}, "not a number"),
        ({"a": {"$in": [[1]]}}, "holds a list"),
        ({"a": {"$all": []}}, r"\$all"),
        ({"a": {"$regex": 3}}, "takes a text"),
        ({"a": {"$vgt": 3}}, "is a text"),
        ({"a": {"$size": "3"}}, "takes a number"),
        ({"a": {"$inGroup": "vip"}}, "'vip' is not given"),
        ({"a": {"$elemMatch": {"x": 1, "y": 2}}}, "one element"),
        ({"a": {"$elemMatch": {"$ne": 2}}}, "one element"),
        ([], "is an object"),
    ],
)
def test_unsupported_rules_are_refused(document: Any, reason: str) -> None:
    with pytest.raises(tamis.RuleError, match=reason):
        parse_condition(document)


@pytest.mark.parametrize(
    "document",
    [
        {"$where": "this.a"},
        {"$not": {"a": 1}},
        {"$or": []},
        {"a": {"$in": 3}},
        {"a": {"$ini": ["A"]}},
        {"a": {"$regex": "a", "$options": "x"}},
        {"a": {"$type": "null"}},
        {"a": {"$mod": [0, 1]}},
        {"a": {"$size": {"$gt": 1}}},
        {"a": [1, 2]},
        {"a": {"b": 1}},
        {"a": {"$type": "array"}},
        {"a": {"$vgt": "1"}},
    ],
)
def test_mongodb_has_fewer_operators(document: Any) -> None:
    with pytest.raises(tamis.RuleError):
        parse_condition(document, dialect=Dialect.MONGODB)


def test_the_payload_of_growthbooks_sdks_is_read() -> None:
    payload = {
        "features": {
            "dark": {"defaultValue": False, "rules": [{"force": True}, {"condition": {"x": 1}}]},
            "beta": {"rules": [{"condition": {"id": {"$inGroup": "vip"}}}]},
            "plain": {"defaultValue": 3},
        },
        "savedGroups": {"vip": [7, 8]},
    }
    imported = mongo.read(payload, typed=True)
    assert [(rule.id, rule.text) for rule in imported.rules] == [
        ("dark:1", "x = 1"),
        ("beta:0", "id IN (7, 8)"),
    ]


@pytest.mark.parametrize(
    ("document", "event", "expected"),
    [
        ({"n": {"$mod": [4, 1]}}, {"n": 9}, True),
        ({"n": {"$mod": [4, 1]}}, {"n": 8}, False),
        ({"l": {"$size": 2}}, {"l": ["a", "a"]}, True),
        ({"l": {"$size": 1}}, {"l": "a"}, False),
        ({"l": {"$size": 0}}, {"l": []}, True),
        ({"n": {"$gt": 5}}, {"n": "8"}, False),
    ],
)
def test_mod_and_size_of_mongodb(document: Any, event: dict[str, Any], expected: bool) -> None:
    assert holds(document, event, Dialect.MONGODB) is expected


def test_typed_events_need_no_conversions() -> None:
    documents = {"a": {"n": {"$gt": 5}}, "b": {"n": "5"}, "c": {"n": 0}}
    assert [rule.text for rule in mongo.read(documents, typed=True).rules] == [
        "n > 5",
        "n = '5'",
        "n = 0 OR n IS NULL",
    ]
    assert [rule.text for rule in mongo.read(documents).rules] == [
        "number(n) > 5",
        "n IN ('5', 5)",
        "number(n) = 0 OR n IS NULL",
    ]


def test_refused_conditions_are_named() -> None:
    documents = [
        {"id": "a", "condition": {"x": 1}},
        {"id": "b", "condition": {"x": {"$regex": "(?=a)"}}},
        {"id": "a", "condition": {"x": 2}},
        {"condition": {"x": 3}},
        {"id": "c"},
        "d",
    ]
    imported = mongo.read(documents, typed=True)
    assert [(rule.id, rule.text, rule.logic) for rule in imported.rules] == [("a", "x = 1", "weak")]
    assert [(refused.id, refused.place) for refused in imported.refused] == [
        ("b", "number 2"),
        ("a", "number 3"),
        (None, "number 4"),
        ("c", "number 5"),
        (None, "number 6"),
    ]
    assert "invalid pattern" in imported.refused[0].reason
    assert str(imported.refused[1]) == "number 3: rule 'a': the id is taken by number 1"
