"""The server itself: health, readiness, metrics, and the documentation of the API."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

import tamis
from tamis.server.metrics import METRICS_MEDIA
from tamis.server.operation import Call, Operation, Reply
from tamis.server.problems import ProblemError
from tamis.wire.messages import Health

__all__ = ["OPERATIONS"]

_HTML: Final = "text/html; charset=utf-8"
_CSP: Final = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": _CSP,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


def show_start(_: Call) -> Reply:
    """The first page."""
    return Reply(_read_page("start.html"), headers=_PAGE_HEADERS, media=_HTML)


def show_api(_: Call) -> Reply:
    """The page that shows the OpenAPI document."""
    return Reply(_read_page("api.html"), headers=_PAGE_HEADERS, media=_HTML)


def show_api_script(_: Call) -> Reply:
    """The script of that page."""
    return Reply(_read_page("api.js"), media="text/javascript; charset=utf-8")


def describe_api(_: Call) -> Reply:
    """The OpenAPI document."""
    return Reply(_encode_document())


def check_health(call: Call) -> Health:
    """Whether the process answers."""
    server = call.server
    return Health("ok", tamis.__version__, server.settings.read_only)


def check_readiness(call: Call) -> Health:
    """Whether collections are open and kernels compiled."""
    server = call.server
    if not server.is_ready:
        raise ProblemError(503, "starting", "kernels are being compiled", {"Retry-After": "1"})
    return Health("ok", tamis.__version__, server.settings.read_only)


def collect_metrics(call: Call) -> Reply:
    """The metrics, in the text format of Prometheus."""
    return Reply(call.server.metrics.render(), media=METRICS_MEDIA)


@cache
def _read_page(name: str) -> bytes:
    return (files("tamis.server") / "pages" / name).read_bytes()


@cache
def _encode_document() -> bytes:
    import msgspec

    from tamis.server.openapi import describe_operations
    from tamis.server.routes import OPERATIONS as ALL

    return msgspec.json.format(msgspec.json.encode(describe_operations(ALL)), indent=1)


OPERATIONS = (
    Operation("GET", "/", "The first page", show_start, None, media=(_HTML,), place="loop"),
    Operation(
        "GET", "/api", "A page that shows this API", show_api, None, media=(_HTML,), place="loop"
    ),
    Operation(
        "GET",
        "/api.js",
        "The script of that page",
        show_api_script,
        None,
        media=("text/javascript; charset=utf-8",),
        place="loop",
    ),
    Operation(
        "GET",
        "/openapi.json",
        "This document",
        describe_api,
        None,
        answer=dict[str, Any],
        place="loop",
    ),
    Operation(
        "GET",
        "/health",
        "Whether the server answers",
        check_health,
        None,
        answer=Health,
        place="loop",
    ),
    Operation(
        "GET",
        "/ready",
        "Whether the server answers at full speed",
        check_readiness,
        None,
        answer=Health,
        more_statuses={503: "It is still starting."},
        place="loop",
    ),
    Operation(
        "GET", "/metrics", "Figures for Prometheus", collect_metrics, "read", media=(METRICS_MEDIA,)
    ),
)
