"""A part of a table whose file was damaged: the engine goes on without its rows, and everybody is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cli import command
from tests.replay.logs import write_log
from tests.selfcheck.damage import cut, largest_file
from tests.sinks.stores import embedded

trainfare = partial(command.trainfare, function="tests.cli.variants:impatient")


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("metered")
    write_log(root / "log.jsonl", jobs=3, minutes=3)
    assert trainfare("replay", root / "log.jsonl", "--data", root / "data", "--partitions", "1").code == 0
    return root


@pytest.fixture
def root(metered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(metered, tmp_path / "copy", symlinks=True))


DAMAGE: dict[str, Callable[[Path], None]] = {"cut short": cut, "missing": Path.unlink}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("table", ["job_minutes", "snapshots"])
def test_a_damaged_part_is_said_by_whoever_opens_the_store(root: Path, table: str, damage: str) -> None:
    data = root / "data"
    DAMAGE[damage](largest_file(data, table))

    audit = trainfare("audit", "--data", data)
    assert audit.code == 1, audit.out
    (line,) = (line for line in audit.out.splitlines() if line.startswith("FAIL  parts"))
    assert f"of `{table}` was set aside (broken" in line
    jobs = trainfare("jobs", "--data", data)
    assert jobs.code == 0
    assert "its rows are missing from what follows" in jobs.err
    again = trainfare("replay", root / "log.jsonl", "--data", data)
    assert again.code == 1
    assert "replay the files into an empty directory" in again.err


def test_the_files_replayed_into_an_empty_directory_are_the_store_that_was_whole(root: Path) -> None:
    data = root / "data"
    before = _cost(data)
    cut(largest_file(data, "job_minutes"))
    assert trainfare("audit", "--data", data).code == 1
    shutil.rmtree(data)
    assert trainfare("replay", root / "log.jsonl", "--data", data, "--partitions", "1").code == 0
    assert _cost(data) == before


def _cost(data: Path) -> list[dict[str, object]]:
    sql = "SELECT sum(cost_usd) AS usd FROM ledger"
    found: list[dict[str, object]] = json.loads(trainfare("sql", sql, "--data", data, "--format", "json").out)
    return found


def test_a_store_that_is_whole_has_no_such_part(root: Path) -> None:
    with embedded(root / "data") as store:
        assert store.lost_parts == []
    done = trainfare("audit", "--data", root / "data")
    assert done.code == 0
    assert "ok    parts" in done.out
