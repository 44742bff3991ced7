"""Opens the addresses of owners and teams, as messages need them."""

from __future__ import annotations

from collections.abc import Iterable

from streams.address_keys import AddressKeys, SealedAddressError
from streams.engine.alerts.alert import Address


def opened_addresses(addresses: Iterable[Address], keys: AddressKeys | None) -> list[Address]:
    """The addresses; one that no key opens stays sealed, and gets no message."""
    return [_opened(each, keys) for each in addresses]


def _opened(address: Address, keys: AddressKeys | None) -> Address:
    if keys is None:
        return address
    try:
        return address._replace(url=keys.opened(address.kind, address.url))
    except SealedAddressError:
        return address
