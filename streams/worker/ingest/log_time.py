"""Computes the current log time: the brokers' append times, advanced by the monotonic clock between records.

It must not judge or store, and it believes the wall clock only as long as the log has not shown otherwise. Any thread may ask.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final

from streams.clock import Clock
from streams.engine.shard.sequencer import TICK_MS

logger = logging.getLogger(__name__)

#: By so much the wall clock may be ahead of the log, or behind it, before it is at fault.
OFF_MS: Final = 60_000
#: An append time this far after all that is known is a wrong broker's, unless every partition says the same for a while.
_LEAP_MS: Final = 30_000
#: Of the monotonic clock no more than this is believed between two looks: a process may be frozen, a clock be faked.
_STEP_MS: Final = TICK_MS
#: No log is left alone for longer and then gone on with.
_OUTAGE_MS: Final = 31 * 86_400_000
#: So long is what the partitions say gathered before it may set log time back, or far ahead.
_WINDOW_MS: Final = 10_000
#: So far a machine's clock is sooner slow than a broker's fast, where no later record says which.
_SLOW_MS: Final = 3_600_000
#: Brokers' clocks differ by so much without one being wrong.
_TOLERANCE_MS: Final = 1_000


class _OffsetWindow:
    """What was seen in a while; all as log time less our own count of ms."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.least: int | None = None  # log time is at least this: the newest record is there
        self.most: int | None = None  # and at most this: a record that was not there before is no older
        self.leap: int | None = None  # the least of what lies too far ahead to be believed at once

    @property
    def is_empty(self) -> bool:
        return self.least is None and self.leap is None


class LogTime:
    """A `Clock` whose `now_ms` is log time.

    A record that is there was appended before now: the newest one bounds log time from below. A record that was not
    there at an earlier answer, which gave the partition's end, was appended after it: that bounds log time from above,
    and only then is it known whether the wall clock is right. Until then (a backlog is read, nothing was written since
    the start) the wall clock counts, but for no more than a minute beyond the log.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen_ms = clock.monotonic_ms()
        self._count_ms = 0  # our own, which no jump of the monotonic clock moves far
        self._offset: int | None = None  # log time less our count
        self._known: int | None = (
            None  # the same of what earlier lives left behind: no more than an upper bound
        )
        self._window = _OffsetWindow(0)
        self._is_live = False
        self._was_off = False
        #: How often the wall clock came to differ from the log by more than a minute.
        self.faults = 0

    def monotonic_ms(self) -> int:
        """The machine's own, for durations."""
        return self._clock.monotonic_ms()

    def now_ms(self) -> int:
        """Log time, ms since 1970 UTC."""
        with self._lock:
            return self._now_ms(self._count())

    def accrue_until_ms(self) -> int:
        """Up to when unfinished attempts are paid: of a log that is silent since the start the wall clock says it.

        What is paid too far is put right with the next payment; ticks cannot be taken back.
        """
        with self._lock:
            count_ms = self._count()
            return self._now_ms(count_ms) if self._is_live else self._bounded_ms(count_ms, _OUTAGE_MS)

    def at_ms(self, monotonic_ms: int) -> int:
        """Log time at an earlier instant of the monotonic clock."""
        with self._lock:
            return self._now_ms(self._count()) - max(self._seen_ms - monotonic_ms, 0)

    @property
    def live_ms(self) -> int | None:
        """Log time, if the end of the log has said what it is; None: it may be later than that of any record read."""
        return self.now_ms() if self._is_live else None

    @property
    def ahead_ms(self) -> int:
        """By how much the wall clock is ahead of the log; below 0: behind it. 0 while it is not known."""
        with self._lock:
            return self._ahead_ms(self._count())

    @property
    def is_off(self) -> bool:
        """Whether the wall clock is at fault; asked about once a second, so that each fault is counted."""
        ahead_ms = self.ahead_ms
        is_off = abs(ahead_ms) > OFF_MS
        if is_off and not self._was_off:
            self.faults += 1
            logger.warning(
                "clock of this machine is wrong",
                extra={"ahead_ms": ahead_ms, "runbook": "docs/operations.md#the-meter-about-itself"},
            )
        self._was_off = is_off
        return is_off

    def restore(self, log_ms: int) -> None:
        """An earlier life came as far as this."""
        with self._lock:
            count_ms = self._count()
            self._known = max(log_ms - count_ms, log_ms - count_ms if self._known is None else self._known)

    def observe(self, first_ms: int, newest_ms: int, since_ms: int | None) -> None:
        """Records of one partition came, with these append times.

        `since_ms`: an instant of the monotonic clock at which none of them was there; None: they may have waited.
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
        if leap is not None and is_over and not self._is_live:
            # Those records may have been the last ones of this log.
            slow_ms = leap + self._count_ms - self._clock.now_ms()
            if slow_ms <= _SLOW_MS:
                self._close_window(self._count_ms)
        return self._count_ms

    def _now_ms(self, count_ms: int) -> int:
        if self._offset is not None and self._is_live:
            return count_ms + self._offset
        return self._bounded_ms(count_ms, OFF_MS)

    def _bounded_ms(self, count_ms: int, at_most_ms: int) -> int:
        """The wall clock, by so much beyond what the log is known to have reached."""
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
            return False  # the wall clock says so, too: the process may have been frozen
        return self._offset is None or newest_ms > count_ms + self._offset + _LEAP_MS

    def _close_window(self, count_ms: int) -> None:
        """What all partitions said in a while may correct what one of them said."""
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


def in_words(ahead_ms: int) -> str:
    """Where the clock is, for people."""
    return f"{abs(ahead_ms) // 1000:,} s {'ahead of' if ahead_ms > 0 else 'behind'} Kafka's log"
