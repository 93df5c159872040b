"""The page in a real browser, as a person would use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.server.browsers import HOSTILE, NEEDS_BROWSER, show, write_rule
from tests.server.servers import Served, serving

pytestmark = NEEDS_BROWSER


def test_from_an_empty_directory_to_a_match(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path / "new") as served:
        page.goto(served.url)
        page.get_by_label("Name of the first one").fill("shop")
        page.get_by_role("button", name="Create it").click()
        page.get_by_label("Id", exact=True).fill("adults")
        write_rule(page, "age >= AND country = 'FR'")
        expect(page.locator(".error pre")).to_contain_text("^")
        write_rule(page, "age >= 18 AND country IN ('FR', 'BE')")
        expect(page.locator(".words")).to_contain_text("age is at least 18")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved as adults.")).to_be_visible()
        assert served.server.catalog.find("shop").matcher.match({"age": 20, "country": "FR"}) == [
            "adults"
        ]
        page.get_by_role("link", name="Try").click()
        page.get_by_label("Event as JSON").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text('{"age": 20, "country": "FR", "colour": 1}')
        expect(page.locator(".summary")).to_contain_text("1 rule matches")
        expect(page.locator(".cm-unread")).to_have_text('"colour"')


def test_the_slider_stops_at_the_values_that_rules_mention(
    page: Page, served: Served, name: str
) -> None:
    served.make(name, {"teens": "age BETWEEN 13 AND 19", "adults": "age >= 18"})
    show(page, served, "try", name, event='{"age": 15}', slide="age")
    slider = page.get_by_label("Value of age")
    slider.focus()
    words = page.locator(".boundary p").first
    for place in ("between 13 and 18", "exactly 18", "between 18 and 19", "exactly 19"):
        expect(words).to_contain_text(f"age {place}")
        page.keyboard.press("ArrowRight")
    expect(words).to_contain_text("age above 19")
    expect(page.locator(".boundary .lost")).to_contain_text("teens")
    expect(page.locator(".summary")).to_contain_text("1 rule matches")
    page.get_by_role("button", name="What if it were unknown?").click()
    expect(page.get_by_text("2 rules could still match")).to_be_visible()


def test_a_repair_edits_the_event(page: Page, served: Served, name: str) -> None:
    served.make(name, {"nice": "city = 'Nice' AND age > 30"})
    show(page, served, "try", name, event='{"age": 40}')
    page.get_by_label("Why does another rule not match?").fill("nice")
    page.locator(".other .rule").click()
    page.get_by_role("button", name='set city to "Nice"').click()
    expect(page.locator(".summary")).to_contain_text("1 rule matches")
    expect(page.locator(".cm-content").first).to_contain_text('"city": "Nice"')


def test_a_backtest_and_a_published_event(page: Page, served: Served, name: str) -> None:
    path = served.make(name, {"old": "age > 30"})
    collection = served.server.catalog.find(name).pubsub
    collection.subscriptions.put("ann", rules=["old"])
    collection.publish_many([{"age": age} for age in range(20, 40)])
    show(page, served, "write", name, rule="old")
    expect(page.locator(".write .cm-content")).to_have_text("age > 30")
    write_rule(page, "age > 35")
    page.get_by_role("button", name="Run a backtest").click()
    expect(page.get_by_text("0 events gained")).to_be_visible()
    expect(page.get_by_text("5 lost")).to_be_visible()
    show(page, served, "live", name)
    expect(page.locator(".log li")).to_have_count(20)
    published = served.http.post(f"{path}/publish", json={"event": {"age": 77}})
    assert published.status_code == 200
    expect(page.locator(".log li").first).to_contain_text('{"age":77}')
    expect(page.locator(".log li").first).to_contain_text("ann")


def test_broken_tests_of_rules_are_shown(page: Page, served: Served, name: str) -> None:
    served.make(name)
    matcher = served.server.catalog.find(name).matcher
    matcher.add("red", "x = 1", payload={"tests": {"must_match": [{"x": 2}]}}, priority=1)
    matcher.add("ended", "x = 1", valid_until="2020-01-01", priority=7, tags=["past"])
    show(page, served, "rules", name)
    expect(page.locator("tr.broken th")).to_have_text("red")
    expect(page.locator("tr.ended")).to_contain_text("ended 2020-01-01")
    page.get_by_label("Order").select_option("priority")
    expect(page.locator("tbody th").first).to_have_text("ended")
    page.keyboard.press("Escape")
    page.locator("main").click()
    page.keyboard.press("/")
    page.keyboard.type("re")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_what_users_write_is_text(page: Page, served: Served, name: str) -> None:
    served.make(name)
    matcher = served.server.catalog.find(name).matcher
    attribute = '"' + HOSTILE.replace('"', "'").replace("`", "") + '"'
    matcher.add(HOSTILE, f"{attribute} = 1 OR x = 1", tags=[HOSTILE])
    show(page, served, "rules", name)
    expect(page.locator("tbody th")).to_have_text(HOSTILE)
    event = json.dumps({"x": 1, HOSTILE: HOSTILE, **{f"a{n}": n for n in range(50)}})
    show(page, served, "try", name, event=event)
    expect(page.locator(".rules .id").first).to_have_text(HOSTILE)
    show(page, served, "index", name)
    expect(page.locator("table").first).to_be_visible()
    assert page.locator("main script").count() == 0


def test_large_events_are_shown(page: Page, served: Served, name: str) -> None:
    served.make(name, {"long": "name LIKE 'x%'"})
    show(page, served, "try", name)
    page.get_by_label("Event as JSON").click()
    page.keyboard.press("Control+a")
    event = {"name": "x" * 1_000_000, **{f"a{n}": n for n in range(5_000)}}
    page.keyboard.insert_text(json.dumps(event))
    expect(page.locator(".summary")).to_contain_text("1 rule matches")


def test_rules_of_other_systems_are_pasted(page: Page, served: Served, name: str) -> None:
    served.make(name)
    show(page, served, "write", name)
    page.get_by_text("Paste a rule of another system").click()
    page.locator("details select").select_option("jsonlogic")
    page.get_by_label("Rule of another system").fill('{">": [{"var": "temp"}, 30]}')
    page.get_by_role("button", name="Read it").click()
    page.get_by_role("button", name="Use pasted").click()
    expect(page.locator(".words")).to_contain_text("temp")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["try", "write", "rules", "live", "index"])
def test_axe_finds_nothing(page: Page, served: Served, view: str, scheme: Any) -> None:
    name = f"axe-{view}-{scheme}"
    served.make(name, {"teens": "age BETWEEN 13 AND 19"})
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme=scheme)
    show(page, served, view, name)
    # The page asks for what it shows after it is loaded.
    page.wait_for_timeout(800)
    found = Axe().run(page).response["violations"]
    assert [violation["id"] for violation in found] == []
