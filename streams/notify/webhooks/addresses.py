"""Decides whether an IP address belongs to the public internet."""

import ipaddress
from typing import Final

# Python's own tables differ between patch versions and treat some of these as global, so all are listed here.
_V4: Final = [
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("168.63.129.16/32", "cloud platform"),  # Azure's host agent, in public space
        ("192.0.0.0/24", "special-purpose"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6: Final = [
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "special-purpose"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
]
# The only block of IPv6 from which public addresses are assigned.
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")


def forbidden(text: str) -> str | None:
    """The kind of an address that is not on the public internet, or None if it is public.

    The text is in the form that sockets use; text that cannot be parsed is forbidden.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "unreadable"
    if isinstance(address, ipaddress.IPv4Address):
        kind = next((kind for network, kind in _V4 if address in network), None)
    elif address.scope_id is not None:
        kind = "link-local"  # only such addresses need an interface
    else:
        kind = next((kind for network, kind in _V6 if address in network), None)
        if kind is None and address not in _PUBLIC_V6:
            kind = "reserved"
    return kind if kind is not None or address.is_global else "special-purpose"
