"""Live and Index in a real browser: latencies, dead letters that are sent again, slow rules."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tamis.pubsub import WebhookSettings
from tests.pubsub.receivers import run_receiver
from tests.server.browsers import HOSTILE, NEEDS_BROWSER, show
from tests.server.servers import Served, serving
from tests.waiting import wait_until

pytestmark = NEEDS_BROWSER


def test_a_dead_letter_is_seen_and_sent_again(page: Page, tmp_path: Path) -> None:
    webhooks = WebhookSettings(allowed_networks=("127.0.0.0/8",), delays=(0.01,), seconds=2)
    with run_receiver() as receiver, serving(tmp_path, webhooks=webhooks) as served:
        receiver.answer = lambda _: 503
        path = served.make("shop", {"cheap": "price < 20"})
        body = {"rules": ["cheap"], "webhook": {"url": receiver.url}}
        assert served.http.put(f"{path}/subscriptions/till", json=body).status_code == 201
        show(page, served, "live", "shop")
        expect(page.get_by_text("Waiting for events.")).to_be_visible()
        for price in (12, 15):
            served.http.post(f"{path}/publish", json={"event": {"price": price}})
        letters = page.get_by_role("region", name="Dead letters")
        expect(letters.locator("tbody tr")).to_have_count(2)
        expect(letters).to_contain_text("503")
        expect(letters).to_contain_text("2 attempts")
        expect(page.get_by_role("region", name="Subscriptions")).to_contain_text("webhook")
        receiver.answer = lambda _: 204
        page.get_by_role("button", name="Replay event 1 to till").click()
        expect(page.get_by_text("1 message to till will be sent again.")).to_be_visible()
        expect(letters.locator("tbody tr")).to_have_count(1)
        wait_until(lambda: receiver.taken == ["till.1"])
        page.get_by_role("button", name="Replay all to till").click()
        expect(letters).to_have_count(0)
        wait_until(lambda: receiver.taken == ["till.1", "till.2"])


def test_latencies_and_lag_are_shown(page: Page, served: Served, name: str) -> None:
    path = served.make(name, {"all": "TRUE"})
    pubsub = served.server.catalog.find(name).pubsub
    pubsub.subscriptions.put("slow-reader", rules=["all"], owner=HOSTILE)
    show(page, served, "live", name)
    expect(page.get_by_text("No requests in the last five minutes.")).to_be_visible()
    for n in range(4):
        served.http.post(f"{path}/match", json={"event": {"n": n}})
        served.http.post(f"{path}/publish", json={"event": {"n": n}})
    latency = page.get_by_role("region", name="Latency")
    for title in ("p50", "p95", "p99"):
        expect(latency.get_by_role("columnheader", name=title)).to_be_visible()
    for kind in ("Matches", "Publishes"):
        row = latency.get_by_role("row", name=kind)
        expect(row.locator("td").nth(4)).to_have_text("4")
        expect(row.locator("td").nth(1)).to_contain_text("s")
    reader = page.get_by_role("region", name="Subscriptions").locator("tbody tr")
    expect(reader.locator("td").nth(0)).to_have_text("4")
    expect(reader.locator("td").nth(1)).to_contain_text("second")
    expect(reader.locator("td").nth(6)).to_have_text(HOSTILE)
    pubsub.acknowledge("slow-reader", 4)
    expect(reader.locator("td").nth(0)).to_have_text("0")


def test_the_index_and_its_slowest_rules(page: Page, served: Served, name: str) -> None:
    # Five times as slow as the others, so that no noise hides it.
    texts = {f"t{n}": "abc" * 50 for n in range(20)}
    slow = " AND ".join(f"lower({text}) LIKE '%a%'" for text in texts)
    served.make(name, {f"r{n}": f"n = {n} AND m > {n}" for n in range(60)} | {"texts": slow})
    served.server.catalog.find(name).pubsub.publish_many(
        [{"n": n, "m": 3, **texts} for n in range(20)]
    )
    show(page, served, "index", name)
    for region in ("Segments", "Attributes", "Conjunctions by size", "Largest parts"):
        expect(page.get_by_role("region", name=region).locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("region", name="Segments")).to_contain_text("61 rules")
    page.get_by_role("button", name="Find the slowest rules").click()
    slowest = page.get_by_role("region", name="Slowest rules")
    expect(slowest).to_contain_text("the last 20 published events")
    expect(slowest).to_contain_text("all 61 rules were measured alone")
    expect(slowest).to_contain_text("optimize()")
    expect(slowest.locator("tbody th").first).to_have_text("texts")
    slowest.get_by_role("link", name="texts").click()
    expect(page.locator(".write .cm-content")).to_contain_text("lower(t0)")
