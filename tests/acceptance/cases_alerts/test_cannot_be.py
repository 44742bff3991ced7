"""Logs of what cannot be, replayed whole: one cause is one message, in time, and nothing else is said beside it."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare

STORIES = Path(__file__).parents[4] / "shared/cases/alerts"


def told(name: str, directory: Path) -> list[dict[str, Any]]:
    """The alerts of a story, by their beginnings."""
    packed = STORIES / f"{name}.jsonl.gz"
    if not packed.exists():
        pytest.skip(f"no {packed}: the stories are not part of this repository")
    (directory / "log.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
    done = trainfare("replay", directory / "log.jsonl", "--data", directory / "data")
    assert done.code == 0, done.err[-3000:]
    store = ClickHouseStore(Embedded(data_dir=directory / "data", database="trainfare"))
    try:
        return sorted(store.select(ALERTS).to_pylist(), key=lambda row: row["started"])
    finally:
        store.close()


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 6, 1, hour, minute, tzinfo=UTC)


def test_a_lost_end_is_told_once_while_the_job_is_billed_on(tmp_path: Path) -> None:
    (alert,) = told("lost_end_no_samples", tmp_path)
    assert (alert["rule"], alert["subject_name"], alert["owner"]) == ("double_held", "jobA", "fay")
    assert at(10, 3) < alert["started"] <= at(10, 18)  # the nodes were given to the other job at 10:03
    assert alert["resolved"] is None
    assert (
        "jobA and 1 job of another team hold 32 GPUs of node n0 and 1 more, which have 16, $40/h too much"
        in alert["summary"]
    )


def test_nodes_that_no_job_uses_are_told_once_by_their_group(tmp_path: Path) -> None:
    (alert,) = told("autoscaler_empty", tmp_path)
    assert (alert["rule"], alert["subject_kind"], alert["subject_name"]) == (
        "empty_group",
        "node_group",
        "c1/p5",
    )
    assert at(10, 13) < alert["started"] <= at(10, 21)  # the third came up at 10:06, the last one at 10:21
    assert at(17, 0) <= alert["resolved"] <= at(17, 5)
    assert alert["usd_per_hour"] >= 5 * 8 * Decimal("2.49")


def test_a_job_of_two_collectors_is_told_once_with_both_sources(tmp_path: Path) -> None:
    alerts = told("two_collectors", tmp_path)
    (alert,) = [each for each in alerts if each["rule"] == "metered_twice"]
    assert at(8, 0) < alert["started"] <= at(8, 15)
    assert "dup (own, slurm) and k8s/ns/dup-0 (k8s) both meter 8 GPUs of d0" in alert["summary"]
    assert "unsampled_gpus" not in {each["rule"] for each in alerts}
