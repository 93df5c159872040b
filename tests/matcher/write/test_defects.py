"""An exception that nobody expects, while one rule is read, refuses that rule alone."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tamis import Matcher, RuleError
from tamis.encode.plain.reader import PlainReader
from tamis.encode.rules import RuleEncoder
from tamis.expr.text import bulk, grammar, predicates, shapes
from tamis.expr.text.grammar import parse
from tamis.expr.text.shapes import Shapes
from tamis.expr.text.two_levels import TwoLevelReader
from tamis.files.rule_reader import load_rules
from tamis.importers import result
from tamis.importers.entries import Entry
from tamis.matcher.rule import make_rule, rule_of_fields
from tamis.matcher.write import builder, new_rules
from tamis.spark.index.rows import RefusedRuleError, add_rows

BAD = "lower(bad) = 'x' OR NOT (a = 1 AND NOT (b = 2 OR c = 3))"
"""Only the parser reads it, as it is the first of its shape."""


@pytest.fixture(autouse=True)
def failing_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> Any:
        if "bad" in text:
            raise ZeroDivisionError("a defect")
        return parse(text)

    for module in (bulk, shapes, grammar, predicates):
        monkeypatch.setattr(module, "parse", fail)


@pytest.fixture(autouse=True)
def fast_roads_may_fail() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Tamis takes a slower way", RuntimeWarning)
        yield


def rules(count: int) -> list[tuple[int, str]]:
    return [(n, BAD if n == 7 else f"x = {n}") for n in range(count)]


def check_refusal(error: BaseException) -> None:
    assert isinstance(error, RuleError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "a defect of its own" in str(error)
    assert "lower(bad)" in str(error)


def test_add_raises_a_refusal() -> None:
    matcher = Matcher()
    with pytest.raises(RuleError) as caught:
        matcher.add(1, BAD)
    check_refusal(caught.value)
    assert len(matcher) == 0


@pytest.mark.parametrize("count", [10, 100, 12_000])
def test_add_many_refuses_one_rule(count: int) -> None:
    matcher = Matcher()
    with pytest.raises(RuleError) as caught:
        matcher.add_many(rules(count))
    check_refusal(caught.value)
    assert caught.value.rule_id == 7
    assert len(matcher) == 0
    report = matcher.add_many(rules(count), on_error="skip")
    assert [bad.id for bad in report.bad] == [7]
    assert "a defect of its own" in report.bad[0].message
    assert len(matcher) == count - 1
    assert matcher.match({"x": 8}) == [8]


@pytest.mark.parametrize("module", [TwoLevelReader, Shapes])
@pytest.mark.parametrize("count", [10, 100])
def test_careful_road_takes_what_a_fast_one_cannot_read(
    monkeypatch: pytest.MonkeyPatch, module: type, count: int
) -> None:
    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(module, "read" if module is TwoLevelReader else "split", fail)
    matcher = Matcher()
    matcher.add_many([(n, f"x = {n} AND (y = 1 OR z = 2)") for n in range(count)])
    assert matcher.match({"x": 3, "y": 1}) == [3]


def test_failing_fast_road_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoLevelReader, "read", lambda *arguments: 1 // 0)
    matcher = Matcher()
    with pytest.warns(RuntimeWarning, match="a slower way because of a defect"):
        matcher.add(1, "x = 1")
    assert matcher.match({"x": 1}) == [1]


@pytest.mark.parametrize("method", ["add", "finish"])
def test_failing_kernels_leave_all_rules_to_the_readers(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(PlainReader, method, lambda *arguments: 1 // 0)
    monkeypatch.setattr(builder, "_LEAST_FOR_KERNELS", 0)
    monkeypatch.setattr(builder, "is_compiled", lambda: True)
    matcher = Matcher()
    matcher.add_many([(n, f"x = {n}") for n in range(100)])
    assert matcher.match({"x": 3}) == [3]


@pytest.mark.parametrize("count", [10, 100])
def test_item_that_cannot_be_made_a_rule_is_refused(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    real = rule_of_fields

    def fail(fields: Any, logic: Any) -> Any:
        if fields["id"] == 7:
            raise ZeroDivisionError("a defect")
        return real(fields, logic)

    monkeypatch.setattr(new_rules, "rule_of_fields", fail)
    items = [{"id": n, "rule": f"x = {n}", "tags": ["t"]} for n in range(count)]
    matcher = Matcher()
    report = matcher.add_many(items, on_error="skip")
    assert [bad.id for bad in report.bad] == [7]
    assert len(matcher) == count - 1


def test_files_skip_one_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text("".join(f'{{"id": {n}, "rule": "{text}"}}\n' for n, text in rules(30)))
    matcher = Matcher()
    report = load_rules(matcher, str(path), skip_bad=True)
    assert len(matcher) == 29
    assert [error.line for error in report.bad] == [8]
    assert "a defect of its own" in str(report.bad[0])


def test_importers_refuse_one_rule() -> None:
    def build(id: Any, content: Any) -> Any:
        if content == 7:
            raise ZeroDivisionError("a defect")
        return make_rule(id, f"x = {content}", "strong")

    entries = [Entry(n, n, f"place {n}") for n in range(10)]
    imported = result.import_entries(entries, lambda entry: (entry.content, entry.content), build)
    assert len(imported.rules) == 9
    assert [refused.id for refused in imported.refused] == [7]
    assert "a defect of its own" in imported.refused[0].reason


@pytest.mark.parametrize("name", ["plain", "payload"])
def test_executors_skip_one_rule(name: str) -> None:
    ids, texts = zip(*rules(100), strict=True)
    columns = {"id": ids, "rule": texts}
    if name == "payload":
        columns["payload"] = ("{}",) * 100
    matcher = Matcher()
    bad = add_rows(matcher, pa.table(columns), "strong", skip=True)
    assert [one.id for one in bad] == [7]
    assert len(matcher) == 99
    with pytest.raises(RefusedRuleError, match="a defect of its own"):
        add_rows(Matcher(), pa.table(columns), "strong", skip=False)


def test_lack_of_memory_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(bulk, "parse", fail)
    with pytest.raises(MemoryError):
        Matcher().add_many([(1, BAD)], on_error="skip")


def test_exception_of_a_signal_handler_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class TimeIsUp(Exception):
        pass

    def end(*arguments: Any) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGUSR1, end)
    try:
        monkeypatch.setattr(bulk, "parse", lambda *_: signal.raise_signal(signal.SIGUSR1))
        with pytest.raises(TimeIsUp):
            Matcher().add_many([(1, BAD)], on_error="skip")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_rule_that_is_encoded_in_part_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = RuleEncoder()
    encoder.add_text("x = 1", "strong")
    with monkeypatch.context() as patch:
        patch.setattr("tamis.encode.rules.ListBuilder.append", lambda *arguments: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            encoder.add_text("x = 2", "strong")
    with pytest.raises(RuntimeError, match="in part"):
        encoder.finish()
