"""``tamis test``: run the tests that rules carry."""

from __future__ import annotations

import typer

from tamis.cli.arguments import AsJson, LogicOverride, RulesPaths, SkipBadRules, open_rules
from tamis.cli.console import print_json, print_line, progress

__all__ = ["run_rule_tests"]


def run_rule_tests(
    rules: RulesPaths,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Run the tests that rules carry: events that they must match, or must not.

    Exits with code 1 if one fails.
    """
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)
        report = matcher.test()
    if as_json:
        print_json(report.to_json())
    else:
        for line in str(report).splitlines():
            print_line(line)
    if report.failures:
        raise typer.Exit(1)
