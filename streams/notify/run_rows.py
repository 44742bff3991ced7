"""Reads from the tables which jobs of a run began after an alert about it opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.tables import JOB_HOURS, JOBS
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import Alert
from streams.engine.rules.lineage import RunJob
from streams.engine.rules.run_jobs import LaterTries, found_run, later_tries, search_of

_COLUMNS: Final = (*RunJob._fields, "state", "started", "ended")
_TIMES: Final = {"started": MILLI, "ended": MILLI}


def later_tries_of(store: Rows, alerts: Collection[Alert]) -> dict[str, LaterTries]:
    """What followed each of these alerts about the tries of a run, by its id; without a later try it is left out."""
    found: dict[str, LaterTries] = {}
    for alert in alerts:
        later = later_tries(_jobs_of_run(store, alert.subject_name), alert.started_ms)
        if later is not None:
            found[alert.alert_id] = later
    return found


def _jobs_of_run(store: Rows, job_id: str) -> list[Mapping[str, Any]]:
    """The jobs of the run of this one, the oldest first, with what each of them lost; none where there is no other."""
    search = search_of(_jobs(store, [Condition("job_id", "=", job_id)]))
    if search is None:
        return []
    key = search.key
    where = [
        Condition("owner", "=", key.owner),
        Condition("team", "=", key.team),
        Condition("run_id", "=", key.run_id),
        Condition("started", ">=", search.from_ms),
        Condition("started", "<=", search.to_ms),
    ]
    run = found_run(search, _jobs(store, where))
    if run is None:
        return []
    lost: dict[str, Decimal] = {}
    hours = store.select(JOB_HOURS, [Condition("job_id", "in", run.names)], ("job_id", "lost_cost_usd"))
    for row in rows_of(hours):
        lost[row["job_id"]] = lost.get(row["job_id"], Decimal(0)) + row["lost_cost_usd"]
    return [{**row, "lost_cost_usd": lost.get(str(row["job_id"]), Decimal(0))} for row in run.jobs]


def _jobs(store: Rows, where: Sequence[Condition]) -> list[Mapping[str, Any]]:
    rows = rows_of(times_as_integers(store.select(JOBS, where, _COLUMNS), _TIMES))
    return [{**row, "began_ms": row["started"], "ended_ms": row["ended"]} for row in rows]
