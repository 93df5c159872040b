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
from tamis.expr.analysis.explain import Explanation, format_values
from tamis.expr.analysis.why_not import Obstacle, Obstacles
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
    brief: Annotated[
        bool, typer.Option("--brief", help="Print one line: the answer and what decides it.")
    ] = False,
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
    verdict = f"{rule.id} {'matches' if matches else 'does not match'}"
    if brief:
        print_text(f"{verdict}: {_shorten(explanation, obstacles)}")
        return
    print_text(f"{verdict}:")
    print_text(str(explanation))
    if not matches:
        print_text(str(obstacles))


def _shorten(explanation: Explanation, obstacles: Obstacles) -> str:
    """What decides the answer, in one line."""
    if obstacles.invalid is not None:
        return f"it is not valid: {obstacles.invalid}"
    if explanation.held:
        return " and ".join(_list_reasons(explanation, True)) or "it matches every event"
    if obstacles.changes is None:
        return "no event could match"
    needed = [_add_values(one.text, one) for one in obstacles.changes]
    return f"it needs {' and '.join(needed)}"


def _list_reasons(part: Explanation, wanted: bool) -> list[str]:
    """The predicates that make `part` true, or keep it from being true."""
    if part.text == "NOT":
        return _list_reasons(part.children[0], not wanted)
    if not part.children:
        return [_add_values(part.text if wanted else f"NOT {part.text}", part)]
    if (part.text == "AND") is not wanted:
        decisive = [child for child in part.children if child.held is wanted]
        return _list_reasons(decisive[0], wanted) if decisive else []
    return [reason for child in part.children for reason in _list_reasons(child, wanted)]


def _add_values(text: str, part: Explanation | Obstacle) -> str:
    if part.attribute is None:
        return text
    about = f"{part.attribute} {format_values(part.values)}"
    return text if about == text else f"{text} ({about})"
