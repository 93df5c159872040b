"""Turns the JSONPath of a Mustang predicate into an attribute.

``$.user.name``, ``$['user']['name']`` and ``$.modes[*].type`` become dotted attributes, which every
event has. A path that indexes or filters a list, or searches at any depth, has no dotted form. It
becomes the attribute's name itself; :func:`widened` adds such attributes to an event, with the
values that a JSONPath library finds.
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
    """The attribute for `path`: a dotted name, or the path itself.

    Raises
    ------
    RuleError
        The path is invalid.
    MissingExtraError
        The path needs a JSONPath library, which is not installed.
    """
    text = path.strip()
    # Mustang's library also accepts a path without the leading `$.`.
    text = text if text.startswith("$") else f"$.{text}"
    names: list[str] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            _compile(text)
            return text
        names += [name for name in (step["name"], step["quoted"]) if name]
        at = step.end()
    if not names:
        raise RuleError(f"the path {path!r} names no attribute")
    return ".".join(names)


def path_to(attribute: str) -> str:
    """The path of an attribute."""
    if attribute.startswith("$"):
        return attribute
    steps = attribute.split(".")
    for step in steps:
        if not step or "'" in step or "\\" in step:
            raise RuleError(f"the attribute {attribute!r} has no path")
    return "$" + "".join(f".{step}" if _BARE.fullmatch(step) else f"['{step}']" for step in steps)


def paths_of(rules: Iterable[Rule]) -> list[str]:
    """The paths in `rules` whose values must be added to events; see :func:`widened`."""
    found: dict[str, None] = {}
    for rule in rules:
        for predicate in predicates(rule.expr):
            names = sorted(bases_of(predicate.attribute))
            found.update(dict.fromkeys(name for name in names if name.startswith("$")))
    return list(found)


def widened(event: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """A copy of `event` with one more attribute for each of `paths`: the values found there."""
    return {**event, **{path: _compile(path).findall(event) for path in paths}}


@lru_cache(maxsize=4096)
def _compile(path: str) -> Any:
    try:
        library = import_module("jsonpath")
    except ImportError:
        raise MissingExtraError(
            f"the path {path!r} needs a JSONPath library; install it with: "
            "pip install 'tamis[jsonpath]'"
        ) from None
    try:
        return library.compile(path)
    except library.JSONPathError as error:
        raise RuleError(f"the path {path!r} is invalid: {error}") from None
