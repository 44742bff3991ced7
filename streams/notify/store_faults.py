"""Counts and logs failures between the notifier and the tables, and computes the back-off."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final, Literal

from sinks.errors import SinkBusy, SinkError

logger = logging.getLogger(__name__)

#: `read_alerts`: what is owed after a takeover; `read_deliveries`: what was sent already; `store_deliveries`.
What = Literal["read_alerts", "read_deliveries", "store_deliveries"]

_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 60_000


class DeliveryFaults:
    """`counts` since the process started, by operation."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._in_a_row: Counter[What] = Counter()

    def failed(self, what: What, fault: Exception, **fields: int) -> int:
        """Record a failed call; return for how many ms to back off, doubled with each failure in a row."""
        self.counts[what] += 1
        self._in_a_row[what] += 1
        first_ms = fault.retry_after_ms if isinstance(fault, SinkBusy) else _FIRST_MS
        doublings = min(self._in_a_row[what] - 1, 16)
        rest_ms = min(first_ms << doublings, _LONGEST_MS)
        why = str(fault) if isinstance(fault, SinkError) else f"{type(fault).__name__}: {fault}"
        logger.warning(
            "notifier's call to the store failed, retrying",
            extra={
                "call": what,
                "retry_ms": rest_ms,
                "reason": " ".join(why.split()) or "no answer",
                **fields,
                "runbook": "docs/trouble.md#messages-not-delivered",
            },
        )
        return rest_ms

    def worked(self, what: What) -> None:
        """Record a successful call."""
        del self._in_a_row[what]
