"""Says at which log time a record of files was read: the newest event time so far, of sources whose clocks go with the others'.

A file has no times of receipt, so one clock that runs ahead would move the log on, and everybody else would seem to be silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.events import Event, GpuEvent, JobEvent, NodeEvent
from streams.engine.rules.formatting import instant, short, span

#: The log time of lines before the first valid event; older events are refused.
FIRST_LOG_MS: Final = 946_684_800_000
#: A source may be so far ahead of the others.
AHEAD_MS: Final = 5 * MINUTE_MS
#: So many later records are looked at: do others go on where the log was?
LOOK_AHEAD: Final = 2_000
#: So many records of others say it.
_WITNESSES: Final = 2
#: In so many minutes of the log others said so: from then on the source is known to be ahead.
_FIRM_MINUTES: Final = 3
#: So many of them are named.
_SAID: Final = 20


class ClockKey(NamedTuple):
    """Whose clock it is: samples and nodes have that of the node, other events that of whoever reports the job."""

    source: str
    node: str
    job_id: str


class AheadClock(msgspec.Struct, array_like=True):
    """A clock that runs ahead: by how much at least, since when, and in how many minutes of the log that was seen."""

    ahead_ms: int
    since_ms: int
    minutes: int = 0
    minute: int = -1


def clock_key_of(event: Event) -> ClockKey:
    """Whose clock an event's time is of."""
    if isinstance(event, GpuEvent | NodeEvent):
        return ClockKey(event.source, event.node, "")
    return ClockKey(event.source, "", getattr(event, "job_id", ""))


class LogClock:
    """Call `read` for the records in their order. `newest_ms` and `ahead` are what a log that goes on needs."""

    def __init__(
        self, newest_ms: int = FIRST_LOG_MS, ahead: dict[ClockKey, AheadClock] | None = None
    ) -> None:
        self.newest_ms = newest_ms
        self.ahead: dict[ClockKey, AheadClock] = {} if ahead is None else ahead

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each clock that is known to be ahead, those that are most first."""
        firm = [(each, clock) for each, clock in self.ahead.items() if clock.minutes >= _FIRM_MINUTES]
        firm.sort(key=lambda each: (-each[1].ahead_ms, each[0]))
        for sender, clock in firm[:_SAID]:
            where = f"on node {short(sender.node)}" if sender.node else f"for job {short(sender.job_id)}"
            yield (
                f"times of {short(sender.source)} {where} are {span(clock.ahead_ms)} ahead of the others since"
                f" {instant(clock.since_ms)}; synchronise that host's clock (NTP, chrony)"
            )
        if len(firm) > _SAID:
            yield f"{len(firm) - _SAID} more clocks are ahead of the others"

    def read(self, event: Event, following: Iterable[Event]) -> int:
        """The log time of a record; `following`: the events behind it, as far as they are known."""
        if event.time_ms <= self.newest_ms + AHEAD_MS:
            self.ahead.pop(clock_key_of(event), None)
            self.newest_ms = max(self.newest_ms, event.time_ms)
            return self.newest_ms
        sender = clock_key_of(event)
        known = self.ahead.get(sender)
        if known is not None and known.minutes >= _FIRM_MINUTES:
            known.ahead_ms = min(known.ahead_ms, event.time_ms - self.newest_ms)
            time_ms = event.time_ms - known.ahead_ms
            if time_ms <= self.newest_ms + AHEAD_MS:
                self.newest_ms = max(self.newest_ms, time_ms)
                return self.newest_ms
        is_decided, others_ms = self._others_ms(sender, event.time_ms, following)
        if len(others_ms) == _WITNESSES:
            self._note(sender, event.time_ms, min(others_ms))
        elif known is not None and not is_decided:  # the log ends here, and it was ahead before
            self.newest_ms = max(self.newest_ms, event.time_ms - known.ahead_ms)
        else:
            self.ahead.pop(sender, None)
            self.newest_ms = event.time_ms
        return self.newest_ms

    def _others_ms(
        self, sender: ClockKey, time_ms: int, following: Iterable[Event]
    ) -> tuple[bool, list[int]]:
        """Where others go on behind the sender, twice at most; and whether enough follows to say that they do or do not."""
        behind: set[tuple[ClockKey, int]] = set()
        as_far: set[ClockKey] = set()
        looked = 0
        for event in following:
            looked += 1
            other = clock_key_of(event)
            if event.time_ms >= time_ms + AHEAD_MS and other not in self.ahead:
                is_far = other != sender or event.time_ms >= time_ms + 2 * AHEAD_MS
                if is_far:
                    as_far.add(other)
                if len(as_far) == _WITNESSES or (is_far and other == sender):
                    break
                continue
            # Traffic is reported late, and prices and controls are written at any time.
            if other == sender or not isinstance(event, JobEvent | GpuEvent | NodeEvent):
                continue
            known = self.ahead.get(other)
            at_ms = event.time_ms - (0 if known is None else known.ahead_ms)
            if self.newest_ms - AHEAD_MS <= at_ms < time_ms - AHEAD_MS:
                behind.add((other, at_ms))
                if len(behind) == _WITNESSES:
                    break
        is_decided = bool(as_far) or len(behind) == _WITNESSES or looked == LOOK_AHEAD
        return is_decided, [at_ms for _, at_ms in behind]

    def _note(self, sender: ClockKey, time_ms: int, others_ms: int) -> None:
        """Note that it is ahead. After a pause of all the log goes on with the others, not with the day before."""
        if others_ms > self.newest_ms + HOUR_MS:
            self.newest_ms = others_ms
        known = self.ahead.setdefault(sender, AheadClock(time_ms - self.newest_ms, self.newest_ms))
        known.ahead_ms = time_ms - self.newest_ms
        minute = self.newest_ms // MINUTE_MS
        if known.minute != minute:
            known.minute, known.minutes = minute, known.minutes + 1
