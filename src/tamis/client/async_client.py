"""The client for coroutines: `AsyncClient`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from tamis.client import calls
from tamis.client.calls import Call, document
from tamis.client.connection import Settings, find_key, request_options, stream_options
from tamis.client.errors import RequestError, to_error
from tamis.client.retries import delays, may_retry, wait_as_told
from tamis.client.stream import StreamReader
from tamis.wire.messages import CollectionInfo
from tamis.wire.pubsub import DeliveryRecord

__all__ = ["AsyncClient"]

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    describe: Callable[Concatenate[str, P], Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """A method that sends what `describe` describes, for the collection of the client."""

    async def send(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(describe(self.collection, *args, **kwargs))

    return document(send, describe)


class AsyncClient:
    """As :class:`Client`, for coroutines: ``await client.match(event)``.

    Parameters
    ----------
    url, collection, key, timeout, retries
        As in :class:`Client`.

    Examples
    --------
    >>> from tamis.client import AsyncClient
    >>> async def find(event):
    ...     async with AsyncClient("http://127.0.0.1:8080", "offers") as c:
    ...         return await c.match(event)
    """

    def __init__(
        self,
        url: str,
        collection: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
    ) -> None:
        self.collection = collection
        self._settings = Settings(url, find_key(key), timeout, retries)
        self._http = httpx2.AsyncClient(**self._settings.for_http())

    async def send(self, call: Call[T]) -> T:
        """Send a call, as :meth:`Client.send` does."""
        waits = delays(self._settings.retries)
        while True:
            try:
                answer = await self._http.request(**request_options(call, self._settings))
            except httpx2.TransportError as error:
                delay = next(waits, None)
                was_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if delay is None or not may_retry(call, None, was_sent):
                    raise RequestError(f"{self._settings.url}: {error}") from error
                await asyncio.sleep(delay)
                continue
            if answer.is_success:
                return call.read(answer.content)
            delay = next(waits, None)
            if delay is None or not may_retry(call, answer.status_code, True):
                raise to_error(answer.status_code, answer.content, answer.headers)
            await asyncio.sleep(wait_as_told(delay, answer.headers))

    async def subscribe(
        self, *subscriptions: str, payloads: bool = False
    ) -> AsyncIterator[DeliveryRecord]:
        """Receive the messages of subscriptions as they come, as :meth:`Client.subscribe` does."""
        reader = StreamReader()
        waits = delays(self._settings.retries)
        while True:
            reader.begin()
            options = stream_options(self.collection, subscriptions, payloads, reader.last_id)
            try:
                async with self._http.stream(**options) as answer:
                    if not answer.is_success:
                        body = await answer.aread()
                        if answer.status_code != 503:
                            raise to_error(answer.status_code, body, answer.headers)
                    else:
                        async for line in answer.aiter_lines():
                            delivery = reader.feed(line)
                            if delivery is not None:
                                waits = delays(self._settings.retries)
                                yield delivery
            except httpx2.TransportError as error:
                problem: Exception | None = error
            else:
                problem = None
            delay = next(waits, None)
            if delay is None:
                raise RequestError(f"{self._settings.url}: the stream broke: {problem}")
            await asyncio.sleep(delay)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def revision(self) -> int:
        """The number of the last change of rules."""
        return (await self.info()).revision

    async def collections(self) -> list[CollectionInfo]:
        """List the collections that the key may read."""
        return await self.send(calls.list_collections())

    # --- What calls.py describes ---

    create = _method(calls.create)
    drop = _method(calls.drop)
    info = _method(calls.info)
    stats = _method(calls.stats)
    add = _method(calls.add)
    add_many = _method(calls.add_many)
    replace_all = _method(calls.replace_all)
    remove = _method(calls.remove)
    remove_many = _method(calls.remove_many)
    rule = _method(calls.rule)
    list_rules = _method(calls.list_rules)
    export = _method(calls.export)
    changes = _method(calls.changes)
    match = _method(calls.match)
    first = _method(calls.first)
    top = _method(calls.top)
    count = _method(calls.count)
    match_expression = _method(calls.match_expression)
    explain = _method(calls.explain)
    why = _method(calls.why)
    why_not = _method(calls.why_not)
    match_many = _method(calls.match_many)
    count_many = _method(calls.count_many)
    top_many = _method(calls.top_many)
    publish = _method(calls.publish)
    publish_many = _method(calls.publish_many)
    read_log = _method(calls.read_log)
    put_subscription = _method(calls.put_subscription)
    subscription = _method(calls.subscription)
    subscriptions = _method(calls.subscriptions)
    delete_subscription = _method(calls.delete_subscription)
    read = _method(calls.read)
    acknowledge = _method(calls.acknowledge)
    dead_letters = _method(calls.dead_letters)
    replay = _method(calls.replay)
    backtest = _method(calls.backtest)
    lint = _method(calls.lint)
    similar = _method(calls.similar)
    ratify = _method(calls.ratify)
