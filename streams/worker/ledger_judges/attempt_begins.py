"""Since when attempts hold what they hold, and whose they are, as the tables of jobs have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streams.worker.ledger_judges import held_jobs_sql
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore


class AttemptBegins:
    """Of some jobs, read once; blocks."""

    def __init__(self, store: SqlStore, jobs: Collection[str]) -> None:
        self._began: dict[tuple[str, int], int] = {}
        self._about: dict[str, Mapping[str, str]] = {}
        for row in named_rows(store, held_jobs_sql.ATTEMPTS, "jobs", sorted(jobs)):
            self._began[row["job_id"], row["attempt"]] = row["began_ms"]
            self._about[row["job_id"]] = row

    def began_ms(self, job_id: str, attempt: int) -> int:
        """When the attempt began; 0: no event says so."""
        return self._began.get((job_id, attempt), 0)

    def first_ms(self) -> int:
        """When the first of the attempts began."""
        return min(self._began.values(), default=0)

    def about(self, job_id: str) -> Mapping[str, str]:
        """The job's owner, team and project."""
        return self._about.get(job_id, {"owner": "", "team": "", "project": ""})
