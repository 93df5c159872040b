"""Write the page: one HTML file with its style and plots inside, which loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from tamis.report.figures import Bar, BusyRule, Distribution, Figures
from tamis.report.plots import (
    check_plots,
    draw_bars,
    draw_partitions,
    draw_seconds,
    draw_skew,
)
from tamis.report.story import Story, draw_timeline, fold_copies, summarize, tell

__all__ = ["check_plots", "page"]

_BUSIEST = 0.01
_QUANTILES = (0.5, 0.9, 0.99, 1.0)
_SEARCH = (
    '<label class="search" hidden>Search rules <input type="search" id="search"></label>'
    '<p id="found" role="status"></p>'
)
"""Shown where scripts run; the page has everything without them."""


def page(
    figures: Figures, title: str, now: datetime | None = None, *, story: Story | None = None
) -> str:
    """Write the report as HTML.

    Parameters
    ----------
    figures
        The numbers to show.
    title
        The heading.
    now
        The time to print; by default the current time.
    story
        What else to tell: matches over time and by kind, an example, what changed.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    check_plots()
    created = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    story = story or Story()
    parts = [
        _headline(figures, story),
        _tiles(figures),
        _timeline(story),
        _kinds(story),
        _example(story),
        _changes(figures, story),
        _coverage(figures),
        '<div class="pair">',
        _by_rule(figures),
        _by_event(figures),
        "</div>",
        _busiest(figures),
        _silent(figures),
        _overlaps(story),
        _costs(story),
        '<div class="pair">',
        _skew(figures),
        _partitions(figures),
        "</div>",
        _throughput(figures),
        _facts(figures),
    ]
    template = Template(files("tamis.report").joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(title), created=created, body="\n".join(filter(None, parts))
    )


def _headline(figures: Figures, story: Story) -> str:
    words = tell(figures, story.baseline)
    return f'<p class="headline">{escape(words)}</p>' if words else ""


def _timeline(story: Story) -> str:
    if not story.timeline:
        return ""
    first, last = story.timeline[0][0], story.timeline[-1][0]
    rows = [(escape(name), f"{count:,}") for name, count in story.timeline]
    peak = max(story.timeline, key=lambda each: each[1])
    return _section(
        "Matches over time",
        f"Most in the {escape(peak[0])}: {peak[1]:,}.",
        f'<figure>{draw_timeline(story.timeline)}<div class="ends"><span>{escape(first)}</span>'
        f"<span>{escape(last)}</span></div></figure>",
        f"<details><summary>Show as a table</summary>{_table(['period', 'matches'], rows)}"
        "</details>",
    )


def _kinds(story: Story) -> str:
    if not story.kinds:
        return ""
    ordered = sorted(story.kinds.items(), key=lambda each: -each[1][1])
    most = max(1, ordered[0][1][1])
    rows = [
        (escape(kind), f"{rules:,}", f"{matches:,}{_share_bar(matches / most)}")
        for kind, (rules, matches) in ordered
    ]
    return _section(
        "Matches by kind of rule", "", _table(["kind", "rules", "matches"], rows, wide=True)
    )


def _example(story: Story) -> str:
    if story.example is None:
        return ""
    return _section(
        "One event, explained",
        escape(story.example.title),
        f'<pre class="scroll" tabindex="0">{escape(story.example.text)}</pre>',
    )


def _changes(figures: Figures, story: Story) -> str:
    if not story.previous:
        return ""
    rows = []
    for name, now in summarize(figures).items():
        before = story.previous.get(name)
        if before is not None and round(before, 1) != round(now, 1):
            rows.append((escape(name), _number(before), _number(now), _difference(before, now)))
    if not rows:
        return _section("Since the last run", "Nothing changed.")
    titles = ["figure", "last run", "now", "change"]
    return _section("Since the last run", "", _table(titles, rows, wide=True))


def _overlaps(story: Story) -> str:
    if not story.overlaps:
        return ""
    rows = [
        (
            " and ".join(f"<code>{escape(rule)}</code>" for rule in overlap.rules),
            f"{overlap.shared:,}",
            f"{100 * overlap.share:.0f} %{_share_bar(overlap.share)}",
        )
        for overlap in story.overlaps
    ]
    return _section(
        "Rules that overlap",
        "Of the busiest rules, those that match much the same events.",
        _table(["rules", "events in common", "of the events of either"], rows, wide=True),
    )


def _costs(story: Story) -> str:
    costs = story.costs
    if costs is None:
        return ""
    words = (
        f"One process searches all {costs.rules:,} rules in {costs.microseconds:,.0f} µs for an "
        f"event. Of {costs.measured:,} rules measured alone, the median takes "
        f"{costs.typical:,.1f} µs"
    )
    if not costs.slowest:
        return _section("What costs", f"{words}, and none takes clearly longer.")
    most = costs.slowest[0].microseconds
    rows = [
        (
            f"<code>{escape(each.id)}</code>",
            f"{each.microseconds:,.1f}{_share_bar(each.microseconds / most)}",
            _code(each.text),
        )
        for each in costs.slowest
    ]
    return _section(
        "What costs",
        f"{words}; these take clearly longer:",
        _table(["rule", "µs", "text"], rows, wide=True),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _difference(before: float, now: float) -> str:
    share = f" ({100 * (now - before) / before:+.1f} %)" if before else ""
    return f"{'+' if now > before else '-'}{_number(abs(now - before))}{share}"


def _tiles(figures: Figures) -> str:
    matched_rules, matched_events = figures.matches_by_rule.size, figures.rules_by_event.size
    tiles = [(f"{figures.matches:,}", "matches", "")]
    if figures.events is None:
        tiles.append((f"{matched_events:,}", "events with a match", ""))
    else:
        tiles.append(
            (f"{figures.events:,}", "events", _percent(matched_events, figures.events, "matched"))
        )
    if figures.rules is None:
        tiles.append((f"{matched_rules:,}", "rules that matched", ""))
    else:
        tiles.append(
            (f"{figures.rules:,}", "rules", _percent(matched_rules, figures.rules, "matched"))
        )
    if "match" in figures.seconds:
        for what, rate in list(figures.rates("match").items())[:1]:
            tiles.append(
                (f"{rate:,.0f}", f"{what} per second", f"{figures.seconds['match']:,.1f} s")
            )
    items = "".join(
        f'<div><dt>{label}</dt><dd>{value}</dd><dd class="note">{note}</dd></div>'
        for value, label, note in tiles
    )
    return f'<dl class="tiles">{items}</dl>'


def _coverage(figures: Figures) -> str:
    without = figures.events_without
    if without is None or not figures.events:
        return ""
    matched = figures.rules_by_event.size
    share = 100 * matched / figures.events
    words = f"{matched:,} of {figures.events:,} events matched at least one rule ({share:.2f} %)"
    return _section(
        "Coverage",
        f"{words}; {without:,} matched none.",
        f'<div class="meter" role="img" aria-label="{words}">'
        f'<span style="width:{share:.4f}%"></span></div>',
    )


def _by_rule(figures: Figures) -> str:
    half = _times(figures.matches_by_rule.quantile(0.5))
    return _distribution(
        figures.matches_by_rule,
        figures.silent_rules,
        name="by-rule",
        title="Matches per rule",
        words=f"Half of the rules that matched did so at most {half}.",
        chart="Bar chart of how many rules had how many matches.",
        things="rules",
        times="matches",
    )


def _by_event(figures: Figures) -> str:
    half = _count_rules(figures.rules_by_event.quantile(0.5))
    return _distribution(
        figures.rules_by_event,
        figures.events_without,
        name="by-event",
        title="Rules per event",
        words=f"Half of the events that matched did so with at most {half}.",
        chart="Bar chart of how many events matched how many rules.",
        things="events",
        times="rules",
    )


def _distribution(
    distribution: Distribution,
    none: int | None,
    *,
    name: str,
    title: str,
    words: str,
    chart: str,
    things: str,
    times: str,
) -> str:
    """A section with a bar chart, its table, and quantiles."""
    bars = distribution.bars()
    plot = draw_bars(
        name,
        bars,
        none=none,
        things=things,
        times=title[:1].lower() + title[1:],
        description=f"{chart} {words}",
    )
    quantiles = [(_quantile(q), f"{distribution.quantile(q):,}") for q in _QUANTILES]
    return _section(
        title,
        words,
        _plot(plot, _bar_table(times, things, bars, none)),
        _table([f"{things} that matched", times], quantiles),
    )


def _busiest(figures: Figures) -> str:
    if not figures.busiest:
        return ""
    most = figures.busiest[0].matches
    rows = [
        (
            f"<code>{escape(first.id)}</code>",
            f"{first.matches:,}{_share_bar(first.matches / most)}",
            _code(first.text) + _list_copies(copies),
        )
        for first, *copies in fold_copies(figures.busiest)
    ]
    events = figures.events or figures.rules_by_event.size
    share = f"; the first matches {100 * most / events:.1f} % of the events" if events else ""
    return _section(
        "Busiest rules",
        f"The {len(figures.busiest)} rules with the most matches{share}.",
        _SEARCH,
        _table(["rule", "matches", "text"], rows, wide=True),
    )


def _list_copies(copies: Sequence[BusyRule]) -> str:
    if not copies:
        return ""
    items = "".join(
        f"<li><code>{escape(copy.id)}</code> {copy.matches:,} {_code(copy.text)}</li>"
        for copy in copies
    )
    noun = "near-copy" if len(copies) == 1 else "near-copies"
    return f"<details><summary>{len(copies)} {noun}</summary><ul>{items}</ul></details>"


def _silent(figures: Figures) -> str:
    silent = figures.silent_rules
    if silent is None:
        return _section(
            "Rules that never fired",
            "Unknown: this report has no table of rules.",
        )
    if not silent:
        return _section("Rules that never fired", "None: every rule matched at least once.")
    share = 100 * silent / max(1, figures.rules or 0)
    rows = [(f"<code>{escape(rule.id)}</code>", _code(rule.text)) for rule in figures.silent]
    return _section(
        "Rules that never fired",
        f"{silent:,} of {figures.rules:,} rules ({share:.1f} %)"
        + (f"; {len(rows)} of them:" if rows else "."),
        _table(["rule", "text"], rows, wide=True) if rows else "",
    )


def _skew(figures: Figures) -> str:
    distribution = figures.matches_by_rule
    if not distribution.size:
        return ""
    share = 100 * distribution.share_of_top(_BUSIEST)
    words = f"The busiest 1 % of the rules that matched have {share:.1f} % of the matches."
    points = [
        (f"{100 * part:g} %", f"{100 * distribution.share_of_top(part):.1f} %")
        for part in (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1)
    ]
    plot = draw_skew(
        "skew",
        distribution,
        description=f"Line chart of the share of matches of the busiest rules. {words}",
    )
    return _section(
        "Skew across rules",
        f"{words} The dashed line shows the share if all rules matched equally often.",
        _plot(plot, _table(["busiest rules", "matches"], points)),
    )


def _partitions(figures: Figures) -> str:
    if not figures.partitions:
        return ""
    mean = figures.matches / len(figures.partitions)
    fullest = max(figures.partitions)
    words = (
        f"{len(figures.partitions):,} partitions have matches; the fullest has {fullest:,}, "
        f"{fullest / mean:.2f} times the mean."
    )
    plot = draw_partitions(
        "partitions", figures.partitions, description=f"Bar chart of matches by partition. {words}"
    )
    return _section("Skew across partitions", words, f"<figure>{plot}</figure>")


def _throughput(figures: Figures) -> str:
    if not figures.seconds:
        return ""
    rows = [
        (
            escape(stage),
            f"{seconds:,.1f}",
            ", ".join(f"{rate:,.0f} {what}" for what, rate in figures.rates(stage).items()),
        )
        for stage, seconds in figures.seconds.items()
    ]
    total = sum(figures.seconds.values())
    plot = draw_seconds(
        "seconds",
        dict(figures.seconds),
        description=f"Bar chart of the seconds of each stage; {total:,.1f} in total.",
    )
    return _section(
        "Throughput",
        f"{total:,.1f} seconds in total.",
        '<div class="pair">',
        f"<figure>{plot}</figure>",
        _table(["stage", "seconds", "per second"], rows),
        "</div>",
    )


def _facts(figures: Figures) -> str:
    if not figures.facts:
        return ""
    rows = [(escape(name), escape(value)) for name, value in figures.facts.items()]
    return _section("About this report", "", _table(["what", "value"], rows, wide=True))


def _section(title: str, words: str, *parts: str) -> str:
    return (
        f"<section><h2>{title}</h2>{f'<p>{words}</p>' if words else ''}{''.join(parts)}</section>"
    )


def _plot(plot: str, table: str) -> str:
    """A plot, and the same numbers as a table that can be opened."""
    return f"<figure>{plot}</figure><details><summary>Show as a table</summary>{table}</details>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], wide: bool = False) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    kind = ' class="wide"' if wide else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _bar_table(times: str, things: str, bars: Sequence[Bar], none: int | None) -> str:
    rows = [] if none is None else [("none", f"{none:,}")]
    rows += [(bar.label, f"{bar.things:,}") for bar in bars]
    return _table([times, things], rows)


def _code(text: str | None) -> str:
    return "" if text is None else f"<code>{escape(text)}</code>"


def _share_bar(share: float) -> str:
    return f'<span class="bar" style="width:{100 * share:.1f}%"></span>'


def _quantile(share: float) -> str:
    names = {0.5: "half have at most", 1.0: "the busiest has"}
    return names.get(share, f"{100 * share:g} % have at most")


def _count_rules(count: int) -> str:
    return "1 rule" if count == 1 else f"{count:,} rules"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _percent(part: int, whole: int, verb: str) -> str:
    return f"{100 * part / whole:.1f} % {verb}" if whole else ""
