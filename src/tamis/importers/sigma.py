"""Sigma's detection rules, by way of pySigma.

pySigma reads a rule and applies its modifiers; what is left is a tree of AND, OR and NOT over
fields and values. Texts compare without case, ``*`` and ``?`` are wildcards, a number is found as
a number and as a text. A field that is missing satisfies nothing, and so a NOT of it holds: the
rules are for the weak logic. Regular expressions are RE2's.

A rule's log source is no part of the tree, unless a processing pipeline puts it there. It is in the
rule's payload, with the title, the level and the authors, and among its tags: ``product:windows``,
``category:process_creation``, ``level:high``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import InputFileError, MissingExtraError, RuleError
from tamis.expr.functions.terms import Attribute, call, name_of
from tamis.expr.model import Expr, Op, Predicate, all_of, any_of
from tamis.files.source import wrap_read_errors
from tamis.importers.entries import Entry
from tamis.importers.predicates import (
    Wild,
    absent,
    equals_any,
    like,
    negation,
    present,
    within_network,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, make_rule

if TYPE_CHECKING:
    from sigma.processing.pipeline import ProcessingPipeline
    from sigma.rule import SigmaRule

__all__ = ["read"]

_SUFFIXES: Final = (".yml", ".yaml")
_SOURCE_PARTS: Final = ("product", "category", "service")


def read(
    source: str | os.PathLike[str], *, pipeline: str | os.PathLike[str] | None = None
) -> Imported:
    """The rules of a file, or of all YAML files in a directory and below it.

    Parameters
    ----------
    source
        The file or the directory.
    pipeline
        A file with a processing pipeline of pySigma, which each rule goes through first. It may
        name fields as the events do, add what tells a log source, and fill in placeholders.

    Raises
    ------
    MissingExtraError
        pySigma is not installed.
    InputFileError
        There is no such file, there are no rules, or the pipeline is none.
    """
    try:
        import_module("sigma.rule")
    except ImportError:
        raise MissingExtraError(
            "Sigma rules are read by pySigma; install it with: pip install 'tamis[sigma]'"
        ) from None
    through = None if pipeline is None else _pipeline(os.fspath(pipeline))
    return import_entries(
        _documents(os.fspath(source)),
        _identified,
        lambda id, content: _taken(id, content, through),
    )


def _pipeline(path: str) -> ProcessingPipeline:
    from sigma.exceptions import SigmaError
    from sigma.processing.pipeline import ProcessingPipeline

    with wrap_read_errors(path):
        text = Path(path).read_text(encoding="utf-8")
    try:
        return ProcessingPipeline.from_yaml(text)
    except SigmaError as error:
        raise InputFileError(f"no processing pipeline: {error}", path=path) from None


def _documents(source: str) -> Iterator[Entry]:
    """Every document of every file; what cannot be read is an entry too, and refused later."""
    top = Path(source)
    if not top.exists():
        raise InputFileError("there is no such file", path=source)
    files = sorted(p for p in top.rglob("*") if p.suffix in _SUFFIXES) if top.is_dir() else [top]
    if not files:
        raise InputFileError("there are no .yml or .yaml files here", path=source)
    for path in files:
        for document in _documents_of(path):
            if document is not None:
                yield Entry(None, document, str(path))


def _documents_of(path: Path) -> Iterator[Any]:
    import yaml

    try:
        yield from yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        yield f"the file cannot be read: {error}"


def _identified(entry: Entry) -> tuple[str, dict[str, Any]]:
    content = entry.content
    if not isinstance(content, dict):
        raise RuleError(f"no Sigma rule: {content!s:.200}")
    # Authors owe a rule an id, and may forget it.
    found = content.get("id") or content.get("name") or content.get("title") or entry.place
    return str(found), content


def _taken(id: RuleId, content: dict[str, Any], pipeline: ProcessingPipeline | None) -> Rule:
    from sigma.exceptions import SigmaError
    from sigma.rule import SigmaRule

    for key, why in _OTHER_DOCUMENTS.items():
        if key in content:
            raise RuleError(why)
    try:
        rule = SigmaRule.from_dict(content)
        if pipeline is not None:
            pipeline.apply(rule)
        conditions = [condition.parsed for condition in rule.detection.parsed_condition]
    except SigmaError as error:
        raise RuleError(str(error)) from None
    except Exception as error:
        # pySigma takes the form of a document for granted in places.
        raise RuleError(f"pySigma cannot read it: {error!r}") from None
    expr = any_of(*[_expr(condition) for condition in conditions])
    return make_rule(id, expr, "weak", None, _payload(rule), _tags(rule))


_OTHER_DOCUMENTS: Final = {
    "correlation": "a correlation speaks of several events, and a rule of one",
    "filter": "a filter changes other rules, and is none itself",
    "action": "a collection of rules by actions is not taken; write each rule by itself",
}


def _payload(rule: SigmaRule) -> dict[str, Any]:
    source = rule.logsource
    return {
        "title": rule.title,
        "level": None if rule.level is None else rule.level.name.lower(),
        "author": rule.author,
        "logsource": {
            name: getattr(source, name) for name in _SOURCE_PARTS if getattr(source, name)
        },
    }


def _tags(rule: SigmaRule) -> list[str]:
    parts = {name: getattr(rule.logsource, name) for name in _SOURCE_PARTS}
    if rule.level is not None:
        parts["level"] = rule.level.name.lower()
    own = [f"{name}:{value}" for name, value in parts.items() if value]
    return own + [str(tag) for tag in rule.tags]


def _expr(condition: Any) -> Expr:
    from sigma import conditions as c

    match condition:
        case c.ConditionAND():
            return all_of(*map(_expr, condition.args))
        case c.ConditionOR():
            return any_of(*map(_expr, condition.args))
        case c.ConditionNOT():
            return negation(_expr(condition.args[0]))
        case c.ConditionFieldEqualsValueExpression():
            return _field(condition.field, condition.value)
        case c.ConditionValueExpression():
            raise RuleError(
                "a keyword is looked for in all of an event, and a rule names its fields"
            )
    raise RuleError("the rule has an empty condition")


def _field(field: str, value: Any) -> Expr:
    from sigma import types as t

    match value:
        case t.SigmaExpansion():
            return any_of(*[_field(field, one) for one in value.values])
        case t.SigmaNull():
            return absent(field)
        case t.SigmaExists():
            return present(field) if value.exists else absent(field)
        case t.SigmaString():
            return _text(field, value)
        case t.SigmaTimestampPart():
            raise RuleError(f"a part of the time {field!r} cannot be said")
        case t.SigmaNumber():
            return equals_any(field, (value.number, str(value.number)))
        case t.SigmaBool():
            text = like(field, [str(value.boolean)], fold=True)
            return any_of(Predicate(field, Op.EQ, (value.boolean,)), text)
        case t.SigmaRegularExpression():
            return _regex(field, value)
        case t.SigmaCompareExpression():
            return _compared(field, value)
        case t.SigmaCIDRExpression():
            return within_network(field, value.cidr)
        case t.SigmaFieldReference():
            return _other_field(field, value)
    raise RuleError(
        f"a value of the kind {type(value).__name__.removeprefix('Sigma')} cannot be said"
    )


def _text(field: str, value: Any) -> Expr:
    from sigma.types import Placeholder, SigmaCasedString, SpecialChars

    wild = {SpecialChars.WILDCARD_MULTI: Wild.ANY, SpecialChars.WILDCARD_SINGLE: Wild.ONE}
    parts: list[str | Wild] = []
    for part in value.s:
        if isinstance(part, Placeholder):
            raise RuleError(f"the placeholder %{part.name}% has no values here")
        parts.append(part if isinstance(part, str) else wild[part])
    if parts and set(parts) == {Wild.ANY}:
        return present(field)
    text = like(field, parts, fold=not isinstance(value, SigmaCasedString))
    if text.op is Op.EQ and (number := _integer(str(text.values[0]))) is not None:
        return equals_any(field, (text.values[0], number))
    return text


def _integer(text: str) -> int | None:
    """The integer that is written as `text`, which some events hold in its place."""
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19):
        return None
    return int(text) if str(int(text)) == text else None


def _regex(field: str, value: Any) -> Expr:
    if value.contains_placeholder():
        raise RuleError("a placeholder in a regular expression has no values here")
    flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
    # Not str(): the text is a pattern, in which pySigma escapes nothing.
    pattern = value.regexp.original
    return Predicate(field, Op.RLIKE, (f"(?{flags}){pattern}" if flags else pattern,))


def _other_field(field: str, value: Any) -> Expr:
    """Two fields with the same text, in upper or lower case."""
    if value.starts_with or value.ends_with:
        raise RuleError(f"whether {field!r} begins or ends as {value.field!r} cannot be said")
    both = [call("lower", (Attribute(name),)) for name in (field, value.field)]
    return Predicate(name_of(call("=", (both[0], both[1]))), Op.EQ, (True,))


def _compared(field: str, value: Any) -> Expr:
    number = value.number.number
    if value.op.name == "NEQ":
        return negation(equals_any(field, (number, str(number))))
    op = {"LT": Op.LT, "LTE": Op.LE, "GT": Op.GT, "GTE": Op.GE}[value.op.name]
    return Predicate(field, op, (number,))
