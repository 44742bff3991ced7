"""Builds the cost curve of a job from its state, as the windows need it.

It reads the job and caches what it read, so that a change costs only its own part; it judges nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from schemas.durations import BEGINNING_MS, MINUTE_MS, NEVER_MS
from streams.engine.burn.curve_extension import DETAIL_MS, CurveExtension, CurveTail
from streams.engine.burn.job_amounts import JobAmounts
from streams.engine.coverage.coverage import Coverage
from streams.engine.ledger.gpu_rates import per_gpu_second
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import NOBODY, Payer, time_parts, usage_context
from streams.engine.pricing.kinds import Kind
from streams.engine.rules.burn_cause import Passed
from streams.engine.rules.job_view import JobFacts, Unpriced
from streams.engine.rules.retry_loop import BrokenAttempts
from streams.engine.rules.stalled import REPEATS_LEAST
from streams.engine.rules.stretches import Stretch, stretches
from streams.engine.state.attempt import AttemptState
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import (
    ended_ms,
    is_fresh,
    payer_of,
    undecided_until_ms,
    unpriced_minutes,
)
from streams.engine.state.pace import ProgressPace
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.growing import Timelines, changed_since, cost_alike
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines, attempt_lines, differs_from_ms
from streams.engine.windows.curve import (
    METERED_HOLDS_MS,
    Curve,
    MeteredRun,
    Settled,
    build_curve,
    recent_lumps,
    unpriced_from_ms,
)
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.expected import Expected
from streams.engine.windows.requested_start import Held, RequestedStart

#: (from_ms, until_ms, nano-dollars per hour), disjoint.
Planned = Sequence[tuple[int, int, int]]


@dataclass(slots=True)
class JobCurve:
    """What is cached of one job between two updates."""

    timelines: dict[int, Timeline] = field(default_factory=dict)
    lines: dict[int, Lines] = field(default_factory=dict)  # of the billed attempts
    paid_by_attempt: dict[int, list[Span]] = field(default_factory=dict)
    # Of attempts that ended before all detail; `recent` are the others, all if there are none of these.
    settled: Settled | None = None
    recent: set[int] = field(default_factory=set)
    # Lines by stretch, once a cause was asked for; those from `cut_ms` on are to be cut anew, and what is known of the first ones.
    cut: list[Stretch] = field(default_factory=list)
    cut_ms: int = BEGINNING_MS
    passed: list[Passed] = field(default_factory=list)
    runs: dict[tuple[int, int], list[MeteredRun]] = field(default_factory=dict)  # by (attempt, minute)
    amounts: JobAmounts = field(default_factory=JobAmounts)
    book: PriceBook | None = None  # book of the last build
    repriced: bool = True  # whether a price has changed since then
    # The attempts whose billed time has another price since then.
    touched: set[int] = field(default_factory=set)
    payer: Payer = NOBODY
    # (attempt, metered minute) without a price -> its first unpriced instant; also of minutes whose detail was dropped.
    unpriced: dict[tuple[int, int], int] = field(default_factory=dict)
    unpriced_gpu_ms: int = NEVER_MS  # the first unpriced instant of the curve
    declared: Sequence[tuple[int, int]] = ()
    requested: Sequence[tuple[int, int]] = ()
    start: RequestedStart | None = None  # of these, and of the timelines
    planned: Planned = ()
    facts: JobFacts = field(default_factory=JobFacts)
    breaks: BrokenAttempts = field(default_factory=BrokenAttempts)
    profile: int = 0  # the number of the settings that its rules have
    pace: ProgressPace | None = (
        None  # of its progress as of the last facts, and whether it stood still or was slow by them
    )
    stands: bool = False
    turn: int = 0  # at which ticks the use of its GPUs is looked at
    tail: CurveTail | None = None
    behind: bool = False  # metered minutes were built as tails and are missing in `runs`
    read: tuple[object, ...] = ()  # the objects read by the last update, compared by identity

    def may_stand_otherwise(self, job: JobState) -> bool:
        """Return whether reports of progress may have begun or ended a stall, or slow work, since the last facts."""
        pace, laps = job.pace, job.laps
        if pace is self.pace or pace is None or laps is None:
            return False
        return bool(self.stands or pace.repeats >= REPEATS_LEAST or laps.slow_ms)

    def mark_paced(self, job: JobState, *, stands: bool) -> None:
        """Record the reports of progress that the facts are made of, and whether the job stands still, or is slow, by them."""
        self.pace, self.stands = job.pace, stands

    def is_read(self, job: JobState, controls: object) -> bool:
        """Return whether only samples and amounts may have changed since the last update."""
        read = self.read
        return (
            len(read) == 5
            and not self.repriced
            and read[0] is job.timelines()
            and read[1] is job.dimensions()
            and read[2] is job.declared()
            and read[3] is controls
            and read[4] is job.requested()
        )

    @property
    def unpriced_ms(self) -> Unpriced:
        """The first instants of GPU-time and of amounts without a price."""
        return Unpriced(self.unpriced_gpu_ms, min(self.amounts.unpriced.values(), default=NEVER_MS))

    def mark_read(self, job: JobState, controls: object) -> None:
        """Record the objects read by this update."""
        self.read = (job.timelines(), job.dimensions(), job.declared(), controls, job.requested())

    def may_differ(self, job: JobState, planned: Planned) -> bool:
        """Return whether the curve may have changed since the last update."""
        return is_fresh(job) or self._is_other(job, planned)

    def _is_other(self, job: JobState, planned: Planned) -> bool:
        """Return whether more than samples and amounts may have changed."""
        return (
            self._is_moved(job)
            or job.declared() != self.declared
            or job.requested() != self.requested
            or planned != self.planned
        )

    def update(
        self, job: JobState, coverage: Coverage, tails: CurveExtension, curves: CurveBook, planned: Planned
    ) -> bool:
        """Bring the job's curve in `curves` up to date; return whether all of it is a tail now, written with the others."""
        book = tails.rates.book
        if not self._is_other(job, planned) and self.add_amounts(job, curves, book, tails.now_ms):
            return False
        if self.build_whole_tail(job, tails, curves, planned):
            return True
        curves.replace(self.build(job, coverage, book, planned, tails.now_ms))
        return False

    def _is_moved(self, job: JobState) -> bool:
        if self.repriced or self.book is None or payer_of(job, self.book) != self.payer:
            return True
        return not cost_alike(job.timelines(), self.timelines)

    @property
    def paid(self) -> Iterator[Span]:
        """Yield the billed time of all attempts."""
        return (span for of_attempt in self.paid_by_attempt.values() for span in of_attempt)

    def reprice(self, attempts: Iterable[int]) -> None:
        """Record that prices have changed, and those of the billed time of these attempts."""
        self.repriced = True
        self.touched.update(attempts)

    def build(
        self, job: JobState, coverage: Coverage, book: PriceBook, planned: Planned, now_ms: int
    ) -> Curve:
        """Return the curve as of now, with the detail that windows at or after `now_ms` need."""
        since_ms, payer = now_ms - DETAIL_MS, payer_of(job, book)
        repriced = self.repriced or payer != self.payer
        moved = self._is_moved(job) or repriced
        if self.book is None or payer != self.payer:
            self.timelines, self.start = {}, None  # all prices may be others
        timelines, declared = job.timelines(), job.declared()
        self.book, self.payer, self.repriced = book, payer, False
        self._declare(declared, planned)
        if job.requested() != self.requested:
            self._request(job.requested())
        if moved:
            self._add_timelines(job, timelines)
        behind, self.behind = self.behind, False
        for attempt in job.with_usage.values():
            if attempt.has_start and not (
                self.runs or self.unpriced or self.amounts or attempt.fresh_minutes or len(attempt.traffic)
            ):
                continue  # it is billed by its events alone
            self._add_samples(job.id, attempt, coverage, since_ms, again=repriced or behind)
            self.amounts.add(attempt, book, payer, since_ms, repriced=repriced)
        if self.runs or (self.settled is not None and since_ms < self.settled.until_ms):
            self.settled = None
        if self.settled is None:
            self.recent = set(self.lines)
        found = build_curve(
            job.id,
            lines=[self.lines[number] for number in sorted(self.recent)],
            paid=[span for number in sorted(self.recent) for span in self.paid_by_attempt[number]],
            seconds=[run for runs in self.runs.values() for run in runs],
            lumps=self.amounts.by_minute(),
            declared=declared,
            planned=planned,
            ended_ms=ended_ms(job, timelines),
            since_ms=since_ms,
            undecided_until_ms=undecided_until_ms(job, timelines),
            settled=self.settled,
            start=self._requested_start(timelines),
        )
        if any(len(attempt.traffic) for attempt in job.with_usage.values()):
            found = replace(found, start_nano=self.amounts.start_nano(job, book, payer, found.first_paid_ms))
        if not self.runs:
            self._settle(found, since_ms)
        self.tail = self._tail(job, found, now_ms)
        self.unpriced_gpu_ms = min(found.unpriced_from_ms, *self.unpriced.values(), NEVER_MS)
        return found

    def add_amounts(self, job: JobState, curves: CurveBook, book: PriceBook, now_ms: int) -> bool:
        """Add new amounts to the job's curve in `curves`, of which nothing else changed; return whether that is possible.

        Only while no amount of an earlier minute than known has no price: `unpriced` would open, or hold longer.
        """
        if self.runs or self.unpriced or self.behind or self.tail is not None:
            return False
        attempts = job.with_usage.values()
        if any(attempt.fresh_minutes or not attempt.has_start for attempt in attempts):
            return False
        self.book, since_ms, unpriced = book, now_ms - DETAIL_MS, dict(self.amounts.unpriced)
        for attempt in attempts:
            self.amounts.add(attempt, book, self.payer, since_ms, repriced=False)
        if self.amounts.unpriced != unpriced:
            self.repriced = True  # it is built anew
            return False
        start_nano = self.amounts.start_nano(job, book, self.payer, curves.first_paid_ms(job.id))
        curves.set_lumps(job.id, recent_lumps(self.amounts.by_minute(), since_ms), start_nano)
        return True

    def build_whole_tail(
        self, job: JobState, tails: CurveExtension, curves: CurveBook, planned: Planned
    ) -> bool:
        """Build the whole curve as a tail; return whether that is possible."""
        tail = None if planned or job.declared() else _whole(job, tails.rates.book, tails.now_ms)
        if tail is None or not tails.build(job, tail, curves):
            return False
        self.book, self.payer, self.timelines = tails.rates.book, tail.payer, job.timelines()
        self.repriced = False
        self.declared, self.planned = job.declared(), planned
        self.lines, self.paid_by_attempt, self.touched = {}, {}, set()
        self.start = None
        self._cut_again()
        self.settled, self.recent = None, set()
        self.runs, self.unpriced, self.unpriced_gpu_ms = {}, {}, NEVER_MS
        self.amounts = JobAmounts()
        self.tail, self.behind = tail, True
        return True

    def _requested_start(self, timelines: Mapping[int, Timeline]) -> RequestedStart | None:
        """How the job grows to what is requested for it; None: nothing is."""
        if self.requested and self.start is None:
            self.start = RequestedStart()
            self.start.request(self.requested)
            self.start.hold((number, _held(timeline)) for number, timeline in timelines.items())
        return self.start if self.requested else None

    def _settle(self, found: Curve, since_ms: int) -> None:
        """Leave the attempts that ended before all detail out of later builds."""
        over = [n for n in self.recent if all(end_ms <= since_ms for _, end_ms in self.paid_by_attempt[n])]
        past = Settled() if self.settled is None else self.settled
        first_ms = [past.first_paid_ms] if past.first_paid_ms >= 0 else []
        until_ms, unpriced_ms = past.until_ms, past.unpriced_from_ms
        for number in over:
            for span in self.paid_by_attempt[number]:
                first_ms.append(span[0])
                until_ms = max(until_ms, span[1])
            unpriced_ms = min(unpriced_ms, unpriced_from_ms(self.lines[number]))
        self.recent.difference_update(over)
        self.settled = Settled(until_ms, min(first_ms, default=-1), unpriced_ms, found.quoted)

    def _declare(self, declared: Sequence[tuple[int, int]], planned: Planned) -> None:
        """Take what is expected now: more at the end of what was declared leaves the causes before as they were."""
        since_ms = _differ_ms(self.declared, declared) if planned == self.planned else BEGINNING_MS
        self.declared, self.planned = declared, planned
        del self.passed[bisect_right(self.cut, since_ms, key=attrgetter("until_ms")) :]

    def _request(self, requested: Sequence[tuple[int, int]]) -> None:
        """Take what is requested now: more at the end of what was known leaves the time before as it was."""
        known, self.requested = self.requested, requested
        since_ms = _differ_ms(known, requested) if known else BEGINNING_MS
        if self.settled is not None and since_ms < self._settled_ms():
            self.settled = None
        if self.start is not None:
            self.start.request(requested)

    def _settled_ms(self) -> int:
        """What begins from this instant on changes nothing of what is settled, nor the quoted rate."""
        assert self.settled is not None  # called for settled attempts only
        quoted = self.settled.quoted
        return max(self.settled.until_ms, -1 if quoted is None else quoted.grown_ms + 1)

    def _unsettle(self, number: int, spans: Sequence[Span]) -> None:
        """Build of all attempts again if one changes that was left out, or time before the quoted rate."""
        if self.settled is None:
            return
        known = self.paid_by_attempt.get(number)
        starts_ms = [span[0] for span in (*spans[:1], *(known or [])[:1])]
        since_ms = self._settled_ms()
        if (known is not None and number not in self.recent) or any(at_ms < since_ms for at_ms in starts_ms):
            self.settled = None

    def rest(self) -> None:
        """Keep only what the billed time of the attempts costs: the job has left all windows.

        That is cut into stretches once: else each attempt after a pause would cut the whole history anew.
        """
        self.repriced, self.read, self.tail, self.facts = True, (), None, JobFacts()
        self.runs, self.unpriced, self.amounts = {}, {}, JobAmounts()

    def stretches(self) -> Sequence[Stretch]:
        """Return the paid time cut into stretches in which nothing changes; valid until something does."""
        if self.cut_ms < NEVER_MS:
            kept = bisect_right(self.cut, self.cut_ms, key=attrgetter("until_ms"))
            from_ms = min(self.cut_ms, self.cut[kept].from_ms) if kept < len(self.cut) else self.cut_ms
            del self.cut[kept:], self.passed[kept:]
            lines = self.timelines
            later = lines.ending_after(from_ms) if isinstance(lines, Timelines) else lines
            of_later = {number: self.lines[number] for number in later if number in self.lines}
            self.cut += stretches(lines, of_later, from_ms)
            self.cut_ms = NEVER_MS
        return self.cut

    def _cut_again(self, from_ms: int = BEGINNING_MS) -> None:
        """Record that the stretches from an instant on are others."""
        self.cut_ms = min(self.cut_ms, from_ms)

    def forget_rate(self) -> None:
        """Drop cached rates: they are in another table now."""
        if self.tail is not None:
            self.tail.rate = None

    def newest_ms(self) -> int:
        """Return the start of the last sampled minute of the tail."""
        assert self.tail is not None  # called for tails only
        return self.tail.newest * MINUTE_MS

    def _tail(self, job: JobState, found: Curve, now_ms: int) -> CurveTail | None:
        """Return the part of the curve that can be extended: the attempt sampled last, after everything billed otherwise."""
        sampled = [(max(a.winners), number) for number, a in job.with_usage.items() if a.winners]
        if not sampled or self.unpriced or found.quoted_nano_per_hour is None:
            return None
        newest, number = max(sampled)
        ends = [minute + 1 for minute, other in sampled if other != number]
        ends += [-(-end_ms // MINUTE_MS) for _, end_ms in self.paid]
        winners = job.attempts[number].winners
        return CurveTail(
            attempt=number,
            alone_from=max(ends, default=0),
            is_whole=False,
            begin=min(winners),
            newest=newest,
            built_ms=now_ms,
            usual=winners[newest],
            payer=self.payer,
            expected=Expected(self.declared, self.planned, found.quoted_nano_per_hour),
            holds_ms=0 if any(self.paid_by_attempt.values()) else METERED_HOLDS_MS,
        )

    def _add_timelines(self, job: JobState, timelines: dict[int, Timeline]) -> None:
        assert self.book is not None  # set by the caller
        if not self.timelines:
            self.lines, self.paid_by_attempt, self.settled = {}, {}, None
            self._cut_again()
        moved = changed_since(timelines, self.timelines)
        changed, self.touched = {*moved, *self.touched}, set()
        self.timelines = timelines
        if self.start is not None:
            self.start.hold((number, _held(timelines.get(number))) for number in moved)
        is_late = False  # whether an earlier attempt than a known one is new
        for number in sorted(changed):
            timeline = timelines.get(number)
            if timeline is None or not job.attempts[number].has_start:
                continue
            segments = timeline.paid(OPEN_MS)
            is_late |= number not in self.lines and number < next(reversed(self.lines), number)
            spans = [(segment.start_ms, segment.end_ms) for segment in segments]
            self._unsettle(number, spans)
            known, before = self.paid_by_attempt.get(number, []), self.lines.get(number)
            now = self.lines[number] = attempt_lines(segments, (), self.book, self.payer)
            if before is None or number in moved:
                self._cut_again(min((span[0] for span in (*spans, *known)), default=NEVER_MS))
            else:
                self._cut_again(differs_from_ms(before, now))
            self.paid_by_attempt[number] = spans
            self.recent.add(number)
        if is_late:
            self.lines = dict(sorted(self.lines.items()))

    def _add_samples(
        self, job_id: str, attempt: AttemptState, coverage: Coverage, since_ms: int, *, again: bool
    ) -> None:
        number, first = attempt.number, since_ms // MINUTE_MS
        fresh, attempt.fresh_minutes = attempt.fresh_minutes, set()
        if attempt.has_start:
            self.runs = {key: runs for key, runs in self.runs.items() if key[0] != number}
            self.unpriced = {key: ms for key, ms in self.unpriced.items() if key[0] != number}
            return
        if not attempt.winners:
            return
        begin = min(attempt.winners)  # determines the quoted rate, so it is never dropped
        if again:
            fresh.update(minute for minute in attempt.winners if minute >= first or minute == begin)
            assert self.book is not None  # set by the caller
            fresh.update(unpriced_minutes(attempt, self.book, self.payer))
            fresh.update(minute for of, minute in self.unpriced if of == number)
        for minute in sorted(fresh):
            winner = attempt.winners.get(minute)
            if winner is not None:
                rows = coverage.minute_rows(job_id, number, minute)
                counts = (
                    coverage.counts(rows).sum(axis=0, dtype=np.int64) if rows.size else np.zeros(60, np.int64)
                )
                self._add_minute(number, minute, list(self._runs(minute, winner.price_fields, counts)))
        for key in [key for key in self.runs if key[0] == number and key[1] < first and key[1] != begin]:
            del self.runs[key]

    def _add_minute(self, attempt: int, minute: int, runs: list[MeteredRun]) -> None:
        self.runs[attempt, minute] = runs
        unpriced = next((run.start_ms for run in runs if run.unpriced), None)
        if unpriced is None:
            self.unpriced.pop((attempt, minute), None)
        else:
            self.unpriced[attempt, minute] = unpriced

    def _runs(
        self, minute: int, fields: tuple[str | None, ...], gpus: NDArray[np.int64]
    ) -> Iterator[MeteredRun]:
        """Yield runs of seconds of equal cost in a metered minute, from the GPUs sampled in each of its 60 seconds."""
        assert self.book is not None  # set by the caller
        start_ms = minute * MINUTE_MS
        context = usage_context(fields, self.payer.team, self.payer.project)
        parts = time_parts(Kind.GPU_TIME, context, self.payer.labels)
        per_gpu_s, unpriced = per_gpu_second(self.book, parts, start_ms)
        rate = gpus * per_gpu_s
        edges = np.flatnonzero((np.diff(rate) != 0) | (np.diff(gpus > 0)) | (np.diff(unpriced))) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), 60], strict=True):
            if gpus[first]:
                span = (start_ms + first * 1000, start_ms + last * 1000)
                yield MeteredRun(*span, float(rate[first]) / 1000, bool(unpriced[first]))


def _differ_ms(known: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> int:
    """Return from when on two sequences of (time_ms, number) may differ, if one continues the other; else the beginning."""
    count = len(known)
    if now[:count] != known:
        return BEGINNING_MS
    return now[count][0] if len(now) > count else NEVER_MS


def _held(timeline: Timeline | None) -> Iterator[Held]:
    """What an attempt holds by its events."""
    if timeline is not None and not timeline.metered:
        for segment in timeline.paid(OPEN_MS):
            yield segment.start_ms, segment.end_ms, segment.values.gpu_milli


def _whole(job: JobState, book: PriceBook, now_ms: int) -> CurveTail | None:
    """Return the whole curve as a tail if the job has samples of one attempt only and may still be open."""
    sampled = [attempt for attempt in job.with_usage.values() if attempt.winners]
    if len(sampled) != 1:
        return None
    if any(attempt.has_start or len(attempt.traffic) for attempt in job.attempts.values()):
        return None
    timelines = job.timelines()
    if ended_ms(job, timelines) != NEVER_MS or undecided_until_ms(job, timelines):
        return None
    winners = sampled[0].winners
    newest = max(winners)
    return CurveTail(
        attempt=sampled[0].number,
        alone_from=0,
        is_whole=True,
        begin=min(winners),
        newest=newest,
        built_ms=now_ms,
        usual=winners[newest],
        payer=payer_of(job, book),
        expected=Expected((), (), 0.0),  # set when it is built
        holds_ms=METERED_HOLDS_MS,
    )
