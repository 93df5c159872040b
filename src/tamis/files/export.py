"""Rules into a file: JSON lines with all that was said of each, as `load_rules` reads them.

Other formats cannot hold all of it.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any, cast

import msgspec

from tamis.errors import InputFileError, UnknownRuleError
from tamis.expr.json import to_json
from tamis.expr.model import Op, Predicate
from tamis.expr.text.sql import to_sql
from tamis.files.output import written_aside
from tamis.files.rules import Watch
from tamis.files.source import STDIN, Format, format_of
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId, Tagged

__all__ = ["save_rules", "write_rules"]

_ENCODER = msgspec.json.Encoder()
_RULES_A_BLOCK = 4096


def save_rules(
    matcher: Matcher,
    path: str,
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    watch: Watch = lambda count, fraction: None,
) -> int:
    """Write rules as JSON lines, with logic, weights, payload and tags; returns how many.

    :func:`load_rules` has them again as they were. The file is there when it is whole. Rules that
    are removed meanwhile may be left out.

    Parameters
    ----------
    matcher
        Has the rules.
    path
        The file: ``.jsonl`` or ``.ndjson``, with ``.gz`` if it is to be compressed; ``-`` is
        standard output.
    only
        The ids of the rules to write, in this order, or ``tamis.tagged("gold")``; all by default,
        in the order of addition.
    watch
        Called again and again with how many rules were written, and which part of all.

    Raises
    ------
    InputFileError
        The file is of another format, or cannot be written.
    UnknownRuleError
        There is no rule of one of the ids.
    """
    ids = list(matcher if only is None or isinstance(only, Tagged) else only)
    return write_rules(
        _rules(matcher, ids, only), path, watch=lambda count: watch(count, count / len(ids))
    )


def write_rules(
    rules: Iterable[Rule], path: str, *, watch: Callable[[int], None] = lambda count: None
) -> int:
    """Write `rules` to a file as :func:`save_rules` does, whether or not they are in a collection.

    Raises
    ------
    InputFileError
        The file is of another format than JSON lines, or cannot be written.
    """
    count = 0
    remaining = iter(rules)
    with _opened(path) as stream:
        while block := list(islice(remaining, _RULES_A_BLOCK)):
            stream.write(_ENCODER.encode_lines([_fields(rule) for rule in block]))
            count += len(block)
            watch(count)
    return count


def _rules(
    matcher: Matcher, ids: list[RuleId], only: Tagged | Iterable[RuleId] | None
) -> Iterator[Rule]:
    for id in ids:
        try:
            rule = matcher.rule(id)
        except UnknownRuleError:
            if only is None or isinstance(only, Tagged):
                continue  # Somebody removed it meanwhile.
            raise
        if not isinstance(only, Tagged) or only.fits(rule.tags):
            yield rule


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == STDIN:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    holds, compressed = format_of(path)
    if holds is not Format.JSON_LINES:
        raise InputFileError(
            "only JSON lines hold all that a rule is: .jsonl or .jsonl.gz", path=path
        )
    with written_aside(path) as file:
        if not compressed:
            yield file
            return
        with gzip.open(file, "wb") as stream:
            yield cast(IO[bytes], stream)


def _fields(rule: Rule) -> dict[str, Any]:
    source = rule.source if isinstance(rule.source, str) else to_json(rule.source)
    fields: dict[str, Any] = {"id": rule.id, "rule": source, "logic": rule.logic}
    if rule.weights:
        fields["weights"] = _weights(rule.weights)
    if rule.payload is not None:
        fields["payload"] = rule.payload
    if rule.tags:
        fields["tags"] = sorted(rule.tags)
    if rule.priority:
        fields["priority"] = rule.priority
    for name, time in (("valid_from", rule.valid_from), ("valid_until", rule.valid_until)):
        if time is not None:
            fields[name] = time.isoformat()
    return fields


def _weights(weights: Mapping[Any, float]) -> list[list[Any]]:
    """As :func:`tamis.matcher.rule.read_weights` reads them."""
    entries: list[list[Any]] = []
    for key, weight in weights.items():
        if isinstance(key, tuple):
            attribute, value = key
            written: Any = to_json(Predicate(attribute, Op.EQ, (value,)))
            entries.append([attribute, written["="], weight])
        else:
            entries.append([key if isinstance(key, str) else to_sql(key), weight])
    return entries
