"""What half a million jobs cost by team takes no more memory than one statement may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from schemas.tables import JOB_HOURS, JOBS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.errors import SinkError
from streams.costs import job_parts
from streams.costs.answer import CostRows, cost_steps
from streams.costs.day_parts import answered
from streams.costs.request import request_of
from tests.bare_engine import ENGINE
from tests.new_store import begun

MEMORY_MIB = 128
_COUNT = 600_000
_NAME = "concat('a-job-whose-name-has-some-length-', toString(number))"
_JOBS = f"""INSERT INTO {JOBS} (job_id, owner, team, version)
SELECT {_NAME}, concat('owner-', toString(number % 400)), concat('team-', toString(number % 40)), 1 FROM numbers({_COUNT})"""
#: Two hours each, over five years.
_HOURS = f"""INSERT INTO {JOB_HOURS} (hour, job_id, attempt, gpu_cost_usd, version)
SELECT toDateTime(1600000000 - 1600000000 % 3600, 'UTC') + 3600 * (intDiv(number, 14) + part), {_NAME}, 1, 1 + number % 7, 1
FROM numbers({_COUNT}) ARRAY JOIN [0, 1] AS part SETTINGS max_partitions_per_insert_block = 0, throw_on_max_partitions_per_insert_block = 0"""

#: A statement must not profit of one before, nor put on disk what it has no memory for.
_ALONE = (
    "max_threads = 1, max_bytes_ratio_before_external_join = 0, collect_hash_table_stats_during_joins = 0"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    target = Embedded(data_dir=begun(tmp_path_factory.mktemp("many") / "meter"))
    engine = ENGINE.connect(str(target.engine_dir))
    engine.query(f"USE `{target.database}`")
    for sql in (_JOBS, _HOURS):
        engine.query(sql)
    engine.close()
    with closing(ClickHouseStore(target)) as opened:
        yield opened


def asked(store: ClickHouseStore, given: dict[str, list[str]], memory_mib: int) -> CostRows:
    def ask(sql: str, parameters: Any) -> QueryResult:
        return store.ask(f"{sql}\nSETTINGS max_memory_usage = {memory_mib << 20}, {_ALONE}", parameters)

    return answered(cost_steps(request_of(given)), ask)


@pytest.mark.parametrize("per", ["month", "all"])
def test_costs_by_team_take_the_memory_of_one_statement(
    per: str, store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked up at once, as for fewer jobs, they take more."""
    given = {"by": ["team"], "per": [per]}
    found = asked(store, given, MEMORY_MIB)
    assert sum(row["cost_usd"] for row in found.rows) == sum(2 * (1 + number % 7) for number in range(_COUNT))
    monkeypatch.setattr(job_parts, "JOBS_MAX", _COUNT)
    with pytest.raises(SinkError, match="memory"):
        asked(store, given, MEMORY_MIB)
    assert asked(store, given, 1_024) == found
