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

_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that is assigned to public hosts; site-local addresses, for one, are outside."""

_NOT_PUBLIC: Final[tuple[_Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a provider
        "127.0.0.0/8",
        "168.63.129.16/32",  # the platform of Azure, as seen from its machines
        "169.254.0.0/16",  # link-local: metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays to 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)
"""What is special although it looks public. The releases of Python 3.11 to 3.13 differ in what they
take for global, so the list stands here, and `is_global` has to agree."""


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
        bare, scope, _ = text.partition("%")
        address = ipaddress.ip_address(bare)
        for one in _list_destinations(address):
            is_allowed = any(
                one.version == network.version and one in network for network in self._allowed
            )
            # An address with a scope is of one link only.
            if not is_allowed and (scope or not _is_public(one)):
                raise RefusedAddressError(f"{host} has the private address {text}")


def _is_public(address: _Address) -> bool:
    if address.version == 6 and address not in _UNICAST:
        return False
    is_special = any(address.version == net.version and address in net for net in _NOT_PUBLIC)
    return address.is_global and not is_special


def _list_destinations(address: _Address) -> list[_Address]:
    """An address, and the IPv4 addresses to which it leads if it is of IPv6."""
    if not isinstance(address, ipaddress.IPv6Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inner = (address.sixtofour, *(address.teredo or ()))
    return [address, *(one for one in inner if one is not None)]
