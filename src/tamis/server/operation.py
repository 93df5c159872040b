"""An operation of the API: one line of the table from which routes and documentation come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

import msgspec

from tamis.server.keys import Key, Right
from tamis.wire.media import JSON

if TYPE_CHECKING:
    from tamis.server.app import Server
    from tamis.server.catalog import OpenCollection
    from tamis.server.workers import Kind

__all__ = [
    "Bulk",
    "Call",
    "NoQuery",
    "Operation",
    "Reply",
]

P = ParamSpec("P")
T = TypeVar("T")

Place: TypeAlias = Literal["loop", "thread", "analysis", "stream"]
"""Where a handler runs: in the event loop, because it takes microseconds; in a thread; in a thread
for analyses, because nothing bounds its time but the limit of a request; or as a coroutine that
sends its own messages."""


_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class NoQuery(msgspec.Struct, frozen=True):
    """An operation without parameters in its query."""


class Bulk(msgspec.Struct, frozen=True):
    """A body of many rules or events."""

    media: str
    """`JSON_LINES` or `ARROW`."""
    file: IO[bytes]


class Reply(msgspec.Struct, frozen=True):
    """An answer with more than a JSON body and status 200."""

    body: Any = None
    """Bytes as they are, anything else as JSON; None for no body."""
    status: int = 200
    headers: Mapping[str, str] = _NO_HEADERS
    media: str = JSON
    pieces: Any = None
    """An iterator over bytes in place of a body; each is made in a thread."""


@dataclass(frozen=True)
class Operation:
    """An operation: a method on a path, what it takes, and what it answers."""

    method: str
    path: str
    summary: str
    handler: Callable[[Call], Any]
    right: Right | None
    """What a key has to allow; None for what anyone may see."""
    answer: Any = None
    """The type of the JSON answer; None for no body."""
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    """The type of the JSON body; None for no body."""
    bulk: bool = False
    """Whether the body is JSON lines or an Arrow stream."""
    media: tuple[str, ...] = (JSON,)
    """The media types of the answer."""
    status: int = 200
    more_statuses: Mapping[int, str] = field(default_factory=dict)
    """Further statuses, with what they mean."""
    place: Place = "thread"
    writes: bool = False
    """Whether a read-only server refuses it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header fields of the request that matter, with what they mean."""
    answer_headers: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Which threads the handler takes."""
        if self.writes:
            return "write"
        return "analysis" if self.place == "analysis" else "question"

    @property
    def tag(self) -> str:
        """The noun under which the operation is listed: the file of its handler."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """A name that no other operation has."""
        return self.handler.__name__


class Call(msgspec.Struct):
    """A request that is being handled."""

    server: Server
    operation: Operation
    names: tuple[str, ...]
    """What the path has in place of its placeholders, after that of the collection."""
    headers: dict[bytes, bytes]
    key: Key | None
    query: Any = None
    body: Any = None
    opened: OpenCollection | None = None
    receive: Any = None
    send: Any = None

    async def work(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread; see `Workers.run`."""
        key = None if self.key is None else self.key.id
        workers = self.server.workers
        return await workers.run(self.operation.kind, key, function, *args, **kwargs)

    @property
    def collection(self) -> OpenCollection:
        """The collection that the path names."""
        assert self.opened is not None
        return self.opened

    def header(self, name: bytes) -> str | None:
        """A header field as text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")
