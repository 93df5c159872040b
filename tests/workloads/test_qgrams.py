"""Strings become rules and events by their 3-grams."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from shutil import which

import pytest

from tamis.expr.evaluate import evaluate
from tamis.expr.model import And, Op, predicates
from tamis.expr.text.grammar import parse
from tamis.workloads.qgrams import ATTRIBUTES, Workload, grams
from tamis.workloads.registry import make_workload
from tamis.workloads.text_sources import read_texts


def read_grams(text: str) -> dict[str, str]:
    return {ATTRIBUTES[a]: chr(ord("a") + value) for a, value in grams(text).items()}


def test_a_string_becomes_equalities() -> None:
    assert read_grams("string") == {"g_st": "r", "g_tr": "i", "g_ri": "n", "g_in": "g"}


def test_grams_stay_within_words_and_ignore_case() -> None:
    assert read_grams("Tea-Tax 4U") == {"g_te": "a", "g_ta": "x"}
    assert read_grams("Éclair") == read_grams("eclair")
    assert read_grams("an io") == {}


def test_the_first_of_two_grams_that_begin_alike_counts() -> None:
    assert read_grams("banana band") == {"g_ba": "n", "g_an": "a", "g_na": "n"}


def test_other_letters_share_the_last_of_677_attributes() -> None:
    assert len(set(ATTRIBUTES)) == 677
    assert set(read_grams("Дебиан")) == {"g_other"}
    assert read_grams("Дебиан") == read_grams("дебиан")


def test_each_rule_is_a_different_text() -> None:
    workload = Workload(size=500)
    rules = [parse(text) for _, text in workload.rules()]
    assert len({str(rule) for rule in rules}) == 500
    assert all(leaf.op is Op.EQ for rule in rules for leaf in predicates(rule))
    sizes = [len(rule.children) if isinstance(rule, And) else 1 for rule in rules]
    assert 10 < sum(sizes) / len(sizes) < 35
    known = {tuple(read_grams(text).items()) for text in read_texts("characters")}
    assert {
        tuple((leaf.attribute, leaf.values[0]) for leaf in predicates(r)) for r in rules
    } <= known


def test_an_event_matches_the_requested_share_of_the_rules() -> None:
    workload = Workload(
        size=2_000, match_probability=0.02, kept=0.7, operators="high", texts="characters"
    )
    rules = [parse(text) for _, text in workload.rules()]
    events = workload.events(20)
    found = sum(evaluate(rule, event) for rule in rules for event in events)
    assert found / (len(rules) * len(events)) == pytest.approx(0.02, rel=0.25)
    assert found >= 0.02 * len(rules) * len(events)
    assert {leaf.op for rule in rules for leaf in predicates(rule)} >= {Op.LT, Op.IN, Op.BETWEEN}


def test_events_are_the_same_as_dicts_and_as_a_table() -> None:
    workload = Workload(texts="airports", size=100)
    table = workload.events_table(30)
    assert table.column_names == list(ATTRIBUTES)
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    assert [dict(sorted(row.items())) for row in workload.events(30)] == [
        dict(sorted(row.items())) for row in rows
    ]
    assert workload.events(10) == workload.events(30)[:10]
    assert {v for row in rows for v in row.values()} <= set("abcdefghijklmnopqrstuvwxyz")


def test_fewer_rules_are_the_first_of_more() -> None:
    some, more = (list(Workload(size=size).rules()) for size in (5, 50))
    assert more[:5] == some


def test_texts_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "titles.txt"
    path.write_text("The Sun\nthe sun\nA Farewell\n\nÀ\n", encoding="utf-8")
    workload = make_workload("qgrams", {"size": "2", "texts": str(path)})
    assert sorted(text for _, text in workload.rules()) == [
        "g_fa = 'r' AND g_ar = 'e' AND g_re = 'w' AND g_ew = 'e' AND g_we = 'l' AND g_el = 'l'",
        "g_th = 'e' AND g_su = 'n'",
    ]
    with pytest.raises(ValueError, match="has 2 texts, but 3 are needed"):
        Workload(size=3, texts=str(path))


@pytest.mark.skipif(which("apt-cache") is None, reason="needs a Debian machine")
@pytest.mark.parametrize("source", ["synopses", "maintainers"])
def test_texts_can_come_from_debian(source: str) -> None:
    try:
        texts = read_texts(source)
    except ValueError as error:
        pytest.skip(str(error))
    assert not any(text.startswith(" ") or "@" in text for text in texts[:20])


def test_a_seed_gives_the_same_workload_everywhere() -> None:
    workload = Workload(size=300, match_probability=0.05, kept=0.5, operators="high", seed=7)
    text = repr((list(workload.rules()), workload.events(20)))
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "bd791b783afbf7dded05bb6cf8eaabcab3d85bb831c4a064e33c43b59e44ab25"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"texts": "nothing"},
        {"match_probability": 0},
        {"match_probability": 0.000001},
        {"kept": 0},
        {"equality": 1.5},
        {"operators": "all"},
        {"range_percent": 0},
    ],
)
def test_impossible_parameters_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match=re.escape(next(iter(wrong)))):
        Workload(**wrong)
