"""Regular expressions mean the same on every Python that is promised.

Python 3.11 to 3.11.4 matches possessive quantifiers and atomic groups wrongly where they hold
alternatives or optional groups. Debian 12 has 3.11.2, so none are used at all.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("attack", "benchmarks", "docs", "examples", "experiments", "scripts", "src", "tests")
CONSTRUCT = re.compile(r"[+*?}][+]|[(][?]>")


def find_constructs(source: str) -> list[str]:
    """The texts in a module with patterns that hold such a construct."""
    if not re.search(r"^\s*import re\b", source, re.MULTILINE):
        return []
    nodes = ast.walk(ast.parse(source))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and CONSTRUCT.search(text)]


def test_no_pattern_is_possessive_or_atomic() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    found = {str(file): find_constructs(file.read_text("utf-8")) for file in files}
    assert {file: texts for file, texts in found.items() if texts} == {}


def test_scan_finds_every_construct() -> None:
    for pattern in ("a*" + "+", "a+" + "+", "a?" + "+", "a{2}" + "+", "(" + "?>a)"):
        assert find_constructs(f"import re\nre.compile({pattern!r})")
