"""`trainfare job` of a job that runs: how far it is, and that its first amounts are not stored yet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from schemas.tables import ATTEMPTS, BURN_RATES, JOB_CHECKPOINTS, JOBS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.job_now import are_stored
from tests.cli.command import trainfare
from tests.new_store import begun
from tests.sinks.rows import rows
from tests.web.live import at, burn, put
from tests.web.log import T0_MS


def answer(*words: object) -> str:
    done = trainfare(*words)
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.fixture(scope="module")
def begun_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that has said how far it is, of which no amount is stored so far: its first minute is metered later."""
    root = tmp_path_factory.mktemp("begun") / "meter"
    store = ClickHouseStore(Embedded(data_dir=begun(root)))
    instant = at(T0_MS)
    job = {
        "job_id": "j",
        "state": "running",
        "attempts": 1,
        "progress": [("epoch", 3.0), ("step", 1200.0)],
        "quality": [("loss", 0.067)],
        "version": 1,
    }
    attempt = {
        "job_id": "j",
        "attempt": 1,
        "state": "running",
        "started": instant,
        "gpu_count": 8000,
        "version": 1,
    }
    save = {"job_id": "j", "attempt": 1, "id": "c", "time": instant, "version": 1}
    try:
        for table, row in ((JOBS, job), (ATTEMPTS, attempt), (JOB_CHECKPOINTS, save)):
            store.insert(table, rows(table, row), table)
        put(store, BURN_RATES, [burn("j", T0_MS, "28.8")], "rates")
    finally:
        store.close()
    return root


def test_a_job_that_has_just_begun_costs_no_zero_and_says_how_far_it_is(begun_job: Path) -> None:
    shown = answer("job", "j", "--data", begun_job)
    assert "total      not stored yet" in shown
    assert "0.00" not in shown.partition("Attempts")[0].partition("Cost by component")[2]
    lines = dict(re.findall(r"^(\w+) {2,}(\S.*)$", shown.partition("Cost by component")[0], re.MULTILINE))
    assert lines["progress"] == "epoch 3, step 1200"
    assert lines["quality"] == "loss 0.067"
    assert lines["checkpoints"].startswith("1, the last at 20")
    assert lines["usd_per_hour"].startswith("28.80 now, ")
    found = json.loads(answer("job", "j", "--data", begun_job, "--format", "json"))
    assert (found["amounts_stored"], found["progress"]) == (False, {"epoch": 3.0, "step": 1200.0})
    assert found["quality"] == {"loss": 0.067}
    assert found["checkpoints"] == {"total": 1, "newest_ms": T0_MS}


def test_amounts_that_are_stored_are_shown() -> None:
    attempt = {"started": 1, "ended": None}
    assert are_stored({"cost_usd": 0}, [{"started": None, "ended": None}], []), "it waits, and costs nothing"
    assert are_stored({"cost_usd": 1}, [attempt], []), "minutes that were dropped"
    assert not are_stored({"cost_usd": 0}, [attempt], [])
