"""Whether an alert about a job goes on in an hour that says nothing for or against it: the job did not run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import DAY_MS
from streams.engine.alerts.alert import Alert

#: After so long without any a job is taken as over.
QUIET_MS: Final = DAY_MS


class JobHours(NamedTuple):
    """What is known of a job in a span and the day before it. Hours are the instants at which they end; all are ascending."""

    with_run_time: Sequence[int] = ()
    ends: Sequence[int] = ()  # of attempts
    done: Sequence[int] = ()  # those of them that were completed or cancelled


class QuietHours:
    """Of the jobs of some alerts."""

    def __init__(self, jobs: Mapping[str, JobHours]) -> None:
        self._jobs = jobs

    def goes_on(self, alert: Alert, at_ms: int) -> bool:
        """Whether an alert of a rule that does not hold in the hour that ends at `at_ms` goes on."""
        job = self._jobs.get(alert.subject_name)
        if job is None:
            return False
        before = bisect_right(job.with_run_time, at_ms)
        last_ms = job.with_run_time[before - 1] if before else 0
        if last_ms == at_ms or at_ms - last_ms >= QUIET_MS:
            return False  # it was judged in this hour, or there is nothing to judge any more
        over = bisect_left(job.ends, at_ms)
        return not (over and job.ends[over - 1] in job.done)
