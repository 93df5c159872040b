"""Texts in compressed blocks: the same as plain ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.matcher import compressed_strings
from tamis.matcher.compressed_strings import compress_strings
from tamis.matcher.string_column import Strings


@pytest.fixture(autouse=True)
def _compress_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed_strings, "_LEAST", 10)
    monkeypatch.setattr(compressed_strings, "_BLOCK", 7)


def test_texts_are_the_same() -> None:
    texts = ["", "é", *(f"text {i}" * (i % 5) for i in range(50))]
    compressed = compress_strings(Strings.of(texts))
    assert compressed is not None
    assert compressed.size == len(texts)
    assert [compressed.at(place) for place in range(len(texts))] == texts
    assert [compressed.at(place) for place in reversed(range(len(texts)))] == texts[::-1]
    plain = compressed.plain()
    assert [plain.at(place) for place in range(len(texts))] == texts


def test_a_part_of_a_column() -> None:
    whole = Strings.of([f"text {i}" for i in range(40)])
    part = Strings(whole.start[5:30], whole.data)
    compressed = compress_strings(part)
    assert compressed is not None
    assert compressed.at(3) == "text 8"
    assert compress_strings(Strings.of(["a"] * 9)) is None


def test_rules_of_a_matcher(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    texts = {i: f"a{x} = {y} AND b > {x}" for i, (x, y) in enumerate(rng.integers(0, 9, (60, 2)))}
    matcher = tamis.Matcher()
    matcher.add_many(texts)
    assert {id: matcher.rule(id).text for id in matcher} == texts
    matcher.remove_many([3, 5])
    matcher.add_many({100 + i: text for i, text in texts.items()})
    matcher.optimize()
    expected = {id: text for id, text in texts.items() if id not in (3, 5)}
    expected |= {100 + i: text for i, text in texts.items()}
    assert {id: matcher.rule(id).text for id in matcher} == expected
    matcher.save(tmp_path / "rules")
    with tamis.open(tmp_path / "rules") as opened:
        assert {id: opened.rule(id).text for id in opened} == expected
        assert opened.match({"a1": 1, "b": 9}) == matcher.match({"a1": 1, "b": 9})


def test_a_durable_matcher(tmp_path: Path) -> None:
    texts = {i: f"x = {i % 4} AND y < {i}" for i in range(60)}
    with tamis.open(tmp_path / "rules") as matcher:
        matcher.add_many(texts)
    with tamis.open(tmp_path / "rules") as matcher:
        assert {id: matcher.rule(id).text for id in matcher} == texts
