"""Sends one message to a receiver over HTTP/1.1, and says whether it took it.

Only the status is read. The body of the answer is the receiver's business: to store or to return
it would show a subscriber what only the server can reach.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from tamis.pubsub.webhooks.addresses import AddressPolicy, RefusedAddressError

__all__ = ["NotTakenError", "Sender"]

_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")
_LARGEST_HEAD: Final = 64 << 10
_PORTS: Final = {"http": 80, "https": 443}


class NotTakenError(Exception):
    """A receiver has not taken a message; the text says why."""


class Sender:
    """Sends messages to receivers.

    Parameters
    ----------
    addresses
        Which addresses are allowed.
    seconds
        How long a receiver has for its answer, all in all.
    tls
        The certificates to trust; those of the system by default.
    """

    def __init__(
        self, addresses: AddressPolicy, seconds: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._addresses = addresses
        self._seconds = seconds
        self._tls = tls

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a message. It was taken if this returns.

        Raises
        ------
        NotTakenError
            The receiver does not answer, redirects, or answers with anything but success.
        """
        try:
            async with asyncio.timeout(self._seconds):
                status = await self._exchange(url, headers, body)
        except TimeoutError:
            raise NotTakenError(f"no answer within {self._seconds:g} seconds") from None
        except RefusedAddressError as error:
            raise NotTakenError(str(error)) from None
        except ssl.SSLError as error:
            raise NotTakenError(f"TLS failed: {error.reason or 'no reason given'}") from None
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            raise NotTakenError("the answer is not HTTP") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise NotTakenError(f"the connection failed: {reason[:200]}") from None
        if 300 <= status < 400:
            raise NotTakenError(f"it redirects (status {status}), which is not followed")
        if not 200 <= status < 300:
            raise NotTakenError(f"status {status}")

    async def _exchange(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send a request, and return the status of the answer."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        addresses = await self._addresses.resolve(host, port)
        reader, writer = await self._connect(addresses, host, port, parts.scheme == "https")
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [
                f"POST {target} HTTP/1.1",
                f"host: {parts.netloc}",
                "connection: close",
                f"content-length: {len(body)}",
                *(f"{name}: {value}" for name, value in headers.items()),
            ]
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            await writer.drain()
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = _STATUS.match(head)
                if found is None:
                    raise ValueError("no status")
                # 1xx announces that the answer follows.
                if int(found[1]) >= 200:
                    return int(found[1])
        finally:
            writer.transport.abort()

    async def _connect(
        self, addresses: Sequence[str], host: str, port: int, is_secure: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first of these addresses that answers; the name is not resolved again."""
        tls = None
        if is_secure:
            if self._tls is None:
                self._tls = ssl.create_default_context()
            tls = self._tls
        failure: OSError | None = None
        for address in addresses:
            try:
                return await asyncio.open_connection(
                    address,
                    port,
                    ssl=tls,
                    server_hostname=host if is_secure else None,
                    limit=_LARGEST_HEAD,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        assert failure is not None
        raise failure
