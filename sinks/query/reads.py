"""Counts what the embedded engine reads from tables for an answer, by the engine's own counters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from clickhouse_connect.driver.client import Client

# With counters of zero, so that each look at them reads as much itself.
_COUNTERS: Final = """
SELECT sumIf(value, event = 'SelectedRows'), sumIf(value, event = 'SelectedBytes') FROM system.events
SETTINGS system_events_show_zero_values = 1"""


class Reads(NamedTuple):
    """What was read from tables."""

    rows: int
    bytes: int

    def less(self, other: "Reads") -> "Reads":
        """What was read beyond the other."""
        return Reads(max(self.rows - other.rows, 0), max(self.bytes - other.bytes, 0))


class ReadCounter:
    """The counters are of the whole process: it runs one query at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._look()  # the first one reads less
        begun = self._look()
        self._own = self._look().less(begun)  # what a look itself reads, which counts after it
        #: Of the last query; None: it failed.
        self.last: Reads | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count one query."""
        self.last = None
        begun = self._look()
        yield
        self.last = self._look().less(begun).less(self._own)

    def _look(self) -> Reads:
        return Reads(*map(int, self._client.query(_COUNTERS).result_rows[0]))
