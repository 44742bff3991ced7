"""Groups client addresses for the limits on connections.

It must not resolve names.
"""

from __future__ import annotations

import ipaddress
from typing import Final

_PREFIX_IPV6: Final = 64


def group_of(host: str) -> str:
    """Return the group of a client: its IPv4 address, or its /64 network, as an IPv6 client owns all of one.

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
