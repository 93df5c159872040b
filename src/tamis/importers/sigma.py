"""Sigma's detection rules, read with pySigma.

pySigma parses a rule and applies its modifiers; the result is a tree of AND, OR and NOT over
fields and values. Texts compare without case, ``*`` and ``?`` are wildcards, and a number matches
as a number and as a text. A missing field satisfies nothing, so its NOT holds: the rules use the
weak logic. Regular expressions are RE2's.

A rule's log source is not part of the tree, unless a processing pipeline adds it. It goes into the
rule's payload, with the title, the level and the authors, and into its tags: ``product:windows``,
``category:process_creation``, ``level:high``.

A correlation becomes a rule about earlier events (`sigma_correlations.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    matches_regex,
    negate,
    present,
    within_network,
)
from tamis.importers.result import Imported, import_entries
from tamis.importers.sigma_correlations import convert_correlation, list_references
from tamis.matcher.rule import Rule, RuleId, make_rule

if TYPE_CHECKING:
    from sigma.processing.pipeline import ProcessingPipeline
    from sigma.rule import SigmaRule

__all__ = ["read"]

_SUFFIXES: Final = (".yml", ".yaml")
_SOURCE_PARTS: Final = ("product", "category", "service")


def read(
    source: str | os.PathLike[str],
    *,
    pipeline: str | os.PathLike[str] | None = None,
    time: str = "@timestamp",
) -> Imported:
    """Import the rules of a file, or of all YAML files below a directory.

    Parameters
    ----------
    source
        The file or the directory.
    pipeline
        A file with a processing pipeline of pySigma that each rule passes first. It can rename
        fields as in the events, add conditions for a log source, and fill in placeholders.
    time
        The attribute with the time of an event, which has to be a timestamp, for correlations.
        Rules that a correlation refers to are left out, unless it has ``generate: true``.

    Raises
    ------
    MissingExtraError
        pySigma is not installed.
    InputFileError
        There is no such file, it contains no rules, or the pipeline is invalid.
    """
    try:
        import_module("sigma.rule")
    except ImportError:
        raise MissingExtraError(
            "Sigma rules are read by pySigma; install it with: pip install 'tamis[sigma]'"
        ) from None
    processing = None if pipeline is None else _read_pipeline(os.fspath(pipeline))
    entries = list(_read_entries(os.fspath(source)))
    reader = _Reader(entries, processing, time)
    return import_entries(filter(reader.counts_alone, entries), _identify, reader.build_rule)


def _read_pipeline(path: str) -> ProcessingPipeline:
    from sigma.exceptions import SigmaError
    from sigma.processing.pipeline import ProcessingPipeline

    with wrap_read_errors(path):
        text = Path(path).read_text(encoding="utf-8")
    try:
        return ProcessingPipeline.from_yaml(text)
    except SigmaError as error:
        raise InputFileError(f"invalid processing pipeline: {error}", path=path) from None


def _read_entries(source: str) -> Iterator[Entry]:
    """An entry for every document of every file; one for an unreadable file is refused later."""
    top = Path(source)
    if not top.exists():
        raise InputFileError("there is no such file", path=source)
    files = sorted(p for p in top.rglob("*") if p.suffix in _SUFFIXES) if top.is_dir() else [top]
    if not files:
        raise InputFileError("the directory has no .yml or .yaml files", path=source)
    for path in files:
        for document in _read_documents(path):
            if document is not None:
                yield Entry(None, document, str(path))


def _read_documents(path: Path) -> Iterator[Any]:
    import yaml

    try:
        yield from yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        yield f"the file cannot be read: {error}"


def _identify(entry: Entry) -> tuple[str, dict[str, Any]]:
    content = entry.content
    if not isinstance(content, dict):
        # Spelled out, a list may be endless: YAML lets its parts refer to one another.
        found = content[:200] if isinstance(content, str) else f"a {type(content).__name__}"
        raise RuleError(f"not a Sigma rule: {found}")
    # A rule should have an id, but authors may forget it.
    id = content.get("id") or content.get("name") or content.get("title") or entry.place
    return str(id), content


class _Reader:
    """Builds rules from documents, which may refer to each other.

    Parameters
    ----------
    entries
        All documents.
    pipeline
        What each rule passes first.
    time
        The attribute with the time of an event.
    """

    def __init__(
        self, entries: list[Entry], pipeline: ProcessingPipeline | None, time: str
    ) -> None:
        self._pipeline = pipeline
        self._time = time
        self._by_name: dict[str, dict[str, Any]] = {}
        self._parts: set[str] = set()
        """The rules that count only as parts of correlations."""
        for entry in entries:
            if isinstance(entry.content, dict):
                for key in ("id", "name"):
                    if isinstance(entry.content.get(key), str):
                        self._by_name.setdefault(entry.content[key], entry.content)
            names, generates = list_references(entry.content)
            self._parts.update([] if generates else names)

    def counts_alone(self, entry: Entry) -> bool:
        """Whether a document is a rule by itself, and not only a part of correlations."""
        if not isinstance(entry.content, dict):
            return True
        names = (entry.content.get(key) for key in ("id", "name"))
        return not any(isinstance(name, str) and name in self._parts for name in names)

    def build_rule(self, id: RuleId, content: dict[str, Any]) -> Rule:
        """Build a rule from a document."""
        for key, reason in _OTHER_DOCUMENTS.items():
            if key in content:
                raise RuleError(reason)
        if "correlation" in content:
            return self._build_correlation(id, content)
        rule = self._read_rule(content)
        return make_rule(
            id, _convert_rule(rule), "weak", None, _build_payload(rule), _build_tags(rule)
        )

    def _build_correlation(self, id: RuleId, content: dict[str, Any]) -> Rule:
        from sigma.correlations import SigmaCorrelationRule

        with _pysigma_errors():
            rule = SigmaCorrelationRule.from_dict(content)
        expr = convert_correlation(rule, self._find_detection, self._time)
        level = None if rule.level is None else rule.level.name.lower()
        payload = {"title": rule.title, "level": level, "author": rule.author}
        tags = [f"level:{level}"] if level else []
        return make_rule(id, expr, "weak", None, payload, [*tags, *map(str, rule.tags)])

    def _find_detection(self, name: str) -> Expr:
        content = self._by_name.get(name)
        if content is None:
            raise RuleError(f"there is no rule {name!r}, which the correlation refers to")
        if "correlation" in content:
            raise RuleError(f"a correlation of the correlation {name!r} is not supported")
        return _convert_rule(self._read_rule(content))

    def _read_rule(self, content: dict[str, Any]) -> SigmaRule:
        from sigma.rule import SigmaRule

        with _pysigma_errors():
            rule = SigmaRule.from_dict(content)
            if self._pipeline is not None:
                self._pipeline.apply(rule)
            return rule


def _convert_rule(rule: SigmaRule) -> Expr:
    with _pysigma_errors():
        conditions = [condition.parsed for condition in rule.detection.parsed_condition]
    return any_of(*[_convert_condition(condition) for condition in conditions])


@contextmanager
def _pysigma_errors() -> Iterator[None]:
    """Raise what pySigma raises as a RuleError."""
    from sigma.exceptions import SigmaError

    try:
        yield
    except SigmaError as error:
        raise RuleError(str(error)) from None
    except Exception as error:
        # pySigma does not always check the form of a document first.
        raise RuleError(f"pySigma cannot read it: {error!r}") from None


_OTHER_DOCUMENTS: Final = {
    "filter": "a filter changes other rules; it is not a rule itself",
    "action": "a collection with actions is not supported; write each rule as its own document",
}


def _build_payload(rule: SigmaRule) -> dict[str, Any]:
    source = rule.logsource
    return {
        "title": rule.title,
        "level": None if rule.level is None else rule.level.name.lower(),
        "author": rule.author,
        "logsource": {
            name: getattr(source, name) for name in _SOURCE_PARTS if getattr(source, name)
        },
    }


def _build_tags(rule: SigmaRule) -> list[str]:
    parts = {name: getattr(rule.logsource, name) for name in _SOURCE_PARTS}
    if rule.level is not None:
        parts["level"] = rule.level.name.lower()
    own = [f"{name}:{value}" for name, value in parts.items() if value]
    return own + [str(tag) for tag in rule.tags]


def _convert_condition(condition: Any) -> Expr:
    from sigma import conditions as c

    match condition:
        case c.ConditionAND():
            return all_of(*map(_convert_condition, condition.args))
        case c.ConditionOR():
            return any_of(*map(_convert_condition, condition.args))
        case c.ConditionNOT():
            return negate(_convert_condition(condition.args[0]))
        case c.ConditionFieldEqualsValueExpression():
            return _convert_field(condition.field, condition.value)
        case c.ConditionValueExpression():
            raise RuleError(
                "a keyword searches all fields, but a rule names the fields it searches"
            )
    raise RuleError("the rule has an empty condition")


def _convert_field(field: str, value: Any) -> Expr:
    from sigma import types as t

    match value:
        case t.SigmaExpansion():
            return any_of(*[_convert_field(field, each) for each in value.values])
        case t.SigmaNull():
            return absent(field)
        case t.SigmaExists():
            return present(field) if value.exists else absent(field)
        case t.SigmaString():
            return _convert_text(field, value)
        case t.SigmaTimestampPart():
            raise RuleError(f"a part of the time {field!r} is not supported")
        case t.SigmaNumber():
            return equals_any(field, (value.number, str(value.number)))
        case t.SigmaBool():
            text = like(field, [str(value.boolean)], fold=True)
            return any_of(Predicate(field, Op.EQ, (value.boolean,)), text)
        case t.SigmaRegularExpression():
            return _convert_regex(field, value)
        case t.SigmaCompareExpression():
            return _convert_comparison(field, value)
        case t.SigmaCIDRExpression():
            return within_network(field, value.cidr)
        case t.SigmaFieldReference():
            return _convert_field_reference(field, value)
    raise RuleError(
        f"a value of the type {type(value).__name__.removeprefix('Sigma')} is not supported"
    )


def _convert_text(field: str, value: Any) -> Expr:
    from sigma.types import Placeholder, SigmaCasedString, SpecialChars

    wild = {SpecialChars.WILDCARD_MULTI: Wild.ANY, SpecialChars.WILDCARD_SINGLE: Wild.ONE}
    parts: list[str | Wild] = []
    for part in value.s:
        if isinstance(part, Placeholder):
            raise RuleError(
                f"the placeholder %{part.name}% has no values; fill it in with a pipeline"
            )
        parts.append(part if isinstance(part, str) else wild[part])
    if parts and set(parts) == {Wild.ANY}:
        return present(field)
    text = like(field, parts, fold=not isinstance(value, SigmaCasedString))
    if text.op is Op.EQ and (number := _parse_integer(str(text.values[0]))) is not None:
        return equals_any(field, (text.values[0], number))
    return text


def _parse_integer(text: str) -> int | None:
    """The integer that `text` spells, which some events hold in place of the text."""
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19):
        return None
    return int(text) if str(int(text)) == text else None


def _convert_regex(field: str, value: Any) -> Expr:
    if value.contains_placeholder():
        raise RuleError(
            "a placeholder in a regular expression has no values; fill it in with a pipeline"
        )
    flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
    # Not str(), which would escape the pattern.
    return matches_regex(field, value.regexp.original, flags)


def _convert_field_reference(field: str, value: Any) -> Expr:
    """Two fields with the same text, in any case."""
    if value.starts_with or value.ends_with:
        raise RuleError(f"comparing an end of {field!r} with {value.field!r} is not supported")
    both = [call("lower", (Attribute(name),)) for name in (field, value.field)]
    return Predicate(name_of(call("=", (both[0], both[1]))), Op.EQ, (True,))


def _convert_comparison(field: str, value: Any) -> Expr:
    number = value.number.number
    if value.op.name == "NEQ":
        return negate(equals_any(field, (number, str(number))))
    op = {"LT": Op.LT, "LTE": Op.LE, "GT": Op.GT, "GTE": Op.GE}[value.op.name]
    return Predicate(field, op, (number,))
