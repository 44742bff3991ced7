"""`trainfare collect dcgm`: scrapes exporters of GPUs on many nodes and makes a sample of each node and job.

Whose GPU it was comes from the exporter's labels or the scheduler's allocations, else from nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final
from urllib.parse import urlsplit

import urllib3

from streams.accounts.account import Account
from streams.clock import SystemClock
from streams.collect.collector import (
    CollectedEvent,
    EventBatch,
    PolledByOptions,
    Position,
    SourceUnavailableError,
)
from streams.collect.dcgm.fetch import Fetch, fetch_with
from streams.collect.dcgm.options import Options
from streams.collect.dcgm.text import TextReader
from streams.collect.gpu_samples import GpuReading, samples_of

_EVENTS_PER_BATCH: Final = 1_000
#: An exporter that took all its time is left out of up to so many polls, less one.
_LONGEST_REST_POLLS: Final = 8


class _Scrape:
    """One exporter, over all polls."""

    def __init__(self, target: str, number: int, fetch: Fetch, reader: TextReader) -> None:
        self.target = target
        self.host = urlsplit(target).hostname or target
        self.fault = ""
        self.timeouts = 0  # in a row
        self._number = number
        self._fetch = fetch
        self._reader = reader

    def is_due(self, poll: int) -> bool:
        """Whether it is scraped at a poll; exporters that hang take turns, so that they hold up few threads."""
        every = min(1 << min(self.timeouts, 16), _LONGEST_REST_POLLS)
        return (poll + self._number) % every == 0

    def readings(self) -> list[GpuReading] | None:
        """Its GPUs; None if there is a `fault`."""
        try:
            found = self._reader.read(self._fetch(self.target))
        except (TimeoutError, urllib3.exceptions.TimeoutError) as fault:
            self.timeouts += 1
            self.fault = str(fault)
            return None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as fault:
            self.timeouts = 0
            self.fault = str(fault)
            return None
        self.timeouts = 0
        self.fault = ""
        return found


class DcgmCollector(PolledByOptions):
    """Scrapes at whole multiples of its interval, so that two collectors of the same nodes make equal samples."""

    name = "dcgm"

    def __init__(self, options: Options, fetch: Fetch) -> None:
        self._options: Options = options
        reader = TextReader(options.label_of_job)
        self._scrapes = [
            _Scrape(target, number, fetch, reader) for number, target in enumerate(options.targets)
        ]
        self._threads = ThreadPoolExecutor(options.max_concurrent_scrapes, thread_name_prefix="dcgm")
        self._polls = 0

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the samples of all exporters that answer, those of the quick ones first.

        Raises:
            SourceUnavailableError: None of them answers, or the allocations cannot be read.
        """
        at_ms = now_ms // self.interval_ms * self.interval_ms
        if position is not None and at_ms <= int(position["at_ms"]):
            return
        allocations = self._options.gpu_allocations()
        self._polls += 1
        due = [each for each in self._scrapes if each.is_due(self._polls)]
        awaited = {each.target for each in due if not each.fault}
        events: list[CollectedEvent] = []
        account = Account()
        answered = 0
        for scrape, readings in self._scraped(due):
            awaited.discard(scrape.target)
            if readings is not None:
                answered += 1
                if not readings:
                    account.not_understood("no_gpu_metrics", f"{scrape.target} names no GPU")
                events += samples_of(
                    readings, scrape.host, at_ms, self._options, self._options.source, allocations, account
                )
            # Those that were silent before are not waited for.
            if len(events) >= _EVENTS_PER_BATCH or (events and not awaited):
                yield EventBatch(events, position or {"at_ms": at_ms - self.interval_ms})
                events = []
        silent = [f"{each.target}: {each.fault}" for each in self._scrapes if each.fault]
        if not answered:
            raise SourceUnavailableError(f"no exporter of {len(self._scrapes)} answers; {silent[-1]}")
        for said in silent:
            account.not_understood("no_answer", said)
        yield EventBatch(events, {"at_ms": at_ms}, account)

    def _scraped(self, due: list[_Scrape]) -> Iterator[tuple[_Scrape, list[GpuReading] | None]]:
        """Yield exporters with their GPUs as they answer; those that were silent before are asked last."""
        asked = {
            self._threads.submit(each.readings): each
            for each in sorted(due, key=lambda each: bool(each.fault))
        }
        try:
            for answer in as_completed(list(asked)):
                yield asked.pop(answer), answer.result()
        finally:
            # Nobody waits for the others any more, where the destination is away.
            for answer in asked:
                answer.cancel()


def open_collector(options: Options) -> DcgmCollector:
    """The collector."""
    return DcgmCollector(
        options, fetch_with(SystemClock(), options.timeout_s, options.max_concurrent_scrapes)
    )
