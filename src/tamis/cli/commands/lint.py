"""``tamis lint``: find rules that never match, always match, or are redundant."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import typer

from tamis.cli.arguments import AsJson, LogicOverride, RulesPaths, SkipBadRules, open_rules
from tamis.cli.console import print_json, print_line, progress
from tamis.matcher.analysis.lint import Finding
from tamis.matcher.rule import RuleId

__all__ = ["lint_rules"]

_GROUPS: Final = 10
"""How many groups of a kind are shown, the largest first."""

_WIDTH: Final = 80
"""How long a line gets at most, unless the names in it are long."""


def lint_rules(
    rules: RulesPaths,
    single_valued: Annotated[
        bool,
        typer.Option("--single-valued", help="Assume that no attribute has several values."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print a line for each finding, in the order of rules.")
    ] = False,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find rules that never match, always match, repeat others or are part of them.

    Exits with code 1 if there are any.
    """
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)
        findings = matcher.lint(
            single_valued=single_valued,
            watch=lambda done, fraction: show("Checking rules", done, fraction),
        )
    if as_json:
        print_json([finding._asdict() for finding in findings])
    elif everything:
        for finding in findings:
            print_line(f"{finding.kind:<9}  {finding}")
    else:
        for line in _summarize(findings, rules):
            print_line(line)
    if not as_json:
        print_line(f"{len(findings):,} findings in {len(matcher):,} rules")
    if findings:
        raise typer.Exit(1)


class _Group(NamedTuple):
    """Findings that concern one other rule, or one rule by itself."""

    head: str
    """What the group says, up to its rules."""
    rules: list[RuleId]


def _summarize(findings: list[Finding], paths: list[str]) -> Iterator[str]:
    """Findings by kind, the worst first, and by the rule that makes others redundant."""
    is_cut = False
    for kind, titles in _TITLES.items():
        groups = _group([finding for finding in findings if finding.kind == kind])
        if not groups:
            continue
        count = sum(max(1, len(group.rules)) for group in groups)
        yield f"{count:,} {titles[count > 1]}"
        for group in groups[:_GROUPS]:
            line = _name_rules(*group)
            yield line
            is_cut = is_cut or line.endswith("…")
        if len(groups) > _GROUPS:
            yield f"  and {len(groups) - _GROUPS:,} more"
            is_cut = True
        yield ""
    if is_cut:
        yield f"Each finding on a line: tamis lint --all {shlex.join(paths)}"


_TITLES: Final = {
    "never": ("rule that can never match", "rules that can never match"),
    "always": ("rule that matches every event", "rules that match every event"),
    "duplicate": ("rule that repeats an older rule", "rules that repeat an older rule"),
    "subsumed": (
        "rule that matches only where another does",
        "rules that match only where another does",
    ),
}
"""The kinds of findings in singular and plural, those first that are most likely mistakes."""


def _group(findings: list[Finding]) -> list[_Group]:
    """The findings of one kind, grouped by the other rule; the largest group first."""
    by_other: dict[RuleId, list[RuleId]] = {}
    groups: list[_Group] = []
    for finding in findings:
        if finding.other is None:
            groups.append(_Group(str(finding), []))
        else:
            by_other.setdefault(finding.other, []).append(finding.rule)
    relation = "is repeated by" if findings and findings[0].kind == "duplicate" else "covers"
    for other, ids in sorted(by_other.items(), key=lambda item: -len(item[1])):
        groups.append(_Group(f"{other!r} {relation} ", ids))
    return groups


def _name_rules(head: str, ids: list[RuleId]) -> str:
    """The line of a group: as many of its rules as fit, the first in any case."""
    if not ids:
        return f"  {head}"
    head = f"  {head}{len(ids):,}: " if len(ids) > 1 else f"  {head}"
    shown = [repr(ids[0])]
    for id in ids[1:]:
        if len(f"{head}{', '.join(shown)}, {id!r}, …") > _WIDTH:
            break
        shown.append(repr(id))
    return f"{head}{', '.join(shown)}{', …' if len(shown) < len(ids) else ''}"
