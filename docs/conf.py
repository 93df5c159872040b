"""The site: `make docs` builds it from the pages of this folder, without a network.

The pages are plain Markdown that reads well on a code host, so what only Sphinx needs is added
here, while it reads them: tables of contents follow from the links of index pages, links to the
files at the root of the project lead to their copies in `project`, the list of files is made, and
drawings are put into the page, where they take the colours of its theme.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

import tamis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scripts.file_list import list_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Tamis"
author = "The Tamis authors"
copyright = "the Tamis authors"  # noqa: A001  the name that Sphinx reads
version = release = tamis.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
# Two classes share a name: Difference and Ratification of a matcher, and those of Spark.
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Docstrings write code in single backticks.
default_role = "literal"
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Tamis {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/sieve.svg"
html_logo = "_static/sieve.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b6b57",
        "color-brand-content": "#0b6b57",
        "color-brand-visited": "#4b5f8a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fd3b8",
        "color-brand-content": "#6fd3b8",
        "color-brand-visited": "#a9b8dd",
    },
}

_LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+\.md)(?:#[^)\s]*)?\)")
_ROOT_FILE: Final = re.compile(
    r"\]\((?:\.\./)+(ARCHITECTURE|CHANGELOG|CONTRIBUTING|SECURITY)\.md((?:#[^)\s]*)?)\)"
)
_PRIVATE_PARAMETER: Final = re.compile(r", _\w+: [^=,]+ = [^,)]+")
_INDEX_PAGES: Final = ("index", "README")


def is_index(docname: str) -> bool:
    """Whether a page is the front page of its folder."""
    return posixpath.basename(docname) in _INDEX_PAGES


def find_contents(docname: str, text: str) -> list[str]:
    """The pages below an index page, in the order in which it links to them."""
    folder = posixpath.dirname(docname)
    found: dict[str, None] = {}
    for target in _LINK.findall(text):
        page = posixpath.normpath(posixpath.join(folder, target)).removesuffix(".md")
        inside = posixpath.relpath(page, folder or ".")
        depth = inside.count("/")
        own = not inside.startswith("../") and page != docname
        if own and (depth == (1 if is_index(page) else 0)):
            found[page] = None
    return list(found)


def find_others(docname: str, pages: list[str], known: set[str]) -> list[str]:
    """The pages beside an index page that it does not name."""
    folder = posixpath.dirname(docname)
    beside = {page for page in known if posixpath.dirname(page) == folder}
    return sorted(beside - {docname, *pages})


def prepare_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the list of files and tables of contents; lead links to files of the root to copies."""
    text = source[0].replace("<!-- The list of files: `make docs` puts it here. -->", list_files())
    text = _ROOT_FILE.sub(lambda m: f"](/project/{m[1].lower()}.md{m[2]})", text)
    if is_index(docname):
        pages = find_contents(docname, text)
        pages += find_others(docname, pages, set(app.env.found_docs))
        listed = "\n".join(f"/{page}" for page in pages)
        text += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    source[0] = text


def hide_private_parameters(*details: Any) -> tuple[str | None, str | None]:
    """Leave the parameters out of a signature that only Tamis itself passes."""
    signature, returned = details[-2:]
    return signature and _PRIVATE_PARAMETER.sub("", signature), returned


class InlineDrawings(SphinxPostTransform):
    """Puts the SVG files of docs/images into the page, so that they follow light and dark."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Replace the images of this page."""
        for image in list(self.document.findall(nodes.image)):
            path = posixpath.normpath(image["uri"])
            if path.startswith("images/") and path.endswith(".svg"):
                svg = (Path(self.app.srcdir) / path).read_text()
                label = nodes.unescape(image.get("alt", "")).replace('"', "&quot;")
                svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
                image.replace_self(
                    nodes.raw("", f'<div class="drawing">{svg}</div>', format="html")
                )


def setup(app: Sphinx) -> None:
    """Connect the additions with Sphinx."""
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-signature", hide_private_parameters)
    app.add_post_transform(InlineDrawings)
