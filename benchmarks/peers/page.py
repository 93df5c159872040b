"""Writes docs/experiments/peers.md and its plot from what ``make peers`` measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "experiments"

ABOUT = {
    "tamis": "this engine: `match` with one event at a time, a dict",
    "a-tree": "Rust, an index of Boolean expressions after the A-Tree paper",
    "event-ruler": "Java, the matcher of Amazon EventBridge; reads each event from JSON",
    "lucene-monitor": "Java, the matcher below percolators, with `TermFilteredPresearcher`",
    "duckdb": "a table of clauses joined with 200 events at a time, grouped by event and rule",
    "zen-engine": "compiled expressions, one after the other",
    "cel": "compiled expressions of `common-expression-language`, one after the other",
    "rule-engine": "compiled rules, one after the other",
    "json-logic": "trees of `panzi-json-logic`, one after the other",
}
LEFT_OUT = {
    "Mustang": "no package of it was found on Maven Central",
    "be_indexer": "the Go proxy refused the module where this was measured",
    "quamina": "the Go proxy refused the module where this was measured",
}
HEAD = """\
# Tamis beside other engines

How much work is it to find the rules that one event satisfies, in engines that people use today?
`make peers` measures it: every peer reads the same rules and events, and its total of matches must
be exactly right, or the run stops. Measured on {date} ({machine}). All times are CPU times of the
whole process, because other work ran on the machine; read them as ratios.

**Only what all of them can express is compared**: a rule is an AND of three attributes, each of
which takes one of some texts; an event has 20 attributes, each with one of 20 texts. Ranges, NOT,
OR of ANDs, absent values and scores are not in it. A clause takes 1 or 4 of the 20 texts, so that
0.0125 % or 0.8 % of the rules match an event.

![microseconds an event by number of rules](peers/micros.svg)
"""
TAIL = """\
Every driver is in `benchmarks/peers`. It builds its index, then matches events one by one for
{seconds:g} s of CPU (Java after a warm-up as long). Files are read before the clock starts;
turning a line into the peer's own form of an event is part of the time in Java and Rust. A peer
that evaluates one rule after the other takes time in proportion to their number, and is measured at
1,000 rules only. A run that is not done after {patience:g} s is ended: *not in time*. Memory is
that of the whole process, with its runtime and the workload; Java may take up to 4 GiB, and takes
what it may. The CPU time of Java includes its compiler: in runs of less than some ten seconds
(`make peers ARGS="--seconds 20"`) its engines are still warming up, and look slower than they are
in a service. The times of a-tree come in steps of 10 ms. Memory below 120 MiB is a bound from
above: a driver begins as a copy of the harness. `docs/experiments/peers/runs.json` has the numbers.
"""
RATES = {1: "0.0125 %", 4: "0.8 %"}


def write_page(found: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "peers").mkdir(exist_ok=True)
    (FOLDER / "peers" / "runs.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, FOLDER / "peers" / "micros.svg")
    (FOLDER / "peers.md").write_text(make_page(found))


def make_page(found: dict[str, Any]) -> str:
    peers = list(dict.fromkeys(run["peer"] for run in found["runs"]))
    lines = [HEAD.format(**found)]
    for values, rate in RATES.items():
        runs = [run for run in found["runs"] if run["values"] == values]
        sizes = sorted({run["rules"] for run in runs})
        if not runs:
            continue
        lines += [f"## {rate} of the rules match", ""]
        for title, key, spell in (
            ("µs of CPU an event", "micros", _spell_micros),
            ("seconds of CPU to build", "build", _spell_seconds),
            ("MiB at the peak of the process", "memory", lambda value: f"{value:,}"),
        ):
            lines.append(f"| {title} | " + " | ".join(f"{size:,} rules" for size in sizes) + " |")
            lines.append("| --- |" + " ---: |" * len(sizes))
            for peer in peers:
                cells = []
                for size in sizes:
                    found_runs = [r for r in runs if r["peer"] == peer and r["rules"] == size]
                    cells.append(_spell_cell(found_runs, key, spell))
                lines.append(f"| {peer} | " + " | ".join(cells) + " |")
            lines.append("")
    lines += ["## The peers", "", "| Peer | What runs |", "| --- | --- |"]
    lines += [f"| {peer} | {ABOUT[peer]} |" for peer in peers]
    lines += ["", "Not measured:", ""]
    lines += [f"- **{name}**: {why}." for name, why in {**LEFT_OUT, **found["missing"]}.items()]
    lines += ["", TAIL.format(**found)]
    return "\n".join(lines)


def _spell_cell(runs: list[dict[str, Any]], key: str, spell: Callable[[Any], str]) -> str:
    if not runs:
        return "–"
    return "not in time" if runs[0]["micros"] is None else spell(runs[0][key])


def _spell_micros(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _spell_seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "peers"
    peers = list(dict.fromkeys(run["peer"] for run in found["runs"]))
    figure, panels = plt.subplots(1, len(RATES), figsize=(9, 4), sharey=True, layout="constrained")
    for axes, (values, rate) in zip(panels, RATES.items(), strict=True):
        for number, peer in enumerate(peers):
            runs = [r for r in found["runs"] if r["peer"] == peer and r["values"] == values]
            points = [(r["rules"], r["micros"]) for r in runs if r["micros"] is not None]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    marker="o",
                    label=peer,
                    color=f"C{number}",
                    linewidth=3 if peer == "tamis" else 1.3,
                )
        axes.set(xscale="log", yscale="log", xlabel="rules", title=f"{rate} of the rules match")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("µs of CPU an event")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
