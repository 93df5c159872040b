"""Finds the operation of a request by its method and path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tamis.server.operation import Operation
from tamis.server.problems import ProblemError

__all__ = ["COLLECTIONS", "Found", "Router"]

COLLECTIONS: Final = "/v1/collections"
_PREFIX: Final = f"{COLLECTIONS}/"


class Found(NamedTuple):
    """The operation of a request."""

    operation: Operation
    collection: str | None
    names: tuple[str, ...]


class _Path(NamedTuple):
    pattern: re.Pattern[str]
    methods: dict[str, Operation]


class Router:
    """Finds operations.

    Below a collection the first part of the path decides, so that a lookup takes a microsecond
    however many operations there are.

    Parameters
    ----------
    operations
        The table of the API.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._fixed: dict[str, dict[str, Operation]] = {}
        self._below: dict[str, list[_Path]] = {}
        for operation in operations:
            self._methods_at(operation.path)[operation.method] = operation

    def _methods_at(self, path: str) -> dict[str, Operation]:
        if not path.startswith(_PREFIX):
            return self._fixed.setdefault(path, {})
        noun, _, rest = path.removeprefix(f"{_PREFIX}{{collection}}").lstrip("/").partition("/")
        paths = self._below.setdefault(noun, [])
        pattern = _compile(f"/{rest}" if rest else "")
        for known in paths:
            if known.pattern == pattern:
                return known.methods
        paths.append(_Path(pattern, {}))
        return paths[-1].methods

    def find(self, method: str, path: str) -> Found:
        """Find the operation for a path.

        Raises
        ------
        ProblemError
            There is no such path (404), or it has no such method (405).
        """
        methods, collection, names = self._find_methods(path)
        operation = methods.get(method) or methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join(sorted(methods))
            raise ProblemError(
                405, "method-not-allowed", f"this path takes {allowed}", {"Allow": allowed}
            )
        return Found(operation, collection, names)

    def _find_methods(self, path: str) -> tuple[dict[str, Operation], str | None, tuple[str, ...]]:
        if path.startswith(_PREFIX):
            collection, _, below = path[len(_PREFIX) :].partition("/")
            noun, slash, rest = below.partition("/")
            # A client makes of an id of two dots the path of the collection, with a slash.
            is_path = bool(below) or not path.endswith("/")
            for known in self._below.get(noun, ()) if is_path else ():
                found = known.pattern.fullmatch(slash + rest)
                if found is not None:
                    return known.methods, collection, found.groups()
        elif path in self._fixed:
            return self._fixed[path], None, ()
        raise ProblemError(404, "no-such-path", "there is nothing at this path; see /openapi.json")


def _compile(path: str) -> re.Pattern[str]:
    """The pattern of the rest of a path. The id of a rule may have slashes."""
    pattern = re.sub(r"\\{id\\}$", "(.*)", re.escape(path))
    return re.compile(re.sub(r"\\{\w+\\}", "([^/]+)", pattern), re.DOTALL)
