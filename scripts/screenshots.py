"""Takes the pictures of the workbench in docs/images: ``python -m scripts.screenshots [FOLDER]``.

The rules are alerts on flights that left New York in 2013, the events are such flights (the data of
``tamis demo``). ``--all`` takes every view at both widths, light and dark, to look at.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.sync_api import Page

from tamis.demo.alerts import alert_rules
from tamis.demo.flights import load_flights
from tamis.pubsub import WebhookSettings
from tests.pubsub.receivers import run_receiver
from tests.server.browsers import opened_page, running_browser, show
from tests.server.servers import Served, serving
from tests.waiting import wait_until

COLLECTION: Final = "flights"
RULES: Final = 5_000
FLIGHTS: Final = 3_000
WIDTHS: Final = {"": 1280, "-phone": 390}
REPORTS: Final = (("report-light", 1280, "light"), ("report-dark-phone", 390, "dark"))
KEPT: Final = (
    "try-light",
    "try-light-phone",
    "write-dark",
    "write-dark-phone",
    "rules-light",
    "live-light",
    "live-dark-phone",
)
"""The pictures that the docs show."""
RULE: Final = "carrier = 'UA' AND dest = 'SFO' AND arr_delay > 30"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/images"))
    parser.add_argument("--all", action="store_true", help="every view, width and theme")
    parser.add_argument("--report", type=Path, help="take pictures of this report instead")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.report:
        show_report(args.report, args.folder)
        return
    with serving_flights() as served, running_browser() as browser:
        for view, scheme, (suffix, width) in product(VIEWS, ("light", "dark"), WIDTHS.items()):
            name = f"{view}-{scheme}{suffix}"
            if not args.all and name not in KEPT:
                continue
            options: dict[str, Any] = {
                "viewport": {"width": width, "height": 1400 if suffix else 800},
                "color_scheme": scheme,
            }
            with opened_page(browser, **options) as page:
                VIEWS[view](page, served)
                page.wait_for_timeout(500)
                save(page.screenshot(full_page=args.all), args.folder / name)
                wide = page.evaluate("document.documentElement.scrollWidth")
            print(f"{name}.png{'' if wide <= width else f' is {wide} wide'}")


def show_report(report: Path, folder: Path) -> None:
    """Take pictures of the top of a report."""
    with running_browser() as browser:
        for name, width, scheme in REPORTS:
            options: dict[str, Any] = {
                "viewport": {"width": width, "height": 1200},
                "color_scheme": scheme,
            }
            page = browser.new_context(**options).new_page()
            page.goto(report.absolute().as_uri())
            save(page.screenshot(), folder / name)


@contextmanager
def serving_flights() -> Iterator[Served]:
    """A server with alerts on flights, the first flights of a year, and a receiver that fails."""
    webhooks = WebhookSettings(allowed_networks=("127.0.0.0/8",), delays=(0.01,), seconds=2)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_receiver() as receiver,
        serving(Path(folder), webhooks=webhooks) as served,
    ):
        path = served.make(COLLECTION)
        opened = served.server.catalog.find(COLLECTION)
        flights = load_flights(60_000)
        for id, text in alert_rules(flights, RULES, seed=1):
            kind = id.rpartition("-")[0]
            opened.matcher.add(id, text, tags=[kind], priority=len(kind) % 5)
        tests = {"must_match": [{"carrier": "UA", "dest": "SFO", "arr_delay": 45}]}
        opened.matcher.add(
            "late-to-san-francisco", RULE, tags=["late"], priority=9, payload={"tests": tests}
        )
        opened.matcher.optimize()
        put = opened.pubsub.subscriptions.put
        put("crew-desk", owner="operations", tags=["late", "night"], priority=2)
        put("weather-desk", owner="operations", tags=["bad-weather", "cancelled"])
        put("passengers", owner="app", tags=["flight-number", "late-route"])
        receiver.answer = lambda request: 503 if len(receiver.requests) < 6 else 204
        events = [plain(flight) for flight in flights.slice(0, FLIGHTS).to_pylist()]
        opened.pubsub.publish_many(events)
        put("pager", owner="on call", tags=["late", "one-day"], webhook=receiver.url)
        for event in events[:300]:
            served.http.post(f"{path}/match", json={"event": event})
            served.http.post(f"{path}/publish", json={"event": event})
        opened.pubsub.acknowledge("crew-desk", opened.pubsub.log.latest)
        opened.pubsub.acknowledge("weather-desk", opened.pubsub.log.latest - 200)
        wait_until(lambda: bool(opened.pubsub.subscriptions.state("pager").dead))
        yield served


def plain(flight: dict[str, Any]) -> dict[str, Any]:
    """A flight as JSON has it."""
    event: dict[str, Any] = json.loads(json.dumps(flight, default=lambda time: time.isoformat()))
    return event


def show_try(page: Page, served: Served) -> None:
    event = {"carrier": "UA", "flight": 1714, "dest": "SFO", "arr_delay": 62, "gate": "C71"}
    show(page, served, "try", COLLECTION, event=json.dumps(event, indent=2), slide="arr_delay")
    page.locator(".boundary").wait_for()
    page.get_by_label("Why does another rule not match?").fill("late-03000")
    page.locator(".other .rule").first.wait_for()
    page.keyboard.press("Tab")


def show_write(page: Page, served: Served) -> None:
    text = RULE.replace("30", "20")
    show(page, served, "write", COLLECTION, rule="late-to-san-francisco", text=text)
    page.locator(".words").wait_for()
    page.get_by_role("button", name="Run a backtest").click()
    page.locator(".plot canvas").wait_for()
    page.get_by_text("Rules that match much the same events").wait_for(timeout=120_000)


def show_rules(page: Page, served: Served) -> None:
    show(page, served, "rules", COLLECTION, order="matches")
    page.locator("tbody tr").first.wait_for()


def show_live(page: Page, served: Served) -> None:
    show(page, served, "live", COLLECTION)
    page.locator(".log li").first.wait_for()
    page.get_by_role("region", name="Dead letters").wait_for()


def show_index(page: Page, served: Served) -> None:
    show(page, served, "index", COLLECTION)
    page.get_by_role("button", name="Find the slowest rules").click()
    page.get_by_role("button", name="Measure again").wait_for(timeout=120_000)


def show_empty(page: Page, served: Served) -> None:
    if "empty" not in {each.name for each in served.server.catalog.list()}:
        served.make("empty")
    show(page, served, "try", "empty")


def show_new(page: Page, served: Served) -> None:
    show_empty(page, served)
    show(page, served, "write", "empty", text="age >= AND country = 'FR'")
    page.locator(".error pre").wait_for()


VIEWS: Final[dict[str, Callable[[Page, Served], None]]] = {
    "try": show_try,
    "write": show_write,
    "rules": show_rules,
    "live": show_live,
    "index": show_index,
    "empty": show_empty,
    "new": show_new,
}


def save(picture: bytes, path: Path) -> None:
    """Save a picture with few colours: a page has no more, and the file is a third as large."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(path.with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main()
