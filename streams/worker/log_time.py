"""Computes the current log time: the brokers' append times, advanced by the monotonic clock between records.

It trusts the wall clock only until the log proves otherwise. Any thread may call it.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final

from streams.clock import Clock
from streams.engine.shard.sequencer import TICK_MS

logger = logging.getLogger(__name__)

#: The wall clock may differ from the log by this much before it counts as wrong.
OFF_MS: Final = 60_000
#: An append time this far beyond log time comes from a wrong broker clock, unless all partitions agree for a while.
_LEAP_MS: Final = 30_000
#: Longest step of the monotonic clock that counts: a process may be frozen, a clock manipulated.
_STEP_MS: Final = TICK_MS
#: Longest outage after which accrual trusts the wall clock.
_OUTAGE_MS: Final = 31 * 86_400_000
#: Observations of all partitions are collected for this long before they may set log time back, or far ahead.
_WINDOW_MS: Final = 10_000
#: Up to this difference, without later records, this machine's clock counts as slow rather than a broker's as fast.
_SLOW_MS: Final = 3_600_000
#: Tolerated difference between the brokers' clocks.
_TOLERANCE_MS: Final = 1_000


class _OffsetWindow:
    """Observations of one window; all are log time minus our own count of ms."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.least: int | None = None  # lower bound of log time: the newest record exists
        self.most: int | None = None  # upper bound: a record that was not there before is not older than that
        self.leap: int | None = None  # the least append time that is too far ahead to be trusted immediately

    @property
    def is_empty(self) -> bool:
        return self.least is None and self.leap is None


class MessageTime:
    """A `Clock` for what is sent: `now_ms` is the wall clock while the log is silent, since receivers refuse old signatures."""

    def __init__(self, log_time: LogTime) -> None:
        self._log_time = log_time

    def now_ms(self) -> int:
        """Ms since 1970 UTC."""
        return self._log_time.wall_ms()

    def monotonic_ms(self) -> int:
        """The machine's monotonic time, for durations."""
        return self._log_time.monotonic_ms()


class LogTime:
    """A `Clock` whose `now_ms` is log time.

    An existing record was appended before now: the newest one is a lower bound of log time. A record beyond the end
    that an earlier fetch response reported was appended after that response: this is an upper bound, and only with one
    is it known whether the wall clock is right. Until then (while catching up, or with no new record since the start)
    the wall clock counts, but at most a minute beyond the log.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen_ms = clock.monotonic_ms()
        self._count_ms = 0  # our own count, which no jump of the monotonic clock moves far
        self._offset: int | None = None  # log time minus our count
        self._known: int | None = None  # the same from restored snapshots: no more than an upper bound
        self._window = _OffsetWindow(0)
        self._is_live = False
        self._was_off = False
        #: How often the wall clock began to differ from the log by more than a minute.
        self.faults = 0

    def monotonic_ms(self) -> int:
        """The machine's monotonic time, for durations."""
        return self._clock.monotonic_ms()

    def now_ms(self) -> int:
        """Log time, ms since 1970 UTC."""
        with self._lock:
            return self._now_ms(self._count())

    def accrue_until_ms(self) -> int:
        """The instant up to which open attempts are accrued: the wall clock while the log is silent since the start.

        The next accrual corrects one that went too far; a judged tick cannot be undone.
        """
        return self.wall_ms()

    def wall_ms(self) -> int:
        """Log time where the end of the log has confirmed it, else the wall clock, at most a month beyond the log."""
        with self._lock:
            count_ms = self._count()
            return self._now_ms(count_ms) if self._is_live else self._bounded_ms(count_ms, _OUTAGE_MS)

    def at_ms(self, monotonic_ms: int) -> int:
        """Log time at an earlier instant of the monotonic clock."""
        with self._lock:
            return self._now_ms(self._count()) - max(self._seen_ms - monotonic_ms, 0)

    @property
    def live_ms(self) -> int | None:
        """Log time if the end of the log has confirmed it; None: it may be later than that of any record read."""
        return self.now_ms() if self._is_live else None

    @property
    def ahead_ms(self) -> int:
        """How far the wall clock is ahead of the log; negative: behind; 0: unknown."""
        with self._lock:
            return self._ahead_ms(self._count())

    @property
    def is_off(self) -> bool:
        """Whether the wall clock is wrong. Poll it about once a second, so that each fault is counted."""
        ahead_ms = self.ahead_ms
        is_off = abs(ahead_ms) > OFF_MS
        if is_off and not self._was_off:
            self.faults += 1
            logger.warning(
                "clock of this machine is wrong",
                extra={"ahead_ms": ahead_ms, "runbook": "docs/trouble.md#self-monitoring"},
            )
        self._was_off = is_off
        return is_off

    def restore(self, log_ms: int) -> None:
        """Take into account that a former owner reached `log_ms`."""
        with self._lock:
            count_ms = self._count()
            self._known = max(log_ms - count_ms, log_ms - count_ms if self._known is None else self._known)

    def observe(self, first_ms: int, newest_ms: int, since_ms: int | None) -> None:
        """Take into account the append times of records of one partition.

        Args:
            first_ms: Append time of the first record.
            newest_ms: Append time of the newest record.
            since_ms: An instant of the monotonic clock at which none of them existed; None: unknown.
        """
        with self._lock:
            count_ms = self._count()
            if count_ms - self._window.began_ms >= _WINDOW_MS or self._window.is_empty:
                self._close_window(count_ms)
            offset, window = newest_ms - count_ms, self._window
            if self._leaps(newest_ms, count_ms):
                window.leap = offset if window.leap is None else min(window.leap, offset)
                return
            window.least = offset if window.least is None else max(window.least, offset)
            self._offset = offset if self._offset is None else max(self._offset, offset)
            if since_ms is not None:
                most = first_ms - count_ms + max(self._seen_ms - since_ms, 0)
                window.most = most if window.most is None else max(window.most, most)
                self._is_live = True

    # -- with the lock held --------------------------------------------------------------------------------

    def _count(self) -> int:
        monotonic_ms = self._clock.monotonic_ms()
        self._count_ms += min(max(monotonic_ms - self._seen_ms, 0), _STEP_MS)
        self._seen_ms = monotonic_ms
        leap, is_over = self._window.leap, self._count_ms - self._window.began_ms >= _WINDOW_MS
        if leap is not None and is_over and self._may_be_last(leap):
            self._close_window(self._count_ms)
        return self._count_ms

    def _may_be_last(self, leap: int) -> bool:
        """Whether records so far ahead may be the last of this log, read by a machine whose clock is slow."""
        return not self._is_live and leap + self._count_ms - self._clock.now_ms() <= _SLOW_MS

    def _now_ms(self, count_ms: int) -> int:
        if self._offset is not None and self._is_live:
            return count_ms + self._offset
        return self._bounded_ms(count_ms, OFF_MS)

    def _bounded_ms(self, count_ms: int, at_most_ms: int) -> int:
        """The wall clock, at most `at_most_ms` beyond what the log is known to have reached."""
        wall_ms = self._clock.now_ms()
        reached = [each for each in (self._offset, self._known) if each is not None]
        if reached:
            wall_ms = min(wall_ms, count_ms + max(reached) + at_most_ms)
        return wall_ms if self._offset is None else max(wall_ms, count_ms + self._offset)

    def _ahead_ms(self, count_ms: int) -> int:
        if self._offset is None:
            return 0
        ahead_ms = self._clock.now_ms() - count_ms - self._offset
        return ahead_ms if self._is_live else min(ahead_ms, 0)

    def _leaps(self, newest_ms: int, count_ms: int) -> bool:
        wall_ms = self._clock.now_ms()
        if newest_ms <= wall_ms + _LEAP_MS and (not self._is_live or newest_ms >= wall_ms - OFF_MS):
            return False  # the wall clock agrees: the process may have been frozen
        return self._offset is None or newest_ms > count_ms + self._offset + _LEAP_MS

    def _close_window(self, count_ms: int) -> None:
        """Begin a new window; what all partitions reported in the last one may correct log time."""
        window, self._window = self._window, _OffsetWindow(count_ms)
        if window.least is None:
            if window.leap is not None:
                self._offset, self._is_live = window.leap, False
        elif (
            self._offset is not None
            and window.most is not None
            and self._offset > window.most + _TOLERANCE_MS
        ):
            self._offset = window.least
        leap, offset = window.leap, self._offset
        if leap is not None and offset is not None and leap > offset and self._may_be_last(leap):
            self._window.leap = leap  # older records came with it


def in_words(ahead_ms: int) -> str:
    """Describe the clock's deviation for people."""
    return f"{abs(ahead_ms) // 1000:,} s {'ahead of' if ahead_ms > 0 else 'behind'} Kafka's log"
