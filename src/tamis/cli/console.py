"""What people see beside the results: progress, tables, messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tamis.files.unprintable import escape_json, escape_unprintable

__all__ = [
    "ShowProgress",
    "is_on_terminal",
    "print_error",
    "print_json",
    "print_line",
    "print_table",
    "print_text",
    "progress",
]

ShowProgress: TypeAlias = Callable[[str, int, float | None], None]
"""Takes a title, how many things are done, and the fraction of all; None if that is unknown."""


@contextmanager
def progress(results_on_stdout: bool = False) -> Iterator[ShowProgress]:
    """Show a progress bar on standard error, if that is a terminal.

    No bar is shown where `results_on_stdout` scroll by on the same terminal.
    """
    if not sys.stderr.isatty() or (results_on_stdout and sys.stdout.isatty()):
        yield lambda title, done, fraction: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def show(title: str, done: int, fraction: float | None) -> None:
            total = None if fraction is None else 1.0
            if not bar.tasks or bar.tasks[0].description != title:
                for old in bar.task_ids:
                    bar.remove_task(old)
                bar.add_task(title, total=total, done=done)
            task = bar.task_ids[0]
            bar.update(task, total=total, completed=fraction or 0.0, done=done)

        yield show


def print_table(rows: list[tuple[str, Any]], titles: tuple[str, str] | None = None) -> None:
    """Print names and their values as a table of two columns."""
    table = Table(box=None, pad_edge=False, show_header=titles is not None, header_style="bold")
    left, right = titles or ("", "")
    table.add_column(left, overflow="fold")
    table.add_column(right, justify="right")
    for name, value in rows:
        cells = (name, f"{value:,}" if isinstance(value, int) else str(value))
        table.add_row(*[Text(escape_unprintable(cell)) for cell in cells])
    Console(highlight=False).print(table)


def print_line(text: str = "", *, err: bool = False) -> None:
    """Print one line, in which a rule, an id or a path may have put control characters."""
    typer.echo(escape_unprintable(text), err=err)


def print_text(text: str) -> None:
    """Print lines of text, in which a rule or an event may have put control characters."""
    for line in text.split("\n"):
        print_line(line)


def print_json(value: Any) -> None:
    """Print plain data as one line of JSON."""
    sys.stdout.buffer.write(escape_json(msgspec.json.encode(value)) + b"\n")


def is_on_terminal() -> bool:
    """Whether a person sees standard error as it is written."""
    return sys.stderr.isatty()


def print_error(message: str) -> None:
    """Print one line on standard error."""
    print_line(f"tamis: {message}", err=True)
