"""One job of a public trace, and the lifecycle events that stand for it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# The contract's order of the types used here; it breaks ties between events of one instant.
_TYPE_RANK = {"queued": 0, "started": 2, "failed": 10, "completed": 11, "cancelled": 12}


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job as a trace describes it; times are event time, `end_ms` None means still running."""

    job_id: str
    source: str
    start_ms: int | None
    end_ms: int | None
    end_type: str
    gpu_milli: int
    cpu_milli: int
    fields: Mapping[str, str]
    queued_ms: int | None = None
    memory_gib_milli: int | None = None
    node_count: int = 1
    owner: str | None = None
    team: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def gpu_milli_ms(self, as_of_ms: int) -> int:
        """GPU-time paid up to `as_of_ms`, by the trace's own figures."""
        if self.start_ms is None:
            return 0
        return self.gpu_milli * ((as_of_ms if self.end_ms is None else self.end_ms) - self.start_ms)


@dataclass(frozen=True, slots=True, order=True)
class TimedEvent:
    """An event with the key by which a trace's log is ordered."""

    time_ms: int
    place: int  # the job's place in the trace
    rank: int
    node: int
    topic: str = field(compare=False)
    value: Mapping[str, Any] = field(compare=False)


def job_events(jobs: Iterable[TraceJob]) -> Iterator[TimedEvent]:
    """The lifecycle events of `jobs`, job by job; the caller sorts them."""
    for place, job in enumerate(jobs):
        described = _description(job)
        if job.queued_ms is not None:
            yield _event(job, place, "queued", job.queued_ms, described)
            described = {}
        if job.start_ms is None:
            continue
        yield _event(job, place, "started", job.start_ms, described)
        if job.end_ms is not None:
            # The traces say that a job failed, never why.
            why = {"reason": "unknown"} if job.end_type == "failed" else {}
            yield _event(job, place, job.end_type, job.end_ms, why)


def spread(jobs: list[TraceJob], count: int) -> list[TraceJob]:
    """`count` jobs taken at even steps over the whole trace; all of them if it has fewer."""
    if count >= len(jobs):
        return jobs
    return [jobs[place * len(jobs) // count] for place in range(count)]


def _event(job: TraceJob, place: int, kind: str, time_ms: int, more: Mapping[str, Any]) -> TimedEvent:
    value = {
        "id": f"{job.job_id}-{kind}",
        "source": job.source,
        "time_ms": time_ms,
        "job_id": job.job_id,
        "type": kind,
        **more,
    }
    return TimedEvent(time_ms, place, _TYPE_RANK[kind], 0, "jobs", value)


def _description(job: TraceJob) -> dict[str, Any]:
    described: dict[str, Any] = {
        "gpu_count": thousandths(job.gpu_milli),
        "cpu_count": thousandths(job.cpu_milli),
    }
    if job.memory_gib_milli is not None:
        described["memory_gib"] = thousandths(job.memory_gib_milli)
    described.update(job.fields)
    if job.owner is not None:
        described["owner"] = job.owner
    if job.team is not None:
        described["team"] = job.team
    if job.labels:
        described["labels"] = dict(job.labels)
    return described


def thousandths(milli: int) -> int | float:
    """A count of thousandths as the JSON number that reads back exactly."""
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
