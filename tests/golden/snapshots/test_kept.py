"""Snapshots kept from every released version still load, and what is metered on from them is the oracle's.

Also when the newest of the chain were lost after their rows had been stored.  It makes no snapshot.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import ALERTS, SCHEMAS
from streams.engine.snapshot.archive_index import ArchiveIndex
from tests.golden.snapshots.scene import END, HERE, PIECES, Judging, read_log
from tests.harness_store import Snapshot
from tests.oracle.compute import compute
from tests.property.compare import assert_same

KEPT = sorted(path for path in HERE.iterdir() if (path / "about.json").exists())
#: Pieces in which the rest of the log is read.
REST = (590, 600)


def from_kept(version: Path, lost: int) -> Judging:
    """A meter that stands where the kept one stood, with its rows and without its `lost` newest snapshots."""
    about: dict[str, Any] = json.loads((version / "about.json").read_text())
    machine = uninterrupted()  # for the log that it has read, and the prices
    for name, rows in machine.store.tables.items():
        rows.clear()
        if (version / f"{name}.arrow").exists():
            machine.store.insert(name, migrated(name, pa.ipc.open_file(version / f"{name}.arrow").read_all()))
    machine.snapshots[0] = [
        Snapshot(number, parent, (version / f"snapshot-{number}.bin").read_bytes(), root)
        for number, parent, root in about["chain"]
    ]
    machine.crash(lost)
    return machine


def migrated(name: str, rows: pa.Table) -> pa.Table:
    """Kept rows with the columns that migrations added since, which are empty."""
    for field in SCHEMAS[name]:
        if field.name not in rows.column_names:
            empty: Any = "" if field.type == pa.string() else []
            if pa.types.is_decimal(field.type):
                empty = Decimal(0)
            if pa.types.is_timestamp(field.type) or field.nullable:
                empty = None if field.nullable else 0
            rows = rows.append_column(field, pa.array([empty] * len(rows), field.type))
    return rows


def empty(kind: pa.DataType) -> object:
    if kind == pa.string():
        return ""
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return []
    if pa.types.is_decimal(kind):
        return Decimal(0)
    return datetime.fromtimestamp(0, UTC) if pa.types.is_timestamp(kind) else 0


def uninterrupted() -> Judging:
    """A meter of today's code that has read as far as the kept ones."""
    machine = Judging()
    begin = 0
    for turn, end in enumerate(PIECES):
        machine.read(read_log(), begin, end, pay_open=turn % 2 == 0)
        begin = end
    return machine


def finish(machine: Judging) -> None:
    lines = read_log()
    begin = END
    for end in (*REST, len(lines)):
        machine.read(lines, begin, end, pay_open=end == REST[0])
        begin = end
    machine.checkpoint(machine.newest_ms)


def alerts(machine: Judging) -> list[dict[str, Any]]:
    """All but those of silent jobs: old snapshots do not say when a job was heard of, so it is not judged until then."""
    return [
        {name: value for name, value in row.items() if name != "version"}
        for _, row in sorted(machine.store.tables[ALERTS].items())
        if row["rule"] != "silent_job"
    ]


def known_then(row: dict[str, Any]) -> bool:
    """Whether the first release could open it: a rule that came later opens at the first tick after the upgrade."""
    return row["rule"].startswith("burn_") or (row["rule"] == "unpriced" and "GPU-time" in row["summary"])


def subjects(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((row["rule"], row["subject_name"], row["status"]) for row in rows)


def test_there_is_a_snapshot_of_the_first_release() -> None:
    assert [path.name for path in KEPT][:1] == ["0.1.0"]


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_kept_snapshot_is_metered_on_to_what_the_oracle_says(version: Path, lost: int) -> None:
    machine = from_kept(version, lost)
    finish(machine)
    assert_same(machine.tables(), compute(read_log()))


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_kept_snapshot_knows_the_open_alerts(version: Path) -> None:
    machine, twin = from_kept(version, 0), uninterrupted()
    assert any(row["status"] == "firing" for row in alerts(machine))
    for one in (machine, twin):
        finish(one)
    after_upgrade, expected = alerts(machine), alerts(twin)
    for row in (*after_upgrade, *expected):
        del (
            row["shared_cause"],
            row["opened_usd_per_hour"],
            row["ticket_since"],
            row["page_since"],
        )  # of ticks before, which they do not say
    assert subjects(after_upgrade) == subjects(expected)
    assert list(filter(known_then, after_upgrade)) == list(filter(known_then, expected)) != []


@pytest.mark.parametrize("version", KEPT, ids=lambda path: path.name)
def test_kept_snapshot_without_its_archive_is_found_out(version: Path) -> None:
    machine = from_kept(version, 0)
    machine.shards[0].archived = ArchiveIndex()
    finish(machine)
    with pytest.raises(AssertionError, match="old-a"):
        assert_same(machine.tables(), compute(read_log()))
