"""One backfill in a process of its own, which may end by a kill; prints the result and all current rows as JSON."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from tests.replay.replay_process import TABLES, current_rows
from tests.run_process import RunProcess

#: Long after the logs of tests.replay.logs.
NOW_MS = 1_800_000_000_000

_RUNS: Final = RunProcess(f"{__name__}:main", timeout_s=240)
backfill: Final = _RUNS.found
refused: Final = _RUNS.refused


def killed(files: Sequence[Path], data: Path, writes: int, **options: Any) -> None:
    """Run a backfill that is killed behind so many writes into the store."""
    _RUNS.killed(files, data, kill_after=writes, **options)


def main(words: Sequence[str]) -> None:
    """Backfill, or take one back, as the one word, a JSON object, says."""
    from streams.backfill import shard_meter
    from streams.backfill.backfill import run_backfill
    from streams.backfill.undo import undo
    from streams.clock import ManualClock
    from streams.config.settings import ClickHouseSettings, Settings
    from streams.from_settings import open_store
    from streams.selfcheck.audit.live import asking
    from streams.selfcheck.audit.tables import stored_findings
    from streams.worker.ledger_judges.reader import LedgerReader

    job = orjson.loads(words[0])
    for name in ("_EVENTS_PER_CHECKPOINT", "_EVENTS_AT_ONCE"):
        if "events" in job:
            setattr(shard_meter, name, job["events"])
    settings = ClickHouseSettings(data_dir=Path(job["data"]))
    store = open_store(settings)
    if "kill_after" in job:
        insert, left = store.insert, job["kill_after"]

        def counted(table: str, rows: pa.Table, token: str) -> None:
            nonlocal left
            insert(table, rows, token)
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        store.insert = counted  # type: ignore[method-assign]  # counts, and kills
    if "undo" in job:
        undo(store, job["undo"])
    found: dict[str, Any] = {}
    if job["files"]:
        result = run_backfill(
            [Path(file) for file in job["files"]],
            store,
            Settings(clickhouse=settings),
            ManualClock(job.get("now_ms", NOW_MS)),
            job.get("until_ms"),
        )
        found = {
            "number": result.run.number,
            "balanced": result.balanced,
            "rows": result.rows,
            "books": result.books,
            "counts": result.counts,
            "left_out": {each.reason: each for each in result.counts.left_out},
        }
    _, findings = stored_findings(asking(store))
    accrued = LedgerReader(store).accrued(job.get("asked_ms", NOW_MS))
    tables = {table: store.select(table).to_pylist() for table in TABLES}
    found |= {
        "faults": [finding.detail for finding in findings if not finding.ok],
        "accrued_ms": None if accrued is None else accrued.complete_ms,
        "shards": {row["job_id"]: row["shard"] for row in tables["jobs"]},
        "tables": {table: current_rows(rows, table) for table, rows in tables.items()},
        "alerts": len(store.select("alerts")),
        "burn_rates": len(store.select("burn_rates")),
    }
    store.close()
    sys.stdout.buffer.write(orjson.dumps(found, default=_plain))


def _plain(value: Any) -> Any:
    names = getattr(value, "__struct_fields__", None)
    return str(value) if names is None else {name: getattr(value, name) for name in names}
