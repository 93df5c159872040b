"""``tamis explain``: show why a rule matches an event, or why it does not."""

from __future__ import annotations

from typing import Annotated

import typer

import tamis
from tamis.cli.arguments import (
    AsJson,
    AtTime,
    Logic,
    LogicOverride,
    RulesPath,
    find_rule_id,
    is_stored,
    reject_if,
)
from tamis.cli.console import print_json, print_text
from tamis.files import STDIN, load_rule, read_event
from tamis.matcher.matcher import Matcher

__all__ = ["explain_rule"]


def explain_rule(
    rules: RulesPath,
    rule_id: Annotated[str, typer.Argument(metavar="RULE-ID", help="The rule's id.")],
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="A JSON object, FILE:NUMBER, or - for a JSON object on standard input.",
        ),
    ],
    at: AtTime = None,
    logic: LogicOverride = None,
    as_json: AsJson = False,
) -> None:
    """Show why a rule matches an event, or what keeps it from matching."""
    reject_if(rules == event == STDIN, "Only one of RULES and EVENT can be -; name a file.")
    if is_stored(rules):
        matcher = tamis.open(rules, read_only=True, logic=logic)
        rule = matcher.rule(find_rule_id(matcher, rule_id))
    else:
        matcher = Matcher(logic=logic or Logic.STRONG)
        rule = load_rule(matcher, rules, rule_id, logic=logic or Logic.STRONG)
    attributes = read_event(event)
    explanation = matcher.explain(rule.id, attributes)
    obstacles = matcher.why_not(rule.id, attributes, at=at)
    matches = explanation.held and obstacles.invalid is None
    if as_json:
        answer = {"rule": rule.id, "matches": matches}
        print_json(answer | {"explanation": explanation.to_json()} | obstacles.to_json())
        return
    print_text(f"{rule.id} {'matches' if matches else 'does not match'}:")
    print_text(str(explanation))
    if not matches:
        print_text(str(obstacles))
