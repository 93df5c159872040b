"""Which addresses a webhook may connect to."""

from __future__ import annotations

import pytest

from tamis.pubsub.webhooks.addresses import AddressPolicy, RefusedAddressError


def is_allowed(address: str, *allowed: str) -> bool:
    try:
        AddressPolicy(allowed).check("example.com", address)
    except RefusedAddressError:
        return False
    return True


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
        *("128.0.0.0", "168.63.129.15", "172.15.255.255", "172.32.0.0", "192.0.1.0", "198.20.0.0"),
        *("192.31.196.1", "223.255.255.255"),
        *("2000::", "2001:200::1", "2003::", "2606:4700::1111", "2620:4f:8000::1", "3fff:1000::1"),
        # They lead to public addresses of IPv4.
        *("::ffff:1.1.1.1", "64:ff9b::808:808"),
    ],
)
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0"),
        *("100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.255", "168.63.129.16"),
        *("169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.9", "192.0.0.192"),
        *("192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255"),
        *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::7f00:1", "::1.1.1.1", "100::1", "1fff:ffff::1", "4000::1", "5f00::1"),
        *("fc00::1", "fd00:ec2::254", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1"),
        *("ff0e::1", "2001::1", "2001:1::1", "2001:20::1", "2001:db8::1", "3fff::1"),
        *("::ffff:10.0.0.1", "::ffff:7f00:1", "::ffff:0.0.0.0", "::ffff:169.254.169.254"),
        *("64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:1::808:808"),
        *("2002:a00:1::", "2002:7f00:1::1", "2002:808:808::1"),
        *("fe80::1%eth0", "2606:4700::1111%eth0"),
    ],
)
def test_address_that_is_not_public_is_refused(address: str) -> None:
    """On every version of Python, whatever its `ipaddress` takes for global."""
    assert not is_allowed(address)


@pytest.mark.parametrize(
    ("address", "network", "expected"),
    [
        ("10.1.2.3", "10.1.0.0/16", True),
        ("10.2.2.3", "10.1.0.0/16", False),
        ("::ffff:10.1.2.3", "10.1.0.0/16", True),
        ("64:ff9b::a01:203", "10.1.0.0/16", True),
        ("64:ff9b::a01:203", "64:ff9b::/96", False),
        ("fec0::1", "fec0::/10", True),
        ("fe80::1%eth0", "fe80::/10", True),
        ("2002:a00:1::", "2002::/16", False),
    ],
)
def test_networks_are_allowed_by_name(address: str, network: str, expected: bool) -> None:
    assert is_allowed(address, network) is expected
