"""Write the table of files in ARCHITECTURE.md: one line a module, from its docstring.

The first line of a docstring is what a reader of the table sees, so there is one place to say what
a file is for. `tests/test_architecture.py` fails while the table is out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tamis"
PAGE = ROOT / "ARCHITECTURE.md"

BEGIN = "<!-- The table of files: `make architecture` writes it. -->"
END = "<!-- End of the table of files. -->"


def summary(path: Path) -> str:
    """Return the first line of a module's docstring, ready for a cell of a Markdown table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    if not docstring:
        raise ValueError(f"{path} has no docstring")
    line = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", docstring.splitlines()[0])
    return line.replace("|", r"\|").replace("``", "`")


def folders(source: Path) -> Iterator[Path]:
    """Yield `source` and all packages below it, each before what it contains."""
    yield source
    for child in sorted(source.iterdir()):
        if (child / "__init__.py").exists():
            yield from folders(child)


def table(source: Path = SOURCE) -> str:
    """Return the Markdown of the whole table, a section a folder."""
    lines = []
    for folder in folders(source):
        name = folder.relative_to(source.parent).as_posix()
        lines += [f"### `{name}/`", "", summary(folder / "__init__.py"), ""]
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if modules:
            lines += ["| File | What it is for |", "| --- | --- |"]
            lines += [f"| `{path.name}` | {summary(path)} |" for path in modules]
            lines.append("")
    return "\n".join(lines)


def update(page: str, content: str) -> str:
    """Return `page` with `content` between the two markers.

    Raises
    ------
    ValueError
        A marker is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page lacks the markers of the table of files")
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def main() -> None:
    """Rewrite the table in ARCHITECTURE.md."""
    page = PAGE.read_text("utf-8")
    updated = update(page, table())
    PAGE.write_text(updated, "utf-8")
    print("ARCHITECTURE.md", "is up to date" if updated == page else "updated", file=sys.stderr)


if __name__ == "__main__":
    main()
