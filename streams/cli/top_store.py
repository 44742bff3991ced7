"""Snapshots straight from the store, for when no worker answers: the API's own questions, asked here.

It must not keep a directory open between two looks: a worker could not start meanwhile.
"""

from __future__ import annotations

import asyncio

from streams.cli.reading import Reader, reader
from streams.cli.top_data import MeterView, snapshot_of
from streams.cli.top_http import ALERTS_MAX, JOBS_MAX
from streams.clock import Clock, SystemClock
from streams.config.settings import Settings
from streams.web.encode import to_json
from streams.web.figures import ApiFigures
from streams.web.store_reader import Row, StoreReader

SERVER_EVERY_MS = 3_000
DIRECTORY_EVERY_MS = 10_000
"""A directory that no worker has open changes by a replay at most; opening the engine costs a second of a core."""


class StoreSource:
    """The store that the settings name, looked into now and then; between two looks the last figures stand."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = SystemClock() if clock is None else clock
        self._last: MeterView | None = None
        self._looked_ms = 0

    def fetch(self) -> MeterView:
        """Return the figures of the last look, or look again."""
        every_ms = DIRECTORY_EVERY_MS if self._settings.clickhouse.data_dir else SERVER_EVERY_MS
        now_ms = self._clock.monotonic_ms()
        if self._last is None or now_ms - self._looked_ms >= every_ms:
            with reader(self._settings) as store:
                self._last = asyncio.run(self._look(store))
            self._looked_ms = now_ms
        return self._last

    async def _look(self, store: Reader) -> MeterView:
        figures = ApiFigures(_ReaderAsker(store), self._clock.monotonic_ms)
        jobs = to_json(await figures.jobs(limit=JOBS_MAX))
        alerts = to_json(await figures.alerts(limit=ALERTS_MAX))
        return snapshot_of(jobs, to_json(await figures.burn()), alerts, self._origin())

    def _origin(self) -> str:
        clickhouse = self._settings.clickhouse
        return f"{clickhouse.data_dir or clickhouse.url}, as stored: no worker answers"


class _ReaderAsker(StoreReader):
    """Asks one question after the other, of a store that is open here: one person looks, nobody else waits."""

    def __init__(self, store: Reader) -> None:
        super().__init__(lambda: None, "top")
        self._reader = store

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return the rows of a question as objects."""
        return self._reader.records(sql, **parameters)
