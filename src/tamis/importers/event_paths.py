"""What some imported rules need of an event beside its attributes, and adds it to the event.

An attribute holds the values at a dotted path, and nothing of the shape around them: which place in
a list, whether there was a list or an object, whether it was empty. A rule that depends on the
shape names an attribute that begins with ``$``: a JSONPath, or a path with a method.

- ``$.modes[*].type``, ``$.modes[0]``, ``$..type``: the values found there
- ``$.modes.length()``: the number of elements of a list, also of an empty one
- ``$.modes.type()``: ``array``, ``object``, ``string``, ``number``, ``boolean`` or ``null``
- ``$.modes.json()``: the whole value as JSON

:func:`paths_of` finds these attributes in rules, :func:`widened` adds them to an event.

>>> widened({"tags": []}, ["$.tags.length()"])
{'tags': [], '$.tags.length()': 0}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from tamis.errors import MissingExtraError, RuleError
from tamis.expr.functions.derive import bases_of
from tamis.expr.model import predicates
from tamis.matcher.rule import Rule

__all__ = [
    "check_path",
    "json_at",
    "json_text",
    "length_at",
    "path_to",
    "paths_of",
    "split_path",
    "type_at",
    "widened",
]

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]()*?@\s'"]+)|\[\*\]|\[(?P<quote>['"])(?P<quoted>[^'"\\]+)(?P=quote)\]"""
)
_BARE: Final = re.compile(r"[^.\[\]()*?@\s'\"$]+")
_METHOD: Final = re.compile(r"\.(length|type|json)\(\)$")


def length_at(path: str) -> str:
    """The attribute with the number of elements of the list at `path`."""
    return f"{path}.length()"


def type_at(path: str) -> str:
    """The attribute with the type of the value at `path`, as JavaScript names it."""
    return f"{path}.type()"


def json_at(path: str) -> str:
    """The attribute with the value at `path` as :func:`json_text` writes it."""
    return f"{path}.json()"


def json_text(value: Any) -> str:
    """A value as JSON: the same text for equal numbers, and for objects with one order of keys."""
    return json.dumps(_simplify(value), ensure_ascii=False, separators=(",", ":"))


def _simplify(value: Any) -> Any:
    """The value with whole numbers as integers."""
    if isinstance(value, Mapping):
        return {str(name): _simplify(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_simplify(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def path_to(attribute: str) -> str:
    """The path of an attribute.

    Raises
    ------
    RuleError
        A part of the name is empty, or has characters that no path can have.
    """
    if attribute.startswith("$"):
        return attribute
    steps = attribute.split(".")
    for step in steps:
        if not step or "'" in step or "\\" in step:
            raise RuleError(f"the attribute {attribute!r} has no path")
    return "$" + "".join(f".{step}" if _BARE.fullmatch(step) else f"['{step}']" for step in steps)


def split_path(path: str) -> list[str | None] | None:
    """The names in a path, and None for each ``[*]``; None for a path with other steps."""
    steps: list[str | None] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        steps.append(step["name"] or step["quoted"])
        at = step.end()
    return steps


def check_path(path: str) -> None:
    """Check that the values at a path can be found.

    Raises
    ------
    RuleError
        The path is invalid.
    MissingExtraError
        The path needs a JSONPath library, which is not installed.
    """
    _find_at(_METHOD.sub("", path))


def paths_of(rules: Iterable[Rule]) -> list[str]:
    """The attributes in `rules` that must be added to events; see :func:`widened`."""
    found: dict[str, None] = {}
    for rule in rules:
        for predicate in predicates(rule.expr):
            names = sorted(bases_of(predicate.attribute))
            found.update(dict.fromkeys(name for name in names if name.startswith("$")))
    return list(found)


def widened(event: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """A copy of `event` with one more attribute for each of `paths`."""
    return {**event, **{path: _read_at(event, path) for path in paths}}


def _read_at(event: Mapping[str, Any], path: str) -> Any:
    method = _METHOD.search(path)
    if method is None:
        return _find_at(path)(event)
    base = path[: method.start()]
    found = _find_at(base)(event)
    steps = split_path(base)
    if steps is None or None in steps:
        # Such a path leads to a list of whatever it finds, and to nothing if it finds nothing.
        found = [found] if found else []
    return _METHODS[method[1]](found[0]) if found else None


def _count(value: Any) -> int | None:
    return len(value) if isinstance(value, list | tuple) else None


def _name_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    return "string" if isinstance(value, str) else "number"


_METHODS: Final[dict[str, Callable[[Any], Any]]] = {
    "length": _count,
    "type": _name_type,
    "json": json_text,
}


@lru_cache(maxsize=4096)
def _find_at(path: str) -> Callable[[Any], list[Any]]:
    """A function that finds the values at a path in an event."""
    steps = split_path(path)
    if steps is not None:
        return lambda event: _walk(event, steps)
    try:
        library = import_module("jsonpath")
    except ImportError:
        raise MissingExtraError(
            f"the path {path!r} needs a JSONPath library; install it with: "
            "pip install 'tamis[jsonpath]'"
        ) from None
    try:
        found: Callable[[Any], list[Any]] = library.compile(path).findall
    except library.JSONPathError as error:
        raise RuleError(f"the path {path!r} is invalid: {error}") from None
    return found


def _walk(event: Any, steps: list[str | None]) -> list[Any]:
    found = [event]
    for name in steps:
        if name is not None:
            found = [at[name] for at in found if isinstance(at, Mapping) and name in at]
        else:
            found = [inner for at in found for inner in _list_members(at)]
    return found


def _list_members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
