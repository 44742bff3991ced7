"""The state of one attempt of a job: its events, amounts, sample contexts and booked rows.

State only: the fold modules change it, and `ledger.derive` computes its cost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import add
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS, MINUTE_S
from schemas.events import GpuEvent, JobEvent, JobType
from streams.engine.kernels.store import BEGINNING_MINUTE
from streams.engine.state.hour_measures import (
    MINUTES_PER_HOUR,
    NO_USAGE,
    Fields,
    HourPieces,
    MinuteUsage,
    OpenHour,
    RowSums,
)
from streams.engine.state.open_accruals import OpenAccruals
from streams.engine.state.traffic import MinuteRows, Traffic
from streams.engine.state.unsaved import NO_HOURS, UnsavedParts
from streams.engine.timeline.attempts import SAVES, event_order
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines
from streams.engine.timeline.states import STARTS
from streams.engine.timeline.values import NO_FIELDS, named_fields


def names_nothing(event: JobEvent) -> bool:
    """Whether no optional field of the event has a value."""
    return not event.fields and all(getattr(event, name) is None for name in _VALUES)


_NONE: Final[frozenset[int]] = frozenset()
_VALUES: Final = (
    "gpu_milli", "gpus_requested", "nodes", "instance_milli", "cpu_milli", "memory_milli", "owner", "team", "project", "experiment",
    "run_id", "work_dir", "labels", "reason", "expected_nano_per_hour", "budget", "deadline_ms", "quality", "progress",
)  # fmt: skip


class Winner(NamedTuple):
    """The newest sample that covers a second of a minute; its price fields price the metered minute."""

    time_ms: int
    source: str
    node: str
    id: str
    fields: tuple[
        str, ...
    ]  # "=" and the value, '' where the sample names none: tuples of None do not compare

    @property
    def price_fields(self) -> tuple[str | None, ...]:
        """The sample's price fields; None where a field is absent."""
        return tuple(value[1:] if value else None for value in self.fields)


def winning_fields(named: Mapping[str, str]) -> tuple[str, ...]:
    """Price fields in the form that a Winner has."""
    return tuple("" if value is None else f"={value}" for value in named_fields(NO_FIELDS, named))


class AttemptState:
    """One attempt: its facts, what must be derived again, and what the tables contain of it."""

    __slots__ = (
        "_newest_minute",
        "_winners_seen",
        "booked_lines",
        "booked_lost",
        "booked_metered",
        "booked_traffic",
        "changed_hours",
        "dirty_metered",
        "dirty_traffic",
        "events",
        "evicted_to",
        "evicted_usage",
        "fields_seen",
        "fresh_minutes",
        "fresh_traffic",
        "has_start",
        "hour_pieces",
        "number",
        "open_accruals",
        "open_hour",
        "owed_hours",
        "row_sums",
        "sampled",
        "sampled_s",
        "traffic",
        "unsaved",
        "winners",
        "written",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[JobEvent] = []
        self.has_start = False  # an attempt without one is metered
        self.sampled = False
        self.traffic = Traffic()
        self.winners: dict[int, Winner] = {}
        # Price fields -> a winner that has them: at least those of all metered minutes, as their prices are looked up.
        self.fields_seen: dict[tuple[str, ...], Winner] = {}
        self._newest_minute = self._winners_seen = 0  # of the winners, as of the last `newest_winner`
        self.dirty_traffic: list[tuple[int, int]] = []
        self.dirty_metered: set[int] = set()
        # What the burn windows have not processed yet: metered minutes, and ranges of minutes with amounts.
        self.fresh_minutes: set[int] = set()
        self.fresh_traffic: list[tuple[int, int]] = []
        self.booked_lines: Lines = {}
        self.open_accruals: OpenAccruals | None = None  # cached for the next accrual
        self.booked_lost: tuple[Span, ...] = ()
        self.booked_metered: MinuteRows = {}
        self.booked_traffic: MinuteRows = {}
        # Hours to be written: those that this checkpoint changed, and those that an earlier one left.
        self.changed_hours: set[int] = set()
        self.owed_hours: set[int] = set()
        # Caches of what hours are made of: the pieces of the last one, the rows of an open one, the sums of single rows by hour, and sampled
        # seconds by metered minute.
        self.hour_pieces: HourPieces | None = None
        self.open_hour: OpenHour | None = None
        self.row_sums = RowSums()
        # Price fields -> the first and last hour that may have been written with them.
        self.written: dict[Fields, tuple[int, int]] = {}
        self.sampled_s: dict[int, int] = {}
        # Usage before minute `evicted_to`, whose rows may be gone: minute -> MinuteUsage of it and of later ones that
        # always have the same price fields, none beyond its hour.
        self.evicted_usage: dict[int, MinuteUsage] = {}
        self.evicted_to = BEGINNING_MINUTE
        self.unsaved = UnsavedParts()

    @property
    def is_unsaved(self) -> bool:
        """Whether anything changed since `mark_saved`."""
        unsaved = self.unsaved
        return (
            unsaved.paid_ms is not None
            or unsaved.owed_hours != self.owed_hours
            or not self.is_only_accrual_unsaved
        )

    @property
    def is_only_accrual_unsaved(self) -> bool:
        """Whether only the accrual, and the hours that it writes, changed since `mark_saved`."""
        unsaved = self.unsaved
        return not (
            unsaved.sampled != self.sampled
            or unsaved.events != len(self.events)
            or unsaved.amounts != len(self.traffic)
            or unsaved.metered_minutes
            or unsaved.traffic_minutes
            or unsaved.lines
            or unsaved.evicted_minutes
            or unsaved.marks != self._marks()
        )

    def mark_saved(self) -> None:
        """Record that a snapshot includes all of it."""
        owed = frozenset(self.owed_hours) if self.owed_hours else NO_HOURS
        self.unsaved.clear(len(self.events), len(self.traffic), self.sampled, owed, self._marks())

    def _marks(self) -> object:
        """The rarely changing parts, for comparison."""
        dirty = frozenset(self.dirty_metered) if self.dirty_metered else _NONE
        written = tuple(self.written.items())
        return (
            self.booked_lost,
            tuple(self.dirty_traffic),
            dirty,
            written,
            self.evicted_to,
        )

    def load_events(self, events: Iterable[JobEvent]) -> None:
        """Add events of a snapshot after those already known; their effects are loaded separately."""
        for event in events:
            self.events.append(event)
            if event.type in STARTS and not self.has_start:
                self.has_start = True
                self.winners.clear()

    def add_event(self, event: JobEvent) -> None:
        """Add a lifecycle event (not a duplicate)."""
        self.events.append(event)
        if event.type in STARTS and not self.has_start:
            self.has_start = True  # the timeline is billed from now on; what was metered is restated to zero
            self.winners.clear()
            self.row_sums.forget()
            self.dirty_metered = set(self.booked_metered)
            self.unsaved.metered_minutes.update(self.booked_metered)

    def forget_checkpoints(self, before_ms: int) -> bool:
        """See `JobState.forget_checkpoints`."""
        old = [
            event
            for event in self.events
            if event.type == JobType.checkpointed and event.time_ms < before_ms and names_nothing(event)
        ]
        gone = {id(event) for event in sorted(old, key=event_order)[: -SAVES - 1]}
        if not gone:
            return False
        self.events = [event for event in self.events if id(event) not in gone]
        return True

    def add_sample(self, event: GpuEvent) -> None:
        """Record which price fields price the minutes that an accepted sample covers."""
        self.sampled = True
        if self.has_start or event.time_ms // 1000 <= (event.time_ms - event.interval_ms) // 1000:
            return
        fields = winning_fields(event.fields)
        self.add_winner(Winner(event.time_ms, event.source, event.node, event.id, fields), event.interval_ms)

    def add_winner(self, winner: Winner, interval_ms: int) -> None:
        """Add a sample of a metered attempt that covers a second; it wins a minute if it is the newest there."""
        first_s = (winner.time_ms - interval_ms) // 1000
        last_s = winner.time_ms // 1000 - 1
        for minute in range(first_s // MINUTE_S, last_s // MINUTE_S + 1):
            self.dirty_metered.add(minute)
            self.owed_hours.add(minute // MINUTES_PER_HOUR)
            self.fresh_minutes.add(minute)
            self.unsaved.metered_minutes.add(minute)
            standing = self.winners.get(minute)
            if standing is None or winner > standing:
                self.winners[minute] = winner
                if standing is None or standing.fields != winner.fields:
                    self.row_sums.forget(minute // MINUTES_PER_HOUR)
        self.fields_seen.setdefault(winner.fields, winner)

    def add_fields(self, winners: Iterable[Winner]) -> None:
        """Record winners that were added in another way than by `add_winner`."""
        self.fields_seen.update((winner.fields, winner) for winner in winners)

    def newest_winner(self) -> Winner | None:
        """The newest sample: that of the newest minute, as each sample wins all minutes in which it is the newest.

        An open job is asked each second and has a winner for each minute of its life, so only new winners are examined.
        """
        count = len(self.winners)
        if count != self._winners_seen:
            came = count - self._winners_seen
            if came < 0 or not self._winners_seen:
                self._newest_minute = max(self.winners, default=0)
            else:
                self._newest_minute = max(self._newest_minute, *islice(reversed(self.winners), came))
            self._winners_seen = count
        return self.winners.get(self._newest_minute)

    def keep_usage(self, usage: Iterable[tuple[int, MinuteUsage]], until_minute: int) -> None:
        """Add up the usage (minute, sums) of `evicted_to` to a minute; an event that falls there no longer divides it."""
        naming = sorted({event.time_ms // MINUTE_MS for event in self.events if event.fields})
        for minute, sums in usage:
            place = bisect_right(naming, minute)
            hour_begin = minute - minute % MINUTES_PER_HOUR
            key = max(hour_begin, naming[place - 1]) if place else hour_begin
            so_far = self.evicted_usage.get(key, NO_USAGE)
            self.evicted_usage[key] = tuple(map(add, so_far, sums))
            self.unsaved.evicted_minutes.add(key)
        self.evicted_to = until_minute

    def evicted_in(self, hour: int) -> list[tuple[int, MinuteUsage]]:
        """The evicted usage of an hour: (minute, sums)."""
        if hour * MINUTES_PER_HOUR >= self.evicted_to:
            return []
        minutes = range(hour * MINUTES_PER_HOUR, (hour + 1) * MINUTES_PER_HOUR)
        return [(minute, self.evicted_usage[minute]) for minute in minutes if minute in self.evicted_usage]

    def owe_booked_hours(self) -> None:
        """Leave the hours of all booked rows to be written."""
        for intervals in self.booked_lines.values():
            for start_ms, end_ms, _, _ in intervals:
                self.owed_hours.update(range(start_ms // HOUR_MS, -(-end_ms // HOUR_MS)))
        for rows in (self.booked_traffic, self.booked_metered):
            self.owed_hours.update(minute // MINUTES_PER_HOUR for minute in rows)

    def redo_traffic_without_flow(self) -> None:
        """Mark traffic to be derived again whose booked rows are those of a program that did not tell flows apart."""
        if any(not line.flow for rows in self.booked_traffic.values() for line in rows):
            self.dirty_traffic.append(self.traffic.all_minutes())

    def redo_all(self) -> None:
        """Mark everything to be derived again: a price or the job's team changed, or the attempt came from the archive."""
        if len(self.traffic):
            self.dirty_traffic.append(self.traffic.all_minutes())
        self.dirty_metered.update(self.winners, self.booked_metered)
        self.open_accruals = None
