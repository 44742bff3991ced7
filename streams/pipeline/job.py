"""The state of a job in memory: its attempts' events, amounts and samples' contexts, and what has been booked.

State only; how it changes stands in the fold modules, what it costs in `derive`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.events import PRICE_FIELDS, GpuEvent, JobEvent
from streams.pipeline.identities import Identities
from streams.pipeline.saved import Unsaved
from streams.pipeline.traffic import MinuteRows, Traffic
from streams.timeline.attempts import Timeline, event_order, timelines
from streams.timeline.intervals import Span
from streams.timeline.lines import Lines
from streams.timeline.states import STARTS
from streams.timeline.values import NO_FIELDS, named_fields

MINUTE_S = 60


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
        """The sample's price fields; None where it names none."""
        return tuple(value[1:] if value else None for value in self.fields)


class Dimensions(NamedTuple):
    """What belongs to the whole job: the latest event that names it wins."""

    owner: str | None = None
    team: str | None = None
    project: str | None = None
    experiment: str | None = None
    labels: tuple[tuple[str, str], ...] | None = None


class Attempt:
    """One attempt: what is known of it, what must be derived again, and what the tables hold of it."""

    __slots__ = (
        "booked_lines",
        "booked_lost",
        "booked_metered",
        "booked_traffic",
        "dirty_metered",
        "dirty_traffic",
        "events",
        "fresh_minutes",
        "fresh_traffic",
        "has_start",
        "number",
        "sampled",
        "traffic",
        "unsaved",
        "winners",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[JobEvent] = []
        self.has_start = False  # an attempt without one is metered
        self.sampled = False
        self.traffic = Traffic()
        self.winners: dict[int, Winner] = {}
        self.dirty_traffic: list[tuple[int, int]] = []
        self.dirty_metered: set[int] = set()
        # What the windows have not looked at yet: metered minutes, ranges of minutes with amounts.
        self.fresh_minutes: set[int] = set()
        self.fresh_traffic: list[tuple[int, int]] = []
        self.booked_lines: Lines = {}
        self.booked_lost: tuple[Span, ...] = ()
        self.booked_metered: MinuteRows = {}
        self.booked_traffic: MinuteRows = {}
        self.unsaved = Unsaved()

    @property
    def is_unsaved(self) -> bool:
        """Whether anything changed since it was marked as saved."""
        unsaved = self.unsaved
        return bool(
            unsaved.events != len(self.events)
            or unsaved.amounts != len(self.traffic)
            or unsaved.metered_minutes
            or unsaved.traffic_minutes
            or unsaved.lines
            or unsaved.marks != self._marks()
        )

    def mark_saved(self) -> None:
        """A snapshot has all of it."""
        self.unsaved.clear(len(self.events), len(self.traffic), self._marks())

    def _marks(self) -> object:
        """What changes now and then, to be compared."""
        return (self.sampled, self.booked_lost, tuple(self.dirty_traffic), frozenset(self.dirty_metered))

    def load_events(self, events: Iterable[JobEvent]) -> None:
        """Events of a snapshot, after those that are known; what they did is loaded besides."""
        for event in events:
            self.events.append(event)
            if event.type in STARTS and not self.has_start:
                self.has_start = True
                self.winners.clear()

    def add_event(self, event: JobEvent) -> None:
        """One more lifecycle event (not a duplicate)."""
        self.events.append(event)
        if event.type in STARTS and not self.has_start:
            self.has_start = True  # the timeline pays from now on; what was metered is restated to zero
            self.winners.clear()
            self.dirty_metered = set(self.booked_metered)
            self.unsaved.metered_minutes.update(self.booked_metered)

    def add_sample(self, event: GpuEvent) -> None:
        """Note which price fields price the minutes that an accepted sample covers."""
        first_s = (event.time_ms - event.interval_ms) // 1000
        last_s = event.time_ms // 1000 - 1
        self.sampled = True
        if self.has_start or last_s < first_s:
            return
        named = named_fields(NO_FIELDS, event.fields)
        fields = tuple("" if value is None else f"={value}" for value in named)
        winner = Winner(event.time_ms, event.source, event.node, event.id, fields)
        for minute in range(first_s // MINUTE_S, last_s // MINUTE_S + 1):
            self.dirty_metered.add(minute)
            self.fresh_minutes.add(minute)
            self.unsaved.metered_minutes.add(minute)
            standing = self.winners.get(minute)
            if standing is None or winner > standing:
                self.winners[minute] = winner

    def redo_all(self) -> None:
        """Derive everything again: a price or the job's team changed, or the attempt came from the archive."""
        if len(self.traffic):
            self.dirty_traffic.append(self.traffic.all_minutes())
        self.dirty_metered.update(self.winners, self.booked_metered)


class Job:
    """One job.  `seen` holds the identity hashes of its lifecycle events for as long as the job is known.

    `saved`: the snapshots have all of it but what its attempts know to be unsaved.
    """

    __slots__ = (
        "_declared",
        "_dimensions",
        "_timelines",
        "_told",
        "attempts",
        "booked_as_of_ms",
        "booked_dimensions",
        "first_ms",
        "id",
        "last_ms",
        "saved",
        "seen",
    )

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.seen = Identities()
        self.saved = False
        self.attempts: dict[int, Attempt] = {}
        self.first_ms = 2**62
        self.last_ms = -(2**62)
        self.booked_as_of_ms = -1
        self.booked_dimensions = Dimensions()
        self._timelines: dict[int, Timeline] | None = None
        self._dimensions: Dimensions | None = None
        self._declared: list[tuple[int, int]] | None = None
        # What its rows last said but for clocks and the times of events; not known after a restart.
        self._told: tuple[dict[int, Timeline], Dimensions] | None = None

    def attempt(self, number: int) -> Attempt:
        """The attempt of that number, new when it was not known."""
        known = self.attempts.get(number)
        if known is None:
            known = self.attempts[number] = Attempt(number)
            self._timelines = None
        return known

    def touch(self, time_ms: int) -> None:
        """An event at `time_ms` was applied."""
        self.first_ms = min(self.first_ms, time_ms)
        self.last_ms = max(self.last_ms, time_ms)

    def add_event(self, event: JobEvent) -> None:
        """One more lifecycle event (not a duplicate)."""
        self.attempt(event.attempt).add_event(event)
        self._timelines = self._dimensions = None
        if event.expected_nano_per_hour is not None:
            self._declared = None

    def forget_derived(self) -> None:
        """Events came in by another way than `add_event`."""
        self._timelines = self._dimensions = self._declared = None

    def mark_saved(self) -> None:
        """A snapshot has all of it."""
        self.saved = True
        self.seen.take_fresh()
        for attempt in self.attempts.values():
            attempt.mark_saved()

    def timelines(self) -> dict[int, Timeline]:
        """Timelines of the attempts that have lifecycle events (computed once per change)."""
        if self._timelines is None:
            self._timelines = timelines({n: a.events for n, a in self.attempts.items()})
        return self._timelines

    def dimensions(self) -> Dimensions:
        """Owner, team, project, experiment and labels as the latest events name them."""
        if self._dimensions is None:
            found: dict[str, object] = {}
            for number in sorted(self.attempts):
                for event in sorted(self.attempts[number].events, key=event_order):
                    for name in ("owner", "team", "project", "experiment"):
                        value = getattr(event, name)
                        if value is not None:
                            found[name] = value
                    if event.labels is not None:
                        found["labels"] = tuple(sorted(event.labels.items()))
            self._dimensions = Dimensions(**found)  # type: ignore[arg-type]  # names are the fields', values theirs
        return self._dimensions

    def declared(self) -> list[tuple[int, int]]:
        """(time_ms, nano-dollars per hour) of the events that name an expected rate, in order."""
        if self._declared is None:
            naming = [
                (event.time_ms, number, event_order(event), event.expected_nano_per_hour)
                for number, attempt in self.attempts.items()
                for event in attempt.events
                if event.expected_nano_per_hour is not None
            ]
            self._declared = [(time_ms, rate) for time_ms, _, _, rate in sorted(naming)]
        return self._declared

    def state_of(self, number: int) -> str:
        """The state of an attempt; metered when samples alone make it."""
        timeline = self.timelines()[number]
        attempt = self.attempts[number]
        goes_on = timeline.ended_ms is None
        if goes_on and timeline.metered and (attempt.sampled or not attempt.events):
            return "metered"
        return timeline.state

    def fields_of(self, number: int) -> dict[str, str]:
        """An attempt's price fields: the timeline's last ones, or those of the newest sample when it is metered."""
        line, winners = self.timelines()[number], self.attempts[number].winners
        values = line.values.fields
        if line.metered and winners:
            values = max(winners.values()).price_fields
        return {name: value or "" for name, value in zip(PRICE_FIELDS, values, strict=True)}

    def says_no_more(self) -> bool:
        """Whether its rows of jobs and attempts would differ by clocks alone from those of the last time it was asked.

        Only of jobs that the timeline alone speaks for: what is metered also depends on samples.
        """
        timelines = self.timelines()
        if not all(attempt.has_start for attempt in self.attempts.values()):
            self._told = None
            return False
        told, self._told = self._told, (timelines, self.dimensions())
        return told == self._told

    @property
    def is_open(self) -> bool:
        """Whether time alone changes its rows: an attempt that has not ended has paid time, or had some booked."""
        return any(
            line.ended_ms is None and (line.segments or self.attempts[number].booked_lines)
            for number, line in self.timelines().items()
        )

    @property
    def is_finished(self) -> bool:
        """Whether the highest attempt has ended, or nothing but samples and amounts is known."""
        lines = self.timelines()
        return all(line.ended_ms is not None or not self.attempts[n].events for n, line in lines.items())

    def redo_all(self) -> None:
        """Derive every row of the job again."""
        for attempt in self.attempts.values():
            attempt.redo_all()
