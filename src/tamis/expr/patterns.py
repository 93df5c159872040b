"""The meaning of LIKE, ILIKE and RLIKE, defined through RE2.

RE2 takes time linear in the text for every pattern, so no rule can stall a match. LIKE and ILIKE
become anchored RE2 expressions; ILIKE first maps its pattern and the text with :func:`fold`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import re2

from tamis.errors import PatternError
from tamis.expr.model import Op, Predicate, Value
from tamis.forks import call_in_child, parent_had_threads

__all__ = [
    "TextTest",
    "check_pattern",
    "fold",
    "like_parts",
    "mentioned_values",
    "prefix_of",
    "regex_of",
    "text_test",
]

TextTest: TypeAlias = Callable[[str], bool]
"""Whether one string satisfies a LIKE, ILIKE or RLIKE."""

_MAX_PATTERN = 100_000
"""The longest pattern, in characters; RE2's own limit is on the compiled size."""


def fold(text: str) -> str:
    """`text` in lower case, character by character, as SQL's ILIKE compares.

    Each character maps to one character, independent of its neighbours: there is no final sigma,
    and the dotted capital I becomes a plain i. So parts of a pattern fold as they do in the whole.
    """
    if text.isascii():
        return text.lower()
    return "".join([char.lower()[0] for char in text])


def like_parts(predicate: Predicate) -> list[str | None]:
    """A LIKE's pattern by characters: None stands for ``%``, an empty string for ``_``.

    An ILIKE's characters are folded after its escapes are resolved.
    """
    pattern, *rest = predicate.values
    assert isinstance(pattern, str)
    escape = rest[0] if rest else None
    folds = predicate.op is Op.ILIKE
    parts: list[str | None] = []
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            char = next(characters)
        elif char == "%":
            parts.append(None)
            continue
        elif char == "_":
            parts.append("")
            continue
        parts.append(fold(char) if folds else char)
    return parts


def prefix_of(predicate: Predicate) -> tuple[str] | tuple[str, str] | None:
    """What a LIKE asks of the order of strings, if it asks nothing else.

    A LIKE without wildcards is an equality, (text,); one whose only wildcard is a last ``%``
    is the range [first, after) of the strings with that beginning.
    """
    if predicate.op is not Op.LIKE or len(predicate.values) != 1:
        return None
    pattern = predicate.values[0]
    assert isinstance(pattern, str)
    text = pattern.removesuffix("%")
    if "%" in text or "_" in text:
        return None
    if text == pattern:
        return (text,)
    after = _after(text)
    return None if after is None else (text, after)


def _after(prefix: str) -> str | None:
    """The least string above all that begin with `prefix`; None if it is hard to name."""
    if not prefix or ord(prefix[-1]) in (0xD7FF, 0x10FFFF):
        return None
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def mentioned_values(predicate: Predicate) -> tuple[Value, ...]:
    """The values at which `predicate` may change from false to true in the order of values.

    Between two neighbours of them, all values satisfy it or none does. A pattern that no order of
    strings can answer mentions none.
    """
    return (prefix_of(predicate) or ()) if predicate.op.is_text else predicate.values


def regex_of(predicate: Predicate) -> str:
    """The RE2 expression that finds `predicate` in a text (for ILIKE, in a folded one)."""
    if predicate.op is Op.RLIKE:
        return str(predicate.values[0])
    parts = [
        ".*" if part is None else re2.escape(part) if part else "."
        for part in like_parts(predicate)
    ]
    return rf"(?s)\A{''.join(parts)}\z"


def check_pattern(predicate: Predicate) -> None:
    """Refuse a pattern that RE2 cannot compile, or that ends with its escape character."""
    pattern, *rest = predicate.values
    if not all(isinstance(value, str) for value in predicate.values):
        raise PatternError(f"{predicate.op} takes a string pattern, not {pattern!r}")
    assert isinstance(pattern, str)
    if len(pattern) > _MAX_PATTERN:
        raise PatternError(
            f"the {predicate.op} pattern has {len(pattern):,} characters; "
            f"the limit is {_MAX_PATTERN:,}"
        )
    if rest:
        _check_escape(pattern, str(rest[0]))
    _compile(regex_of(predicate))


def text_test(predicate: Predicate) -> TextTest:
    """The test of one string that `predicate` (LIKE, ILIKE or RLIKE) makes."""
    search = _compile(regex_of(predicate)).search
    if predicate.op is Op.ILIKE:
        return lambda text: search(fold(text)) is not None
    return lambda text: search(text) is not None


def _check_escape(pattern: str, escape: str) -> None:
    if len(escape) != 1:
        raise PatternError(f"ESCAPE takes one character, not {escape!r}")
    if pattern.replace(escape + escape, "").endswith(escape):
        raise PatternError(f"the pattern {pattern!r} ends with its escape character")


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@lru_cache(maxsize=4096)
def _compile(regex: str) -> Any:
    try:
        return re2.compile(regex, _options())
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"invalid pattern: {reason[:200]}") from None
    except UnicodeEncodeError:
        raise PatternError("invalid pattern: it contains half a surrogate pair") from None


def _drop_expressions() -> None:
    # RE2 works without the interpreter's lock, and an expression has locks of its own.
    if parent_had_threads():
        _compile.cache_clear()
        re2.purge()


call_in_child(_drop_expressions)
