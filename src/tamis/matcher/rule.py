"""A rule of a matcher, its stored form, and the checks of what callers pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tamis.errors import RuleError
from tamis.expr.event import value_key
from tamis.expr.joins.predicate import is_bound
from tamis.expr.joins.received import bind_received
from tamis.expr.joins.subqueries import join_named
from tamis.expr.json import from_json, to_json
from tamis.expr.model import (
    LOGICS,
    And,
    Atom,
    Expr,
    Logic,
    Not,
    Op,
    Or,
    Predicate,
    check_logic,
    is_unicode,
    predicates,
)
from tamis.expr.names import JOINED
from tamis.expr.text.grammar import parse
from tamis.expr.text.write import to_sql
from tamis.expr.validate import check
from tamis.matcher.validity import ALWAYS, Validity

__all__ = [
    "OPTIONAL_FIELDS",
    "Row",
    "Rule",
    "RuleId",
    "RuleSource",
    "check_id",
    "check_subscription",
    "check_tags",
    "make_rule",
    "read_integer_id",
    "read_texts",
    "read_weights",
    "rule_of_fields",
    "to_expr",
]

RuleId: TypeAlias = str | int
"""A string or a 64-bit integer."""

RuleSource: TypeAlias = str | Expr | Mapping[str, Any] | bool
"""A rule as text, as a model, or in the JSON form."""

OPTIONAL_FIELDS: Final = (
    "logic",
    "weights",
    "payload",
    "tags",
    "priority",
    "valid_from",
    "valid_until",
    "subscription",
)
"""What the complete form of a rule may have besides ``id`` and ``rule``."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Rule(msgspec.Struct, frozen=True, gc=False):
    """A rule, with everything that was passed to :meth:`tamis.Matcher.add`."""

    id: RuleId
    source: str | Expr
    """The rule's text as the caller gave it, or its model."""
    logic: Logic = "strong"
    """Part of the rule: the default of a matcher does not apply to a `Rule`."""
    weights: Mapping[Any, float] | None = None
    payload: Any = None
    """Any JSON that the caller attached to the rule."""
    tags: frozenset[str] = frozenset()
    validity: Validity = ALWAYS
    """The rule's priority, and the period in which it is valid."""
    subscription: str | None = None
    """The subscription that the rule belongs to, which receives what the rule matches."""

    @property
    def priority(self) -> int:
        """Rules of a higher priority come first in :meth:`tamis.Matcher.first`."""
        return self.validity.priority

    @property
    def valid_from(self) -> datetime | None:
        """When the rule becomes valid; None if it has no beginning."""
        return self.validity.valid_from

    @property
    def valid_until(self) -> datetime | None:
        """When the rule ceases to be valid; None if it has no end."""
        return self.validity.valid_until

    @property
    def expr(self) -> Expr:
        """The rule's model, parsed from the text if necessary."""
        return parse(self.source) if isinstance(self.source, str) else self.source

    @property
    def bound_expr(self) -> Expr:
        """The rule's model as it is matched: ``FROM received`` means its own subscription's."""
        expr = self.expr
        return expr if self.subscription is None else bind_received(expr, self.subscription)

    @property
    def text(self) -> str:
        """The rule's text, written from the model if necessary."""
        return self.source if isinstance(self.source, str) else to_sql(self.source)

    def __str__(self) -> str:
        return self.text


IS_MODEL: Final = 2
"""A bit of `Row.kind`: the source is the JSON form of a model."""


class Row(NamedTuple):
    """The stored form of a rule: only texts, bytes and integers."""

    id: RuleId
    kind: int
    """The logic in the lowest bit, and `IS_MODEL`."""
    source: str
    weights: bytes = b""
    """JSON; empty if there are none."""
    payload: bytes = b""
    """JSON; empty if there is none."""
    tags: tuple[str, ...] = ()
    validity: Validity = ALWAYS
    subscription: str = ""
    """Empty if there is none."""

    @classmethod
    def of(cls, rule: Rule) -> Row:
        """Convert a rule to its stored form."""
        source, kind = rule.source, LOGICS.index(rule.logic)
        if not isinstance(source, str):
            source, kind = _encode(to_json(source)).decode(), kind | IS_MODEL
        if rule.weights is None and rule.payload is None and not rule.tags:
            subscription = rule.subscription or ""
            return cls(rule.id, kind, source, validity=rule.validity, subscription=subscription)
        return cls(
            rule.id,
            kind,
            source,
            b"" if rule.weights is None else _encode(_weight_entries(rule.weights)),
            b"" if rule.payload is None else _encode(rule.payload),
            tuple(sorted(rule.tags)),
            rule.validity,
            rule.subscription or "",
        )

    def rule(self) -> Rule:
        """Restore the rule.

        Raises
        ------
        RuleError
            What was stored is not a rule.
        """
        try:
            return Rule(
                self.id,
                from_json(_decode(self.source)) if self.kind & IS_MODEL else self.source,
                LOGICS[self.kind & 1],
                _restore_weights(_decode(self.weights)) if self.weights else None,
                _decode(self.payload) if self.payload else None,
                frozenset(self.tags),
                self.validity,
                self.subscription or None,
            )
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise RuleError(f"it cannot be read: {error}", rule_id=self.id) from error


_encode = msgspec.json.encode
_decode = msgspec.json.decode


def _weight_entries(weights: Mapping[Any, float]) -> list[Any]:
    """List weights as pairs of a predicate, as text or in the JSON form, and a weight."""
    entries: list[Any] = []
    for key, weight in weights.items():
        if isinstance(key, tuple):
            attribute, value = key
            key = Predicate(attribute, Op.EQ, (value,))
        entries.append([key if isinstance(key, str) else to_json(key), weight])
    return entries


def _restore_weights(entries: list[Any]) -> dict[Any, float]:
    weights: dict[Any, float] = {}
    for key, weight in entries:
        read: Any = key if isinstance(key, str) else from_json(key)
        if isinstance(read, Predicate) and read.op is Op.EQ:
            pair = (read.attribute, read.values[0])
            # TRUE and 1 are one key of a dictionary.
            read = read if pair in weights else pair
        weights[read] = weight
    return weights


def read_weights(entries: Any) -> dict[Any, float] | None:
    """Read the weights of a rule from JSON, which has no keys that are pairs.

    They are a list: ``["author", "Smith", 2.0]`` is the weight of a value of ``=`` or ``IN``,
    ``["price > 10", 0.5]`` that of any other predicate.

    Raises
    ------
    RuleError
        `entries` is anything else.
    """
    if entries is None:
        return None
    if isinstance(entries, _MalformedJson):
        raise RuleError(f"the weights are not JSON: {entries.reason}")
    if not isinstance(entries, list):
        raise RuleError(f"weights are a list, not {entries!r}")
    weights: dict[Any, float] = {}
    weighed: set[Any] = set()
    for entry in entries:
        key, weight = _read_weight(entry)
        exact = key if isinstance(key, str) else (key[0], value_key(key[1]))
        if exact in weighed:
            raise RuleError(f"{key!r} has two weights")
        weighed.add(exact)
        if key in weights:
            # TRUE and 1 are one key of a dictionary.
            key = to_sql(Predicate(key[0], Op.EQ, (key[1],)))
        weights[key] = weight
    return weights


def _read_weight(entry: Any) -> tuple[str | tuple[str, Any], float]:
    match entry:
        case [str(predicate), weight]:
            return predicate, weight
        case [str(attribute), value, weight]:
            # Values have the same form as in the JSON form of a rule: they may be timestamps.
            read = from_json({"attr": attribute, "=": value})
            assert isinstance(read, Predicate)
            return (attribute, read.values[0]), weight
        case _:
            raise RuleError(
                f"a weight is [attribute, value, weight] or [predicate, weight], not {entry!r}"
            )


def make_rule(
    id: RuleId,
    source: RuleSource,
    logic: str,
    weights: Mapping[Any, float] | None = None,
    payload: Any = None,
    tags: Iterable[str] = (),
    validity: Validity = ALWAYS,
    subscription: str | None = None,
) -> Rule:
    """Make a rule from checked parts. A text is parsed only when the rule is encoded.

    Raises
    ------
    RuleError
        A part is refused.
    """
    return Rule(
        check_id(id),
        _check_source(source),
        check_logic(logic),
        _check_weights(weights),
        None if payload is None else _check_payload(payload),
        check_tags(tags) if tags != () else frozenset(),
        validity,
        None if subscription is None else check_subscription(subscription),
    )


def rule_of_fields(fields: Mapping[str, Any], logic: str) -> Rule:
    """Build a rule from its complete form: a mapping as in JSON lines, or a row of a table.

    Parameters
    ----------
    fields
        The ``id``, the ``rule`` and optionally ``logic``, ``weights`` (a mapping, or the list that
        `read_weights` takes), ``payload``, ``tags``, ``priority``, ``valid_from``,
        ``valid_until`` and ``subscription``. None stands for the default.
    logic
        The logic of a rule that names none.

    Raises
    ------
    RuleError
        A field is missing or refused.
    """
    for name in ("id", "rule"):
        if fields.get(name) is None:
            raise RuleError(f"the rule has no {name!r}", rule_id=fields.get("id"))
    weights, tags, priority = (fields.get(name) for name in ("weights", "tags", "priority"))
    try:
        return make_rule(
            fields["id"],
            fields["rule"],
            fields.get("logic") or logic,
            weights if isinstance(weights, Mapping) else read_weights(weights),
            fields.get("payload"),
            () if tags is None else tags,
            Validity.of(
                0 if priority is None else priority,
                fields.get("valid_from"),
                fields.get("valid_until"),
            ),
            fields.get("subscription"),
        )
    except RuleError as error:
        error.rule_id = fields["id"]
        raise


_JSON_FIELDS: Final = ("weights", "payload")
"""The fields that a table may hold as JSON in texts, since no type of a column holds any JSON."""


def read_texts(fields: dict[str, Any]) -> dict[str, Any]:
    """Read the fields of a rule in a table, whose columns may hold JSON and numbers as texts.

    A text stays as it is if it is not meant as JSON: a payload may be any text. One that begins
    like JSON and is malformed is refused by `rule_of_fields`.
    """
    read = {
        name: _read_text(fields[name])
        for name in (*_JSON_FIELDS, "priority")
        if isinstance(fields.get(name), str)
    }
    return {**fields, **read} if read else fields


class _MalformedJson(NamedTuple):
    """Stands in for a text that `make_rule` refuses."""

    reason: str


def _read_text(text: str) -> Any:
    try:
        return _decode(text)
    except msgspec.MsgspecError as error:
        return _MalformedJson(str(error)) if text.lstrip()[:1] in ("{", "[", '"') else text


def to_expr(source: RuleSource) -> Expr:
    """Convert a text, a model, or the JSON form to a model.

    Raises
    ------
    RuleError
        The source is refused.
    """
    checked = _check_source(source)
    return parse(checked) if isinstance(checked, str) else checked


def check_id(id: Any) -> RuleId:
    """Check that `id` may be the id of a rule, and return it.

    Raises
    ------
    RuleError
        It is neither a valid string nor a 64-bit integer.
    """
    if isinstance(id, str):
        if not is_unicode(id):
            raise RuleError("a rule's id has an unpaired surrogate; it is not valid Unicode")
        return id
    if isinstance(id, int) and not isinstance(id, bool):
        if not _INT64_MIN <= id <= _INT64_MAX:
            raise RuleError(f"the rule id {id} does not fit in 64 bits")
        return id
    raise RuleError(f"a rule's id is a string or an integer, not {type(id).__name__} {id!r}")


def read_integer_id(text: str) -> int | None:
    """The integer id that is written so, and in no other way; None if there is none."""
    if not _INTEGER.fullmatch(text):
        return None
    id = int(text)
    return id if _INT64_MIN <= id <= _INT64_MAX else None


def _check_source(source: Any) -> str | Expr:
    if isinstance(source, str):
        # Also in a comment: the text is stored as it was given.
        if not is_unicode(source):
            raise RuleError("the rule has an unpaired surrogate; it is not valid Unicode")
        return source
    if isinstance(source, And | Or | Not | Predicate | Atom):
        checked = check(source)
        for predicate in predicates(checked):
            name = predicate.attribute
            if name.startswith(JOINED) and is_bound(join_named(name)):
                raise RuleError("a rule's model has FROM received, not who received what")
        return checked
    if isinstance(source, Mapping | bool):
        return from_json(source)
    raise RuleError(
        f"a rule is a text, a model or the JSON form (a dict), not {type(source).__name__}"
    )


def _check_weights(weights: Any) -> dict[Any, float] | None:
    """Copy `weights`, which the caller may change later."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise RuleError(f"weights are a mapping, not {type(weights).__name__}")
    return dict(weights) or None


def _check_payload(payload: Any) -> Any:
    """Copy `payload`, which has to be JSON, so that it can be stored."""
    if isinstance(payload, _MalformedJson):
        raise RuleError(f"the payload is not JSON: {payload.reason}")
    try:
        copy = _decode(_encode(payload))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise RuleError(f"the payload is not JSON: {error}") from None
    if copy != payload:
        raise RuleError(f"the payload is not JSON: it would come back as {copy!r}")
    return copy


_NO_TAGS: Final[frozenset[str]] = frozenset()


def check_tags(tags: Any) -> frozenset[str]:
    """Check tags, and return them as a set.

    Raises
    ------
    RuleError
        They are not a list of strings.
    """
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise RuleError(f"tags are a list of strings, not {tags!r}")
    result = list(tags)
    if not result:
        return _NO_TAGS
    for tag in result:
        if not isinstance(tag, str):
            raise RuleError(f"a tag is a string, not {tag!r}")
        if not is_unicode(tag):
            raise RuleError("a tag has an unpaired surrogate; it is not valid Unicode")
    return frozenset(result)


def check_subscription(name: Any) -> str:
    """Check that `name` may be the name of a subscription, and return it.

    Raises
    ------
    RuleError
        It is not a non-empty, valid string.
    """
    if not isinstance(name, str) or not name:
        raise RuleError(f"a subscription's name is a non-empty string, not {name!r}")
    if not is_unicode(name):
        raise RuleError("a subscription's name has an unpaired surrogate; it is not valid Unicode")
    return name
