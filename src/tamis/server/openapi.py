"""The OpenAPI 3.1 document, made from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, Final

import msgspec

import tamis
from tamis.server.operation import Operation
from tamis.wire.media import ARROW, EVENT_STREAM, JSON, JSON_LINES, PROBLEM
from tamis.wire.problem import Problem

__all__ = ["describe_operations"]

_REF: Final = "#/components/schemas/{name}"
_RULE_ID: Final = {"type": "string", "maxLength": 1000}
_NAME: Final = {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"}
_BINARY: Final = {"type": "string", "contentMediaType": "application/octet-stream"}

_ALWAYS: Final = {
    400: "The request is malformed.",
    401: "There is no valid key.",
    403: "The key does not allow this, or the server is read-only.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body has an unknown media type or encoding.",
    422: "A value is not allowed.",
    429: "Too much work of this key is waiting.",
    500: "The server failed.",
    503: "Too much work is waiting.",
    504: "It took too long.",
    507: "The disk is full.",
}
"""What any operation may answer, with the parts below left out where they cannot happen."""

_OF_BODIES: Final = (408, 413, 415)
_ABOUT: Final = """\
An API over collections of rules: change rules, ask which of them an event satisfies, publish
events and receive those that a subscription's rules match. Errors are RFC 9457 problems."""


def describe_operations(operations: Iterable[Operation]) -> dict[str, Any]:
    """The OpenAPI document of these operations."""
    shown = list(operations)
    kinds = [kind for operation in shown for kind in _kinds(operation)]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=_REF)
    known = dict(zip(map(_key, [*kinds, Problem]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in shown:
        described = _describe(operation, known)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tamis", "version": tamis.__version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(operation: Operation) -> Iterator[Any]:
    """The types of its body and its answer."""
    yield from (kind for kind in (operation.body, operation.answer) if kind is not None)


def _key(kind: Any) -> str:
    return repr(kind)


def _describe(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": cleandoc(operation.handler.__doc__ or ""),
        "parameters": list(_parameters(operation)),
        "responses": _responses(operation, known),
    }
    if operation.body is not None:
        content = {JSON: {"schema": known[_key(operation.body)]}}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.bulk:
        content = {JSON_LINES: {"schema": {"type": "string"}}, ARROW: {"schema": _BINARY}}
        described["requestBody"] = {"required": True, "content": content}
    if operation.right is not None:
        described["x-right"] = operation.right
    return described


def _parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        schema = _RULE_ID if name == "id" else _NAME
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    properties = components[operation.query.__name__].get("properties", {})
    for name, described in properties.items():
        yield {"name": name, "in": "query", "required": False, "schema": described}
    for name, meaning in operation.headers.items():
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": meaning,
            "schema": {"type": "string"},
        }


def _responses(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.status): _success(operation, known)}
    failures = {**_ALWAYS, **operation.more_statuses}
    if operation.path.count("{") and 404 not in failures:
        failures[404] = "There is no such thing."
    if operation.body is None and not operation.bulk:
        failures = {code: text for code, text in failures.items() if code not in _OF_BODIES}
    for code, text in sorted(failures.items()):
        if code < 300:
            responses[str(code)] = {**_success(operation, known), "description": text}
        elif code == 304:
            responses["304"] = {"description": text}
        else:
            schema = known[_key(Problem)]
            responses[str(code)] = {
                "description": text,
                "content": {PROBLEM: {"schema": schema}},
            }
    return responses


def _success(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    content = {media: {"schema": _schema(media, operation, known)} for media in operation.media}
    if operation.status != 204:
        answer["content"] = content
    if operation.answer_headers:
        schema = {"schema": {"type": "string"}}
        answer["headers"] = dict.fromkeys(operation.answer_headers, schema)
    return answer


def _schema(media: str, operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    if media == JSON and operation.answer is not None:
        schema: dict[str, Any] = known[_key(operation.answer)]
        return schema
    if media in (JSON_LINES, EVENT_STREAM) or media.startswith("text/"):
        return {"type": "string"}
    return dict(_BINARY)
