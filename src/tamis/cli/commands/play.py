"""``tamis play``: the workbench over files, with nothing to set up."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Annotated, Any, Final

import typer

from tamis.cli.arguments import reject_if
from tamis.cli.console import print_error, print_line, progress
from tamis.errors import MissingExtraError
from tamis.files import STDIN, read_events
from tamis.files.rule_reader import load_rules

__all__ = ["play_with_files"]

COLLECTION: Final = "files"
_SAMPLE: Final = """\
{"id": "adults", "rule": "age >= 18 AND country IN ('FR', 'BE')"}
{"id": "teens", "rule": "age BETWEEN 13 AND 19", "tags": ["young"]}
{"id": "cheap", "rule": "price < 25", "priority": 2}
"""
"""The rules of a page that was opened without a file."""

_CHUNK: Final = 1_000


def play_with_files(
    rules: Annotated[
        str | None, typer.Argument(metavar="RULES", help="A file of rules; a few samples if none.")
    ] = None,
    events: Annotated[
        str | None,
        typer.Argument(metavar="EVENTS", help="A file of events, for backtests and samples."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8080,
    most: Annotated[
        int, typer.Option("--events", min=1, help="How many events to load at most.")
    ] = 100_000,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open a browser.")
    ] = True,
) -> None:
    """Open the workbench over files: a page to try events, and to read and draft rules.

    Works on a copy: the files are not changed, and nothing is kept.
    """
    reject_if(rules == STDIN or events == STDIN, "Name files; standard input cannot be read twice.")
    try:
        from tamis.server.run import make_runner
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"tamis play needs {error.name}; install it with: pip install 'tamis[server]'"
        ) from None
    from tamis.server.settings import ServerSettings

    with TemporaryDirectory(prefix="tamis-play-") as folder:
        _load(Path(folder), rules, events, most)
        settings = ServerSettings(
            folder=Path(folder), port=port, read_only=True, access_log=False, follow_seconds=3600
        )
        runner = make_runner(settings)
        address = f"http://{settings.host}:{port}"
        print_line(f"The workbench is at {address} until you press Ctrl-C.")
        if opens:
            Timer(1.0, webbrowser.open, [address]).start()
        runner.run()


def _load(folder: Path, rules: str | None, events: str | None, most: int) -> None:
    """Store a copy of the rules and events as a collection."""
    from tamis.pubsub import Collection

    if rules is None:
        rules = str(folder / "sample.jsonl")
        Path(rules).write_text(_SAMPLE, "utf-8")
    with progress() as show, Collection.open(folder / COLLECTION, sync=False) as collection:
        report = load_rules(
            collection.matcher,
            rules,
            skip_bad=True,
            watch=lambda done, share: show("Loading rules", done, share),
        )
        for bad in report.bad:
            print_error(str(bad))
        source = islice(_read(events), most) if events is not None else iter(())
        done = 0
        while some := list(islice(source, _CHUNK)):
            collection.publish_many(some, on_error="skip")
            done += len(some)
            show("Loading events", done, None)


def _read(path: str) -> Iterator[Mapping[str, Any]]:
    """The events of a file as objects."""
    for batch in read_events(path):
        events = batch.events
        if isinstance(events, list):
            yield from events
        else:
            for row in events.to_pylist():
                yield {name: value for name, value in row.items() if value is not None}
