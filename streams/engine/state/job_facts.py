"""Facts that the burn tracker needs of a job: who pays, whether it changed, when it ended.

It reads the job and must not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.durations import BEGINNING_MS, MINUTE_MS, NEVER_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Payer, usage_context
from streams.engine.pricing.kinds import Kind
from streams.engine.state.attempt import AttemptState
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.state.job import JobState
from streams.engine.state.said import JobDimensions
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.growing import Timelines
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import price_pieces

_NEXT_ATTEMPT_MS: Final = 600_000  # the next attempt may follow this long after a failure or preemption


def payer_of(job: JobState, book: PriceBook) -> Payer:
    """What prices of a book may match of the job as a whole."""
    return payer_in(job.dimensions(), book)


def payer_in(said: JobDimensions, book: PriceBook) -> Payer:
    """What prices of a book may match of a job that says this."""
    return book.of_job(said.team, said.project, said.labels)


def is_fresh(job: JobState) -> bool:
    """Whether it has samples or amounts that the burn windows have not processed."""
    return any(attempt.fresh_minutes or attempt.fresh_traffic for attempt in job.with_usage.values())


def unpriced_minutes(attempt: AttemptState, book: PriceBook, payer: Payer) -> Iterator[int]:
    """Yield metered minutes in which the book has no price for GPU-time.

    All minutes are examined: the ledger uses the newest prices, a tick those of its time.
    """
    if not attempt.winners:
        return
    begin_ms, end_ms = min(attempt.winners) * MINUTE_MS, (max(attempt.winners) + 1) * MINUTE_MS
    gaps: dict[tuple[str, ...], list[Span]] = {}  # price fields -> spans without a price
    for minute, winner in attempt.winners.items():
        if winner.fields not in gaps:
            context = usage_context(winner.price_fields, payer.team, payer.project)
            steps = book.steps(context, "gpu", Kind.GPU_TIME, begin_ms, end_ms)
            pieces = price_pieces(steps, begin_ms, end_ms, "gpu", Kind.GPU_TIME)
            gaps[winner.fields] = [
                (from_ms, until_ms) for from_ms, until_ms, price in pieces if not price.sku
            ]
        start_ms = minute * MINUTE_MS
        if any(
            from_ms < start_ms + MINUTE_MS and start_ms < until_ms
            for from_ms, until_ms in gaps[winner.fields]
        ):
            yield minute


def ended_ms(job: JobState, timelines: dict[int, Timeline]) -> int:
    """Return when the last attempt ended; NEVER_MS while one is open. A job with only samples or amounts has no end."""
    if isinstance(timelines, Timelines) and timelines.is_newest:
        if any(job.attempts[n].events or job.attempts[n].sampled for n in timelines.ranges.open):
            return NEVER_MS
        latest_ms = timelines.ranges.latest_ms()[1]
        return NEVER_MS if latest_ms == BEGINNING_MS else latest_ms
    ends_ms = []
    for number, timeline in timelines.items():
        attempt = job.attempts[number]
        if timeline.ended_ms is None:
            if attempt.events or attempt.sampled:
                return NEVER_MS
            continue
        ends_ms.append(timeline.ended_ms)
    return max(ends_ms, default=NEVER_MS)


def undecided_until_ms(job: JobState, timelines: dict[int, Timeline]) -> int:
    """Until when a next attempt may follow: 10 min after the last preemption or failure.

    0 if there was none, or if the highest attempt ended the job.
    """
    if isinstance(timelines, Timelines) and timelines.is_newest:
        broken_ms = timelines.ranges.latest_ms()[2]
    else:
        ends_ms = (line.ended_ms or 0 for line in timelines.values() if line.state in ("preempted", "failed"))
        broken_ms = max(ends_ms, default=BEGINNING_MS)
    last = _last(job, timelines)
    if broken_ms == BEGINNING_MS or last is None or last.state in ("completed", "cancelled"):
        return 0
    return broken_ms + _NEXT_ATTEMPT_MS


def done_ms(job: JobState, timelines: dict[int, Timeline]) -> int:
    """Return when the highest attempt was completed or cancelled; OPEN_MS if it was not."""
    last = _last(job, timelines)
    if last is None or last.ended_ms is None or last.state not in ("completed", "cancelled"):
        return OPEN_MS
    return last.ended_ms


def _last(job: JobState, timelines: dict[int, Timeline]) -> Timeline | None:
    """The timeline of the highest attempt with events or samples."""
    known = (n for n in reversed(timelines) if job.attempts[n].events or job.attempts[n].sampled)
    return next((timelines[number] for number in known), None)


def dimensions_of(job: JobState) -> AlertDimensions:
    """The owner to notify, and the fields that silences and planned rates can match."""
    said = job.dimensions()
    fields: dict[str, str] = {}
    gpu_milli = 0
    timelines = job.timelines()
    if timelines:
        last = next(reversed(timelines))  # they ascend
        fields = job.fields_of(last)
        line = timelines[last]
        gpu_milli = line.values.gpu_milli if line.ended_ms is None else 0
    return AlertDimensions(
        job_id=job.id,
        owner=said.owner or "",
        team=said.team or "",
        project=said.project or "",
        experiment=said.experiment or "",
        **fields,
        gpu_milli=gpu_milli,
        run_id=said.run_id or "",
    )
