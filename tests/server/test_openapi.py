"""The OpenAPI document describes what the server does: random requests over real sockets.

`make fuzz` tries many more.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi import checks as openapi_checks

from tamis.server.openapi import describe_operations
from tamis.server.routes import OPERATIONS
from tests.server.servers import Served

EXAMPLES = int(os.environ.get("TAMIS_EXAMPLES", "6"))
CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.unsupported_method,
]


@schemathesis.serializer("application/jsonl", "application/vnd.apache.arrow.stream")
def write_lines(_: Any, value: Any) -> bytes:
    """A line that is a rule and an event to publish, or else the text as it came."""
    text = str(value)
    fields = {"id": text, "rule": "x = 1", "event": {"x": text}}
    is_text = text.isprintable() and len(text) % 3
    return msgspec.json.encode(fields) + b"\n" if is_text else text.encode(errors="replace")


def unwrap(result: Any) -> Any:
    return result.ok()


DOCUMENT = msgspec.json.decode(msgspec.json.encode(describe_operations(OPERATIONS)))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
FOUND: dict[str, Any] = {
    operation.label: operation for operation in map(unwrap, SCHEMA.get_all_operations())
}
NAMES = {"collection": "fuzzed", "name": "ann", "id": "r1"}
"""What paths name, so that most requests reach something."""


@pytest.fixture(scope="module")
def fuzzed(served: Served) -> Served:
    path = served.make(NAMES["collection"], {"r1": "x = 1", "r2": "y LIKE 'a%'"})
    answer = served.http.put(f"{path}/subscriptions/ann", json={"rules": ["r1"]})
    assert answer.status_code == 201
    return served


def aim(case: Any, number: int) -> None:
    """Have most requests name what there is, and none wait for long."""
    if number % 5 and not is_about_collection(case):
        for name in case.path_parameters or {}:
            case.path_parameters[name] = NAMES[name]
    if isinstance((case.query or {}).get("wait"), int | float | str):
        case.query["wait"] = 0.01
    if isinstance(case.body, dict) and isinstance(case.body.get("seconds"), int | float):
        case.body["seconds"] = min(0.05, case.body["seconds"])


def is_about_collection(case: Any) -> bool:
    return bool(case.path.endswith("{collection}") and case.method in ("PUT", "DELETE"))


@pytest.mark.parametrize("label", list(FOUND))
def test_random_requests_get_what_the_document_says(fuzzed: Served, label: str) -> None:
    count = 0

    @given(case=FOUND[label].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=EXAMPLES < 50,
    )
    def try_one(case: Any) -> None:
        nonlocal count
        count += 1
        aim(case, count)
        answer = case.call(base_url=fuzzed.url, timeout=20)
        case.validate_response(answer, checks=CHECKS)

    try_one()
    assert count


def test_every_operation_has_its_own_name() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(names) == len(set(names))
    assert {
        operation.path.split("{")[0] for operation in OPERATIONS if operation.right is None
    } == {
        "/",
        "/api",
        "/api.js",
        "/workbench.js",
        "/workbench.css",
        "/notices.txt",
        "/openapi.json",
        "/health",
        "/ready",
    }


def test_the_server_serves_the_document_and_its_page(served: Served) -> None:
    assert served.http.get(f"{served.url}/openapi.json").json() == DOCUMENT
    for path in ("/", "/api"):
        page = served.http.get(f"{served.url}{path}")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        # Nothing comes from elsewhere.
        assert "http://" not in page.text
        assert "https://" not in page.text
    assert served.http.get(f"{served.url}/api.js").status_code == 200
