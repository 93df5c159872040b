"""Arguments and options that commands share, and how commands read them."""

from __future__ import annotations

import shlex
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import tamis
from tamis.cli.console import ShowProgress, print_error
from tamis.errors import UnknownRuleError
from tamis.files import STDIN, load_rules
from tamis.files.source import find_files
from tamis.limits import Limits
from tamis.matcher.analysis.near_names import find_near, list_near
from tamis.matcher.matcher import Matcher
from tamis.matcher.published.address import is_address
from tamis.matcher.published.layout import is_published
from tamis.matcher.rule import Rule, RuleId, read_integer_id
from tamis.matcher.selection import Tagged, tagged
from tamis.matcher.storage.directory import is_index

__all__ = [
    "AsJson",
    "AtTime",
    "EngineName",
    "EngineOverride",
    "LimitTexts",
    "Logic",
    "LogicName",
    "LogicOverride",
    "MoreRules",
    "OnlyIds",
    "OnlyTags",
    "RulesFiles",
    "RulesOutput",
    "RulesPath",
    "RulesPaths",
    "SkipBadRules",
    "add_rules",
    "find_rule_id",
    "is_stored",
    "list_inputs",
    "open_rules",
    "read_limits",
    "reject_if",
    "reject_overwriting",
    "select_rules",
]


class Logic(StrEnum):
    """The logic of rules that name none."""

    STRONG = "strong"
    WEAK = "weak"


def _check_engine(name: str | None) -> str | None:
    known = ["auto", *tamis.engines()]
    if name is not None and name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


_ENGINE_HELP = (
    "The matching engine; all give the same answers. auto is tiles, the default; scan tests every "
    "rule. The others come from papers: tamis.engines() lists them, tamis/engines/papers has them."
)
RulesFiles = Annotated[
    list[str], typer.Argument(metavar="RULES...", help="Files of rules, or folders of such files.")
]
RulesPath = Annotated[
    str,
    typer.Argument(
        metavar="RULES",
        help="A file of rules, a folder of such files, a directory written by tamis build, or a "
        "published index, such as s3://bucket/index.",
    ),
]
RulesPaths = Annotated[
    list[str],
    typer.Argument(
        metavar="RULES...",
        help="Files of rules, folders of such files, or one directory written by tamis build or "
        "published index, such as s3://bucket/index.",
    ),
]
MoreRules = Annotated[
    list[str] | None,
    typer.Option(
        "--rules", metavar="FILE", help="Use the rules of this file, too; may be repeated."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_check_engine,
        help=_ENGINE_HELP,
    ),
]
LogicName = Annotated[Logic, typer.Option("--logic", help="The logic of rules that name none.")]
EngineOverride = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        callback=_check_engine,
        help=_ENGINE_HELP,
        show_default="auto, or the stored one",
    ),
]
LogicOverride = Annotated[
    Logic | None,
    typer.Option(
        "--logic",
        help="The logic of rules that name none.",
        show_default="strong, or the stored one",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SkipBadRules = Annotated[
    bool, typer.Option("--skip-bad-rules", help="Leave out invalid rules, and name each of them.")
]
LimitTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=N",
        help="Refuse what is larger or takes longer: "
        f"{', '.join(field.name for field in fields(Limits))}; may be repeated.",
    ),
]
OnlyIds = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ID", help="Use only the rule of this id; may be repeated."),
]
AtTime = Annotated[
    datetime | None,
    typer.Option(
        "--at",
        metavar="TIME",
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"],
        help="Use the rules valid at this time, such as 2026-05-01T12:00:00.",
        show_default="now",
    ),
]
OnlyTags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Use only rules with this tag; may be repeated."),
]


_MOST_NAMES = 100_000
"""Up to how many ids are compared with one that is unknown."""

RulesOutput = Annotated[
    str,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Write to this .jsonl file; - for standard output."
    ),
]


def is_stored(rules: str) -> bool:
    """Whether `rules` names stored rules, in a directory or a bucket, not files or a folder."""
    if rules == STDIN:
        return False
    return is_address(rules) or is_index(Path(rules)) or is_published(Path(rules))


def open_rules(
    rules: str | list[str],
    engine: str | None,
    logic: Logic | None,
    skip_bad: bool,
    show: ShowProgress,
    writable: bool = False,
    limits: Limits | None = None,
) -> Matcher:
    """Open the rules of files or a directory; a `writable` directory also takes documents."""
    paths = [rules] if isinstance(rules, str) else rules
    stored = next((path for path in paths if is_stored(path)), None)
    if stored is not None:
        reject_if(
            len(paths) > 1,
            f"{stored!r} is an index, which cannot be read with other files; write its rules to a "
            f"file first: tamis export {shlex.quote(stored)} -o rules.jsonl",
        )
        return tamis.open(stored, read_only=not writable, engine=engine, logic=logic, limits=limits)
    matcher = Matcher(engine or "auto", logic or Logic.STRONG, limits=limits)
    add_rules(matcher, paths, logic or Logic.STRONG, skip_bad, show)
    return matcher


def read_limits(texts: list[str] | None) -> Limits:
    """The limits given as ``NAME=N``; exits with code 2 if one is not."""
    limits: dict[str, float] = {}
    known = [field.name for field in fields(Limits)]
    for text in texts or ():
        name, _, number = text.partition("=")
        near = list_near(find_near(name, known))
        reject_if(
            name not in known, f"there is no limit {name!r}{near}; give one of {', '.join(known)}."
        )
        try:
            limits[name] = float(number) if name == "milliseconds" else int(number)
        except ValueError:
            raise typer.BadParameter(
                f"the limit {name} is a positive number, not {number!r}"
            ) from None
    try:
        return Limits(**limits)  # type: ignore[arg-type]  # Limits checks the types
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from None


def add_rules(
    matcher: Matcher, paths: list[str], logic: Logic, skip_bad: bool, show: ShowProgress
) -> list[Rule]:
    """Add the rules of files, name those that were skipped, and return those that were added."""

    def watch(count: int, fraction: float | None) -> None:
        show("Adding rules" if fraction is None else "Reading rules", count, fraction)

    report = load_rules(matcher, paths, logic=logic, skip_bad=skip_bad, watch=watch)
    for error in report.bad:
        print_error(f"skipped: {error}")
    if report.bad:
        print_error(f"{len(report.bad):,} rules were skipped")
    return [rule for rule in report.rules if rule.id in matcher]


def select_rules(
    matcher: Matcher, only: list[str] | None, tags: list[str] | None
) -> Tagged | list[RuleId] | None:
    """The rules that --only and --tag select; None selects all.

    Raises
    ------
    UnknownRuleError
        No rule has one of the ids or of the tags.
    """
    if tags:
        known = matcher.tags()
        for tag in tags:
            if tag not in known:
                near = list_near(find_near(tag, known))
                raise UnknownRuleError(f"no rule has the tag {tag!r}{near}")
        return tagged(*tags)
    return [find_rule_id(matcher, text) for text in only] if only else None


def find_rule_id(matcher: Matcher, text: str) -> RuleId:
    """The id written as `text`: that string, or else that integer."""
    if text in matcher:
        return text
    number = read_integer_id(text)
    if number is not None and number in matcher:
        return number
    near = list_near(find_near(text, map(str, matcher))) if len(matcher) <= _MOST_NAMES else ""
    raise UnknownRuleError(f"there is no rule {text!r}{near}")


def reject_if(wrong: bool, message: str) -> None:
    """Exit with `message` and code 2 if the command was called in a `wrong` way."""
    if wrong:
        raise typer.BadParameter(message)


def reject_overwriting(out: str | None, *inputs: str | None) -> None:
    """Exit with code 2 if the file `out` is one of the files that the command reads."""
    if out is None or out == STDIN or not Path(out).exists():
        return
    for path in inputs:
        if path is not None and path != STDIN and Path(path).exists():
            same = Path(path).samefile(out)
            reject_if(same, f"{out!r} would overwrite {path!r}, which is read; name another file.")


def list_inputs(paths: list[str]) -> list[str]:
    """The files that `paths` name, with those of folders; stored rules are not files."""
    return find_files([path for path in paths if not is_stored(path)])
