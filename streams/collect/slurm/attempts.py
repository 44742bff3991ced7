"""Numbers the attempts of jobs: Slurm repeats a job's id when it is requeued, and a change of size makes another record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streams.collect.slurm.events import SeenAttempt
from streams.collect.slurm.records import JobRecord


def by_job(records: Iterable[JobRecord]) -> dict[int, list[JobRecord]]:
    """The records of each job, the oldest first."""
    found: dict[int, list[JobRecord]] = {}
    for record in records:
        found.setdefault(record.raw_id, []).append(record)
    for each in found.values():
        each.sort(key=lambda record: (record.submit_s, record.start_s))
    return found


def is_numbered(records: Iterable[JobRecord], restarts: Mapping[int, int]) -> bool:
    """Whether the attempts of these records are known without the job's other records.

    `restarts` is what squeue says of jobs.
    """
    return all(each.restarts is not None or restarts.get(each.raw_id) == 0 for each in records)


def parts_of(records: Iterable[JobRecord], restarts: Mapping[int, int]) -> Iterator[SeenAttempt]:
    """Yield the records of one job, the oldest first, with their attempts.

    Where Slurm does not count restarts itself, the records must be all that there are of the job.
    """
    attempt, before = 1, None
    for record in records:
        if before is not None and before.user != record.user:
            attempt, before = 1, None  # a number that was given again
        follows = before is not None and "RESIZING" in before.states and before.end_s == record.submit_s
        if before is not None and before.start_s and not follows:
            attempt += 1
        if record.restarts is not None:
            attempt = record.restarts + 1
        elif restarts.get(record.raw_id) == 0:
            attempt = 1
        yield SeenAttempt(record, attempt, is_live=False, follows=follows)
        before = record
