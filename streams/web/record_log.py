"""What the endpoints that take events and controls ask of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from streams.keys import OutgoingRecord


class RecordLog(Protocol):
    """Takes records of all topics."""

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        """Return once the log has every record.

        Raises:
            SinkBusy: It may lack some; write all of them again later.
        """
        ...


class Writers(NamedTuple):
    """What takes the records of HTTP requests; two, so that no control waits behind events."""

    events: RecordLog
    controls: RecordLog
