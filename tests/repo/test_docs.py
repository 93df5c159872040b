"""Every Python block in the documentation runs.

Each block runs by itself, in an empty folder. A block that cannot run (it needs a server, or a file
of the reader's) opens with ```` ```python no-run ````. A block that continues the one before it
opens with ```` ```python tutorial ````; the test of its tutorial runs all of them in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    """The number of its first line of code, from 1."""
    tags: frozenset[str]
    """The words after the language on the opening fence."""
    code: str


def find_blocks(page: Path, text: str) -> Iterator[Block]:
    """Find the Python blocks of `text`, including those in lists and quotations."""
    for token in MarkdownIt().parse(text):
        words = token.info.split()
        if token.type == "fence" and words[:1] == ["python"]:
            assert token.map is not None
            yield Block(page, token.map[0] + 2, frozenset(words[1:]), token.content)


def run_block(block: Block) -> dict[str, Any]:
    """Run `block` in a fresh namespace; a traceback shows the page and its line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = "\n" * (block.line - 1) + block.code
    exec(compile(code, str(block.page), "exec"), namespace)
    return namespace


def cases() -> Iterator[Any]:
    """One case per block; a block that does not run by itself is shown as skipped."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not page.exists():
            continue
        name = page.relative_to(ROOT)
        for block in find_blocks(page, page.read_text()):
            tags = sorted(block.tags & {"no-run", "tutorial"})
            marks = [pytest.mark.skip(reason=f"tagged {tag}") for tag in tags]
            yield pytest.param(block, id=f"{name}:{block.line}", marks=marks)


@pytest.mark.parametrize("block", list(cases()))
def test_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_block(block)


PAGE = """\
# A page

```python
x = 1
```

```python no-run
raise SystemExit
```

```sql
a = 1
```

- in a list:
  ```python
  y = 2
  assert y == 3
  ```
"""


def test_blocks_are_found_with_their_lines_and_tags() -> None:
    found = list(find_blocks(Path("page.md"), PAGE))
    assert [(b.line, set(b.tags)) for b in found] == [(4, set()), (8, {"no-run"}), (17, set())]
    assert run_block(found[0])["x"] == 1


def test_a_failing_block_points_at_its_line() -> None:
    failing = list(find_blocks(Path("page.md"), PAGE))[-1]
    with pytest.raises(AssertionError) as caught:
        run_block(failing)
    assert caught.traceback[-1].lineno + 1 == 18
