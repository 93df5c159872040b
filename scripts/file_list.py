"""The list of files on the site: a line for each module, the first one of its docstring.

`docs/conf.py` puts it into docs/project/files.md while it builds the site, so nobody keeps it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "tamis"


def list_files(source: Path = SOURCE) -> str:
    """Return the list as Markdown, a section a folder."""
    lines = []
    for folder in find_folders(source):
        name = folder.relative_to(source.parent).as_posix()
        lines += [f"## `{name}/`", "", summarize(folder / "__init__.py"), ""]
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if modules:
            lines += ["| File | What it is for |", "| --- | --- |"]
            lines += [f"| `{path.name}` | {summarize(path)} |" for path in modules]
            lines.append("")
    return "\n".join(lines)


def find_folders(source: Path) -> Iterator[Path]:
    """Yield `source` and all packages below it, each before what it contains."""
    yield source
    for child in sorted(source.iterdir()):
        if (child / "__init__.py").exists():
            yield from find_folders(child)


def summarize(path: Path) -> str:
    """Return the first line of a module's docstring, ready for a cell of a Markdown table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    if not docstring:
        raise ValueError(f"{path} has no docstring")
    line = re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", docstring.splitlines()[0])
    return line.replace("|", r"\|").replace("``", "`")
