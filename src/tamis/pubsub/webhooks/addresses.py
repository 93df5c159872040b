"""Which addresses a webhook may connect to: no private ones, whatever a name resolves to.

A subscriber chooses the address to which the server connects. Without a check it could reach what
only the server can: a database on the same machine, the metadata service of a cloud. So every
address of a name is checked, and the connection is made to a checked address, not to the name,
which may resolve to another one a moment later.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

__all__ = ["AddressPolicy", "RefusedAddressError"]

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class RefusedAddressError(Exception):
    """A webhook may not connect to an address."""


class AddressPolicy:
    """Resolves names, and refuses addresses that are not public.

    Parameters
    ----------
    allowed
        Networks to allow although they are not public: ``["10.1.0.0/16"]``.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed: list[_Network] = [ipaddress.ip_network(text) for text in allowed]

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a host.

        Raises
        ------
        RefusedAddressError
            One of them is not public, or there is none.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise RefusedAddressError(f"{host} cannot be resolved") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in addresses:
            self.check(host, address)
        if not addresses:
            raise RefusedAddressError(f"{host} has no address")
        return addresses

    def check(self, host: str, text: str) -> None:
        """Raise `RefusedAddressError` if an address is neither public nor allowed."""
        address = ipaddress.ip_address(text.partition("%")[0])
        for one in (address, *_list_embedded(address)):
            is_allowed = any(
                one.version == network.version and one in network for network in self._allowed
            )
            if not is_allowed and not _is_public(one):
                raise RefusedAddressError(f"{host} has the private address {text}")


def _is_public(address: _Address) -> bool:
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )


def _list_embedded(address: _Address) -> list[_Address]:
    """The IPv4 addresses to which an IPv6 address leads."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[_Address] = []
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found
