"""What several jobs cost in a window is divided by the window, however old each of them is.

Job `first` pays $60/h for 30 min and ends; `second` begins then, and has paid as much for 10 min. Neither rate is above $60/h, and so no sum is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import BURN_RATES, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from streams.panels.oncall import BURN_NOW
from streams.web import job_list_sql, queries
from tests.sinks.rows import MINUTE, dicts, rows
from tests.sinks.stores import embedded

NOW = MINUTE + timedelta(minutes=40, seconds=10)
NOW_MS = int(NOW.timestamp()) * 1000
#: $30 and $10 in whole minutes; the longest window has hours in which nothing ran.
MEANS = {
    "usd_per_hour": Decimal(60),
    "usd_per_hour_15m": Decimal(60),
    "usd_per_hour_1h": Decimal(40),
    "usd_per_hour_6h": Decimal("6.666666666"),
}


def _burn(job: str, at: Any, now: int) -> Mapping[str, Any]:
    means = dict.fromkeys(("usd_per_hour", "usd_per_hour_15m", *queries.MEANS), Decimal(60))
    return {
        "job_id": job,
        "time": at,
        "usd_per_hour_now": Decimal(now),
        "expected_usd_per_hour": Decimal(now),
    } | means


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(Path(tmp_path_factory.mktemp("engine"))) as opened:
        about = {"team": "red", "experiment": "sweep"}
        jobs = [
            {"job_id": "first", "state": "completed", **about},
            {"job_id": "second", "state": "running", **about},
        ]
        minutes = [
            {
                "job_id": "first" if minute < 30 else "second",
                "minute": MINUTE + timedelta(minutes=minute),
                "quantity": 1,
                "cost_usd": Decimal(1),
            }
            for minute in range(41)
        ]
        burns = [
            _burn("first", MINUTE + timedelta(minutes=20), 60),
            _burn("first", MINUTE + timedelta(minutes=40), 0),
            _burn("second", NOW, 60),
        ]
        for table, given in ((JOBS, jobs), (JOB_MINUTES, minutes), (BURN_RATES, burns)):
            opened.insert(table, rows(table, *given), "token")
        yield opened


def test_levels_above_a_job_have_what_their_jobs_cost_over_one_time(store: ClickHouseStore) -> None:
    (team,) = dicts(store, "SELECT * FROM m4_burn_rate WHERE level = 'team'")
    assert team == {
        "level": "team",
        "name": "red",
        "time": NOW,
        **MEANS,
        "expected_usd_per_hour": 60,
        "usd_per_hour_now": 60,
    }
    jobs = dicts(store, "SELECT name, usd_per_hour_1h FROM m4_burn_rate WHERE level = 'job' ORDER BY name")
    assert jobs == [{"name": "first", "usd_per_hour_1h": 60}, {"name": "second", "usd_per_hour_1h": 60}]


def test_the_fleet_has_what_all_jobs_cost_over_one_time(store: ClickHouseStore) -> None:
    bound = {
        "since_ms": NOW_MS - queries.LONGEST_MS,
        "until_ms": NOW_MS,
        "day_ms": NOW_MS - NOW_MS % 86_400_000,
    }
    assert store.ask(queries.SPEND, bound).records() == [{"spend_today_usd": 41, **MEANS}]
    # Its chart is of what is paid now, as the figure beside it.
    found = store.ask(queries.HISTORY, {"since_ms": NOW_MS - 3_600_000, "last": NOW_MS // 60_000}).records()
    assert [row["usd"] for row in found][-1] == 60
    assert max(row["usd"] for row in found) == 60


def test_a_sweep_has_what_its_trials_cost_over_one_time(store: ClickHouseStore) -> None:
    bound = {
        "since_ms": NOW_MS - queries.LIVE_MS,
        "used_since_ms": NOW_MS,
        "until_ms": NOW_MS,
        "sweeps": ["experiment:red//sweep"],
    }
    (sweep,) = store.ask(job_list_sql.sweeps(job_list_sql.JobSelection()), bound).records()
    assert {name: sweep[f"sum_{name}"] for name in MEANS} == MEANS
    assert (sweep["sum_usd_per_hour_now"], sweep["sum_expected_usd_per_hour"]) == (60, 60)


def test_the_panel_of_the_fleet_is_of_the_same_figures(store: ClickHouseStore) -> None:
    now_s = NOW_MS // 1000
    found = store.ask(BURN_NOW, {"from_s": now_s - 3_600, "to_s": now_s}).records()
    assert found == [
        {"now": 60, "1 h": MEANS["usd_per_hour_1h"], "6 h": MEANS["usd_per_hour_6h"], "jobs that burn": 1}
    ]
