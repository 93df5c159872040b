"""Counts the code of the package, room by room: ``python -m tests.repo.code_lines``.

A line of code has a token other than a comment, a docstring or white space. A room is a folder of
`src/tamis`; modules beside the rooms count as the room `.`.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[2] / "src" / "tamis"

_BLANK: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class Count:
    """The lines of a file."""

    code: int
    header: int
    """Those of them that import, or list in ``__all__``."""


def count_file(text: str) -> Count:
    """Count the lines of code in the text of a module."""
    documented, header = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        span = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                documented.update(span)
        elif isinstance(node, ast.Import | ast.ImportFrom) or _lists_names(node):
            header.update(span)
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= documented
    return Count(len(code), len(code & header))


def _lists_names(node: ast.AST) -> bool:
    """Whether a statement sets ``__all__``."""
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


@functools.cache
def count_package() -> dict[Path, Count]:
    """The counts of all modules, by their paths in the package."""
    return {
        file.relative_to(PACKAGE): count_file(file.read_text("utf-8"))
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def count_rooms(counts: dict[Path, Count]) -> Counter[str]:
    """The lines of code in each room."""
    rooms = Counter[str]()
    for file, count in counts.items():
        rooms[file.parts[0] if len(file.parts) > 1 else "."] += count.code
    return rooms


def main() -> None:
    counts = count_package()
    for room, lines in sorted(count_rooms(counts).items()):
        print(f"{room:14} {lines:7,}")
    code = sum(count.code for count in counts.values())
    header = sum(count.header for count in counts.values())
    print(f"{'all':14} {code:7,} in {len(counts)} files; {header / code:.1%} imports and __all__")


if __name__ == "__main__":
    main()
