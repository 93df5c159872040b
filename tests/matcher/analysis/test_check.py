"""Rules that no event can satisfy, because of what they mention."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis.matcher.analysis.check import CheckReport

EVENT = {
    "age": 30,
    "country": "FR",
    "signup": datetime(2024, 5, 1, tzinfo=UTC),
    "user": {"city": "Paris"},
    "active": True,
    "zip": "75001",
    "tags": ["a", "b"],
    "score": float("nan"),
    "gone": None,
}
TABLE = pa.table(
    {
        "age": [30.0],
        "country": pa.array(["FR"]).dictionary_encode(),
        "signup": pa.array([1_714_521_600_000_000_001], pa.timestamp("ns")),
        "user": [{"city": "Paris"}],
        "active": [True],
        "zip": ["75001"],
        "tags": [["a", "b"]],
        "score": [float("nan")],
        "gone": pa.array([None], pa.int64()),
    }
)
BOTH = pytest.mark.parametrize("events", [[EVENT], TABLE], ids=["mappings", "Arrow"])


def check(rules: Any, events: Any, **settings: Any) -> CheckReport:
    matcher = tamis.Matcher("scan", **settings)
    matcher.add_many(rules)
    return matcher.check(events)


def check_one(rule: str, events: Any, **settings: Any) -> str:
    """The message of the only finding about a rule that cannot match."""
    report = check({"r": rule}, events, **settings)
    assert report.possible == 0
    (finding,) = report.findings
    assert (finding.rules, finding.example) == (1, "r")
    assert str(finding) == f"{finding.message} (1 rule: 'r')"
    return finding.message


@BOTH
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("aeg = 30", "no event has 'aeg'; did you mean 'age'?"),
        ("Country = 'FR'", "no event has 'Country'; did you mean 'country'?"),
        ("city = 'Paris'", "no event has 'city'; did you mean 'user.city'?"),
        ("lower(contry) = 'fr'", "no event has 'contry'; did you mean 'country'?"),
        ("price > 3", "no event has 'price'"),
        ("price IS NOT NULL", "no event has 'price'"),
        ("score > 3", "no event has 'score'"),
        ("gone <> 3", "no event has 'gone'"),
        ("price <> 3", "no event has 'price'"),
    ],
)
def test_attributes_that_no_event_has_are_named(events: Any, rule: str, message: str) -> None:
    assert check_one(rule, events) == message


@BOTH
@pytest.mark.parametrize("rule", ['country = "FR"', "country = FR", '"FR" = country'])
def test_a_text_in_double_quotes_is_an_attribute_that_no_event_has(events: Any, rule: str) -> None:
    assert check_one(rule, events) == (
        "'country' is compared with the attribute \"FR\", which no event has; "
        "a text is 'FR', in single quotes"
    )


def test_misspelt_attributes_in_comparisons_have_near_names() -> None:
    assert check_one("age < agee", [EVENT]).endswith("; did you mean 'age'?")
    found = check({"r": 'contry = "FR"'}, [EVENT]).findings
    assert {(f.kind, f.attribute, f.near) for f in found} == {
        ("unknown", "contry", ("country",)),
        ("quoted", "contry", ()),
    }


@BOTH
@pytest.mark.parametrize(
    ("rule", "ending"),
    [
        (
            "signup >= '2024-01-01'",
            (
                "rules compare it with texts, such as '2024-01-01'; "
                "write TIMESTAMP '2024-01-01', or declare schema={'signup': 'timestamp'}"
            ),
        ),
        ("signup > 2024", "or a function such as year(signup)"),
        ("age = '30'", "rules compare it with texts, such as '30'; write 30 without quotes"),
        ("age IN ('a', 'b')", "rules compare it with texts, such as 'a'; write a number"),
        ("age LIKE '3%'", "rules compare it with texts, such as '3%'; write a number"),
        ("age > TIMESTAMP '2024-01-01'", "timestamp_seconds(age) or timestamp_millis(age)"),
        ("zip BETWEEN 75000 AND 75999", "such as 75000; write '75000', as a text in quotes"),
        ("zip > TIMESTAMP '2024-01-01'", "or declare schema={'zip': 'timestamp'}"),
        ("active = 'true'", "write TRUE or FALSE"),
        ("tags = 1", "write '1', as a text in quotes"),
        ("lower(age) = 'x'", "lower(age) takes a string"),
        ("age = country", "rules compare it with country, which has texts"),
        ("age = lower(country)", "rules compare it with lower(country), which has texts"),
    ],
)
def test_kinds_that_never_compare_are_named_with_a_fix(events: Any, rule: str, ending: str) -> None:
    assert check_one(rule, events).endswith(ending)


def test_a_finding_shows_what_the_events_have() -> None:
    assert check_one("age = 'x'", [EVENT]).startswith("'age' has numbers, such as 30; ")
    assert check_one("zip = 1", [{"zip": "7" * 99}]).startswith(
        f"'zip' has texts, such as '{'7' * 39}…"
    )
    mixed = check_one("x = TRUE", [{"x": 1}, {"x": "a"}])
    assert mixed.startswith("'x' has numbers, such as 1 and texts, such as 'a'; ")


@BOTH
@pytest.mark.parametrize(
    "rule",
    [
        "TRUE",
        "age = 30",
        "age IN ('30', 30)",
        "lower(country) = 'fr'",
        "year(signup) = 2024",
        "year(country) = 2024",
        "user.city = 'Paris'",
        "subset(tags, ('a', 'b'))",
        "size(tags) = 2",
        "gone IS NULL",
        "age IS NULL",
        "zip = country",
    ],
)
def test_rules_that_can_match_give_no_findings(events: Any, rule: str) -> None:
    report = check({"r": rule}, events)
    assert (report.findings, report.possible) == ([], 1)


def test_a_rule_with_a_doubtful_part_can_match_all_the_same() -> None:
    rules = {
        "or": "aeg = 1 OR age = 30",
        "negated": "age <> '30'",
        "compared": "age <> country",
        "and": "aeg = 1 AND age = 30",
    }
    report = check(rules, [EVENT])
    assert (report.possible, report.share) == (3, 0.75)
    weak = check({"r": "price <> 3"}, [EVENT], logic="weak")
    assert weak.possible == 1
    assert [f.attribute for f in weak.findings] == ["price"]


def test_what_is_found_agrees_with_what_matches() -> None:
    rules = {n: f"age {op} {v}" for n, (op, v) in enumerate([("=", 30), ("=", "'30'"), ("<>", 1)])}
    matcher = tamis.Matcher("scan")
    matcher.add_many(rules)
    assert matcher.check([EVENT]).possible == len(matcher.match({"age": 30})) == 2


def test_findings_are_grouped_and_those_of_most_rules_come_first() -> None:
    rules = {
        **{f"a{n}": f"age = '{n}'" for n in range(3)},
        **{f"c{n}": f'country = "C{n}"' for n in range(5)},
        **{f"u{n}": f"aeg = {n} AND aeg <> 7" for n in range(4)},
    }
    report = check(rules, [EVENT])
    assert [(f.kind, f.attribute, f.rules, f.example) for f in report.findings] == [
        ("quoted", "country", 5, "c0"),
        ("unknown", "aeg", 4, "u0"),
        ("kind", "age", 3, "a0"),
    ]
    assert str(report).splitlines()[1:] == [
        "no event has 'aeg'; did you mean 'age'? (4 rules, such as 'u0')",
        (
            "'age' has numbers, such as 30; rules compare it with texts, such as '0'; "
            "write 0 without quotes (3 rules, such as 'a0')"
        ),
        "0 of 12 rules can match; compared with 1 event",
    ]


def test_a_schema_decides_the_kind_of_texts() -> None:
    schema = {"signup": "timestamp"}
    for events in ([{"signup": "2024-05-01"}], pa.table({"signup": ["2024-05-01"]})):
        assert not check({"r": "signup >= '2024-01-01'"}, events, schema=schema).findings
        assert check({"r": "signup >= TIMESTAMP '2024-01-01'"}, events).possible == 0


def test_join_predicates_are_checked_but_always_possible() -> None:
    rule = "age < ALL (SELECT d.prise FROM seen d WHERE d.zip = 75001)"
    report = check({"r": rule}, [EVENT])
    assert report.possible == 1
    assert {(f.kind, f.attribute) for f in report.findings} == {
        ("unknown", "prise"),
        ("kind", "zip"),
    }


def test_events_are_read_in_chunks_from_any_container() -> None:
    rare = ({"age": n} if n < 20_000 else {"aeg": n} for n in range(20_001))
    report = check({"r": "aeg = 1", "s": "late = 1"}, rare)
    assert (report.events, report.possible) == (20_001, 1)
    kinds = pa.map_(pa.string(), pa.int64())
    table = pa.table({"": pa.array([[("age", 1)], None, [("x", None)]], kinds)})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    report = check({"r": "age = 1", "s": "x = 1"}, reader)
    assert (report.events, report.possible) == (3, 1)


def test_no_events_decide_nothing() -> None:
    report = check({"r": "a = 1"}, [])
    assert (report.events, report.possible, report.findings) == (0, 1, [])
    assert str(report) == "there are no events to check the rules against"
    assert check({}, [EVENT]).share == 1


def test_what_rules_cannot_compare_is_left_out() -> None:
    report = check({"r": "a = 1"}, [{"a": object(), "b": 1}, {"a": 1}])
    assert (report.possible, report.findings) == (1, [])


@pytest.mark.parametrize("events", [[1], 5, "abc", {"a": 1}])
def test_only_events_are_taken(events: Any) -> None:
    with pytest.raises(tamis.EventError):
        check({"r": "a = 1"}, events)


def test_removed_rules_are_not_checked_and_their_tags_are_gone() -> None:
    matcher = tamis.Matcher("scan")
    matcher.add_many(
        [tamis.Rule(n, "aeg = 1", "strong", tags=frozenset([f"t{n}"])) for n in range(40)]
    )
    matcher.add("late", "aeg = 1", tags=["new"])
    matcher.remove_many(range(1, 40))
    assert matcher.check([EVENT]).findings[0].rules == 2
    assert matcher.tags() == {"t0", "new"}
    matcher.optimize()
    assert matcher.tags() == {"t0", "new"}


def test_models_and_progress() -> None:
    matcher = tamis.Matcher("scan")
    matcher.add_many({n: tamis.Predicate("aeg", tamis.Op.EQ, (n,)) for n in range(1_000)})
    seen: list[tuple[int, float | None]] = []
    matcher.check([EVENT], watch=lambda count, fraction: seen.append((count, fraction)))
    assert seen == [(1, None), (1_000, 1.0)]
