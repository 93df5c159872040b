"""Suggested changes make the condition hold."""

from __future__ import annotations

import pytest
from hypothesis import given

import tamis
from tamis.expr.analysis.repairs import Edit, suggest_edits
from tests.strategies import predicates


@pytest.mark.parametrize(
    ("text", "logic", "edits"),
    [
        ("country = 'FR'", "strong", [("country", "FR")]),
        ("age > 18", "strong", [("age", 19)]),
        ("age < 18", "strong", [("age", 17)]),
        ("age BETWEEN 13 AND 19", "strong", [("age", 13), ("age", 14), ("age", 19)]),
        ("city IN ('Nice', 'Lyon')", "strong", [("city", "Nice"), ("city", "Lyon")]),
        ("city <> 'Nice'", "strong", [("city", "Nicex"), ("city", "x")]),
        ("city <> 'Nice'", "weak", [("city", "Nicex"), ("city", "x"), ("city", None)]),
        ("city IS NULL", "strong", [("city", None)]),
        ("name LIKE '%ab%'", "strong", [("name", "ab")]),
        ("flag = TRUE", "strong", [("flag", True)]),
        ("length(name) > 3", "strong", []),
    ],
)
def test_edits(text: str, logic: str, edits: list[tuple[str, object]]) -> None:
    found = suggest_edits(tamis.parse(text), logic)  # type: ignore[arg-type]
    assert [tuple(edit) for edit in found] == edits


@given(predicates(wild=True))
def test_every_edit_makes_the_predicate_hold(predicate: tamis.Predicate) -> None:
    for logic in ("strong", "weak"):
        for edit in suggest_edits(predicate, logic):
            event = {} if edit.value is None else {edit.attribute: edit.value}
            assert tamis.evaluate(predicate, event, logic)
            assert isinstance(edit, Edit)
