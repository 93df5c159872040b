"""Writes rules as JSON lines with all their fields, as `load_rules` reads them.

The other formats cannot hold every field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any

import msgspec

from tamis.errors import InputFileError, UnknownRuleError
from tamis.expr.json import to_json
from tamis.expr.model import Op, Predicate
from tamis.expr.text.write import to_sql
from tamis.files.atomic import get_stdout, write_atomically
from tamis.files.compression import compress
from tamis.files.rule_reader import Watch
from tamis.files.source import STDIN, Format, detect_format
from tamis.files.unprintable import escape_json
from tamis.matcher.matcher import Matcher
from tamis.matcher.rule import Rule, RuleId
from tamis.matcher.selection import Tagged

__all__ = ["rule_to_json", "save_rules", "write_rules"]

_ENCODER = msgspec.json.Encoder()
_RULES_PER_BLOCK = 4096


def save_rules(
    matcher: Matcher,
    path: str,
    *,
    only: Tagged | Iterable[RuleId] | None = None,
    watch: Watch = lambda count, fraction: None,
) -> int:
    """Write rules as JSON lines, with logic, weights, payload and tags, and return their number.

    :func:`load_rules` restores them. The file appears when it is complete. Rules that another
    thread removes while the file is written may be missing from it.

    Parameters
    ----------
    matcher
        The collection of rules.
    path
        The file: ``.jsonl`` or ``.ndjson``, with ``.gz`` or ``.zst`` to compress it; ``-`` is
        standard output.
    only
        The ids of the rules to write, in this order, or ``tamis.tagged("gold")``; by default all
        rules, in the order in which they were added.
    watch
        Called repeatedly with the number of rules written, and the fraction of all.

    Raises
    ------
    InputFileError
        The file has another format, or cannot be written.
    UnknownRuleError
        One of the ids belongs to no rule.
    """
    ids = list(matcher if only is None or isinstance(only, Tagged) else only)
    return write_rules(
        _iterate_rules(matcher, ids, only),
        path,
        watch=lambda count: watch(count, count / len(ids)),
    )


def write_rules(
    rules: Iterable[Rule], path: str, *, watch: Callable[[int], None] = lambda count: None
) -> int:
    """Write `rules` as :func:`save_rules` does; they need not belong to a collection.

    Raises
    ------
    InputFileError
        The file has another format than JSON lines, or cannot be written.
    """
    count = 0
    remaining = iter(rules)
    with _open_json_lines(path) as stream:
        while block := list(islice(remaining, _RULES_PER_BLOCK)):
            lines = _ENCODER.encode_lines([rule_to_json(rule) for rule in block])
            stream.write(escape_json(lines) if path == STDIN else lines)
            count += len(block)
            watch(count)
    return count


def _iterate_rules(
    matcher: Matcher, ids: list[RuleId], only: Tagged | Iterable[RuleId] | None
) -> Iterator[Rule]:
    for id in ids:
        try:
            rule = matcher.rule(id)
        except UnknownRuleError:
            if only is None or isinstance(only, Tagged):
                continue  # Another thread has removed it.
            raise
        if not isinstance(only, Tagged) or only.fits(rule.tags):
            yield rule


@contextmanager
def _open_json_lines(path: str) -> Iterator[IO[bytes]]:
    if path == STDIN:
        yield get_stdout()
        sys.stdout.flush()
        return
    file_format, compression = detect_format(path)
    if file_format is not Format.JSON_LINES:
        raise InputFileError(
            "only JSON lines hold every field of a rule; name a .jsonl or .jsonl.gz file",
            path=path,
        )
    with write_atomically(path) as file, compress(file, compression) as stream:
        yield stream


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """The fields of a rule, as in a line of JSON; those with their default are left out."""
    source = rule.source if isinstance(rule.source, str) else to_json(rule.source)
    fields: dict[str, Any] = {"id": rule.id, "rule": source, "logic": rule.logic}
    if rule.weights:
        fields["weights"] = _weights_to_json(rule.weights)
    if rule.payload is not None:
        fields["payload"] = rule.payload
    if rule.tags:
        fields["tags"] = sorted(rule.tags)
    if rule.priority:
        fields["priority"] = rule.priority
    for name, time in (("valid_from", rule.valid_from), ("valid_until", rule.valid_until)):
        if time is not None:
            fields[name] = time.isoformat()
    if rule.subscription is not None:
        fields["subscription"] = rule.subscription
    return fields


def _weights_to_json(weights: Mapping[Any, float]) -> list[list[Any]]:
    """The form that :func:`tamis.matcher.rule.read_weights` reads."""
    entries: list[list[Any]] = []
    for key, weight in weights.items():
        if isinstance(key, tuple):
            attribute, value = key
            equality: Any = to_json(Predicate(attribute, Op.EQ, (value,)))
            entries.append([attribute, equality["="], weight])
        else:
            entries.append([key if isinstance(key, str) else to_sql(key), weight])
    return entries
