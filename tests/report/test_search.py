"""The search of a report, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tamis.report import BusyRule, Distribution, Figures, SilentRule, page
from tests.server.browsers import NEEDS_BROWSER, opened_page, running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = NEEDS_BROWSER

FIGURES = Figures(
    matches_by_rule=Distribution.of([(3, 2)]),
    rules_by_event=Distribution.of([(1, 6)]),
    rules=4,
    events=10,
    busiest=(BusyRule("late", 3, "dep_delay > 20"), BusyRule("far", 3, "distance > 2000")),
    silent_rules=2,
    silent=(SilentRule("night", "hour < 5"), SilentRule("later", "dep_delay > 900")),
)


def visible_rules(page: Page) -> list[str]:
    rows = page.locator("tbody tr", has=page.locator("code")).filter(visible=True).all()
    return [row.locator("code").first.inner_text() for row in rows]


def test_the_search_shows_the_rules_that_contain_the_text() -> None:
    with running_browser() as browser, opened_page(browser) as opened:
        opened.set_content(page(FIGURES, "Report"))
        search = opened.get_by_label("Search rules")
        assert visible_rules(opened) == ["late", "far", "night", "later"]
        search.fill("DEP_DELAY")
        assert visible_rules(opened) == ["late", "later"]
        assert "2 of 4 rows" in opened.locator("#found").inner_text()
        search.fill("nothing has this")
        assert visible_rules(opened) == []
        search.fill("")
        assert visible_rules(opened) == ["late", "far", "night", "later"]
