"""When and from where each issued token was used last: noted at each request, stored once a minute, read of all workers.

A request must not wait for the store, nor fail because of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.columns import instants
from schemas.token_use_table import SCHEMAS, TOKEN_USES
from sinks.clickhouse import ClickHouseStore
from streams.web.errors import ApiError
from streams.web.store_reader import StoreReader

logger = logging.getLogger(__name__)

EVERY_S: Final = 60.0
_SQL: Final = "SELECT name, toUnixTimestamp64Milli(time) AS at_ms, address FROM token_uses FINAL"


class TokenUse(NamedTuple):
    """When a token was used, and by which client."""

    at_ms: int
    address: str


class TokenUses:
    """The last use of each issued token; there are few."""

    def __init__(self) -> None:
        self._known: dict[str, TokenUse] = {}
        self._unstored: dict[str, TokenUse] = {}

    def note(self, name: str, address: str, at_ms: int) -> None:
        """Keep that a token was used."""
        self._known[name] = self._unstored[name] = TokenUse(at_ms, address)

    async def store(self, reader: StoreReader) -> None:
        """Store what is not stored yet.

        Raises:
            ApiError: The store is not open, or failed; it is stored by a later call.
        """
        if not self._unstored:
            return
        taken, self._unstored = self._unstored, {}
        try:
            await reader.run(lambda store: _insert(store, taken))
        except BaseException:
            self._unstored = taken | self._unstored
            raise

    async def of_all_workers(self, reader: StoreReader) -> dict[str, TokenUse]:
        """The last uses by name: those that were stored, and those of this worker.

        Raises:
            ApiError: The store is not open, or failed.
        """
        found = {
            str(row["name"]): TokenUse(int(row["at_ms"]), str(row["address"]))
            for row in await reader.rows(_SQL)
        }
        for name, used in self._known.items():
            found[name] = max(used, found.get(name, used))
        return found

    def of_this_worker(self) -> Mapping[str, TokenUse]:
        """The last uses since the start of this worker, by name."""
        return self._known

    async def keep_storing(self, reader: StoreReader) -> None:
        """Store once a minute."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.store_or_say(reader)

    async def store_or_say(self, reader: StoreReader) -> None:
        """Store, or log that it is to be done later."""
        try:
            await self.store(reader)
        except ApiError as fault:
            logger.warning(
                "the last uses of tokens are not stored yet",
                extra={"error": str(fault), "runbook": "docs/company.md#tokens"},
            )


def _insert(store: ClickHouseStore, uses: Mapping[str, TokenUse]) -> None:
    times = [each.at_ms for each in uses.values()]
    rows = {
        "name": list(uses),
        "time": instants(times),
        "address": [each.address for each in uses.values()],
        "version": times,
    }
    digest = hashlib.sha256(repr(uses).encode()).hexdigest()[:32]
    store.insert(TOKEN_USES, pa.Table.from_pydict(rows, schema=SCHEMAS[TOKEN_USES]), f"{TOKEN_USES}:{digest}")
