"""Messages over a WebSocket: the server sends deliveries, the client acknowledges them.

``GET /v1/collections/NAME/socket?subscription=ann`` opens it. The server sends the same objects as
the stream of events, and an error as ``{"problem": {…}}`` before it closes. The client sends
``{"subscription": "ann", "sequence": 12}`` to acknowledge.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tamis.errors import TamisError
from tamis.server.deliveries import Cursors, describe_delivery, follow
from tamis.server.operation import Operation
from tamis.server.problems import ProblemError, to_problem
from tamis.server.router import COLLECTIONS
from tamis.server.streams import BEAT_SECONDS
from tamis.wire.messages import Body

if TYPE_CHECKING:
    from tamis.server.app import Server
    from tamis.server.catalog import OpenCollection

__all__ = ["serve_socket"]

_REFUSED: Final = 1008
_STOPPING: Final = 1012
_encode = msgspec.json.Encoder().encode


class Acknowledgement(Body):
    """What a client sends."""

    subscription: str
    sequence: int | str


_decode = msgspec.json.Decoder(Acknowledgement).decode
_RIGHT: Final = Operation("GET", f"{COLLECTIONS}/{{collection}}/socket", "", lambda _: None, "read")
"""What a key has to allow."""


async def serve_socket(server: Server, scope: Any, receive: Any, send: Any) -> None:
    """Serve one WebSocket until it closes."""
    await receive()
    try:
        collection, cursors, payloads = _open(server, scope)
        await collection.pubsub.prepare_async(cursors.after)
        collection.pubsub.read_any(cursors.after, limit=1)
        opened = server.streams.opened()
        opened.__enter__()
    except (TamisError, ProblemError) as error:
        await _refuse(send, scope, to_problem(error))
        return
    try:
        await send({"type": "websocket.accept"})
        code = await _serve(server, collection, cursors, payloads, receive, send)
        with suppress(RuntimeError, OSError):
            await send({"type": "websocket.close", "code": code})
    finally:
        opened.__exit__(None, None, None)


def _open(server: Server, scope: Any) -> tuple[OpenCollection, Cursors, bool]:
    from tamis.server.app import read_path, read_query
    from tamis.server.routes.subscriptions import StreamQuery

    path = read_path(scope)
    name, _, rest = path.removeprefix(f"{COLLECTIONS}/").partition("/")
    if rest != "socket" or not path.startswith(f"{COLLECTIONS}/"):
        raise ProblemError(404, "no-such-path", "there is no WebSocket at this path")
    headers = dict(scope["headers"])
    server.guard.check(_RIGHT, name, headers)
    query = read_query(scope["query_string"], StreamQuery)
    if not query.subscription:
        raise ProblemError(422, "invalid-request", "name a subscription: ?subscription=…")
    collection = server.catalog.find(name)
    cursors = Cursors(collection, query.subscription)
    last = headers.get(b"last-event-id", b"").decode("latin-1")
    if last:
        cursors.restore(last)
    return collection, cursors, query.payloads


async def _serve(
    server: Server,
    collection: OpenCollection,
    cursors: Cursors,
    payloads: bool,
    receive: Any,
    send: Any,
) -> int:
    """Send and receive until one side ends; returns the code to close with."""
    tasks = [
        asyncio.create_task(_send_deliveries(cursors, payloads, send)),
        asyncio.create_task(_receive_acks(server, collection, cursors, receive)),
        asyncio.create_task(server.streams.ending.wait()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    if results[2] is True:
        return _STOPPING
    for result in results:
        if isinstance(result, Exception):
            problem = to_problem(result).problem
            with suppress(RuntimeError, OSError):
                await send(
                    {"type": "websocket.send", "text": _encode({"problem": problem}).decode()}
                )
            return _REFUSED
    return 1000


async def _send_deliveries(cursors: Cursors, payloads: bool, send: Any) -> None:
    async for delivery in follow(cursors, payloads, BEAT_SECONDS):
        if delivery is not None:
            text = _encode(describe_delivery(delivery)).decode()
            await send({"type": "websocket.send", "text": text})
    raise ProblemError(404, "collection-not-found", "the collection was closed or removed")


async def _receive_acks(
    server: Server, collection: OpenCollection, cursors: Cursors, receive: Any
) -> None:
    while (message := await receive())["type"] != "websocket.disconnect":
        ack = _decode(message.get("text") or message.get("bytes") or b"")
        if ack.subscription not in cursors.after:
            raise ProblemError(
                422, "invalid-request", "this socket does not have that subscription"
            )
        server.catalog.check_writable()
        await server.workers.run(
            "write", None, collection.pubsub.acknowledge, ack.subscription, ack.sequence
        )


async def _refuse(send: Any, scope: Any, problem: ProblemError) -> None:
    """Refuse the handshake, with the problem as its answer where the server can send one."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _REFUSED})
        return
    status, body = problem.problem.status, _encode(problem.problem)
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
