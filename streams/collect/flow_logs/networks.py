"""Which way bytes went: from the places of both ends, what the log says, and whether an address is a public one.

Private addresses that no network names are `unclassified`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from streams.collect.flow_logs.flow import FlowEnd, Place
from streams.collect.flow_logs.options import Network

_REMEMBERED: Final = 100_000


class _KnownAddress(NamedTuple):
    place: Place
    way: str
    is_listed: bool


_NOTHING: Final = _KnownAddress(Place(), "", is_listed=False)


class Networks:
    """Networks by their addresses; of those that hold an address the smallest counts."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks: dict[tuple[int, int, int], Network] = {}
        for each in networks:
            cidr = ip_network(each.cidr)
            self._networks[cidr.version, cidr.prefixlen, int(cidr.network_address)] = each
        self._lengths = sorted({(version, length) for version, length, _ in self._networks}, reverse=True)
        self._known: dict[str, _KnownAddress] = {}

    def place_of(self, address: str) -> Place:
        """Where an address is."""
        return self._of(address).place

    def way(self, own: Place, other: FlowEnd, said: str) -> str:
        """The `path` of bytes between a place and an end; `said`: what the log itself says, or nothing."""
        known = self._of(other.address)
        if known.way:
            return known.way
        region, zone = other.place if other.place.region else known.place
        if region and own.region:
            if region != own.region:
                return "cross_region"
            if zone and own.zone:
                return "same_zone" if zone == own.zone else "cross_zone"
            return said or "unclassified"
        if said:
            return said
        if known.is_listed or other.is_cloud_service or region:
            return "unclassified"
        return "internet" if _is_public(other.address) else "unclassified"

    def _of(self, address: str) -> _KnownAddress:
        found = self._known.get(address)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[address] = self._looked_up(address)
        return found

    def _looked_up(self, address: str) -> _KnownAddress:
        try:
            parsed = ip_address(address)
        except ValueError:
            return _NOTHING
        number, bits = int(parsed), parsed.max_prefixlen
        for version, length in self._lengths:
            if version == parsed.version:
                network = self._networks.get((version, length, number >> (bits - length) << (bits - length)))
                if network is not None:
                    return _KnownAddress(
                        Place(network.region, network.zone), network.path or "", is_listed=True
                    )
        return _NOTHING


@lru_cache(_REMEMBERED)  # it takes long, and most logs say where bytes went
def _is_public(address: str) -> bool:
    """Whether an address is one of the internet."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return parsed.is_global and not parsed.is_multicast
