"""Counts places that clients share by token and by address, each with its share.

A token used from many addresses must not take all of them, nor an address with many tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple


class Client(NamedTuple):
    """Who asks: the name of a token, and an address."""

    token: str = ""
    address: str = ""
    teams: tuple[str, ...] | None = None  # whose rows alone it sees; None: all


class PlaceHolder(StrEnum):
    """Who has as many places as it may."""

    ALL = "all"
    TOKEN = "token"  # noqa: S105 - the name of a kind
    ADDRESS = "address"


class Places:
    """Places of one kind.

    Args:
        of_all: How many there are.
        of_token: How many of them one token may hold.
        of_address: How many of them one address may hold: more, as clients behind a proxy share one.
    """

    def __init__(self, of_all: int, of_token: int, of_address: int) -> None:
        self._of_all, self._of_token, self._of_address = of_all, of_token, of_address
        self._tokens: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()

    def full(self, client: Client) -> PlaceHolder | None:
        """Return whose share leaves no place for the client; None: there is one."""
        if self._tokens.total() >= self._of_all:
            return PlaceHolder.ALL
        if self._tokens[client.token] >= self._of_token:
            return PlaceHolder.TOKEN
        return PlaceHolder.ADDRESS if self._addresses[client.address] >= self._of_address else None

    @contextmanager
    def held(self, client: Client) -> Iterator[None]:
        """Hold a place."""
        kinds = ((self._tokens, client.token), (self._addresses, client.address))
        for counts, name in kinds:
            counts[name] += 1
        try:
            yield
        finally:
            for counts, name in kinds:
                counts[name] -= 1
                if not counts[name]:
                    del counts[name]
