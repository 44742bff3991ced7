"""`trainfare collect dcgm`: scrapes dcgm-exporter of many nodes and makes a sample of each node and job.

It must not bill: whose GPU it was comes from the exporter's labels or the scheduler's allocations, else from nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import urlsplit

import urllib3

from streams.collect.allocations import Allocations, read_allocations
from streams.collect.collector import CollectedEvent, EventBatch, Position, SourceUnavailableError
from streams.collect.dcgm.options import Options
from streams.collect.dcgm.samples import samples_of
from streams.collect.dcgm.text import GpuReading, LabelCache, read

#: Text of one exporter: 16 GPUs with 7 slices and a hundred fields are 5 MB.
_TEXT_BYTES_AT_MOST: Final = 16 * 2**20
_EVENTS_PER_BATCH: Final = 1_000


Fetch = Callable[[str], bytes]


class DcgmCollector:
    """Scrapes at whole multiples of its interval, so that two collectors of the same nodes make equal samples."""

    name = "dcgm"

    def __init__(self, options: Options, fetch: Fetch) -> None:
        self._options = options
        self._fetch = fetch
        self._cache = LabelCache()
        self._threads = ThreadPoolExecutor(options.at_once, thread_name_prefix="dcgm")

    @property
    def interval_ms(self) -> int:
        """Return how long to wait between two polls."""
        return self._options.interval_ms

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the samples of all exporters that answer.

        Raises:
            SourceUnavailableError: None of them answers, or the allocations cannot be read.
        """
        at_ms = now_ms // self.interval_ms * self.interval_ms
        if position is not None and at_ms <= int(position["at_ms"]):
            return
        path = self._options.allocations
        allocations = Allocations(()) if path is None else read_allocations(path)
        events: list[CollectedEvent] = []
        answered, fault = 0, ""
        for target, answer in zip(
            self._options.targets, self._threads.map(self._scrape, self._options.targets), strict=True
        ):
            if isinstance(answer, str):
                fault = f"{target}: {answer}"
                continue
            answered += 1
            host = urlsplit(target).hostname or target
            events += samples_of(answer, host, at_ms, self._options, allocations)
            if len(events) >= _EVENTS_PER_BATCH:
                yield EventBatch(events, position or {"at_ms": at_ms - self.interval_ms})
                events = []
        if not answered:
            raise SourceUnavailableError(f"no exporter of {len(self._options.targets)} answers; {fault}")
        yield EventBatch(events, {"at_ms": at_ms})

    def _scrape(self, target: str) -> list[GpuReading] | str:
        """Return the GPUs of an exporter, or what is wrong with it."""
        try:
            return read(self._fetch(target), self._cache)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as fault:
            return str(fault)


def open_collector(options: Options) -> DcgmCollector:
    """Return the collector."""
    pool = urllib3.PoolManager(
        maxsize=options.at_once, timeout=options.timeout_s, retries=False, num_pools=len(options.targets) + 1
    )

    def fetch(target: str) -> bytes:
        with pool.request("GET", target, preload_content=False, redirect=False) as response:
            if response.status != 200:
                raise ValueError(f"answered {response.status}")
            text: bytes = response.read(_TEXT_BYTES_AT_MOST + 1)
        if len(text) > _TEXT_BYTES_AT_MOST:
            raise ValueError(f"answered more than {_TEXT_BYTES_AT_MOST} bytes")
        return text

    return DcgmCollector(options, fetch)
