"""Seals the audit trail: adds to the chain of hashes over `changes` what has settled since the last look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa

from schemas.change_tables import CHANGE_SEALS, SCHEMAS
from schemas.columns import instants
from sinks.answer import QueryResult
from sinks.errors import SinkError
from sinks.rows import Rows
from streams.selfcheck.change_chain import FIRST, ROWS_SQL, Seal, seals_of
from streams.worker.supervise import keep_doing

logger = logging.getLogger(__name__)

EVERY_S: Final = 10.0
_AT_ONCE: Final = 5_000
# Without `final` the last row is read from the end of the table; rows of one offset say the same here.
_LAST_SQL: Final = "SELECT offset, hash FROM change_seals ORDER BY offset DESC LIMIT 1 SETTINGS final = 0"
END_SQL: Final = "SELECT offset FROM changes ORDER BY offset DESC LIMIT 1 SETTINGS final = 0"


class SealStore(Rows, Protocol):
    """What is needed of a store."""

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run our own read-only SQL in ClickHouse's read-only mode."""
        ...


def seal(store: SealStore, until: int, now_ms: int) -> int:
    """Seal the changes up to an offset; return the offset of the newest change, which settles until the next call.

    A seal is a function of the rows up to its own, so a worker that takes over writes the same.
    """
    while until >= 0:
        last = next(
            (Seal(int(str(row[0])), str(row[1])) for row in store.ask(_LAST_SQL).rows()), Seal(-1, FIRST)
        )
        bounds = {"after": last.offset, "until": until, "limit": _AT_ONCE}
        seals = [*seals_of(store.ask(ROWS_SQL, bounds).rows(), last.hash)]
        if seals:
            rows = {
                "offset": [each.offset for each in seals],
                "time": instants([now_ms] * len(seals)),
                "hash": [each.hash for each in seals],
                "version": [each.offset + 1 for each in seals],
            }
            token = f"{CHANGE_SEALS}:{seals[0].offset}:{seals[-1].offset}:{seals[-1].hash[:16]}"
            store.insert(CHANGE_SEALS, pa.Table.from_pydict(rows, schema=SCHEMAS[CHANGE_SEALS]), token)
        if len(seals) < _AT_ONCE:
            break
    return next((int(str(row[0])) for row in store.ask(END_SQL).rows()), -1)


async def keep_sealing(store: SealStore, is_mine: Callable[[], bool], now_ms: Callable[[], int]) -> None:
    """Seal every ten seconds while this worker has the duty."""
    until = -1

    def turn() -> None:
        nonlocal until
        until = seal(store, until, now_ms())

    def late(fault: SinkError) -> None:
        logger.warning(
            "the audit trail is not sealed yet",
            extra={"error": str(fault), "runbook": "docs/audit.md#audit-trail"},
        )

    await keep_doing("seals", turn, EVERY_S, is_mine, late)
