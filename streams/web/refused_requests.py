"""Puts on record who was refused what: requests to change something, counted by who asked, from where, for what and why.

However many there are, few records are written: a flood fills no disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from schemas.change_tables import ADDRESS_HEADER, PROOF_HEADER
from schemas.validate_deeds import deed_record
from sinks.errors import SinkBusy
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.web.record_log import RecordLog
from streams.web.scopes import Caller

logger = logging.getLogger(__name__)

EVERY_S: Final = 20.0
#: Records in each look, those of the most requests; the others wait, and of more kinds the rest is counted as one.
AT_ONCE: Final = 2
KINDS_MAX: Final = 256
_REST: Final = "other requests"


class RefusedRequest(NamedTuple):
    """What was refused: by whom it was asked, from where, for what, and the code of the refusal."""

    by: str
    proof: str
    address: str
    what: str


class RefusedRequests:
    """Refusals of one server that are not on record yet.

    Args:
        log: Where records go; None: this process writes none.
        wall_ms: Log time, ms since 1970.
    """

    def __init__(self, log: RecordLog | None, wall_ms: Callable[[], int]) -> None:
        self._log = log
        self._wall_ms = wall_ms
        self._counted: Counter[RefusedRequest] = Counter()

    def note(self, caller: Caller, method: str, path: str, code: str) -> None:
        """Count a refusal of somebody in particular."""
        if self._log is None or not caller.token:
            return
        found = RefusedRequest(caller.token, caller.proof, caller.address, f"{method} {path}: {code}")
        if found not in self._counted and len(self._counted) >= KINDS_MAX:
            found = RefusedRequest(_REST, "", "", _REST)
        self._counted[found] += 1

    async def write(self) -> int:
        """Write the records of what was refused most; return how many, what Kafka did not take is written later."""
        if self._log is None:
            return 0
        now_ms, written = self._wall_ms(), 0
        for found, count in self._counted.most_common(AT_ONCE):
            name = hashlib.sha256("\n".join(found).encode(errors="replace")).hexdigest()[:24]
            record = deed_record("refused", name, found.by, found.what, count, now_ms)
            headers: list[tuple[str, str | bytes | None]] = [
                (ADDRESS_HEADER, found.address.encode()),
                (PROOF_HEADER, found.proof.encode()),
            ]
            try:
                await self._log.append([OutgoingRecord(Topic.CONTROLS, record.key, record.value, headers)])
            except SinkBusy as fault:
                logger.warning(
                    "refused requests are not on record yet",
                    extra={"error": str(fault), "runbook": "docs/audit.md#audit-trail"},
                )
                break
            self._counted[found] -= count
            if self._counted[found] <= 0:
                del self._counted[found]
            written += 1
        return written

    async def keep_writing(self) -> None:
        """Write every 20 s."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.write()
