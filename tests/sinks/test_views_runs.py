"""The view `run_costs`: what all jobs of a run cost and lost together, and how much of that its tries caused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from schemas.tables import ATTEMPTS, JOB_HOURS, JOBS
from sinks.clickhouse import ClickHouseStore
from tests.sinks.rows import dicts, rows

HOUR_S = 472_222 * 3600  # 2023-11-15 06:00 UTC
COLUMNS = (
    "owner",
    "run_id",
    "jobs",
    "attempts",
    "last_job_id",
    "state",
    "cost_usd",
    "lost_cost_usd",
    "retry_cost_usd",
)
#: Job, run, state, when it began (h), and of each attempt: dollars, those lost, those lost while it started.
TRIES: list[tuple[str, str, str, int | None, list[tuple[int, int, int]]]] = [
    ("train-1", "llama", "failed", 0, [(20, 15, 1), (10, 10, 2)]),
    ("train-2", "llama", "preempted", 5, [(30, 12, 0)]),
    ("train-3", "llama", "running", 9, [(7, 3, 0), (40, 4, 4)]),
    ("train-4", "llama", "queued", None, []),
    ("other", "gpt", "completed", 1, [(5, 0, 0)]),
    ("alone", "", "failed", 1, [(9, 9, 0)]),
    ("trainfare-canary.1", "llama", "completed", 30, [(1, 1, 0)]),
]


def load(store: ClickHouseStore) -> None:
    jobs: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    hours: list[dict[str, Any]] = []
    for job_id, run_id, state, begin, tries in TRIES:
        started = None if begin is None else (HOUR_S + begin * 3600) * 1000
        about = {"owner": "ada", "team": "nlp", "run_id": run_id, "state": state, "attempts": len(tries) or 1}
        jobs.append({"job_id": job_id, **about, "started": started})
        for number, (usd, lost, starting) in enumerate(tries, 1):
            attempts.append({"job_id": job_id, "attempt": number, "state": "failed"})
            money = {"gpu_cost_usd": usd, "lost_cost_usd": lost, "starting_lost_cost_usd": starting}
            of_attempt = {name: Decimal(value) for name, value in money.items()}
            hours.append({"job_id": job_id, "attempt": number, "hour": HOUR_S + number * 3600, **of_attempt})
    for table, found in ((JOBS, jobs), (ATTEMPTS, attempts), (JOB_HOURS, hours)):
        store.insert(table, rows(table, *found), table)


def test_a_run_is_all_of_its_jobs(store: ClickHouseStore) -> None:
    load(store)
    found = dicts(store, "SELECT * FROM run_costs ORDER BY run_id")
    # Of the last job: the first attempt, which another one followed, and the start-up of that.
    said = ("ada", "llama", 4, 6, "train-3", "running", 107, 44, 25 + 12 + 3 + 4)
    assert [tuple(row[name] for name in COLUMNS) for row in found] == [
        ("ada", "gpt", 1, 1, "other", "completed", 5, 0, 0),
        said,
    ]
    assert [row["lost_ratio"] for row in found] == [0, 44 / 107]
    assert found[1]["started"].timestamp() == HOUR_S
