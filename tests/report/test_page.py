"""The page shows the right numbers, loads nothing else, and can be read aloud."""

from __future__ import annotations

import re
import sys
from collections import Counter
from html.parser import HTMLParser
from random import Random

import numpy as np
import pytest

import tamis
from tamis.report import (
    Baseline,
    BusyRule,
    Costs,
    Distribution,
    Example,
    Figures,
    Overlap,
    SilentRule,
    SlowRule,
    Story,
    page,
)
from tamis.report.plots import shorten

TIMES = [max(1, round(Random(n).paretovariate(0.7))) for n in range(3_000)]


@pytest.fixture(scope="module")
def distribution() -> Distribution:
    return Distribution.of(Counter(TIMES).items())


@pytest.fixture(scope="module")
def full(distribution: Distribution) -> str:
    figures = Figures(
        matches_by_rule=distribution,
        rules_by_event=Distribution.of([(1, 300), (7, 5)]),
        rules=4_000,
        events=1_220,
        busiest=(BusyRule("<b>", 4_321, "a < 'x & y'"), BusyRule("second", 12, None)),
        silent_rules=1_000,
        silent=(SilentRule("quiet", "b > 2"),),
        partitions=(10, 20, 30),
        seconds={"build": 2.0, "match": 4.0, "report": 0.5},
        facts={"index": "somewhere"},
    )
    return page(figures, "Rules & matches")


def test_a_distribution_equals_its_numbers(distribution: Distribution) -> None:
    assert distribution.size == len(TIMES)
    assert distribution.total == sum(TIMES)
    for share in (0.01, 0.5, 0.9, 0.999, 1.0):
        rank = int(np.ceil(share * len(TIMES)))
        assert distribution.quantile(share) == sorted(TIMES)[rank - 1]
    top = sum(sorted(TIMES)[-30:])
    assert distribution.share_of_top(0.01) == pytest.approx(top / sum(TIMES))
    assert distribution.share_of_top(1.0) == 1.0


def test_bars_count_everything_once(distribution: Distribution) -> None:
    bars = distribution.bars()
    assert [bar.things for bar in bars] == [
        sum(bar.low <= times <= bar.high for times in TIMES) for bar in bars
    ]
    assert sum(bar.things for bar in bars) == len(TIMES)
    assert [bar.label for bar in bars[:3]] == ["1", "2–3", "4–7"]


def test_a_page_without_matches() -> None:
    nothing = Distribution.of([])
    text = page(Figures(nothing, nothing), "Nothing")
    assert "Unknown: this report has no table of rules" in text
    assert nothing.quantile(0.5) == 0
    assert nothing.share_of_top(0.5) == 0.0


def test_the_page_shows_the_numbers(full: str) -> None:
    words = re.sub(r"<[^>]+>", " ", full)
    assert f"{sum(TIMES):,}" in words
    assert "305 of 1,220 events matched at least one rule (25.00 %); 915 matched none" in words
    assert "1,000 of 4,000 rules (25.0 %)" in words
    assert "2,000 rules" in words
    assert "305 events" in words
    assert f"the fullest has 30, {30 / (sum(TIMES) / 3):.2f} times the mean" in words


def test_users_texts_are_escaped(full: str) -> None:
    assert "<title>Rules &amp; matches</title>" in full
    assert "<code>&lt;b&gt;</code>" in full
    assert "a &lt; &#x27;x &amp; y&#x27;" in full


class _Tags(HTMLParser):
    """The links and ids of a page, and the labels of its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [v for n, v in attrs if n in ("href", "src", "xlink:href") and v]
        if tag == "svg":
            self.pictures.append(named.get("aria-label"))
        assert tag not in {"link", "img", "iframe"}


def test_the_page_loads_nothing_else(full: str) -> None:
    tags = _Tags(full)
    assert all(link.startswith("#") for link in tags.links)
    assert set(re.findall(r"url\(([^)]*)\)", full)) <= {f"#{id}" for id in tags.ids}
    assert {link.removeprefix("#") for link in tags.links} <= set(tags.ids)
    assert len(tags.ids) == len(set(tags.ids))


def test_every_picture_has_a_label_and_the_colours_of_the_page(full: str) -> None:
    pictures = _Tags(full).pictures
    assert len(pictures) == 5
    assert all(label and "chart" in label for label in pictures)
    drawn = "".join(re.findall(r"<svg.*?</svg>", full, re.DOTALL))
    assert not set(re.findall(r"#[0-9a-f]{6}\b", drawn))


def test_the_story_is_told(distribution: Distribution) -> None:
    figures = Figures(
        matches_by_rule=distribution,
        rules_by_event=Distribution.of([(1, 300), (7, 5)]),
        rules=100_000,
        events=336_776,
        busiest=(
            BusyRule("a", 30, "x > 1 AND y = 'k'"),
            BusyRule("other", 20, "z = 3"),
            BusyRule("b", 10, "x > 22 AND y = 'k'"),
        ),
        silent_rules=10,
        seconds={"match": 20.0},
    )
    story = Story(
        kinds={"late": (10, 500), "<night>": (5, 900)},
        timeline=[("week 1", 5), ("week 2", 9)],
        overlaps=[Overlap(("a", "b"), 7, 0.7)],
        example=Example("A <flight>", "✓ x > 1"),
        baseline=Baseline("a hand-written Spark query", 50, 336_776, 10.0),
        previous={"rules that never fired": 12, "matches": float(figures.matches)},
    )
    text = page(figures, "Story", story=story)
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "33.7 billion pairs of events and rules decided in 20 seconds: 1.68 billion" in words
    assert (
        "A hand-written Spark query took 10 seconds for 50 of the rules, measured in the same run"
        in words
    )
    assert "all of them would take 6 hours" in words
    assert words.index("33.7 billion") < words.index("Matches over time")
    assert "Most in the week 2: 9." in words
    assert words.index("&lt;night&gt; 5 900") < words.index("late 10 500")
    assert "A &lt;flight&gt;" in words
    assert "rules that never fired 12 10 -2 (-16.7 %)" in words
    assert "1 near-copy" in words
    assert "7 70 %" in words
    assert "Since the last run" not in page(figures, "Story")


def test_what_costs_is_told(distribution: Distribution) -> None:
    slow = SlowRule("slow", "name RLIKE '(a|b)+c'", 41.25)
    costs = Costs(110.4, rules=100_000, measured=1_024, typical=12.34, slowest=[slow])
    figures = Figures(distribution, distribution)
    html = page(figures, "Costs", story=Story(costs=costs))
    assert "all 100,000 rules in 110 µs" in html
    assert "the median takes 12.3 µs; these take clearly longer:" in html
    assert "<code>slow</code>" in html
    assert "41.2" in html
    html = page(figures, "Costs", story=Story(costs=costs._replace(slowest=())))
    assert "none takes clearly longer" in html


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (1_024, "1k"), (4_096, "4.1k"), (16_384, "16k"), (2_500_000, "2.5M")],
)
def test_numbers_above_bars_are_shortened(number: int, text: str) -> None:
    assert shorten(number) == text


def test_without_matplotlib_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    nothing = Distribution.of([])
    with pytest.raises(tamis.MissingExtraError, match=r"pip install 'tamis\[report\]'"):
        page(Figures(nothing, nothing), "Nothing")
