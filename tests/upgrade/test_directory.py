"""A stopped directory of 0.1.0: what an upgrade will do is said without doing it, then done, and there is no way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.meta.tree import ROOT
from tests.upgrade.former import THIS, Release, built, missing

OLD = "0.1.0"
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(bool(missing(OLD)), reason=missing(OLD)),
]


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return built(OLD, tmp_path_factory.mktemp("former"))


def jobs(of: Release, data: Path) -> dict[str, str]:
    """What each job cost."""
    rows = json.loads(of.run("jobs", "--data", str(data), "--limit", "1000", "--format", "json"))
    return {row["job_id"]: f"{float(row['cost_usd']):.9f}" for row in rows}


def test_a_directory_is_checked_upgraded_and_refused_by_the_former_release(
    tmp_path: Path, former: Release
) -> None:
    data = tmp_path / "meter"
    former.run("replay", str(ROOT / "examples/helios-500.jsonl.gz"), "--data", str(data))
    before = jobs(former, data)
    assert len(before) == 500
    said = THIS.run("upgrade", "check", "--data", str(data))
    assert "0003_hours.sql" in said
    assert "is run once: What each attempt paid for in each hour" in said
    assert " made anew: " in said
    assert jobs(former, data) == before, "the check has changed nothing"
    assert jobs(THIS, data) == before
    assert "stay: all" in THIS.run("upgrade", "check", "--data", str(data))
    refused = former.run("jobs", "--data", str(data), code=2)
    assert "was made by a later version (it has" in refused
    assert str(data) in refused
    hours = "SELECT sum(gpu_cost_usd) = (SELECT sum(cost_usd) FROM job_minutes WHERE component = 'gpu') AS same FROM job_hours"
    assert json.loads(THIS.run("sql", hours, "--data", str(data), "--format", "json")) == [{"same": 1}]
