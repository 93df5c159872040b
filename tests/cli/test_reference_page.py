"""The page of the command shows what the command prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command.md"


def read_steps(page: Path) -> list[tuple[str, str]]:
    """Every command in the page's console blocks, with the output that the page shows."""
    steps = []
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "fence" and token.info == "console":
            for step in token.content.removeprefix("$ ").split("\n$ "):
                command, _, shown = step.partition("\n")
                steps.append((command, shown))
    return steps


def test_the_page_shows_what_the_command_prints() -> None:
    """A file that the page shows with cat is created with that content."""
    for name in ("rules.jsonl", "events.jsonl"):
        Path(name).unlink()
    for command, shown in read_steps(PAGE):
        read = command.removeprefix("cat ")
        if read != command and not Path(read).exists():
            Path(read).write_text(shown)
        script = f'tamis() {{ "{sys.executable}" -m tamis "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.stdout.rstrip("\n") == shown.rstrip("\n"), command
