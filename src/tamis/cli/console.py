"""What people see beside the results: progress, tables, messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["Show", "one_line", "print_json", "progress", "table_of"]

Show: TypeAlias = Callable[[str, int, float | None], None]
"""Shows what is going on: a title, how many things are done, and what part of all that is."""


@contextmanager
def progress(wanted: bool) -> Iterator[Show]:
    """A progress bar on standard error, for people only.

    Results on the terminal are progress enough, and would get in its way: `wanted` is false if
    results go to standard output as they come.
    """
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not wanted):
        yield lambda title, done, fraction: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def show(title: str, done: int, fraction: float | None) -> None:
            total = None if fraction is None else 1.0
            if not progress.tasks or progress.tasks[0].description != title:
                for old in progress.task_ids:
                    progress.remove_task(old)
                progress.add_task(title, total=total, done=done)
            task = progress.task_ids[0]
            progress.update(task, total=total, completed=fraction or 0.0, done=done)

        yield show


def table_of(titles: list[str], rows: list[tuple[str, Any]], header: bool = True) -> Table:
    """Names and what belongs to them, as a table of two columns."""
    table = Table(box=None, pad_edge=False, show_header=header, header_style="bold")
    table.add_column(titles[0], overflow="fold")
    table.add_column(titles[1], justify="right")
    for name, value in rows:
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return table


def print_json(value: Any) -> None:
    """Print plain data as one line of JSON."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def one_line(text: str) -> str:
    """`text` on one line, whatever a file's name or a rule's text holds."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
