"""What a notebook shows."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import tamis

BAD = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """Collects tags and text, and checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def close(self) -> None:
        super().close()
        assert not self._open


def read(shown: Any) -> Reader:
    reader = Reader()
    reader.feed(shown._repr_html_())
    reader.close()
    return reader


@pytest.fixture
def matcher() -> tamis.Matcher:
    m = tamis.Matcher()
    quoted = BAD.replace("'", "''")
    tests = {"must_match": [{"x": BAD}, {"y": BAD}]}
    m.add(BAD, f"x = '{quoted}' AND (`{BAD}` > 1 OR NOT y = 2)", payload={"tests": tests})
    return m


def test_everything_that_a_notebook_shows_is_escaped(matcher: tamis.Matcher) -> None:
    events = [{"x": BAD, BAD: 2, "y": 1, "at": f"2026-01-0{n}T00:00:00Z"} for n in range(1, 4)]
    shown = {
        "explanation": matcher.explain(BAD, events[0]),
        "obstacles": matcher.why_not(BAD, {"y": BAD}),
        "matcher": matcher,
        "stats": matcher.stats(),
        "check": matcher.check([{"z": BAD}]),
        "tests": matcher.test(),
        "ratification": matcher.ratify(seconds=0.01, processes=1),
        "backtest": matcher.backtest(matcher.rule(BAD).source, events, id=BAD, time="at"),
    }
    for name, one in shown.items():
        reader = read(one)
        assert "script" not in reader.tags, name
        if name not in ("matcher", "stats", "ratification", "tests"):
            assert "<script>alert(" in reader.text, name
    assert "rules" in read(matcher.stats()).text
    assert "svg" in read(shown["backtest"]).tags
    assert read(matcher.explain(BAD, events[0])).tags.count("li") == 5


def test_stats_are_still_a_dict(matcher: tamis.Matcher) -> None:
    stats = matcher.stats()
    assert isinstance(stats, dict)
    assert stats["rules"] == 1
    assert {**stats} == stats
