"""The JSONPath on the left of a Mustang predicate, as an attribute.

``$.user.name``, ``$['user']['name']`` and ``$.modes[*].type`` are attributes of every event, by
their dotted path. A path that names a place in a list, filters it or looks at any depth is none. It
is then the name of an attribute itself, which :func:`widened` adds to an event; a library of
JSONPath says what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from tamis.errors import MissingExtraError, RuleError
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import predicates
from tamis.matcher.rule import Rule

__all__ = ["attribute_of", "path_to", "paths_of", "widened"]

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]()*?@\s'"]+)|\[\*\]|\[(?P<quote>['"])(?P<quoted>[^'"\\]+)(?P=quote)\]"""
)
_BARE: Final = re.compile(r"[^.\[\]()*?@\s'\"$]+")


def attribute_of(path: str) -> str:
    """The attribute that `path` speaks of: a dotted path, or the path itself.

    Raises
    ------
    RuleError
        The path is none.
    MissingExtraError
        The path needs the library, which is not installed.
    """
    text = path.strip()
    # The library that Mustang uses takes a path without its beginning, too.
    text = text if text.startswith("$") else f"$.{text}"
    names: list[str] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            _compiled(text)
            return text
        names += [name for name in (step["name"], step["quoted"]) if name]
        at = step.end()
    if not names:
        raise RuleError(f"the path {path!r} names no attribute")
    return ".".join(names)


def path_to(attribute: str) -> str:
    """The path that speaks of an attribute."""
    if attribute.startswith("$"):
        return attribute
    steps = attribute.split(".")
    for step in steps:
        if not step or "'" in step or "\\" in step:
            raise RuleError(f"the attribute {attribute!r} has no path")
    return "$" + "".join(f".{step}" if _BARE.fullmatch(step) else f"['{step}']" for step in steps)


def paths_of(rules: Iterable[Rule]) -> list[str]:
    """The paths that `rules` speak of and no event holds by itself."""
    found: dict[str, None] = {}
    for rule in rules:
        for predicate in predicates(rule.expr):
            names = sorted(bases_of(predicate.attribute))
            found.update(dict.fromkeys(name for name in names if name.startswith("$")))
    return list(found)


def widened(event: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """`event` with what each of `paths` finds in it, under the path as a name."""
    return {**event, **{path: _compiled(path).findall(event) for path in paths}}


@lru_cache(maxsize=4096)
def _compiled(path: str) -> Any:
    try:
        library = import_module("jsonpath")
    except ImportError:
        raise MissingExtraError(
            f"the path {path!r} needs a library of JSONPath; install it with: "
            "pip install 'tamis[jsonpath]'"
        ) from None
    try:
        return library.compile(path)
    except library.JSONPathError as error:
        raise RuleError(f"the path {path!r} is none: {error}") from None
