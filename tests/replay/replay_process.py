"""One replay in a process of its own, which may end by a kill.

Prints the result and all current rows as JSON; chDB knows one directory per process.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from schemas.tables import (
    ATTEMPTS,
    DEAD_LETTERS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    KEYS,
    NODE_HOURS,
    NODE_MINUTES,
    PRICES,
    UNATTRIBUTED_MINUTES,
)
from tests.forked import FORKER, ROOT, without_settings
from tests.run_process import RunProcess

TABLES = (
    JOB_MINUTES,
    JOB_HOURS,
    JOB_USAGE_MINUTES,
    UNATTRIBUTED_MINUTES,
    NODE_MINUTES,
    NODE_HOURS,
    JOBS,
    ATTEMPTS,
    DEAD_LETTERS,
    PRICES,
)

_RUNS: Final = RunProcess(f"{__name__}:main", timeout_s=120)
replay: Final = _RUNS.found
refused: Final = _RUNS.refused


def killed(files: Sequence[Path], data: Path, after_lines: int, **options: Any) -> None:
    """Run a replay that is killed when it has read so many lines (whole thousands)."""
    _RUNS.killed(files, data, kill_after_lines=after_lines, **options)


def main(words: Sequence[str]) -> None:
    """Replay as the one word, a JSON object, says."""
    from streams.config.settings import KafkaSettings, Settings
    from streams.replay import replay as module

    job = orjson.loads(words[0])
    if "kill_after_lines" in job:
        module._CHECKPOINT_INTERVAL_MS = 100  # type: ignore[misc]  # so that a kill has something to come after
    read = 0

    def advance(by: int) -> None:
        nonlocal read
        read += by
        if read == job.get("kill_after_lines"):
            os.kill(os.getpid(), signal.SIGKILL)

    kafka = KafkaSettings(partitions=job.get("partitions", 4), raw_batches=job.get("raw_batches", True))
    settings = Settings(kafka=kafka)
    result = module.run_replay(
        [Path(file) for file in job["files"]],
        Path(job["data"]),
        job.get("as_of"),
        job.get("append", False),
        settings,
        advance,
    )
    found = {
        "result": dataclasses.asdict(result),
        "balanced": result.balanced,
        "tables": _tables(Path(job["data"])),
    }
    sys.stdout.buffer.write(orjson.dumps(found, default=str))


def stored_rows(data: Path) -> dict[str, list[dict[str, Any]]]:
    """All current rows of a directory, read in a process of its own."""
    done = FORKER.run(f"{__name__}:print_rows", str(data), env=without_settings(), cwd=ROOT, timeout_s=60)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    found: dict[str, list[dict[str, Any]]] = orjson.loads(done.stdout)
    return found


def print_rows(words: Sequence[str]) -> None:
    """All current rows of the directory that is the one word."""
    sys.stdout.buffer.write(orjson.dumps(_tables(Path(words[0])), default=str))


def _tables(data: Path) -> dict[str, list[dict[str, Any]]]:
    from streams.config.settings import ClickHouseSettings
    from streams.from_settings import open_store

    store = open_store(ClickHouseSettings(data_dir=data))
    try:
        return {table: current_rows(store.select(table).to_pylist(), table) for table in TABLES}
    finally:
        store.close()


def current_rows(rows: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """What users see: no versions, no shards, no rows of quantity 0, no hours of zeros."""
    kept = [row for row in rows if row.get("quantity") != 0]
    if table == NODE_HOURS:
        kept = [row for row in kept if row["paid_ms"]]
    if table == JOB_HOURS:
        measures = kept[0].keys() - {*KEYS[table], "shard", "version"} if kept else ()
        kept = [row for row in kept if any(row[name] for name in measures)]
    for row in kept:
        row.pop("version", None)
        row.pop("shard", None)
        if isinstance(row.get("raw"), bytes):
            row["raw"] = row["raw"].decode(errors="replace")
    return sorted(kept, key=str)
