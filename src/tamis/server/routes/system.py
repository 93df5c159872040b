"""The server itself: its pages, health, readiness, metrics, and the documentation of the API."""

from __future__ import annotations

import secrets
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
_SCRIPT: Final = "text/javascript; charset=utf-8"
_STYLE: Final = "text/css; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_CSP: Final = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": _CSP,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


def show_workbench(_: Call) -> Reply:
    """The page where people see their rules work."""
    # The editor adds its styles to the page, which only those with this number may.
    nonce = secrets.token_urlsafe(16)
    page = _read_page("workbench/page.html").replace(b"NONCE", nonce.encode())
    policy = _CSP.replace("'unsafe-inline'", f"'nonce-{nonce}'")
    return Reply(page, headers={**_PAGE_HEADERS, "Content-Security-Policy": policy}, media=_HTML)


def show_workbench_script(_: Call) -> Reply:
    """The script of the first page."""
    return Reply(_read_page("workbench/app.js"), media=_SCRIPT)


def show_workbench_style(_: Call) -> Reply:
    """The style of the first page."""
    return Reply(_read_page("workbench/app.css"), media=_STYLE)


def show_notices(_: Call) -> Reply:
    """The licences of what the first page contains."""
    return Reply(_read_page("workbench/notices.txt"), media=_TEXT)


def show_api(_: Call) -> Reply:
    """The page that shows the OpenAPI document."""
    return Reply(_read_page("api.html"), headers=_PAGE_HEADERS, media=_HTML)


def show_api_script(_: Call) -> Reply:
    """The script of that page."""
    return Reply(_read_page("api.js"), media=_SCRIPT)


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


def _page(path: str, summary: str, handler: Any, media: str) -> Operation:
    return Operation("GET", path, summary, handler, None, media=(media,), place="loop")


OPERATIONS = (
    _page("/", "The workbench", show_workbench, _HTML),
    _page("/workbench.js", "The script of the workbench", show_workbench_script, _SCRIPT),
    _page("/workbench.css", "The style of the workbench", show_workbench_style, _STYLE),
    _page(
        "/notices.txt", "Licences of what it contains", show_notices, "text/plain; charset=utf-8"
    ),
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
