"""How fast `trainfare replay` meters a file, what its rows weigh on disk, and whether its ledger is the oracle's.

`python -m loadtest.replayed --helios cluster_log.csv` does it for all jobs of that trace, `python -m
loadtest.replayed FILE.jsonl.gz` for any log.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from loadtest import traces
from loadtest.latency_world import ROOT, WorldError
from loadtest.saying import say
from loadtest.verdict import WrongTotalsError
from schemas.tables import JOB_MINUTES
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.oracle.compute import compute, compute_job, price_book
from tests.oracle.model import Line

#: The oracle holds all rows that it makes at once: of larger logs it is asked for so many jobs at a time.
_SMALL_BYTES: Final = 2**17
_JOBS_AT_ONCE: Final = 50
#: Topics that are not of one job.
_COMMON: Final = ("prices", "controls", "nodes")
_TOTALS: Final = (
    "SELECT toInt64(count()) AS n, toString(sum(toInt128(m.quantity))) AS q, toString(sum(m.cost_usd)) AS usd "
    "FROM job_minutes AS m FINAL WHERE m.quantity != 0"
)
_WEIGHT: Final = (
    "SELECT toInt64(sum(rows)) AS rows, toInt64(sum(data_compressed_bytes)) AS compressed_bytes, "
    "toInt64(sum(bytes_on_disk)) AS disk_bytes, toInt64(count()) AS parts "
    f"FROM system.parts WHERE active AND database = currentDatabase() AND table = '{JOB_MINUTES}'"
)


def replayed(file: Path, data_dir: Path, *, compared: bool = True) -> dict[str, Any]:
    """Run it in a process of its own; raises WrongTotalsError where the oracle has other rows.

    `rows_per_s` counts from the start of the process; `metering_s` is what the replay itself says, without that.
    """
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "streams.cli.main", "replay", str(file), "--data", str(data_dir)]
    said: dict[str, Any] = _first(json.loads(_ran([*command, "--format", "json"])))
    took_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    store = ClickHouseStore(Embedded(data_dir=data_dir))
    try:
        row = store.query(_TOTALS).to_pylist()[0]
        weight = store.query(_WEIGHT).to_pylist()[0]
    finally:
        store.close()
    got = int(row["n"]), int(row["q"]), int(Decimal(row["usd"]).scaleb(9))
    if compared:
        compare(got, wanted(file))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "kind": "replay",
        "file": file.name,
        "wall_s": took_s,
        "metering_s": float(said["seconds"]),
        "cpu_s": cpu_s,
        "rss_mib": after.ru_maxrss / 1024,
        "rows": got[0],
        "totals": list(got),
        "rows_per_s": got[0] / took_s,
        "metered_rows_per_s": got[0] / float(said["seconds"]),
        "cpu_us_per_row": cpu_s / got[0] * 1e6,
        "compressed_bytes_per_row": weight["compressed_bytes"] / weight["rows"],
        "disk_bytes_per_row": weight["disk_bytes"] / weight["rows"],
        "parts": weight["parts"],
        "said": said,
        **({"usd": row["usd"]} if compared else {"not_compared": "as asked"}),
    }


def wanted(file: Path) -> tuple[int, int, int]:
    """Ledger rows, their quantity and nano-dollars, by the oracle."""
    raw = file.read_bytes()
    bodies = [
        json.loads(line) for line in (gzip.decompress(raw) if file.suffix == ".gz" else raw).splitlines()
    ]
    lines = [Line(each["topic"], each["value"]) for each in bodies]
    rows = quantity = cost_nano = 0
    for tables in [compute(lines)] if len(raw) <= _SMALL_BYTES else _in_parts(lines):
        rows += len(tables.ledger)
        quantity += sum(row.quantity for row in tables.ledger.values())
        cost_nano += sum(row.cost_nano for row in tables.ledger.values())
    return rows, quantity, cost_nano


def _in_parts(lines: Sequence[Line]) -> Iterator[Any]:
    """The oracle's tables, of some jobs at a time: of a log in which nothing is late or invalid, as traces are."""
    book, by_job = price_book(lines), defaultdict(list)
    as_of_ms = max(int(line.value["time_ms"]) for line in lines if isinstance(line.value, dict))
    for line in lines:
        if line.topic not in _COMMON and isinstance(line.value, dict):
            by_job[line.value["job_id"]].append(line)
    jobs = sorted(by_job)
    for begin in range(0, len(jobs), _JOBS_AT_ONCE):
        part = [line for job in jobs[begin : begin + _JOBS_AT_ONCE] for line in by_job[job]]
        yield compute_job(part, book=book, as_of_ms=as_of_ms)


def compare(got: tuple[int, int, int], want: tuple[int, int, int]) -> None:
    """Raise WrongTotalsError unless they are equal."""
    if got != want:
        raise WrongTotalsError(f"ledger rows, quantity, nano-dollars are {got}, the oracle has {want}")


def _first(said: Any) -> Any:
    return said[0] if isinstance(said, list) else said


def _ran(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorldError(f"{' '.join(command[1:4])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def main(argv: Sequence[str] | None = None) -> int:
    """Replay and print; 0 all right, 1 it could not be run or the ledger is not the oracle's."""
    parser = argparse.ArgumentParser(prog="replayed", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", type=Path, help="a log for `trainfare replay`")
    what.add_argument(
        "--helios", type=Path, metavar="CSV", help="the trace of a Helios cluster, all its jobs"
    )
    parser.add_argument(
        "--no-oracle", action="store_true", help="leave out the comparison, which takes minutes"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trainfare-replay-") as directory:
        file = options.file
        if file is None:
            file = Path(directory) / "helios.jsonl.gz"
            if traces.main(["helios", "--source", str(options.helios), "--out", str(file)]):
                return 1
        try:
            found = replayed(file, Path(directory) / "data", compared=False)
            say(
                f"{found['rows']:,} ledger rows in {found['metering_s']:.1f} s = {found['metered_rows_per_s']:,.0f} rows/s; "
                f"with start and end of the process {found['wall_s']:.1f} s = {found['rows_per_s']:,.0f} rows/s"
            )
            say(
                f"CPU {found['cpu_s']:.1f} s = {found['cpu_us_per_row']:.2f} us a row; RSS {found['rss_mib']:,.0f} MiB; "
                f"on disk {found['disk_bytes_per_row']:.2f} bytes a row in {found['parts']} parts, "
                f"{found['compressed_bytes_per_row']:.2f} of them data"
            )
            if options.no_oracle:
                say("not compared with the oracle, as asked")
                return 0
            totals = tuple(found["totals"])
            compare((totals[0], totals[1], totals[2]), wanted(file))
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"replayed: {fault}\n")
            return 1
    say(f"rows, quantity and dollars ({found['said']['usd']}) equal the oracle's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
