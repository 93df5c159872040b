"""No importer is exponential: twice the document takes at most five times the steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tamis.importers import eventbridge, jsonlogic, mongo, mustang, sigma, unleash
from tamis.importers.mongo import Dialect
from tests.growth import TooManyStepsError, check_growth

Make = Callable[[int], Any]


def nest(start: Any, wrap: Callable[[int, Any], Any]) -> Make:
    """Documents of so many levels."""

    def make(size: int) -> Any:
        document = start
        for level in range(size):
            document = wrap(level, document)
        return document

    return make


def is_text(n: int) -> dict[str, Any]:
    return {"==": [{"var": f"v{n}"}, "x"]}


JSONLOGIC: dict[str, Make] = {
    "if of constants": nest(True, lambda n, d: {"if": [d, True, False]}),
    "if in a condition": nest(is_text(0), lambda n, d: {"if": [d, is_text(n), is_text(-n)]}),
    "if in a result": nest(is_text(0), lambda n, d: {"if": [is_text(n), d, is_text(-n)]}),
    "if in an else": nest(is_text(0), lambda n, d: {"if": [is_text(n), is_text(-n), d]}),
    "if everywhere": nest(is_text(0), lambda n, d: {"if": [d, d, d]} if n < 5 else {"!": d}),
    "if in negated conditions": nest(
        is_text(0), lambda n, d: {"?:": [{"!": d}, is_text(n), is_text(-n)]}
    ),
    "if of many arms": lambda n: {"if": [is_text(k) for k in range(2 * n + 1)]},
    "not": nest(is_text(0), lambda n, d: {"!": d}),
    "and, or": nest(is_text(0), lambda n, d: {"or" if n % 2 else "and": [d, is_text(n)]}),
    "and of many": lambda n: {"and": [is_text(k) for k in range(n)]},
    "arithmetic": lambda n: {
        "<": [0, nest({"var": "a"}, lambda k, d: {"+" if k % 2 else "*": [d, k]})(n), 9]
    },
    "arithmetic of two": lambda n: {
        "<=": [nest({"var": "a"}, lambda k, d: {"+": [d, k]})(n), {"var": "b"}]
    },
    "in": lambda n: {"in": [{"var": "a"}, list(range(n))]},
    "some": nest(is_text(0), lambda n, d: {"some": [{"var": f"l{n}"}, d]}),
    "missing_some": lambda n: {"missing_some": [1, [f"v{k}" for k in range(n)]]},
}

EVENTBRIDGE: dict[str, Make] = {
    "fields": nest({"a": ["x"]}, lambda n, d: {f"f{n}": d}),
    "$or": nest({"a": ["x"]}, lambda n, d: {"$or": [d, {f"b{n}": ["y"]}]}),
    "$or and fields": nest({"a": ["x"]}, lambda n, d: {"$or": [d, d], "c": ["z"]} if n < 5 else d),
    "values": lambda n: {"a": [f"x{k}" for k in range(n)]},
    "tests": lambda n: {"a": [{"prefix": f"x{k}"} for k in range(n)]},
    "anything-but": lambda n: {"a": [{"anything-but": {"wildcard": [f"*{k}*" for k in range(n)]}}]},
    "stars": lambda n: {"a": [{"wildcard": "*a" * n}]},
    "numeric": lambda n: {"a": [{"numeric": [">", k, "<", k + 1]} for k in range(n)]},
    "long name": lambda n: {"a" * n: [{"exists": False}]},
}

MONGO: dict[str, Make] = {
    "$and, $or": nest({"a": 1}, lambda n, d: {"$or" if n % 2 else "$and": [d, {f"b{n}": 2}]}),
    "$nor": nest({"a": 1}, lambda n, d: {"$nor": [d]}),
    "$not": lambda n: {"a": nest({"$gt": 1}, lambda k, d: {"$not": d})(n)},
    "$not of conditions": nest({"a": "x"}, lambda n, d: {"$not": d}),
    "$size": lambda n: {"a": nest({"$gt": 1}, lambda k, d: {"$size": d})(n)},
    "$size and $not": lambda n: {
        "a": nest({"$gt": 1}, lambda k, d: {"$size": d} if k % 2 else {"$not": d})(n)
    },
    "$size and $all": lambda n: {
        "a": nest({"$gt": 1}, lambda k, d: {"$size": d} if k % 2 else {"$all": [d]})(n)
    },
    "$size and $elemMatch": lambda n: {
        "a": nest({"$gt": 1}, lambda k, d: {"$size": d} if k % 2 else {"$elemMatch": d})(n)
    },
    "$elemMatch": lambda n: {
        "a": nest({"$gt": 1}, lambda k, d: {"$elemMatch": d if k % 2 else {"b": d}})(n)
    },
    "$all": lambda n: {"a": nest({"$gt": 1}, lambda k, d: {"$all": [d]})(n)},
    "$in": lambda n: {"a": {"$in": [k if k % 2 else str(k) for k in range(n)]}},
    "$ini": lambda n: {"a": {"$ini": [f"x{k}" for k in range(n)]}},
    "many fields": lambda n: {f"a{k}": {"$gte": k, "$lt": k + 1} for k in range(n)},
    "nested objects": lambda n: {"a": nest({"b": 1}, lambda k, d: {f"c{k}": d})(n)},
}


def equality(n: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "INCLUDED",
        "lhs": f"$.a{n}",
        "detail": {"caveat": "EQUALITY", "values": ["x", n]},
        **more,
    }


MUSTANG: dict[str, Make] = {
    "nested": nest(
        {"form": "DNF", "conjunctions": [{"type": "AND", "predicates": [equality(0)]}]},
        lambda n, d: {
            "form": "UNF",
            "type": "OR" if n % 2 else "AND",
            "criterias": [d],
            "predicates": [equality(n)],
        },
    ),
    "predicates": lambda n: {
        "form": "UNF",
        "type": "AND",
        "predicates": [equality(k) for k in range(n)],
    },
    "values": lambda n: {
        "form": "UNF",
        "type": "AND",
        "predicates": [
            equality(0, detail={"caveat": "EQUALITY", "values": [*range(n), *map(str, range(n))]})
        ],
    },
    "operations": lambda n: {
        "form": "UNF",
        "type": "AND",
        "predicates": [
            equality(
                0,
                preOperations=[
                    {"operationType": ("LENGTH", "SIZE", "BINARY")[k % 3]} for k in range(n)
                ],
            )
        ],
    },
}


def constraint(n: int, operator: str = "IN") -> dict[str, Any]:
    return {"contextName": f"c{n}", "operator": operator, "values": ["x", str(n)]}


UNLEASH: dict[str, Make] = {
    "constraints": lambda n: {"name": "default", "constraints": [constraint(k) for k in range(n)]},
    "strategies": lambda n: {
        "strategies": [{"name": "default", "constraints": [constraint(k)]} for k in range(n)]
    },
    "values": lambda n: {
        "name": "default",
        "constraints": [{**constraint(0), "values": [str(k) for k in range(n)]}],
    },
    "texts": lambda n: {
        "name": "default",
        "constraints": [{**constraint(0, "STR_CONTAINS"), "values": [str(k) for k in range(n)]}],
    },
    "networks": lambda n: {
        "name": "remoteAddress",
        "parameters": {"IPs": ",".join(f"10.0.{k % 256}.0/24" for k in range(n))},
    },
}

SYSTEMS: dict[str, tuple[dict[str, Make], list[Callable[[Any], Any]]]] = {
    "jsonlogic": (JSONLOGIC, [partial(jsonlogic.read, typed=True)]),
    "eventbridge": (EVENTBRIDGE, [eventbridge.read]),
    "mongo": (
        MONGO,
        [partial(mongo.read, dialect=d, typed=t) for d in Dialect for t in (False, True)],
    ),
    "mustang": (MUSTANG, [partial(mustang.read, typed=typed) for typed in (False, True)]),
    "unleash": (UNLEASH, [unleash.read]),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_importers_grow_with_documents(system: str) -> None:
    cases, readers = SYSTEMS[system]
    for (case, make), read, size in product(cases.items(), readers, (6, 12, 60)):

        def prepare(
            size: int, make: Make = make, read: Callable[[Any], Any] = read
        ) -> Callable[[], Any]:
            return partial(read, {"id": make(size)})

        try:
            check_growth(prepare, size)
        except (AssertionError, TooManyStepsError) as error:
            raise AssertionError(case, read, *error.args) from None


def detection(selections: dict[str, Any], condition: str) -> str:
    rule = {
        "title": "t",
        "id": "6f3e2987-db24-4c78-a860-b4f4095a7095",
        "logsource": {"category": "process_creation"},
        "detection": {**selections, "condition": condition},
    }
    return json.dumps(rule)


def aliases(n: int) -> str:
    """YAML whose lists refer twice to the list before."""
    lines = ["l0: &l0 [x, y]", *(f"l{k}: &l{k} [*l{k - 1}, *l{k - 1}]" for k in range(1, n))]
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"title: t\nlogsource: {{category: a}}\nother:\n{body}\n"
        f"detection:\n  s:\n    f: *l{n - 1}\n  condition: s\n"
    )


SIGMA: dict[str, Make] = {
    "parentheses": lambda n: detection({"s": {"f": "x"}}, "(" * n + "s" + ")" * n),
    "nots": lambda n: detection({"s": {"f": "x"}}, "not " * n + "s"),
    "nots in parentheses": lambda n: detection({"s": {"f": "x"}}, "not (" * n + "s" + ")" * n),
    "ands": lambda n: detection({"s": {"f": "x"}}, " and ".join(["s"] * n)),
    "ands and ors": lambda n: detection(
        {"s": {"f": "x"}}, "".join("(s and (s or " for _ in range(n)) + "s" + "))" * n
    ),
    "selections": lambda n: detection({f"s{k}": {"f": f"x{k}"} for k in range(n)}, "1 of s*"),
    "values": lambda n: detection({"s": {"f|contains": [f"x{k}" for k in range(n)]}}, "s"),
    "all of values": lambda n: detection({"s": {"f|contains|all": ["x"] * n}}, "s"),
    "base64offset": lambda n: detection({"s": {"f|base64offset|contains": ["x" * n]}}, "s"),
    "windash": lambda n: detection({"s": {"f|windash": "-a " * n}}, "s"),
    "nested lists": lambda n: detection({"s": {"f": json.loads("[" * n + "1" + "]" * n)}}, "s"),
    "aliases": aliases,
    "aliases at the top": lambda n: "\n".join(
        ["- &l0 [x, y]", *(f"- &l{k} [*l{k - 1}, *l{k - 1}]" for k in range(1, n))]
    ),
}


@pytest.mark.parametrize("case", SIGMA)
def test_sigma_grows_with_documents(case: str, tmp_path: Path) -> None:
    def prepare(size: int) -> Callable[[], Any]:
        file = tmp_path / f"{size}.yml"
        file.write_text(SIGMA[case](max(size, 1)))
        return partial(sigma.read, file)

    check_growth(prepare, 10)
