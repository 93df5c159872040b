"""The ASGI application: takes a request through its steps, and turns errors into problems.

A request is routed, let pass by its key, read within limits, and handled: in the event loop if that
takes microseconds, else in a thread. Every request ends with a line in the log and in the metrics.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, get_origin
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

import tamis
from tamis.server.access_log import AccessLog
from tamis.server.bodies import ClientGoneError, Receive, read_body, spool_body
from tamis.server.catalog import Catalog
from tamis.server.guard import Guard
from tamis.server.metrics import Metrics
from tamis.server.operation import Bulk, Call, NoQuery, Operation, Reply
from tamis.server.problems import ProblemError, to_problem
from tamis.server.router import Found, Router
from tamis.server.routes import OPERATIONS
from tamis.server.settings import ServerSettings
from tamis.server.sockets import serve_socket
from tamis.server.streams import Streams
from tamis.server.workers import Workers
from tamis.wire.media import ARROW, JSON, JSON_LINES, PROBLEM

__all__ = ["App", "Server", "make_app", "read_path", "read_query"]

_logger = logging.getLogger("tamis.server")

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LARGE: Final = 64 << 10
"""A larger body is handled in a thread: the event loop has no time for it."""

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,100}")
_BULK_MEDIA: Final = {
    b"application/jsonl": JSON_LINES,
    b"application/x-ndjson": JSON_LINES,
    b"application/ndjson": JSON_LINES,
    ARROW.encode(): ARROW,
}
_encode = msgspec.json.Encoder().encode


class Server:
    """What all requests share.

    Parameters
    ----------
    settings
        How to serve.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.catalog = Catalog(settings)
        self.guard = Guard(settings)
        self.metrics = Metrics(self.catalog.sizes)
        self.log = AccessLog()
        limits = self.limits
        self.workers = Workers(
            settings.threads, limits.work, limits.key_work, limits.request, self.metrics
        )
        self.streams = Streams(self.limits.streams, self.metrics)
        self.is_ready = False
        self.skips_warm_up = False
        """For tests, whose kernels are warm."""
        self.owns_process = False
        """Whether nothing else runs in this process, so that its settings are ours."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open all collections, then compile kernels and follow changes in the background."""
        await asyncio.to_thread(self.catalog.open_all)
        self._tasks.append(asyncio.create_task(self._warm_up()))
        if self.settings.read_only:
            self._tasks.append(asyncio.create_task(self._follow()))

    async def _warm_up(self) -> None:
        from tamis.warmup import warmup

        try:
            if not self.skips_warm_up:
                await asyncio.to_thread(warmup)
        finally:
            # Without machine code answers are slow, but right.
            self.is_ready = True
        if self.owns_process:
            # What is there now stays: to look through it for garbage would cause pauses.
            gc.collect()
            gc.freeze()
            gc.set_threshold(10_000, 20, 50)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self.settings.follow_seconds)
            try:
                await asyncio.to_thread(self.catalog.refresh)
            except (tamis.TamisError, OSError) as error:
                self.log.event("the directory could not be read", error=str(error))

    async def stop(self) -> None:
        """End streams, finish what runs, and close all collections."""
        self.streams.end()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(self.workers.close)
        await asyncio.to_thread(self.catalog.close)
        self.log.flush()


class App:
    """The ASGI application of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._router = Router(OPERATIONS)
        self._numbers = itertools.count(1)
        self._boot = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection, as ASGI defines it."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await serve_socket(self.server, scope, receive, send)
        else:
            await self._run_lifespan(receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.server.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.server.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = self._choose_id(headers)
        answer = _Answer(send, scope["method"] == "HEAD", request_id)
        found: Found | None = None
        call: Call | None = None
        try:
            found = self._router.find(scope["method"], read_path(scope))
            key = self.server.guard.check(found.operation, found.collection, headers)
            call = Call(self.server, found.operation, found.names, headers, key)
            call.receive, call.send = receive, answer.send
            await self._prepare(call, found, scope)
            await answer.reply(await self._handle(call), call)
        except ClientGoneError:
            answer.status = answer.status or 499
        except Exception as error:
            await self._fail(answer, error, request_id)
        finally:
            if call is not None and isinstance(call.body, Bulk):
                call.body.file.close()
            self._note(scope, found, call, answer.status or 499, started, request_id)

    async def _prepare(self, call: Call, found: Found, scope: Scope) -> None:
        """Read and check everything that the handler takes."""
        server, operation = self.server, found.operation
        if operation.writes:
            server.catalog.check_writable()
        if operation.query is not NoQuery or scope["query_string"]:
            call.query = read_query(scope["query_string"], operation.query)
        if operation.bulk:
            media = _bulk_media(call.headers)
            limits = server.limits
            file = await spool_body(call.receive, call.headers, limits.bulk_body, limits.pause)
            call.body = Bulk(media, file)
        elif operation.body is not None:
            call.body = await self._read_json(call)
        if found.collection is not None and operation.path.count("/") > 3:
            call.opened = server.catalog.find(found.collection)
        elif found.collection is not None:
            call.names = (found.collection, *found.names)

    async def _read_json(self, call: Call) -> Any:
        media = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media != b"application/json":
            raise ProblemError(
                415,
                "unknown-media-type",
                "the body is JSON; send it with Content-Type: application/json",
                {"Accept": JSON},
            )
        limits = self.server.limits
        data = await read_body(call.receive, call.headers, limits.body, limits.arrival)
        if len(data) > _LARGE:
            return await call.work(_decoder(call.operation).decode, data)
        return _decoder(call.operation).decode(data)

    async def _handle(self, call: Call) -> Any:
        operation = call.operation
        if operation.place == "stream":
            return await operation.handler(call)
        if operation.place in ("thread", "analysis"):
            return await call.work(operation.handler, call)
        if call.opened is None:
            return operation.handler(call)
        if call.opened.is_slow:
            return await call.work(_run_timed, call)
        return _run_timed(call)

    async def _fail(self, answer: _Answer, error: Exception, request_id: str) -> None:
        problem = to_problem(error)
        if problem.problem.status >= 500 and not isinstance(error, ProblemError):
            _logger.error("request %s failed", request_id, exc_info=error)
        if answer.status is None:
            await answer.problem(problem)
        else:
            # The answer has begun: all that is left is to cut the connection.
            raise error

    def _choose_id(self, headers: dict[bytes, bytes]) -> str:
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._boot}-{next(self._numbers):x}"

    def _note(
        self,
        scope: Scope,
        found: Found | None,
        call: Call | None,
        status: int,
        started: float,
        request_id: str,
    ) -> None:
        now = time.perf_counter()
        seconds = now - started
        if call is not None and call.opened is not None and status < 400:
            call.opened.latencies.note(call.operation.name, seconds, now)
        route = found.operation.path if found else "-"
        method = found.operation.method if found else "-"
        self.server.metrics.observe(method, route, status, seconds)
        if self.server.settings.access_log:
            client = scope.get("client")
            key = call.key.id if call is not None and call.key else None
            self.server.log.request(
                scope["method"],
                route,
                found.collection if found else None,
                status,
                seconds,
                client[0] if client else None,
                key,
                request_id,
            )


class _Answer:
    """Sends the answer of one request."""

    def __init__(self, send: Send, is_head: bool, request_id: str) -> None:
        self._send = send
        self._is_head = is_head
        self._request_id = request_id.encode()
        self.status: int | None = None
        """The status, once it is sent."""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of ASGI, and note its status."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def problem(self, error: ProblemError) -> None:
        """Send a problem."""
        headers = dict(error.headers)
        reply = Reply(_encode(error.problem), error.problem.status, headers, PROBLEM)
        await self.reply(reply, None)

    async def reply(self, result: Any, call: Call | None) -> None:
        """Send what a handler has returned."""
        if self.status is not None:
            return  # A stream has sent it all.
        reply = result if isinstance(result, Reply) else Reply(result)
        if reply.pieces is not None:
            assert call is not None
            await self._send_pieces(reply, call)
            return
        body = reply.body
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        headers = self._headers(reply)
        if reply.status != 204:
            headers.append((b"content-length", b"%d" % len(data)))
        await self.send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": b"" if self._is_head else data})

    async def _send_pieces(self, reply: Reply, call: Call) -> None:
        pieces: Iterator[bytes] = iter(reply.pieces)
        # The first piece comes before the status: an error in it still gets its own.
        piece = await call.work(next, pieces, None)
        headers = self._headers(reply)
        await self.send({"type": "http.response.start", "status": reply.status, "headers": headers})
        while piece is not None and not self._is_head:
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            piece = await call.work(next, pieces, None)
        await self.send({"type": "http.response.body", "body": b""})

    def _headers(self, reply: Reply) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"x-request-id", self._request_id),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        if reply.body is not None or reply.pieces is not None:
            headers.append((b"content-type", reply.media.encode()))
        headers += [
            (name.lower().encode(), v.encode("latin-1")) for name, v in reply.headers.items()
        ]
        return headers


def _run_timed(call: Call) -> Any:
    """Run a short handler, and note how long the collection takes for it.

    The time is that of the processor: on a busy machine the clock on the wall says little.
    """
    started = time.thread_time()
    result = call.operation.handler(call)
    call.collection.note_time(time.thread_time() - started)
    return result


def read_path(scope: Scope) -> str:
    """The path of a request; bytes that are no UTF-8 would name what others name, too.

    Raises
    ------
    ProblemError
        It has such bytes (400).
    """
    raw = scope.get("raw_path")
    if raw is None or b"%" not in raw:
        return str(scope["path"])
    try:
        return unquote_to_bytes(raw.partition(b"?")[0]).decode()
    except UnicodeDecodeError:
        raise ProblemError(400, "malformed-path", "the path is not valid UTF-8") from None


_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def _decoder(operation: Operation) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(operation.name)
    if decoder is None:
        decoder = _decoders[operation.name] = msgspec.json.Decoder(operation.body)
    return decoder


def read_query(query: bytes, kind: type[msgspec.Struct]) -> Any:
    """The parameters of a query, with the types that the operation declares."""
    lists = {
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if get_origin(field.type) is list
    }
    fields: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in lists:
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise ProblemError(422, "invalid-request", f"the parameter {name!r} comes twice")
        else:
            fields[name] = value
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name in fields.keys() - known:
        raise ProblemError(422, "invalid-request", f"there is no parameter {name!r}")
    return msgspec.convert(fields, kind, strict=False)


def _bulk_media(headers: dict[bytes, bytes]) -> str:
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media not in _BULK_MEDIA:
        raise ProblemError(
            415,
            "unknown-media-type",
            f"the body is JSON lines ({JSON_LINES}) or an Arrow stream ({ARROW})",
            {"Accept": f"{JSON_LINES}, {ARROW}"},
        )
    return _BULK_MEDIA[media]


def make_app(settings: ServerSettings) -> App:
    """Make the ASGI application that serves a directory."""
    return App(Server(settings))
