"""The arguments that commands share, and what they stand for."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import tamis
from tamis.cli.console import Show, one_line
from tamis.errors import UnknownRuleError
from tamis.files import STDIN, load_rules
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId, Tagged, tagged

__all__ = [
    "AsJson",
    "AtTime",
    "EngineName",
    "Logic",
    "LogicName",
    "OnlyIds",
    "OnlyTags",
    "OtherEngine",
    "OtherLogic",
    "RulesFile",
    "RulesPlace",
    "SkipBadRules",
    "chosen_of",
    "is_stored",
    "load",
    "matcher_of",
    "refuse_if",
    "rule_id_of",
]


class Logic(StrEnum):
    """The logic of rules that do not name their own."""

    STRONG = "strong"
    WEAK = "weak"


def _known_engine(name: str | None) -> str | None:
    known = ["auto", *tamis.engines()]
    if name is not None and name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


RulesFile = Annotated[str, typer.Argument(metavar="RULES", help="A file of rules.")]
RulesPlace = Annotated[
    str,
    typer.Argument(metavar="RULES", help="A file of rules, or a directory that build made."),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_known_engine,
        help=f"How to match: {', '.join(['auto', *tamis.engines()])}.",
    ),
]
LogicName = Annotated[
    Logic, typer.Option("--logic", help="The logic of rules that do not name their own.")
]
OtherEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_known_engine,
        help=f"How to match: {', '.join(['auto', *tamis.engines()])}.",
        show_default="auto, or the stored one",
    ),
]
OtherLogic = Annotated[
    Logic | None,
    typer.Option(
        "--logic",
        help="The logic of rules that do not name their own.",
        show_default="strong, or the stored one",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SkipBadRules = Annotated[
    bool, typer.Option("--skip-bad-rules", help="Leave out rules that are refused, and say which.")
]
OnlyIds = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ID", help="Look at this rule only; may be repeated."),
]
AtTime = Annotated[
    datetime | None,
    typer.Option(
        "--at",
        metavar="TIME",
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"],
        help="When rules have to be valid, such as 2026-05-01T12:00:00.",
        show_default="now",
    ),
]
OnlyTags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Look at rules with this tag only; may be repeated."),
]


def load(matcher: Matcher, path: str, logic: Logic, skip_bad: bool, show: Show) -> list[Rule]:
    """Add a file's rules, and say which were skipped."""

    def watch(count: int, fraction: float | None) -> None:
        show("Adding rules" if fraction is None else "Reading rules", count, fraction)

    report = load_rules(matcher, path, logic=logic, skip_bad=skip_bad, watch=watch)
    for error in report.bad:
        typer.echo(f"tamis: skipped: {one_line(str(error))}", err=True)
    if report.bad:
        typer.echo(f"tamis: {len(report.bad):,} rules were skipped", err=True)
    return [rule for rule in report.rules if rule.id in matcher]


def is_stored(rules: str) -> bool:
    """Whether `rules` names a directory, and not a file."""
    return rules != STDIN and Path(rules).is_dir()


def matcher_of(
    rules: str,
    engine: str | None,
    logic: Logic | None,
    skip_bad: bool,
    show: Show,
    publishes: bool = False,
) -> Matcher:
    """The rules of a file or a directory, to which documents come if it publishes."""
    if is_stored(rules):
        return tamis.open(rules, read_only=not publishes, engine=engine, logic=logic)
    matcher = Matcher(engine or "auto", logic or Logic.STRONG)
    load(matcher, rules, logic or Logic.STRONG, skip_bad, show)
    return matcher


def chosen_of(
    matcher: Matcher, only: list[str] | None, tags: list[str] | None
) -> Tagged | list[RuleId] | None:
    """The rules that --only and --tag stand for."""
    if tags:
        return tagged(*tags)
    return [rule_id_of(matcher, text) for text in only] if only else None


def rule_id_of(matcher: Matcher, text: str) -> RuleId:
    """The id that `text` stands for: that string, or else that integer."""
    if text in matcher:
        return text
    if text.removeprefix("-").isdecimal() and int(text) in matcher:
        return int(text)
    raise UnknownRuleError(f"there is no rule {text!r}")


def refuse_if(wrong: bool, message: str) -> None:
    """Complain about how a command is used."""
    if wrong:
        raise typer.BadParameter(message)
