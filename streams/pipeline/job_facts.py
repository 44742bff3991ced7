"""What the windows ask of a job: who pays for it, whether anything came that they have not seen, when it ended.

Reads the job; must not change it.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.alerts.dimensions import Dimensions
from streams.kernels.arrays import NEVER_MS
from streams.pipeline.attempt import Attempt
from streams.pipeline.job import Job
from streams.timeline.attempts import Timeline


def payer_of(job: Job) -> tuple[str | None, str | None]:
    """Team and project, which prices may ask for."""
    dimensions = job.dimensions()
    return dimensions.team, dimensions.project


def is_fresh(job: Job) -> bool:
    """Whether it has samples or amounts that were not looked at."""
    return any(attempt.fresh_minutes or attempt.fresh_traffic for attempt in job.attempts.values())


def unpriced_minutes(attempt: Attempt) -> Iterator[int]:
    """Metered minutes that the ledger has without a price."""
    for minute, rows in attempt.booked_metered.items():
        if any(not line.price.sku and line.price.component == "gpu" for line in rows):
            yield minute


def ended_ms(job: Job, timelines: dict[int, Timeline]) -> int:
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


def dimensions_of(job: Job) -> Dimensions:
    """Whom to tell, and what silences and planned rates can ask for."""
    said = job.dimensions()
    fields: dict[str, str] = {}
    gpu_milli = 0
    timelines = job.timelines()
    if timelines:
        last = max(timelines)
        fields = job.fields_of(last)
        line = timelines[last]
        gpu_milli = line.values.gpu_milli if line.ended_ms is None else 0
    return Dimensions(
        job_id=job.id,
        owner=said.owner or "",
        team=said.team or "",
        project=said.project or "",
        experiment=said.experiment or "",
        **fields,
        gpu_milli=gpu_milli,
    )
