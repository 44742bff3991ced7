"""From a job's state to its curve: what it costs over time, as the windows see it.

Reads the job and remembers what it read, so that a change costs no more than its part; it judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streams.kernels.burn import WINDOWS_MS
from streams.pipeline.attempt import Attempt
from streams.pipeline.job import Job
from streams.pipeline.metered import MILLI_MS_PER_GPU_S
from streams.pipeline.traffic import MINUTE_MS
from streams.pricing.book import PriceBook
from streams.pricing.context import usage_context
from streams.pricing.kinds import TIME_COMPONENTS, Kind
from streams.timeline.attempts import OPEN_MS, Timeline
from streams.timeline.intervals import Span, union
from streams.timeline.lines import Lines, attempt_lines, price_pieces
from streams.usage.coverage import Coverage
from streams.windows.curve import NEVER_MS, Curve, MeteredRun, build_curve

#: (from_ms, until_ms, nano-dollars per hour), disjoint.
Planned = Sequence[tuple[int, int, int]]

_DETAIL_MS = WINDOWS_MS[-1] + 2 * MINUTE_MS  # the longest window, its far minute, and one more


@dataclass(slots=True)
class JobCurve:
    """What is remembered of one job between two looks at it."""

    timelines: dict[int, Timeline] = field(default_factory=dict)
    lines: list[Lines] = field(default_factory=list)
    paid: list[Span] = field(default_factory=list)
    runs: dict[tuple[int, int], list[MeteredRun]] = field(default_factory=dict)  # by (attempt, minute)
    lumps: dict[tuple[int, int], float] = field(default_factory=dict)  # likewise, nano-dollars
    book: PriceBook | None = None
    payer: tuple[str | None, str | None] = (None, None)  # team and project
    # Metered minutes without a price, also those whose detail is forgotten -> their first such instant.
    unpriced: dict[tuple[int, int], int] = field(default_factory=dict)
    declared: Sequence[tuple[int, int]] = ()
    planned: Planned = ()

    def curve(
        self, job: Job, coverage: Coverage, book: PriceBook, planned: Planned, now_ms: int
    ) -> Curve | None:
        """The curve as of now, with the detail that windows at or after `now_ms` need; None: as it was."""
        since_ms = now_ms - _DETAIL_MS
        dimensions = job.dimensions()
        payer = (dimensions.team, dimensions.project)
        repriced = book is not self.book or payer != self.payer
        timelines, declared = job.timelines(), job.declared()
        moved = repriced or timelines != self.timelines
        fresh = any(attempt.fresh_minutes or attempt.fresh_traffic for attempt in job.attempts.values())
        if not (moved or fresh) and declared == self.declared and planned == self.planned:
            return None
        self.book, self.payer = book, payer
        self.declared, self.planned = declared, planned
        if moved:
            self._take_timelines(job, timelines)
        for attempt in job.attempts.values():
            self._take_samples(job.id, attempt, coverage, since_ms, repriced=repriced)
            self._take_amounts(attempt, since_ms, repriced=repriced)
        found = build_curve(
            job.id,
            lines=self.lines,
            paid=self.paid,
            seconds=[run for runs in self.runs.values() for run in runs],
            lumps=self._lumps(),
            declared=declared,
            planned=planned,
            quoted_nano_per_hour=None,  # known again from the lines and the first metered minute
            ended_ms=_ended_ms(job, timelines),
            since_ms=since_ms,
        )
        if not self.unpriced:
            return found
        return replace(found, unpriced_from_ms=min(found.unpriced_from_ms, *self.unpriced.values()))

    def _take_timelines(self, job: Job, timelines: dict[int, Timeline]) -> None:
        assert self.book is not None  # set by the caller
        self.timelines = dict(timelines)
        self.lines, self.paid = [], []
        for number, timeline in timelines.items():
            if not job.attempts[number].has_start:
                continue
            segments = timeline.paid(OPEN_MS)
            self.lines.append(attempt_lines(segments, (), self.book, *self.payer))
            self.paid.extend((segment.start_ms, segment.end_ms) for segment in segments)

    def _take_samples(
        self, job_id: str, attempt: Attempt, coverage: Coverage, since_ms: int, *, repriced: bool
    ) -> None:
        number, first = attempt.number, since_ms // MINUTE_MS
        fresh, attempt.fresh_minutes = attempt.fresh_minutes, set()
        if attempt.has_start:
            self.runs = {key: runs for key, runs in self.runs.items() if key[0] != number}
            self.unpriced = {key: ms for key, ms in self.unpriced.items() if key[0] != number}
            return
        if not attempt.winners:
            return
        begin = min(attempt.winners)  # says what was quoted, so it is never forgotten
        if repriced:
            fresh.update(minute for minute in attempt.winners if minute >= first or minute == begin)
            fresh.update(_unpriced_minutes(attempt))
            fresh.update(minute for of, minute in self.unpriced if of == number)
        for minute in sorted(fresh):
            winner = attempt.winners.get(minute)
            if winner is not None:
                rows = coverage.minute_rows(job_id, number, minute)
                counts = (
                    coverage.counts(rows).sum(axis=0, dtype=np.int64) if rows.size else np.zeros(60, np.int64)
                )
                self._note(number, minute, list(self._runs(minute, winner.price_fields, counts)))
        for key in [key for key in self.runs if key[0] == number and key[1] < first and key[1] != begin]:
            del self.runs[key]

    def _note(self, attempt: int, minute: int, runs: list[MeteredRun]) -> None:
        self.runs[attempt, minute] = runs
        unpriced = next((run.start_ms for run in runs if run.unpriced), None)
        if unpriced is None:
            self.unpriced.pop((attempt, minute), None)
        else:
            self.unpriced[attempt, minute] = unpriced

    def _runs(
        self, minute: int, fields: tuple[str | None, ...], gpus: NDArray[np.int64]
    ) -> Iterator[MeteredRun]:
        """Runs of seconds of equal cost in a metered minute, from the GPUs sampled in each of its 60 seconds."""
        assert self.book is not None  # set by the caller
        start_ms = minute * MINUTE_MS
        per_gpu_s = np.zeros(60, np.float64)  # nano-dollars
        unpriced = np.zeros(60, np.bool_)
        second_ms = start_ms + 1000 * np.arange(60)
        context = usage_context(fields, *self.payer)
        for component in TIME_COMPONENTS[Kind.GPU_TIME]:
            steps = self.book.steps(context, component, Kind.GPU_TIME)
            pieces = price_pieces(steps, start_ms, start_ms + MINUTE_MS, component, Kind.GPU_TIME)
            for from_ms, until_ms, price in pieces:
                # A second in which the price changes costs its part of both.
                inside_ms = np.minimum(until_ms, second_ms + 1000) - np.maximum(from_ms, second_ms)
                share = np.maximum(inside_ms, 0) / 1000
                per_gpu_s += share * (MILLI_MS_PER_GPU_S * price.usd_nano / price.divisor)
                unpriced |= (share > 0) & (not price.sku and component == "gpu")
        rate = gpus * per_gpu_s
        edges = np.flatnonzero((np.diff(rate) != 0) | (np.diff(gpus > 0)) | (np.diff(unpriced))) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), 60], strict=True):
            if gpus[first]:
                span = (start_ms + first * 1000, start_ms + last * 1000)
                yield MeteredRun(*span, float(rate[first]) / 1000, bool(unpriced[first]))

    def _take_amounts(self, attempt: Attempt, since_ms: int, *, repriced: bool) -> None:
        assert self.book is not None  # set by the caller
        fresh, attempt.fresh_traffic = attempt.fresh_traffic, []
        if repriced and len(attempt.traffic):
            fresh = [attempt.traffic.all_minutes()]
        first = since_ms // MINUTE_MS
        wanted = [(max(lo, first), hi) for lo, hi in fresh if hi > first]
        for key in [key for key in self.lumps if key[1] < first]:
            del self.lumps[key]
        if not wanted:
            return
        for minute, rows in attempt.traffic.rows(union(wanted), self.book, *self.payer, ()).items():
            self.lumps[attempt.number, minute] = sum(
                quantity * line.price.usd_nano / line.price.divisor for line, (quantity, _) in rows.items()
            )

    def _lumps(self) -> dict[int, float]:
        """Amounts by minute, all attempts together."""
        total: dict[int, float] = {}
        for (_, minute), cost in self.lumps.items():
            total[minute] = total.get(minute, 0.0) + cost
        return total


def _unpriced_minutes(attempt: Attempt) -> Iterator[int]:
    """Metered minutes that the ledger has without a price."""
    for minute, rows in attempt.booked_metered.items():
        if any(not line.price.sku and line.price.component == "gpu" for line in rows):
            yield minute


def _ended_ms(job: Job, timelines: dict[int, Timeline]) -> int:
    """When the last attempt ended; NEVER_MS while one goes on.  What is only sampled or only moves bytes has no end."""
    ends_ms = []
    for number, timeline in timelines.items():
        attempt = job.attempts[number]
        if timeline.ended_ms is None:
            if attempt.events or attempt.sampled:
                return NEVER_MS
            continue
        ends_ms.append(timeline.ended_ms)
    return max(ends_ms, default=NEVER_MS)
