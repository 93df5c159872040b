"""Feature flags of Unleash: strategies, their constraints, and segments.

A feature is on if one of its strategies holds, and a strategy holds if all its constraints do. A
missing field of the context satisfies no constraint, so a negated one holds: the rules use the weak
logic. The fields of the context, its ``properties`` among them, are attributes by their own names.

Unleash's context holds texts. Here ``IN`` also finds the number or the boolean that a text spells,
the ``NUM`` operators need numbers, and the ``DATE`` operators take timestamps and ISO texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any, Final

from tamis.errors import RuleError
from tamis.expr.functions.terms import Attribute, call, name_of
from tamis.expr.lexemes import NUMERAL
from tamis.expr.model import FALSE, TRUE, Expr, Op, Predicate, all_of, any_of
from tamis.importers.entries import Entry, RuleSource, read_entries
from tamis.importers.predicates import (
    contains,
    ends_with,
    equals_any,
    is_number,
    like,
    matches_regex,
    negate,
    present,
    starts_with,
    within_network,
)
from tamis.importers.result import Imported, import_entries
from tamis.matcher.rule import Rule, RuleId, check_id, make_rule

__all__ = ["read"]

_NUMERAL: Final = re.compile(rf"[+-]?{NUMERAL}")
_SEMVER: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)
"""A version as https://semver.org writes it: three numbers, and no leading ``v``."""

_ORDER: Final = {"EQ": Op.EQ, "GT": Op.GT, "GTE": Op.GE, "LT": Op.LT, "LTE": Op.LE}
_TEXTS: Final[dict[str, Callable[..., Expr]]] = {
    "STR_CONTAINS": contains,
    "STR_STARTS_WITH": starts_with,
    "STR_ENDS_WITH": ends_with,
}
_SHARED_BY_ALL: Final = ("default", "random", "")
"""Kinds of stickiness that need no field of the context."""


def read(source: RuleSource) -> Imported:
    """Import the features of `source`.

    An address or a network that Unleash ignores, because it is invalid, is left out and named in
    the ``notes`` of the result.

    Parameters
    ----------
    source
        A file, or documents: the file that Unleash's SDKs load, which has ``features`` and
        ``segments``, a list of features, or a mapping of ids to features or single strategies.
    """
    segments: dict[Any, Any] = {}
    notes: list[str] = []

    def unpack(documents: Any) -> Any:
        if not isinstance(documents, Mapping) or not isinstance(documents.get("features"), list):
            return documents
        for segment in documents.get("segments") or []:
            if isinstance(segment, Mapping):
                segments[segment.get("id")] = segment.get("constraints")
        return documents["features"]

    def build(id: RuleId, document: Any) -> Rule:
        reader = _Reader(segments)
        rule = make_rule(id, reader.read_document(document), "weak")
        notes.extend(f"rule {id!r}: {note}" for note in reader.notes)
        return rule

    imported = import_entries(read_entries(source, unpack), _identify, build)
    return imported._replace(notes=tuple(notes))


def _identify(entry: Entry) -> tuple[RuleId, Any]:
    if not isinstance(entry.content, Mapping):
        raise RuleError("a feature is an object")
    # The name of a strategy is its kind.
    names = ("name", "id") if "strategies" in entry.content else ("id",)
    id = entry.id
    if id is None:
        id = next((entry.content[name] for name in names if name in entry.content), None)
    if id is None:
        raise RuleError(f"there is no {names[0]!r}")
    return check_id(id), entry.content


class _Reader:
    """Reads one feature, and collects notes about what was left out."""

    def __init__(self, segments: Mapping[Any, Any]) -> None:
        self.segments = segments
        self.notes: list[str] = []

    def read_document(self, document: Mapping[str, Any]) -> Expr:
        if "strategies" not in document:
            return self.read_strategy(document)
        if document.get("dependencies"):
            raise RuleError("a feature that depends on other features is not supported")
        strategies = _get_list(document, "strategies")
        if not document.get("enabled", True):
            return FALSE
        return any_of(*[self.read_strategy(part) for part in strategies]) if strategies else TRUE

    def read_strategy(self, strategy: Any) -> Expr:
        if not isinstance(strategy, Mapping):
            raise RuleError(f"a strategy is an object, not {strategy!r}")
        if strategy.get("disabled"):
            return FALSE
        constraints = list(_get_list(strategy, "constraints"))
        for id in _get_list(strategy, "segments"):
            if isinstance(id, list | dict) or not isinstance(self.segments.get(id), list):
                raise RuleError(f"the segment {id!r} is not given")
            constraints += self.segments[id]
        kind = self.read_kind(str(strategy.get("name", "default")), strategy.get("parameters"))
        return all_of(kind, *[self.read_constraint(part) for part in constraints])

    def read_kind(self, name: str, parameters: Any) -> Expr:
        """The condition that a strategy has by its name."""
        given = parameters if isinstance(parameters, Mapping) else {}
        match name:
            case "default":
                return TRUE
            case "userWithId":
                return _one_of("userId", _split(given.get("userIds")))
            case "remoteAddress":
                return self.read_networks("remoteAddress", _split(given.get("IPs")))
            case "flexibleRollout":
                return _read_rollout(given.get("rollout"), str(given.get("stickiness", "")))
            case "gradualRolloutUserId":
                return _read_rollout(given.get("percentage"), "userId")
            case "gradualRolloutSessionId":
                return _read_rollout(given.get("percentage"), "sessionId")
            case "gradualRolloutRandom":
                return _read_rollout(given.get("percentage"), "")
        raise RuleError(f"the strategy {name!r} is not supported")

    def read_constraint(self, constraint: Any) -> Expr:
        if not isinstance(constraint, Mapping):
            raise RuleError(f"a constraint is an object, not {constraint!r}")
        attribute = constraint.get("contextName")
        if not isinstance(attribute, str) or not attribute:
            raise RuleError(f"the contextName of a constraint is a text, not {attribute!r}")
        expr = self.read_operator(str(constraint.get("operator")), attribute, constraint)
        return negate(expr) if constraint.get("inverted") else expr

    def read_operator(self, name: str, attribute: str, constraint: Mapping[str, Any]) -> Expr:
        fold = bool(constraint.get("caseInsensitive"))
        value = constraint.get("value")
        family, _, sign = name.partition("_")
        match name:
            case "IN":
                return _one_of(attribute, _read_texts(constraint), fold=fold)
            case "NOT_IN":
                return negate(_one_of(attribute, _read_texts(constraint), fold=fold))
            case "IN_CIDR":
                return self.read_networks(attribute, _read_texts(constraint))
            case "REGEX":
                return matches_regex(attribute, _check_text(value), "i" if fold else "")
            case "DATE_AFTER":
                return _compare_time(attribute, Op.GT, value)
            case "DATE_BEFORE":
                return _compare_time(attribute, Op.LT, value)
            case _ if name in _TEXTS:
                texts = _read_texts(constraint)
                return any_of(*[_TEXTS[name](attribute, text, fold=fold) for text in texts])
            case _ if family == "NUM" and sign in _ORDER:
                return Predicate(attribute, _ORDER[sign], (_parse_number(value),))
            case _ if family == "SEMVER" and sign in _ORDER:
                return _compare_version(attribute, _ORDER[sign], value)
        raise RuleError(f"the operator {name!r} is not supported")

    def read_networks(self, attribute: str, texts: Sequence[str]) -> Expr:
        """An address in one of the networks; as in Unleash, invalid ones are left out."""
        parts: list[Expr] = []
        for text in texts:
            try:
                parts.append(within_network(attribute, str(ip_network(text, strict=False))))
            except ValueError:
                self.notes.append(f"{text!r} is not an address or a network, and was left out")
        return any_of(*parts)


def _get_list(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = document.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RuleError(f"{name} is a list, not {found!r}")
    return found


def _split(text: Any) -> list[str]:
    """The items of a list that a parameter holds as one text."""
    return [part for item in _check_text(text).split(",") if (part := item.strip())]


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise RuleError(f"expected a text, not {value!r}")
    return value


def _read_texts(constraint: Mapping[str, Any]) -> list[str]:
    texts = (_check_text(value).strip() for value in _get_list(constraint, "values"))
    return [text for text in texts if text]


def _one_of(attribute: str, texts: Sequence[str], *, fold: bool = False) -> Expr:
    """One of `texts`, or of the numbers and booleans that they spell."""
    spelled = [value for text in texts for value in _parse_scalars(text)]
    if not fold:
        return equals_any(attribute, [*texts, *spelled])
    parts: list[Expr] = [like(attribute, [text], fold=True) for text in texts]
    return any_of(*parts, *([equals_any(attribute, spelled)] if spelled else []))


def _parse_scalars(text: str) -> list[int | bool]:
    if text in ("true", "false"):
        return [text == "true"]
    is_short = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19
    return [int(text)] if is_short and str(int(text)) == text else []


def _parse_number(value: Any) -> int | float:
    is_numeral = isinstance(value, str) and _NUMERAL.fullmatch(value.strip())
    try:
        number = float(value) if is_numeral or is_number(value) else None
    except OverflowError:
        number = None
    if number is None or number - number != 0:
        raise RuleError(f"{value!r} is not a number")
    whole = isinstance(value, int) or re.fullmatch(r"[+-]?[0-9]{1,18}", str(value).strip())
    return int(value) if whole else number


def _compare_time(attribute: str, op: Op, value: Any) -> Expr:
    try:
        time = datetime.fromisoformat(_check_text(value))
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise RuleError(f"{value!r} is not a time such as 2022-01-29T13:00:00Z") from None
    text = name_of(call("to_timestamp", (Attribute(attribute),)))
    return any_of(Predicate(attribute, op, (time,)), Predicate(text, op, (time,)))


def _compare_version(attribute: str, op: Op, value: Any) -> Expr:
    if not re.match(_SEMVER, _check_text(value)):
        raise RuleError(f"{value!r} is not a semantic version such as 2.0.0")
    # `semver` orders every text, but Unleash compares only valid versions.
    valid = matches_regex(attribute, _SEMVER)
    version = name_of(call("semver", (Attribute(attribute),)))
    return all_of(valid, Predicate(version, op, (value,)))


def _read_rollout(percentage: Any, stickiness: str) -> Expr:
    """Everyone or no one; a part of all users depends on a hash."""
    share = _parse_number(percentage)
    if share <= 0:
        return FALSE
    if share < 100:
        raise RuleError(f"a rollout to {share} % depends on a hash of the user, not on attributes")
    return TRUE if stickiness in _SHARED_BY_ALL else present(stickiness)
