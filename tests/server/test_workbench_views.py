"""What each view of the workbench promises, in a real browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.importers.test_mustang import dnf, equality, predicate
from tests.server.browsers import HOSTILE, NEEDS_BROWSER, opened_page, show, write_rule
from tests.server.servers import Served

pytestmark = NEEDS_BROWSER

PASTED = {
    "sigma": (
        "title: t\nlogsource: {category: c}\ndetection: {s: {Image: a.exe}, condition: s}",
        "Image",
    ),
    "mustang": (json.dumps(dnf(predicate("$.temp", equality(30)))), "temp"),
    "eventbridge": ('{"source": ["aws.ec2"]}', "source"),
    "jsonlogic": ('{">": [{"var": "temp"}, 30]}', "temp"),
    "growthbook": ('{"country": {"$in": ["FR", "BE"]}}', "country"),
}


# --- Try ---


def test_scores_trees_and_missing_attributes(page: Page, served: Served, name: str) -> None:
    served.make(name)
    matcher = served.server.catalog.find(name).matcher
    matcher.add("adults", "age >= 18 AND country = 'FR'", weights={("country", "FR"): 2.5})
    matcher.add("either", "age >= 18 OR city = 'Nice'")
    show(page, served, "try", name, event='{"age": 20, "country": "FR"}')
    expect(page.locator(".summary")).to_contain_text("2 rules match in ")
    expect(page.locator(".rules li").first).to_contain_text("adults")
    expect(page.locator(".score").first).to_contain_text("3.5")
    page.locator(".rule", has_text="either").click()
    tree = page.locator(".tree")
    expect(tree.locator(".held", has_text="age >= 18").last).to_be_visible()
    expect(tree.locator(".absent", has_text="city = 'Nice'").last).to_be_visible()
    page.get_by_text("1 attribute that rules ask for and the event lacks").click()
    page.get_by_role("button", name="+ city").click()
    expect(page.locator(".cm-content").first).to_contain_text('"city":')


def test_a_slider_over_dates(page: Page, served: Served, name: str) -> None:
    assert served.http.put(f"/{name}", json={"schema": {"day": "timestamp"}}).status_code == 201
    served.server.catalog.find(name).matcher.add_many(
        {"spring": "day >= DATE '2026-03-01' AND day < DATE '2026-06-01'"}
    )
    show(page, served, "try", name, event='{"day": "2026-02-01T00:00:00Z"}', slide="day")
    slider = page.get_by_label("Value of day")
    slider.focus()
    words = page.locator(".boundary p").first
    expect(words).to_contain_text("below 2026-03-01")
    page.keyboard.press("ArrowRight")
    expect(words).to_contain_text("exactly 2026-03-01")
    expect(page.locator(".summary")).to_contain_text("1 rule matches")


# --- Write ---


def test_highlighting_and_completion(page: Page, served: Served, name: str) -> None:
    served.make(name, {"one": "country = 'FR' AND colour = 'red'", "two": "country = 'BE'"})
    show(page, served, "write", name)
    page.locator(".write .cm-content").click()
    page.keyboard.type("cou", delay=30)
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("country")
    page.wait_for_timeout(200)
    page.keyboard.press("Enter")
    page.keyboard.type(" = '", delay=30)
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("'BE'")
    page.keyboard.press("Escape")
    write_rule(page, "country = 'FR' AND age > 3")
    colours = page.locator(".write .cm-line span").evaluate_all(
        "spans => spans.map((span) => getComputedStyle(span).color)"
    )
    assert len(set(colours)) >= 3


def test_a_wider_rule_is_implied_and_gains_events(page: Page, served: Served, name: str) -> None:
    served.make(name, {"later": "delay > 60"})
    opened = served.server.catalog.find(name)
    opened.matcher.add("late", "delay > 30", priority=7, tags=["kept"])
    opened.pubsub.publish_many([{"delay": delay} for delay in range(0, 100, 5)])
    # The draft comes from the address: what else was saved has to stay.
    show(page, served, "write", name, rule="late", text="delay > 20")
    related = page.get_by_role("region", name="Related rules")
    expect(related).to_contain_text("later implies this rule")
    page.get_by_role("button", name="Run a backtest").click()
    expect(page.get_by_text("2 events gained")).to_be_visible()
    expect(page.get_by_text("0 lost")).to_be_visible()
    expect(page.locator(".plot canvas")).to_be_visible()
    page.get_by_text("Gained", exact=True).click()
    expect(page.locator(".samples", has_text='{"delay":25}').last).to_be_visible()
    page.locator(".write .cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Saved as late.")).to_be_visible()
    saved = opened.matcher.rule("late")
    assert (saved.text, saved.priority, saved.tags) == ("delay > 20", 7, frozenset({"kept"}))
    write_rule(page, "delay > 70")
    expect(related).to_contain_text("later is implied by this rule")


@pytest.mark.parametrize("system", PASTED)
def test_rules_of_every_system_are_pasted(
    page: Page, served: Served, name: str, system: str
) -> None:
    served.make(name)
    text, attribute = PASTED[system]
    show(page, served, "write", name)
    page.get_by_text("Paste a rule of another system").click()
    page.locator("details select").select_option(system)
    page.get_by_label("Rule of another system").fill(text)
    page.get_by_role("button", name="Read it").click()
    page.get_by_role("button", name="Use ").click()
    expect(page.locator(".words")).to_contain_text(attribute)


# --- Rules ---


def test_orders_are_those_of_all_rules(page: Page, served: Served, name: str) -> None:
    path = served.make(name, {f"r{n}": f"n = {n}" for n in range(150)})
    opened = served.server.catalog.find(name)
    opened.matcher.add("top", "n = 1000", priority=9, tags=["chosen"])
    opened.pubsub.subscriptions.put("all", rules=[f"r{n}" for n in range(150)])
    opened.pubsub.publish_many([{"n": n} for n in (140, 140, 130)])
    show(page, served, "rules", name)
    first = page.locator("tbody th").first
    for order, expected in {"priority": "top", "matches": "r140", "last": "r130"}.items():
        page.locator(".filters select").select_option(order)
        expect(first).to_have_text(expected)
    expect(page.locator("tbody tr").first).to_contain_text(str(datetime.now(UTC).year))
    page.get_by_label("Tag").fill("chosen")
    expect(page.locator("tbody tr")).to_have_count(1)
    listed = served.http.get(f"{path}/rules", params={"order": "priority", "after": "x"})
    assert listed.status_code == 422


# --- Everywhere ---


_NO_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.mark.parametrize("kind", [pytest.param("curl", marks=_NO_CURL), "Python"])
def test_what_is_copied_runs(browser: Browser, served: Served, name: str, kind: str) -> None:
    served.make(name, {"adults": "age >= 18", "quotes": "who = 'O''Neill'"})
    event = json.dumps({"age": 20, "who": "O'Neill"})
    with opened_page(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        show(page, served, "try", name, event=event)
        page.get_by_role("button", name=f"Copy as {kind}").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        text = page.evaluate("() => navigator.clipboard.readText()")
    command = ["bash", "-c", f"{text} -s"] if kind == "curl" else [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "adults" in done.stdout
    assert "quotes" in done.stdout


def test_the_state_is_in_the_address(page: Page, served: Served, name: str) -> None:
    served.make(name, {"adults": "age >= 18", "young": "age < 10"})
    show(page, served, "try", name)
    page.get_by_label("Event as JSON").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text('{"age": 30}')
    page.locator(".rule", has_text="adults").click()
    expect(page.locator(".tree")).to_be_visible()
    page.reload()
    expect(page.locator(".cm-content").first).to_have_text('{"age": 30}')
    expect(page.locator(".tree")).to_contain_text("age >= 18")
    for number, title in enumerate(("Try", "Write", "Rules", "Live", "Index"), 1):
        page.keyboard.press(f"Alt+{number}")
        expect(page.locator("nav a[aria-current]")).to_have_text(title)
    page.go_back()
    expect(page.locator("nav a[aria-current]")).to_have_text("Live")


@pytest.mark.parametrize("view", ["try", "write", "rules", "live", "index"])
def test_hostile_texts_fit_on_a_phone(page: Page, served: Served, name: str, view: str) -> None:
    served.make(name)
    opened = served.server.catalog.find(name)
    long = "x" * 3_000
    opened.matcher.add(HOSTILE, f"a = '{long}' OR n >= 1", tags=[HOSTILE, long])
    opened.pubsub.subscriptions.put("reader", owner=HOSTILE, rules=[HOSTILE])
    opened.pubsub.publish_many([{"n": 1, HOSTILE: long}])
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, served, view, name, event=json.dumps({"n": 1, HOSTILE: long}), rule=HOSTILE)
    page.wait_for_timeout(600)
    measured: Any = page.evaluate("() => document.documentElement.scrollWidth")
    assert measured <= 390
    assert page.locator("main script, main img").count() == 0


def test_the_keyboard_reaches_everything(page: Page, served: Served, name: str) -> None:
    served.make(name, {"adults": "age >= 18"})
    show(page, served, "rules", name)
    expect(page.locator("tbody tr")).to_have_count(1)
    seen: list[str] = []
    page.keyboard.press("Tab")
    for _ in range(16):
        seen.append(page.evaluate("() => document.activeElement.innerText ?? ''").strip())
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", seen[-1]
        page.keyboard.press("Tab")
        if "adults" in seen:
            break
    assert seen[0] == "Skip to the content"
    assert {"Try", "Write", "Rules", "Live", "Index", "New rule", "adults"} <= set(seen)
