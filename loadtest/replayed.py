"""How fast `trainfare replay` meters a file, and whether its ledger is the oracle's.

It must not skip the comparison, but for files so large that plain Python would take hours: there it says so.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from loadtest.latency_world import ROOT, WorldError
from loadtest.verdict import WrongTotalsError
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.oracle.compute import compute
from tests.oracle.model import Line

_LARGE_BYTES: Final = 2**20
_TOTALS: Final = (
    "SELECT toInt64(count()) AS n, toString(sum(toInt128(m.quantity))) AS q, toString(sum(m.cost_usd)) AS usd "
    "FROM job_minutes AS m FINAL WHERE m.quantity != 0"
)


def replayed(file: Path, data_dir: Path) -> dict[str, Any]:
    """Run it in a process of its own; raises WrongTotalsError where the oracle has other rows."""
    began_s = time.perf_counter()
    said = _ran([sys.executable, "-m", "streams.cli.main", "replay", str(file), "--data", str(data_dir)])
    took_s = time.perf_counter() - began_s
    store = ClickHouseStore(Embedded(data_dir=data_dir))
    try:
        row = store.query(_TOTALS).to_pylist()[0]
    finally:
        store.close()
    got = int(row["n"]), int(row["q"]), int(Decimal(row["usd"]).scaleb(9))
    compared = file.stat().st_size <= _LARGE_BYTES
    if compared:
        compare(got, wanted(file))
    return {
        "kind": "replay",
        "file": file.name,
        "wall_s": took_s,
        "rows": got[0],
        "rows_per_s": got[0] / took_s,
        "said": said.splitlines(),
        **({"usd": row["usd"]} if compared else {"not_compared": "too large for the oracle"}),
    }


def wanted(file: Path) -> tuple[int, int, int]:
    """Ledger rows, their quantity and nano-dollars, by the oracle."""
    raw = file.read_bytes()
    bodies = [
        json.loads(line) for line in (gzip.decompress(raw) if file.suffix == ".gz" else raw).splitlines()
    ]
    tables = compute([Line(each["topic"], each["value"]) for each in bodies])
    rows = tables.ledger.values()
    return len(rows), sum(row.quantity for row in rows), sum(row.cost_nano for row in rows)


def compare(got: tuple[int, int, int], want: tuple[int, int, int]) -> None:
    """Raise WrongTotalsError unless they are equal."""
    if got != want:
        raise WrongTotalsError(f"ledger rows, quantity, nano-dollars are {got}, the oracle has {want}")


def _ran(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorldError(f"{' '.join(command[1:4])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout
