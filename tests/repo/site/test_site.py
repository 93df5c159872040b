"""The site is complete: pages are reachable, links lead somewhere, nothing is from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import tamis

LOADED = {
    ("img", "src"),
    ("link", "href"),
    ("script", "src"),
    ("source", "src"),
    ("iframe", "src"),
}
"""What a browser fetches by itself."""


class Page(HTMLParser):
    """The links, the anchors and the parts of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.parts: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element leads to."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            if (tag, name) in LOADED:
                self.parts.append(value)
            elif tag == "a" and name == "href":
                self.links.append(value)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of the site by its path."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def find_targets(path: Path, page: Page) -> Iterator[tuple[str, Path, str]]:
    """Every link within the site: as written, the file, and the anchor."""
    for link in page.links + page.parts:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc and not link.startswith("data:"):
            target = path.parent / unquote(parts.path) if parts.path else path
            yield link, target.resolve(), unquote(parts.fragment)


def test_no_link_is_broken(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link, target, anchor in find_targets(path, page):
            file = target / "index.html" if target.is_dir() else target
            known = pages.get(file)
            missing = known is not None and anchor and anchor not in known.anchors
            if not file.is_file() or missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for part in page.parts:
            assert not urlsplit(part).netloc, f"{path}: {part}"
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert "@import" not in text, style
        assert "url(http" not in text.replace('"', "").replace("'", ""), style
        assert "url(//" not in text, style


def test_every_page_is_reachable_from_the_index(site: Path, pages: dict[Path, Page]) -> None:
    reached, todo = set(), [(site / "index.html").resolve()]
    while todo:
        path = todo.pop()
        if path in pages and path not in reached:
            reached.add(path)
            todo += [target for _, target, _ in find_targets(path, pages[path])]
    left = {str(path.relative_to(site)) for path in pages if path.resolve() not in reached}
    assert left <= {"genindex.html", "py-modindex.html", "search.html"}


def test_every_part_has_its_pages(site: Path) -> None:
    for part, least in {
        "tutorials": 3,
        "how-to": 18,
        "concepts": 3,
        "reference": 20,
        "experiments": 4,
    }.items():
        assert (site / part / "index.html").is_file()
        assert len(list((site / part).rglob("*.html"))) > least, part


def test_every_public_name_has_its_entry(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "reference" / "api").glob("*.html"))
    names = [name for name in tamis.__all__ if name != "Expr"]  # an alias of four classes
    missing = [n for n in names if f'id="tamis.{n}"' not in text and f'.{n}"' not in text]
    assert not missing


def test_drawings_are_in_the_page(site: Path) -> None:
    text = (site / "concepts" / "how-the-index-works.html").read_text()
    assert text.count('<svg role="img"') == 4
    assert "mermaid" not in (site / "project" / "architecture.html").read_text()
