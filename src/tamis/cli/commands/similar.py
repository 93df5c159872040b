"""``tamis similar``: find the rules that match much the same events as a given one."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tamis.cli.arguments import (
    AsJson,
    LogicOverride,
    RulesPath,
    SkipBadRules,
    find_rule_id,
    open_rules,
)
from tamis.cli.console import print_error, print_json, print_line, progress
from tamis.matcher.rule import read_integer_id

__all__ = ["find_similar"]

_LEAST: Final = 0.005
"""A smaller similarity is shown as 0 %, and says nothing."""


def find_similar(
    rules: RulesPath,
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's id, or the rule itself.")],
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="How many at most.")] = 10,
    logic: LogicOverride = None,
    skip_bad_rules: SkipBadRules = False,
    as_json: AsJson = False,
) -> None:
    """Find the rules that match much the same events as a given one."""
    with progress() as show:
        matcher = open_rules(rules, None, logic, skip_bad_rules, show)
    is_number = read_integer_id(rule) is not None
    found = matcher.similar(find_rule_id(matcher, rule) if is_number else rule, n)
    if as_json:
        print_json([similar._asdict() for similar in found])
        return
    shown = [similar for similar in found if similar.similarity >= _LEAST]
    if not shown:
        print_error(f"no other rule matches much the same events as {rule!r}")
    for similar in shown:
        relation = {
            (True, True): " says the same",
            (True, False): " wider",
            (False, True): " narrower",
            (False, False): "",
        }[similar.implied, similar.implies]
        print_line(f"{similar.similarity:5.0%}  {similar.id}{relation}")
