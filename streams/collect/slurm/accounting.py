"""Queries sacct: jobs that ended in an interval, and whole jobs whose attempts are not clear otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from streams.collect.slurm.attempts import by_job, is_numbered, parts_of
from streams.collect.slurm.events import SeenAttempt
from streams.collect.slurm.records import EntryKey, JobRecord, accounted_jobs

Ask = Callable[[Sequence[str]], bytes]
"""Runs a command and returns what it answers."""

#: sacct's letters for the states in which a record is complete.
_COMPLETE: Final = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,RV,TO"
_WINDOW_S: Final = 6 * 3_600
_JOBS_PER_QUESTION: Final = 500
_NUMBERED_AT_MOST: Final = 100_000


RecordKey = tuple[int, int, int, int]


def key_of(record: JobRecord) -> RecordKey:
    """What tells a record of sacct from all others."""
    return record.raw_id, record.submit_s, record.start_s, record.end_s


class Accounting:
    """sacct of one cluster."""

    def __init__(self, command: Sequence[str], ask: Ask) -> None:
        self._command = [*command, "--json", "--duplicates", "--allocations", "--allusers"]
        self._ask = ask
        self._attempts: dict[
            tuple[int, int], int
        ] = {}  # (Slurm's number, time of submission): asked for once
        self.answered: dict[
            RecordKey, None
        ] = {}  #: all records that sacct has answered since the last question for ends

    def ended(
        self,
        from_s: int,
        until_s: int,
        restarts: Mapping[int, int],
        unclear: Iterable[int],
        faults: dict[EntryKey, str],
    ) -> list[SeenAttempt]:
        """What ended from one time to the other, and all that is known of the jobs with these numbers.

        `restarts` is what squeue counts; what cannot be read is added to `faults`.

        Raises:
            SourceUnavailableError: sacct cannot be read.
        """
        self.answered = {}
        records: dict[RecordKey, JobRecord] = {}
        while from_s < until_s:
            end_s = min(from_s + _WINDOW_S, until_s)
            window = ("--state", _COMPLETE, "--starttime", f"uts{from_s}", "--endtime", f"uts{end_s}")
            for each in self._records(window, faults):
                records[key_of(each)] = each
            from_s = end_s
        parts: list[SeenAttempt] = []
        asked = set(unclear)
        for raw_id, jobs in by_job(records.values()).items():
            if is_numbered(jobs, restarts):
                parts += parts_of(jobs, restarts)
            elif all((raw_id, job.submit_s) in self._attempts for job in jobs):
                parts += (
                    SeenAttempt(job, self._attempts[raw_id, job.submit_s], is_live=False) for job in jobs
                )
            else:
                asked.add(raw_id)
        return parts + self._by_number(sorted(asked), restarts, faults)

    def _by_number(
        self, raw_job_ids: Sequence[int], restarts: Mapping[int, int], faults: dict[EntryKey, str]
    ) -> list[SeenAttempt]:
        """All that sacct has of some jobs."""
        parts: list[SeenAttempt] = []
        for first in range(0, len(raw_job_ids), _JOBS_PER_QUESTION):
            numbers = raw_job_ids[first : first + _JOBS_PER_QUESTION]
            records = self._records(("--jobs", ",".join(map(str, numbers))), faults)
            for raw_id, jobs in by_job(records).items():
                if raw_id in numbers:  # asked for an array's job, sacct adds the tasks
                    parts += parts_of(jobs, restarts)
        if len(self._attempts) > _NUMBERED_AT_MOST:
            self._attempts.clear()
        self._attempts.update({(part.record.raw_id, part.record.submit_s): part.attempt for part in parts})
        return parts

    def _records(self, which: Sequence[str], faults: dict[EntryKey, str]) -> list[JobRecord]:
        listing = accounted_jobs(self._ask([*self._command, *which]))
        faults.update(listing.faults)
        self.answered.update((key_of(each), None) for each in listing.jobs)
        return listing.jobs
