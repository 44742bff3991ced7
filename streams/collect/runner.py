"""Runs one collector: poll, publish, store the position, wait; with back-off while the source or Kafka is unreachable.

Time, waiting and chance are handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streams.accounts.account import Account, EntryClass
from streams.accounts.causes import remedy_of
from streams.clock import Clock
from streams.collect.collector import Collector, Position, SourceUnavailableError
from streams.collect.judging import Refusal, add_refused, without_refused
from streams.collect.metrics import CollectorMetrics
from streams.collect.position_file import PositionFile
from streams.collect.publisher import Publisher
from streams.collect.source_report import SourceReport
from streams.errors import TrainfareError

logger = logging.getLogger(__name__)

_FIRST_WAIT_MS: Final = 1_000
_LONGEST_WAIT_MS: Final = 60_000


def backoff_ms(failures: int, jitter_ratio: float) -> int:
    """How long to wait after so many failures in a row (1 or more): half of it is chance."""
    longest_ms = min(_FIRST_WAIT_MS << min(failures - 1, 16), _LONGEST_WAIT_MS)
    return round(longest_ms * (1 + jitter_ratio) / 2)


class CollectorRunner:
    """One collector with its destination.

    A batch's position is stored after its events are acknowledged: a crash in between publishes them again, under the
    same ids.
    """

    def __init__(
        self,
        collector: Collector,
        publisher: Publisher,
        positions: PositionFile | None,
        clock: Clock,
        metrics: CollectorMetrics,
        *,
        jitter_ratio: Callable[[], float],
        report: SourceReport | None = None,
        logs_causes: bool = True,
    ) -> None:
        """Load the position.

        Args:
            collector: What is polled.
            publisher: Where events go.
            positions: None to keep the position in memory only.
            clock: Time.
            metrics: What counts.
            jitter_ratio: Chance, from 0 to 1.
            report: None to publish no account.
            logs_causes: Whether the log has new causes; of one poll its caller shows the account.
        """
        self._logs_causes = logs_causes
        self._source_report = report
        self._collector = collector
        self._publisher = publisher
        self._positions = positions
        self._clock = clock
        self._metrics = metrics
        self._jitter_ratio = jitter_ratio
        self._position: Position | None = None if positions is None else positions.load()
        self._failures = 0
        self.account = Account()  #: of the last poll, as far as it came

    def run_once(self) -> int:
        """Poll once and publish what is found; return how many events that were.

        Raises:
            TrainfareError: The source or the destination is unreachable; what was acknowledged before stays so.
        """
        published = 0
        account, refused = Account(), dict[str, Refusal]()
        try:
            for given in self._collector.poll(self._position, self._clock.now_ms()):
                batch = without_refused(given, refused)
                if batch.events:
                    self._publisher.publish(batch.events)
                    published += len(batch.events)
                    self._metrics.published(batch.events)
                self._metrics.unattributed(batch.unattributed_bytes)
                if batch.position != self._position:
                    if self._positions is not None:
                        self._positions.store(batch.position)
                    self._position = batch.position
                account.add(batch.account)
        except TrainfareError:
            # The next poll begins after these entries: nobody would account for them again.
            if account.read:
                self._report(add_refused(account, refused))
                if self._source_report is not None:
                    self._source_report.add(account)
            raise
        self._report(add_refused(account, refused))
        now_ms = self._clock.now_ms()
        self._metrics.polled(now_ms)
        if self._source_report is not None:
            self._source_report.polled(account, now_ms)
        return published

    def _report(self, account: Account) -> None:
        """Count what was read; log what is not understood, where it was not so at the last poll."""
        self._metrics.read(account)
        before, self.account = self.account, account
        if not self._logs_causes:
            return
        for reason, examples in account.examples.items():
            new = [each for each in examples if each not in before.examples.get(reason, ())]
            if new:
                logger.warning(
                    "left out what is not understood",
                    extra={
                        "collector": self._collector.name,
                        "reason": reason,
                        "entries": account.counts[EntryClass.NOT_UNDERSTOOD, reason],
                        "first": new[0],
                        "remedy": remedy_of(reason, self._collector.name),
                        "runbook": "docs/trouble.md#nothing-collected",
                    },
                )

    def run(self, pause: Callable[[int], bool]) -> None:
        """Poll again and again; `pause(ms)` waits and returns whether to stop."""
        while not pause(self.step()):
            pass

    def step(self) -> int:
        """Poll once, whatever fails; return how long to wait before the next poll, in ms."""
        began_ms = self._clock.monotonic_ms()
        try:
            self.run_once()
        except TrainfareError as fault:
            self._failures += 1
            part = "source" if isinstance(fault, SourceUnavailableError) else "destination"
            self._metrics.failed(part)
            wait_ms = backoff_ms(self._failures, self._jitter_ratio())
            logger.warning(
                "nothing collected, tried again later",
                extra={
                    "collector": self._collector.name,
                    "part": part,
                    "fault": str(fault),
                    "failures": self._failures,
                    "wait_ms": wait_ms,
                    "runbook": "docs/trouble.md#nothing-collected",
                },
            )
            return wait_ms
        self._failures = 0
        return max(self._collector.interval_ms - (self._clock.monotonic_ms() - began_ms), 0)
