"""``tamis export``: write rules as JSON lines."""

from __future__ import annotations

from tamis.cli.arguments import (
    LogicOverride,
    OnlyIds,
    OnlyTags,
    RulesOutput,
    RulesPaths,
    open_rules,
    reject_if,
    select_rules,
)
from tamis.cli.console import print_line, progress
from tamis.files import STDIN, save_rules

__all__ = ["export_rules"]


def export_rules(
    rules: RulesPaths,
    out: RulesOutput = STDIN,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    logic: LogicOverride = None,
) -> None:
    """Write rules as JSON lines, with their weights, payloads and tags.

    Every command that takes a file of rules reads the result.
    """
    reject_if(bool(only and tag), "Give either --only or --tag.")
    with progress(results_on_stdout=out == STDIN) as show:
        matcher = open_rules(rules, None, logic, False, show)
        count = save_rules(
            matcher,
            out,
            only=select_rules(matcher, only, tag),
            watch=lambda done, fraction: show("Writing rules", done, fraction),
        )
    if out != STDIN:
        print_line(f"{count:,} rules in {out}")
