"""The state of a job in memory: its attempts, its dimensions and what has been booked.

State only: the fold modules change it, and `ledger.derive` computes its cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from schemas.durations import BEGINNING_MS, NEVER_MS
from schemas.events import PRICE_FIELDS, JobEvent, JobType
from streams.engine.state.attempt import AttemptState, names_nothing
from streams.engine.state.heartbeats import Heartbeats, next_heartbeats
from streams.engine.state.hour_measures import NOTHING_BOOKED, UNKNOWN_TIME, BookedTime
from streams.engine.state.identities import Identities
from streams.engine.state.laps import ProgressLaps, next_laps
from streams.engine.state.measures import Measures, Shown
from streams.engine.state.pace import ProgressPace, next_pace
from streams.engine.state.said import JobDimensions, SaidDimensions, SaidLimits, SaidSteps
from streams.engine.state.sample_times import SampleTimes, source_key
from streams.engine.timeline.attempts import Timeline, timelines
from streams.engine.timeline.growing import GrowingTimelines
from streams.engine.timeline.states import STARTS

#: Below this count of events, obsolete checkpoints are not removed.
_MANY_EVENTS: Final = 64
_SAYS_LITTLE: Final = (JobType.heartbeat, JobType.updated)


class JobLimits(NamedTuple):
    """What a job states of its own end: the latest event that has one wins."""

    budget: tuple[tuple[str, str], ...] = ()  # the known keys, their values as text
    deadline_ms: int | None = None
    declared: Sequence[tuple[int, int]] = ()  # (time_ms, nano-dollars per hour), in order


#: Timelines, dimensions, measures, limits, sources, and per metered attempt: whether it was sampled, whether it has lifecycle events,
#: whose fields it has.
Said = tuple[
    dict[int, Timeline],
    JobDimensions,
    tuple[Shown, Shown],
    JobLimits,
    dict[int, tuple[str, ...]],
    tuple[tuple[bool, bool, tuple[str, ...] | None], ...],
]


class ShownRows(NamedTuple):
    """A job's row of `jobs` and its rows of `attempts`, without time columns."""

    job: tuple[object, ...]
    attempts: tuple[tuple[object, ...], ...]


class JobState:
    """One job. `seen` has the identity hashes of its lifecycle events for as long as the job is known.

    `saved`: snapshots include all of it except what its attempts mark as unsaved.
    """

    __slots__ = (
        "_asks",
        "_changed",
        "_declared",
        "_dimensions",
        "_first_ms",
        "_growing",
        "_heard_ms",
        "_heard_source",
        "_last_ms",
        "_limits",
        "_place",
        "_requested",
        "_source_moved",
        "_start_sources",
        "_timelines",
        "_times",
        "attempts",
        "booked_as_of_ms",
        "booked_dimensions",
        "booked_time",
        "heartbeats",
        "id",
        "is_redone",
        "laps",
        "measures",
        "pace",
        "said_rows",
        "saved",
        "saved_source",
        "seen",
        "with_usage",
    )

    def __init__(self, job_id: str) -> None:
        self.id = job_id
        self.seen = Identities()
        self.measures = Measures()
        self.pace: ProgressPace | None = None  # of its progress; None: it reported none
        self.laps: ProgressLaps | None = None  # likewise
        self.heartbeats: Heartbeats | None = None  # None: it sent none
        self.saved = False
        self.attempts: dict[int, AttemptState] = {}
        # Those that have samples or amounts, beside or instead of events.
        self.with_usage: dict[int, AttemptState] = {}
        # Without the samples that are in `_times` only.
        self._first_ms, self._last_ms, self._heard_ms = NEVER_MS, BEGINNING_MS, BEGINNING_MS
        self._heard_source = ""
        self._source_moved = False  # whether that of the newest sign may be another one than snapshots have
        self.saved_source = ""  # as snapshots have it
        self._times: SampleTimes | None = None
        self._place = 0
        self.booked_as_of_ms = -1
        self.booked_dimensions = JobDimensions()
        # What the hour rows contain; None: what follows from the events and the accrual instant of a snapshot.
        self.booked_time: BookedTime | None = NOTHING_BOOKED
        self._timelines: dict[int, Timeline] | None = None
        # Of a job of several attempts: their timelines as last built, and the attempts with events since then.
        self._growing: GrowingTimelines | None = None
        self._changed: set[int] = set()
        self._dimensions: SaidDimensions | None = None
        self._limits: SaidLimits | None = None
        self._declared: SaidSteps | None = None
        self._requested: SaidSteps | None = None
        self._start_sources: dict[int, tuple[str, ...]] | None = None
        self.is_redone = (
            False  # whether all of it will be derived again, so that no price change matters before
        )
        # Inputs of its price lookups as of the last check.
        self._asks: tuple[dict[int, Timeline], JobDimensions, int, int] | None = None
        self.said_rows: tuple[Said, ShownRows] | None = None  # cached rows for the tables

    def attempt(self, number: int) -> AttemptState:
        """The attempt with this number; create it if it is unknown."""
        known = self.attempts.get(number)
        if known is None:
            known = self.attempts[number] = AttemptState(number)
            self._timelines = None
            self._changed.add(number)
        return known

    def attempt_with_usage(self, number: int) -> AttemptState:
        """The attempt with this number, which gets samples or amounts; create it if it is unknown."""
        known = self.with_usage.get(number)
        if known is None:
            known = self.with_usage[number] = self.attempt(number)
        return known

    def note_usage(self) -> None:
        """Find the attempts with samples or amounts, which came in another way than one by one."""
        self.with_usage = {
            number: attempt
            for number, attempt in self.attempts.items()
            if attempt.sampled or attempt.fields_seen or attempt.winners or len(attempt.traffic)
        }

    @property
    def first_ms(self) -> int:
        """The first `time_ms` of its events and samples."""
        times = self._times
        return self._first_ms if times is None else min(self._first_ms, times.first_ms(self._place))

    @property
    def last_ms(self) -> int:
        """The last `time_ms` of its events and samples."""
        times = self._times
        return self._last_ms if times is None else max(self._last_ms, times.last_ms(self._place))

    @property
    def heard_ms(self) -> int:
        """The newest heartbeat or sample."""
        times = self._times
        return self._heard_ms if times is None else max(self._heard_ms, times.last_ms(self._place))

    @property
    def heard_source(self) -> str:
        """The source of the newest heartbeat or sample; of several of one instant that with the largest key. '': none."""
        times, own = self._times, self._heard_source
        if times is None:
            return own
        last_ms = times.last_ms(self._place)
        if last_ms == self._heard_ms:
            return max(own, times.source(self._place), key=source_key)
        return own if last_ms < self._heard_ms else times.source(self._place)

    def times_among(self, since_ms: list[int], until_ms: list[int]) -> tuple[int, int, int]:
        """`first_ms`, `last_ms` and `heard_ms` at once, with the columns as lists: each snapshot asks for those of all sampled jobs."""
        first_ms, last_ms, heard_ms = self._first_ms, self._last_ms, self._heard_ms
        if self._times is None:
            return first_ms, last_ms, heard_ms
        first, last = since_ms[self._place], until_ms[self._place]
        return (
            first if first < first_ms else first_ms,
            last if last > last_ms else last_ms,
            last if last > heard_ms else heard_ms,
        )

    def set_times(self, first_ms: int, last_ms: int, heard_ms: int, heard_source: str = "") -> None:
        """Set these times as a snapshot has them; '': the source stays as it is."""
        self.drop_place()
        self._first_ms, self._last_ms, self._heard_ms = first_ms, last_ms, heard_ms
        if heard_source:
            self._heard_source = self.saved_source = heard_source

    def unsaved_source(self) -> str:
        """The source of the newest heartbeat or sample if snapshots have another one, else ''; they have it from now on."""
        has_moved = self._times is not None and self._times.take_moved(self._place)
        if not (has_moved or self._source_moved):
            return ""
        source, self._source_moved = self.heard_source, False
        if source == self.saved_source:
            return ""
        self.saved_source = source
        return source

    def place_in(self, times: SampleTimes) -> int:
        """The job's place in the columns, which its times include from now on."""
        if self._times is None:
            self._times, self._place = times, times.take()
        return self._place

    def drop_place(self) -> None:
        """Give the place up; the job keeps the times."""
        if self._times is not None:
            self._heard_source, self._source_moved = self.heard_source, True
            self._first_ms, self._last_ms, self._heard_ms = self.first_ms, self.last_ms, self.heard_ms
            self._times.release(self._place)
            self._times = None

    def touch(self, time_ms: int) -> None:
        """Record that an event at `time_ms` was applied."""
        self._first_ms = min(self._first_ms, time_ms)
        self._last_ms = max(self._last_ms, time_ms)

    def record_activity(self, time_ms: int, source: str) -> None:
        """Record that a heartbeat or a sample of `time_ms` was applied."""
        self.record_samples(time_ms, time_ms, source)

    def record_samples(self, first_ms: int, last_ms: int, source: str) -> None:
        """Record that samples were applied, the first of `first_ms`, and the last of `last_ms` and a source."""
        if first_ms < self._first_ms:
            self._first_ms = first_ms
        if last_ms > self._last_ms:
            self._last_ms = last_ms
        if self._times is not None:
            self._heard_ms, self._heard_source = self.heard_ms, self.heard_source
            self._times.forget_source(self._place)
        self._source_moved = True
        if last_ms > self._heard_ms:
            self._heard_ms, self._heard_source = last_ms, source
        elif last_ms == self._heard_ms and source != self._heard_source:
            self._heard_source = max(source, self._heard_source, key=source_key)

    def add_event(self, event: JobEvent) -> None:
        """Add a lifecycle event (not a duplicate).

        An event that only shows that the attempt is alive changes nothing once anything else is known, and is not
        stored.
        """
        self.heartbeats = next_heartbeats(self.heartbeats, event)
        if event.progress or self.pace is not None:
            self.pace = next_pace(self.pace, event, self.measures.progress_of(event.attempt))
            known = self.attempts.get(event.attempt)
            self.laps = next_laps(self.laps, event, () if known is None else known.events)
        if event.quality is not None or event.progress is not None:
            self.measures.add(event)
            event = replace(event, quality=None, progress=None)
        if event.duration_ms is not None:
            event = replace(
                event, duration_ms=None
            )  # a row of its own has it, and nothing here depends on it
        attempt = self.attempt(event.attempt)
        if attempt.events and event.type in _SAYS_LITTLE and names_nothing(event):
            return
        self.booked_time = self.booked_time_before()
        attempt.add_event(event)
        self._timelines = None
        if event.type in STARTS:
            self._start_sources = None
        self._changed.add(event.attempt)
        if self._dimensions is not None:
            self._dimensions.add(event)
        if self._limits is not None:
            self._limits.add(event)
        if self._declared is not None and not self._declared.add(event):
            self._declared = None
        if self._requested is not None and not self._requested.add(event):
            self._requested = None

    def booked_time_before(self) -> BookedTime:
        """What the hour rows contain; to be called before an event changes a job of a snapshot."""
        if self.booked_time is not None:
            return self.booked_time
        return (
            UNKNOWN_TIME if self.booked_as_of_ms < 0 else BookedTime(self.timelines(), self.booked_as_of_ms)
        )

    def owe_booked_hours(self) -> None:
        """Leave the hours of all booked rows to be written: a former version of the program wrote none.

        There may be hours made of its minutes, under the price fields that it last showed.
        """
        for number, attempt in self.attempts.items():
            attempt.owe_booked_hours()
            if attempt.owed_hours:
                shown = tuple(self.fields_of(number).values())
                attempt.written[shown] = min(attempt.owed_hours), max(attempt.owed_hours)

    def forget_checkpoints(self, before_ms: int) -> bool:
        """Drop all but the last checkpoints before an instant, given that every acceptable event is later.

        Only of open attempts: whatever ends them is later, and the work lost then begins at a checkpoint. As many are kept as
        say how often it saves. Return whether any was dropped.
        """
        found = False
        for number, attempt in self.attempts.items():
            if len(attempt.events) > _MANY_EVENTS and self.timelines()[number].ended_ms is None:
                found |= attempt.forget_checkpoints(before_ms)
        if found:
            self.saved = False
        return found

    def forget_derived(self) -> None:
        """Drop cached derivations: events were added in another way than by `add_event`."""
        self._timelines = self._dimensions = self._limits = self._declared = self._requested = None
        self._start_sources = None
        self._growing, self._changed = None, set()

    def mark_saved(self) -> None:
        """Record that a snapshot includes all of it."""
        self.saved = True
        self.seen.drain_new()
        for attempt in self.attempts.values():
            attempt.mark_saved()

    def timelines(self) -> dict[int, Timeline]:
        """Timelines of the attempts that have lifecycle events (computed once per change)."""
        if self._timelines is None:
            if len(self.attempts) > 1 and self._growing is None:
                self._growing, self._changed = GrowingTimelines(self._events_of), set(self.attempts)
            if self._growing is None:
                self._timelines = timelines({n: a.events for n, a in self.attempts.items()})
            else:
                self._timelines = self._growing.update(self._changed)
            self._changed = set()
        return self._timelines

    def _events(self) -> Iterator[JobEvent]:
        return (event for attempt in self.attempts.values() for event in attempt.events)

    def _events_of(self, number: int) -> list[JobEvent]:
        return self.attempts[number].events

    def dimensions(self) -> JobDimensions:
        """Owner, team, project, experiment, run, directory and labels as of the latest events."""
        if self._dimensions is None:
            self._dimensions = SaidDimensions(self._events())
        return self._dimensions.value

    def limits(self) -> JobLimits:
        """The job's own budget and deadline as of the latest events that name them."""
        known = self._known_limits()
        return JobLimits(known.budget, known.deadline_ms, self.declared())

    def deadline_ms(self) -> int:
        """The deadline that the latest event with one names; NEVER_MS: none does."""
        return self._known_limits().newest_deadline_ms

    def _known_limits(self) -> SaidLimits:
        if self._limits is None:
            self._limits = SaidLimits(self._events())
        return self._limits

    def declared(self) -> Sequence[tuple[int, int]]:
        """(time_ms, nano-dollars per hour) since which such a rate is expected, in order; the same object until that changes."""
        if self._declared is None:
            self._declared = SaidSteps("expected_nano_per_hour", self._events())
        return self._declared.value

    def requested(self) -> Sequence[tuple[int, int]]:
        """(time_ms, GPUs) since which so many GPUs are requested, in order; the same object until that changes."""
        if self._requested is None:
            self._requested = SaidSteps("gpus_requested", self._events())
        return self._requested.value

    def start_sources(self) -> dict[int, tuple[str, ...]]:
        """The sources of the events by which attempts hold what they hold, by attempt."""
        if self._start_sources is None:
            self._start_sources = {
                number: tuple(sorted({event.source for event in attempt.events if event.type in STARTS}))
                for number, attempt in self.attempts.items()
            }
        return self._start_sources

    def state_of(self, number: int) -> str:
        """The state of an attempt; `metered` if it has samples only."""
        timeline = self.timelines()[number]
        attempt = self.attempts[number]
        goes_on = timeline.ended_ms is None
        if goes_on and timeline.metered and (attempt.sampled or not attempt.events):
            return "metered"
        return timeline.state

    def fields_of(self, number: int) -> dict[str, str]:
        """An attempt's price fields: the timeline's last ones, or those of the newest sample if it is metered."""
        line, newest = self.timelines()[number], self.attempts[number].newest_winner()
        values = line.values.fields
        if line.metered and newest is not None:
            values = newest.price_fields
        return {name: value or "" for name, value in zip(PRICE_FIELDS, values, strict=True)}

    def row_inputs(self) -> Said:
        """What determines its rows of `jobs` and `attempts`, except time columns."""
        samples = tuple(
            (attempt.sampled, bool(attempt.events), newest.fields if newest is not None else None)
            for attempt in self.attempts.values()
            if not attempt.has_start
            for newest in (attempt.newest_winner(),)
        )
        return (
            self.timelines(),
            self.dimensions(),
            self.measures.shown(),
            self.limits(),
            self.start_sources(),
            samples,
        )

    @property
    def is_open(self) -> bool:
        """Whether time alone changes its rows: an open attempt has billed time, or had some booked."""
        return any(
            line.ended_ms is None and (line.segments or self.attempts[number].booked_lines)
            for number, line in self.timelines().items()
        )

    @property
    def owes_hours(self) -> bool:
        """Whether hours are left for the next accrual."""
        return any(attempt.owed_hours for attempt in self.attempts.values())

    @property
    def has_ended(self) -> bool:
        """Whether no attempt is open, neither by its timeline nor by samples."""
        return all(line.ended_ms is not None for line in self.timelines().values())

    @property
    def is_finished(self) -> bool:
        """Whether the highest attempt has ended, or only samples and amounts are known."""
        lines = self.timelines()
        return all(line.ended_ms is not None or not self.attempts[n].events for n, line in lines.items())

    def fields_held(self) -> Collection[tuple[str | None, ...]]:
        """The price fields of all segments; of a job of several attempts also those of replaced ones."""
        lines = self.timelines()
        if self._growing is not None:
            return self._growing.fields_held
        return {segment.values.fields for line in lines.values() for segment in line.segments}

    def may_price_lookups_differ(self) -> bool:
        """Whether its price lookups may differ from the last call."""
        fields = amounts = 0
        for attempt in self.with_usage.values():
            fields += len(attempt.fields_seen)
            amounts += len(attempt.traffic.bases)
        before, self._asks = self._asks, (self.timelines(), self.dimensions(), fields, amounts)
        return not (
            before is not None
            and before[0] is self._asks[0]
            and before[1] is self._asks[1]
            and before[2:] == self._asks[2:]
        )

    def redo_all(self) -> None:
        """Mark every row of the job to be derived again."""
        self.is_redone = True
        for attempt in self.attempts.values():
            attempt.redo_all()


class JobBook(dict[str, JobState]):
    """The jobs in memory by id."""

    def of(self, job_id: str) -> JobState:
        """The job with this id; create it if it is unknown."""
        job = self.get(job_id)
        if job is None:
            job = self[job_id] = JobState(job_id)
        return job
