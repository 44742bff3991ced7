"""A store of an earlier version has no hours: an upgrade makes them of its minutes."""

from __future__ import annotations

from pathlib import Path

from schemas.tables import JOB_HOURS
from schemas.units import COMPONENTS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.migrate import shipped
from sinks.rows import Condition
from streams.worker.ledger_judges.judged_hours import HOURS_KEY
from tests.cli.command import trainfare
from tests.replay.logs import write_log
from tests.sinks.stores import embedded

SUMMED = (
    "gpu_milli_ms", "lost_gpu_milli_ms", "unpriced_gpu_milli_ms", "sampled_gpu_ms", "productive_gpu_ms", "tensor_gpu_ms",
    "tensor_sampled_gpu_ms", *(f"{component}_cost_usd" for component in COMPONENTS), "lost_cost_usd",
    "starting_lost_cost_usd",
)  # fmt: skip
SUMS = (
    f"SELECT hour, job_id, attempt, {', '.join(SUMMED)} FROM job_hours FINAL ORDER BY hour, job_id, attempt"
)


def _upgrade(store: ClickHouseStore, name: str = "0003_hours.sql") -> None:
    (made,) = (each for each in shipped() if each.name == name)
    for statement in made.statements():
        store._connection.call(lambda client, statement=statement: client.command(statement))  # type: ignore[misc]  # a lambda with a default has no type


def test_hours_are_made_of_minutes_and_left_alone_where_there_are_any(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", jobs=4, minutes=70)
    done = trainfare("replay", log, "--data", tmp_path / "data")
    assert done.code == 0, done
    with embedded(tmp_path / "data") as store:
        want = store.query(SUMS).to_pylist()
        assert len(want) == 8
        _upgrade(store)
        assert store.query("SELECT count() AS n FROM job_hours WHERE version = 0")["n"].to_pylist() == [0]
        store.delete(JOB_HOURS, [Condition("job_id", "!=", "job-0")])
        for _ in range(2):  # a migration may run twice
            _upgrade(store)
            assert store.query(SUMS).to_pylist() == want
    audit = trainfare("audit", "--data", tmp_path / "data")
    assert audit.code == 0, audit.out


def test_rules_across_jobs_go_on_from_the_last_hour_of_a_store_that_had_none(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", jobs=4, minutes=70)
    done = trainfare("replay", log, "--data", tmp_path / "data")
    assert done.code == 0, done
    with embedded(tmp_path / "data") as store:
        assert (
            store.meta.get(HOURS_KEY) is None
        )  # a new store has none: the log is judged from its first hour
        _upgrade(store, "0044_hours_judged.sql")
        last = max(store.query("SELECT hour FROM job_hours")["hour"].to_pylist())
        assert store.meta.get(HOURS_KEY) == str(1_000 * last)
        store.meta.put(HOURS_KEY, "7")
        _upgrade(store, "0044_hours_judged.sql")
        assert store.meta.get(HOURS_KEY) == "7"
