"""The site in a real browser: search, light and dark, a phone, and no failed request."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that fails the test if a request fails or leaves this machine."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    wrong: list[str] = []

    def check(response: Any) -> None:
        if response.status >= 400 or not response.url.startswith(address):
            wrong.append(f"{response.status} {response.url}")

    def fail(request: Any) -> None:
        # Aborted: the reader went on to another page before this one had all it asked for.
        if request.failure != "net::ERR_ABORTED":
            wrong.append(f"{request.failure} {request.url}")

    opened.on("response", check)
    opened.on("requestfailed", fail)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened
    opened.close()
    assert not wrong


def test_search_finds_a_page(page: Page, address: str) -> None:
    page.goto(f"{address}/index.html")
    page.get_by_placeholder("Search").first.fill("percolator")
    page.keyboard.press("Enter")
    found = page.locator("ul.search li a", has_text="Elasticsearch").first
    found.wait_for(timeout=20_000)
    found.click()
    page.wait_for_url("**/leave-elasticsearch.html*")
    assert "percolator" in page.locator("h1").inner_text()


def test_light_and_dark(page: Page, address: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{address}/concepts/how-the-index-works.html")
    ink = "getComputedStyle(document.querySelector('.drawing text')).fill"
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(f"[{ink}, {ground}]")
    toggle = page.locator(".theme-toggle:visible").first
    for _ in range(3):
        toggle.click()
        if page.evaluate("document.body.dataset.theme") == "dark":
            break
    dark = page.evaluate(f"[{ink}, {ground}]")
    assert dark[0] != light[0], "drawings follow the theme"
    assert dark[1] != light[1]


@pytest.mark.parametrize(
    "path",
    ["index.html", "tutorials/first-alerts.html", "how-to/target-ads.html",
     "concepts/how-the-index-works.html", "reference/api/matcher.html",
     "project/architecture.html"],
)  # fmt: skip
def test_a_phone_needs_no_sideways_scroll(page: Page, address: str, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/{path}")
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
