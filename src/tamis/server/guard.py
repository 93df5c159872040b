"""Who may do what: keys, and for a server without keys, only pages of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tamis.server.keys import Key, KeyFile
from tamis.server.operation import Operation
from tamis.server.problems import ProblemError
from tamis.server.settings import ServerSettings

__all__ = ["Guard"]

_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Lets requests pass or refuses them, before anything is read or looked up.

    Parameters
    ----------
    settings
        Whether keys are needed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._needs_keys = settings.needs_keys
        self._is_loopback = settings.is_loopback
        self.keys = KeyFile(settings.folder)

    def check(
        self, operation: Operation, collection: str | None, headers: Mapping[bytes, bytes]
    ) -> Key | None:
        """Check a request, and return its key.

        Raises
        ------
        ProblemError
            It has no valid key (401), or its key does not allow this (403).
        """
        if not self._needs_keys:
            self._check_origin(headers)
            return None
        if operation.right is None:
            return None
        key = self._find_key(headers)
        if not key.allows(operation.right, collection) and not _is_listing(operation):
            place = "the server" if collection is None else f"the collection {collection!r}"
            raise ProblemError(
                403, "not-allowed", f"this key has no right to {operation.right} in {place}"
            )
        return key

    def _find_key(self, headers: Mapping[bytes, bytes]) -> Key:
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = self.keys.find(token.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            reason = "send a valid key as Authorization: Bearer tamis_…"
        elif key.has_expired(datetime.now(UTC)):
            reason = "the key has expired"
        else:
            return key
        raise ProblemError(
            401, "no-valid-key", reason, {"WWW-Authenticate": 'Bearer realm="tamis"'}
        )

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Without keys, refuse what a page of another site may send through a browser.

        A page elsewhere can name this server by a host name of its own (DNS rebinding), or post to
        it; the first shows in Host, the second in Origin.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        if self._is_loopback and host and _without_port(host) not in _LOCAL:
            raise ProblemError(403, "foreign-host", "this server answers to localhost only")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
            raise ProblemError(403, "foreign-origin", "another site's page sent this request")


def _is_listing(operation: Operation) -> bool:
    """Whether the answer itself leaves out what a key may not see."""
    return operation.name == "list_collections"


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
