"""Pages of a real browser for the tests, and what people do with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest

from tests.server.servers import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["HOSTILE", "NEEDS_BROWSER", "opened_page", "running_browser", "show", "write_rule"]

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
)
PATIENCE: Final = 30_000
"""How many milliseconds to wait for anything; a busy machine needs some."""

HOSTILE: Final = "<script>alert(1)</script>\"'`&\u202e"
"""A name with markup, quotes and a mark that turns the direction of text."""

NEEDS_BROWSER: Final = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium; on Debian: apt-get install chromium"
)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run the system's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def opened_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open a page that fails the test if it asks another host, or has an error in a script."""
    from playwright.sync_api import expect

    errors: list[str] = []
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    allowed = ("http://127.0.0.1:", "data:", "about:")
    page.on("request", lambda r: None if r.url.startswith(allowed) else errors.append(r.url))
    page.on("console", lambda m: errors.append(m.text) if "Content Security" in m.text else None)
    yield page
    context.close()
    assert errors == []


def show(page: Page, served: Served, view: str, collection: str, **more: str) -> None:
    """Open a view of a collection."""
    from playwright.sync_api import expect

    query = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    page.goto("about:blank")
    page.goto(f"{served.url}/#/{view}?c={quote(collection)}{query}")
    expect(page.locator("main h1")).to_be_attached()


def write_rule(page: Page, text: str) -> None:
    """Type a rule in place of the one in the editor."""
    page.locator(".write .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Escape")
