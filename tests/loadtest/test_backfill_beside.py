"""A live load with a backfill beside it on one server: both totals are right, or it is a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from loadtest import backfill_beside
from sinks.clickhouse import ClickHouseStore
from tests.cli.command import ROOT
from tests.kafka.broker import why_not

SHORT = [
    *("--seconds", "5", "--cpu", "1", "--settle", "1", "--jobs", "20", "--rate", "50", "--runaways", "1"),
    str(ROOT / "examples" / "helios-500.jsonl.gz"),
]


def test_the_server_is_asked_itself() -> None:
    class Stub:
        def __init__(self) -> None:
            self.asked: list[Any] = []

        def query(self, sql: str, parameters: dict[str, object]) -> pa.Table:
            self.asked.append((sql, parameters))
            return pa.table({"job_id": ["a", "b"]})

    stub = Stub()
    api = backfill_beside.ServerSql(cast("ClickHouseStore", stub))
    assert api.names("SELECT job_id", jobs=["a"]) == ["a", "b"]
    assert stub.asked == [("SELECT job_id", {"jobs": ["a"]})]


@pytest.mark.kafka
@pytest.mark.long
def test_a_short_run_is_right_and_another_total_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if why_not() is not None:
        pytest.skip(str(why_not()))
    out = tmp_path / "figures.json"
    assert backfill_beside.main([*SHORT, "--out", str(out)]) == 0
    figures = json.loads(out.read_text())
    assert figures["produced_to_readable"]["arrived"] == figures["produced_to_readable"]["expected"] > 0
    assert figures["backfill"]["jobs"] == 500
    assert figures["backfill"]["balanced"]
    capsys.readouterr()
    assert backfill_beside.main([*SHORT, "--usd", "1"]) == 1
    assert "not 1" in capsys.readouterr().err
