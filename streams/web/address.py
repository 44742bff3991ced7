"""Groups client addresses for the limits on connections."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PREFIX_IPV6: Final = 64


def group_of(host: str) -> str:
    """The group of a client: its IPv4 address, or its /64 network, as an IPv6 client owns all of one.

    A text that is no address is its own group.
    """
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return str(found)
    return str(ipaddress.ip_network((found, _PREFIX_IPV6), strict=False))


def proxies_of(text: str) -> tuple[Network, ...]:
    """The networks of a list of addresses and networks, separated by commas.

    Raises:
        ValueError: One is neither.
    """
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def is_one_of(host: str, networks: Sequence[Network]) -> bool:
    """Whether a client's address is in one of the networks."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in networks)
