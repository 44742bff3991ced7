"""Every panel has rows of the demo's fleet, for an hour and for a day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.query.limits import QueryLimits
from sinks.query.pool import QueryPool
from sinks.target import query_source
from streams.panels.registry import PANELS
from tests.cli.command import trainfare
from tests.demo.test_fleet import START_MS, told
from tests.panels.asking import answered

_MINUTES = 120
#: It saves its work, writes to a storage, and had an alert in its first hour.
_JOB = "llm-7b-pretrain"
#: Nothing of the fleet is refused, a replay sends no message, and the job's alert is over before the last hour.
_EMPTY = ("deliveries", "dead_letters", "job_alerts")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryPool]:
    root = Path(tmp_path_factory.mktemp("demo"))
    log = root / "log.jsonl"
    lines = (
        orjson.dumps({"topic": str(each.topic), "value": orjson.loads(each.value)}) for each in told(_MINUTES)
    )
    log.write_bytes(b"\n".join(lines) + b"\n")
    done = trainfare("replay", log, "--data", root / "meter")
    assert done.code == 0, done.err
    store = ClickHouseStore(Embedded(data_dir=root / "meter"))
    made = QueryPool(query_source(store.target), QueryLimits(time_ms=240_000).of_product(is_own=True))
    yield made
    made.close()
    store.close()


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("range_s", [3_600, 86_400], ids=["1h", "24h"])
def test_a_panel_has_rows(pool: QueryPool, name: str, range_s: int) -> None:
    end_s = START_MS // 1000 + _MINUTES * 60
    found = answered(pool, name, end_s - range_s, end_s, _JOB)
    assert found["rows"] or name in _EMPTY
