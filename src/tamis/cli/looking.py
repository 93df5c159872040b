"""Commands that look for rules: match and explain."""

from __future__ import annotations

from typing import Annotated

import typer

import tamis
from tamis.cli.app import app
from tamis.cli.arguments import (
    AsJson,
    AtTime,
    Logic,
    OnlyIds,
    OnlyTags,
    OtherEngine,
    OtherLogic,
    RulesPlace,
    SkipBadRules,
    chosen_of,
    is_stored,
    matcher_of,
    refuse_if,
    rule_id_of,
)
from tamis.cli.console import print_json, progress
from tamis.files import (
    STDIN,
    Question,
    answers,
    expression_answer,
    load_rule,
    open_output,
    read_event,
)
from tamis.matcher.matcher import Matcher

EventsFile = Annotated[
    str | None, typer.Argument(metavar="EVENTS", help="A file of events.", show_default=False)
]


@app.command("match")
def match_events(
    rules: RulesPlace,
    events: EventsFile = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--expression",
            metavar="TEXT",
            help="In place of EVENTS: what is known of one, such as 'price > 9 AND kind = 2'.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the matches to this file: .jsonl, .ndjson, .csv or .parquet.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help="The N best rules only, and their scores."),
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="How many rules match, not which ones.")
    ] = False,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Remember each event once it is matched, for rules with join predicates.",
        ),
    ] = False,
    only: OnlyIds = None,
    tag: OnlyTags = None,
    at: AtTime = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--event-id",
            metavar="NAME",
            help="The attribute that names an event, in place of its number in the file.",
        ),
    ] = None,
    engine: OtherEngine = None,
    logic: OtherLogic = None,
    skip_bad_rules: SkipBadRules = False,
) -> None:
    """Find the rules that each event satisfies.

    Prints a line of JSON for each event: {"event": 0, "rules": ["r1", "r7"]},
    where an event is known by its number in the file, from 0.
    """
    refuse_if((events is None) == (expression is None), "Give one of EVENTS and --expression.")
    of_events = top is not None or count or event_id is not None
    refuse_if(of_events and events is None, "--top, --count and --event-id are for EVENTS.")
    refuse_if(top is not None and count, "--top and --count exclude each other.")
    alone = top is None and not count and events is not None
    refuse_if(publish and not alone, "--publish is for EVENTS, without --top and --count.")
    refuse_if(bool(only and tag), "--only and --tag exclude each other.")
    refuse_if(rules == events == STDIN, "RULES and EVENTS cannot both be standard input.")
    with open_output(out) as output, progress(out is not None) as show:
        matcher = matcher_of(rules, engine, logic, skip_bad_rules, show, publish)
        question = Question(
            kind="publish" if publish else "count" if count else "match" if top is None else "top",
            n=top or 0,
            only=chosen_of(matcher, only, tag),
            at=at,
            event_id=event_id,
        )
        if expression is not None:
            output.write(expression_answer(matcher, expression, question))
            return
        assert events is not None
        done = 0
        show("Matching events", done, None)
        for answer in answers(matcher, events, question):
            output.write(answer)
            done += len(answer.keys)
            show("Matching events", done, answer.fraction)
        if publish:
            matcher.close()


@app.command("explain")
def explain_rule(
    rules: RulesPlace,
    rule_id: Annotated[str, typer.Argument(metavar="RULE-ID", help="The rule's id.")],
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="A JSON object, FILE:NUMBER, or - for a JSON object on standard input.",
        ),
    ],
    at: AtTime = None,
    logic: OtherLogic = None,
    as_json: AsJson = False,
) -> None:
    """Show why a rule matches an event, or why it does not."""
    refuse_if(rules == event == STDIN, "RULES and EVENT cannot both be standard input.")
    if is_stored(rules):
        matcher = tamis.open(rules, read_only=True, logic=logic)
        rule = matcher.rule(rule_id_of(matcher, rule_id))
    else:
        matcher = Matcher(logic=logic or Logic.STRONG)
        rule = load_rule(matcher, rules, rule_id, logic=logic or Logic.STRONG)
    known = read_event(event)
    explanation = matcher.explain(rule.id, known)
    obstacles = matcher.why_not(rule.id, known, at=at)
    matches = explanation.held and obstacles.invalid is None
    if as_json:
        answer = {"rule": rule.id, "matches": matches}
        print_json(answer | {"explanation": explanation.to_json()} | obstacles.to_json())
        return
    typer.echo(f"{rule.id} {'matches' if matches else 'does not match'}:")
    typer.echo(str(explanation))
    if not matches:
        typer.echo(str(obstacles))
