"""Logs of work that stands still, replayed whole: a page in time that says since when."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare

STORIES = Path(__file__).parents[4] / "shared/cases/alerts"


def told(name: str, directory: Path, until: datetime, without: bytes = b"\0") -> list[dict[str, Any]]:
    """The alerts of a story as far as it had gone by an instant, by their beginnings; lines may be left out."""
    packed = STORIES / f"{name}.jsonl.gz"
    if not packed.exists():
        pytest.skip(f"no {packed}: the stories are not part of this repository")
    log = directory / "log.jsonl"
    until_ms = round(until.timestamp() * 1000)
    lines = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if _time_ms(line) <= until_ms and without not in line))
    done = trainfare("replay", log, "--data", directory / "data")
    assert done.code == 0, done.err[-3000:]
    store = ClickHouseStore(Embedded(data_dir=directory / "data", database="trainfare"))
    try:
        return sorted(store.select(ALERTS).to_pylist(), key=lambda row: row["started"])
    finally:
        store.close()


def _time_ms(line: bytes) -> int:
    _, _, rest = line.partition(b'"time_ms":')
    return int(rest.split(b",")[0])


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 6, 1, hour, minute, tzinfo=UTC)


def test_progress_that_stands_still_is_one_page_within_20_minutes(tmp_path: Path) -> None:
    (alert,) = told("noheartbeat_hang_progress", tmp_path, at(12, 0))
    assert (alert["rule"], alert["severity"], alert["owner"]) == ("stalled", "page", "xi")
    assert at(11, 0) < alert["started"] <= at(11, 20)
    assert alert["resolved"] is None
    assert alert["summary"].startswith(
        "stuck has stood at step 1,800 for 20 min, since 11:00 UTC, and paid $53;"
    )


@pytest.mark.parametrize("without", [b"\0", b'"heartbeat"'], ids=["progress", "samples"])
def test_gpus_that_fall_to_nothing_are_one_page_within_20_minutes(without: bytes, tmp_path: Path) -> None:
    """Whether the job reports its progress or not; of the ceiling that its cost is above tells another page."""
    alerts = told("hang_util0", tmp_path, at(12, 30), without)
    (alert,) = (each for each in alerts if each["rule"] != "ceiling")
    assert alert["rule"] == ("stalled" if without == b"\0" else "idle_gpus")
    assert (alert["severity"], alert["owner"], alert["resolved"]) == ("page", "ada", None)
    assert at(11, 7) < alert["started"] <= at(11, 27)
    # The last sample of work ends at 11:06, the first one without at 11:08.
    assert "0 % since 11:06 UTC with up to 68 GiB held" in alert["summary"]
    assert "256 GPUs" in alert["summary"]
