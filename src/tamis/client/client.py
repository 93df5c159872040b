"""The client that waits: `Client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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

__all__ = ["Client"]

P = ParamSpec("P")
T = TypeVar("T")


def _method(
    describe: Callable[Concatenate[str, P], Call[T]],
) -> Callable[Concatenate[Client, P], T]:
    """A method that sends what `describe` describes, for the collection of the client."""

    def send(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(describe(self.collection, *args, **kwargs))

    return document(send, describe)


class Client:
    """A collection on a server, with the methods of a matcher.

    Parameters
    ----------
    url
        The address of the server, such as ``http://127.0.0.1:8080``.
    collection
        The name of the collection.
    key
        The API key; by default that of the environment variable ``TAMIS_KEY``, if there is one.
    timeout
        How many seconds a request may take.
    retries
        How often a request is tried again that may be: after a broken connection, or when the
        server has too much to do.

    Examples
    --------
    >>> from tamis.client import Client
    >>> with Client("http://127.0.0.1:8080", "offers") as c:          # doctest: +SKIP
    ...     c.add("cheap", "price < 25", replace=True)
    ...     c.match({"price": 20})
    ['cheap']
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
        self._http = httpx2.Client(**self._settings.for_http())

    def send(self, call: Call[T]) -> T:
        """Send a call, try again where that may help, and read the answer.

        Raises
        ------
        TamisError
            The server refuses it; the error is that of a matcher where there is one.
        RequestError
            The server cannot be reached, or fails.
        """
        waits = delays(self._settings.retries)
        while True:
            try:
                answer = self._http.request(**request_options(call, self._settings))
            except httpx2.TransportError as error:
                delay = next(waits, None)
                was_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if delay is None or not may_retry(call, None, was_sent):
                    raise RequestError(f"{self._settings.url}: {error}") from error
                time.sleep(delay)
                continue
            if answer.is_success:
                return call.read(answer.content)
            delay = next(waits, None)
            if delay is None or not may_retry(call, answer.status_code, True):
                raise to_error(answer.status_code, answer.content, answer.headers)
            time.sleep(wait_as_told(delay, answer.headers))

    def subscribe(self, *subscriptions: str, payloads: bool = False) -> Iterator[DeliveryRecord]:
        """Receive the messages of subscriptions as they come, for ever.

        A connection that breaks is opened again, and goes on after the last message. Messages that
        are not acknowledged come again when another client subscribes.

        Parameters
        ----------
        subscriptions
            Their names.
        payloads
            Whether to attach the payloads of the rules.
        """
        reader = StreamReader()
        waits = delays(self._settings.retries)
        while True:
            reader.begin()
            options = stream_options(self.collection, subscriptions, payloads, reader.last_id)
            try:
                with self._http.stream(**options) as answer:
                    if not answer.is_success:
                        body = answer.read()
                        if answer.status_code != 503:
                            raise to_error(answer.status_code, body, answer.headers)
                    else:
                        for line in answer.iter_lines():
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
            time.sleep(delay)

    def __len__(self) -> int:
        return self.info().rules

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def revision(self) -> int:
        """The number of the last change of rules."""
        return self.info().revision

    def collections(self) -> list[CollectionInfo]:
        """List the collections that the key may read."""
        return self.send(calls.list_collections())

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
