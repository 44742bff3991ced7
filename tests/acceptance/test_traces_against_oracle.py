"""Real traces through the whole pipeline, and every ledger row of every job against the oracle's."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from loadtest.trace_openb import AS_OF_MS as OPENB_AS_OF_MS
from loadtest.traces import main as make_trace
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.acceptance.stored import ledger_of
from tests.oracle.compute import compute_job, price_book
from tests.oracle.model import Line
from tests.property.compare import MOST_SHOWN

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "jobs"
JOBS_AT_ONCE = 50
RSS_LIMIT_BYTES = 2 * 2**30
#: Runs a command and ends stderr with the most memory it held, in KiB.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def lines_of(path: Path) -> list[Line]:
    """The log of a file, as the oracle reads it."""
    with gzip.open(path, "rt") as text:
        return [Line(parsed["topic"], parsed["value"]) for parsed in map(json.loads, text)]


def replay(log: Path, data: Path, as_of_ms: int | None = None) -> tuple[dict[str, object], int]:
    """Run `trainfare replay`; its summary and the most memory it held, in bytes."""
    words = [
        sys.executable,
        "-m",
        "streams.cli.main",
        "replay",
        str(log),
        "--data",
        str(data),
        "--format",
        "json",
    ]
    words += [] if as_of_ms is None else ["--as-of", str(as_of_ms)]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *words], cwd=ROOT, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    last = re.findall(r"\d+", done.stderr)[-1]
    return (found[0] if isinstance(found, list) else found), int(last) * 1024


def compare_all(log: Path, data: Path, as_of_ms: int) -> tuple[int, int, int]:
    """Compare each job's rows; returns how many rows, their cost and their lost cost in nano-dollars."""
    lines = lines_of(log)
    book = price_book(lines)
    by_job: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.topic not in ("prices", "controls", "nodes"):
            assert isinstance(line.value, dict)
            by_job[line.value["job_id"]].append(line)
    rows = cost_nano = lost_nano = 0
    store = ClickHouseStore(Embedded(data_dir=data, database="trainfare"))
    try:
        for job_ids in chunks(sorted(by_job), JOBS_AT_ONCE):
            want = compute_job(
                [x for job in job_ids for x in by_job[job]], book=book, as_of_ms=as_of_ms
            ).ledger
            got = ledger_of(store, job_ids)
            if got != want:
                differ = [k for k in sorted(got.keys() | want.keys()) if got.get(k) != want.get(k)]
                shown = "\n".join(f"{k}: got {got.get(k)}, want {want.get(k)}" for k in differ[:MOST_SHOWN])
                pytest.fail(f"{len(differ)} rows differ\n{shown}")
            rows += len(want)
            cost_nano += sum(row.cost_nano for row in want.values())
            lost_nano += sum(row.lost_cost_nano for row in want.values())
        total = store.query(
            "SELECT count() AS n, sum(cost_usd) AS usd, sum(lost_cost_usd) AS lost FROM ledger"
        )
        assert total["n"].to_pylist() == [rows]
        assert [int(total[name][0].as_py().scaleb(9)) for name in ("usd", "lost")] == [cost_nano, lost_nano]
    finally:
        store.close()
    return rows, cost_nano, lost_nano


def chunks(items: list[str], size: int) -> Iterable[list[str]]:
    return (items[begin : begin + size] for begin in range(0, len(items), size))


def newest_ms(log: Path) -> int:
    return max(int(line.value["time_ms"]) for line in lines_of(log) if isinstance(line.value, dict))


def check(
    log: Path, data: Path, capsys: pytest.CaptureFixture[str], as_of_ms: int | None = None
) -> dict[str, object]:
    """Replay, compare, and say the figures."""
    summary, rss_bytes = replay(log, data, as_of_ms)
    assert summary["balanced"] is True
    begin_s = time.monotonic()
    rows, cost_nano, _ = compare_all(log, data, newest_ms(log) if as_of_ms is None else as_of_ms)
    assert rss_bytes < RSS_LIMIT_BYTES
    with capsys.disabled():
        seconds = float(str(summary["seconds"]))
        print(  # noqa: T201 - the figures are what a long run is made for
            f"\n{log.name}: {summary['jobs']} jobs, {summary['gpu_hours']} GPU-hours, {rows:,} ledger rows equal to "
            f"the oracle's, {cost_nano / 1e9:,.9f} USD; replay {seconds:.1f} s = {rows / seconds:,.0f} rows/s, "
            f"{rss_bytes / 2**20:,.0f} MiB; oracle {time.monotonic() - begin_s:.0f} s"
        )
    return summary


def test_the_example_equals_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = check(ROOT / "examples" / "helios-500.jsonl.gz", tmp_path / "data", capsys)
    assert summary["jobs"] == 500


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_helios_jobs_equal_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = REAL / "helios_15000_jobs.csv"
    if not source.exists():
        pytest.skip(f"the public trace {source.name} is not on this machine")
    log = tmp_path / "helios.jsonl.gz"
    assert make_trace(["helios", "--source", str(source), "--out", str(log)]) == 0
    summary = check(log, tmp_path / "data", capsys)
    assert summary["jobs"] == 15_000
    assert f"{float(str(summary['gpu_hours'])):.2f}" == "358607.77"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_openb_pods_equal_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = REAL / "alibaba2023_openb_pod_list_gpuspec33.csv"
    if not source.exists():
        pytest.skip(f"the public trace {source.name} is not on this machine")
    log = tmp_path / "openb.jsonl.gz"
    assert make_trace(["openb", "--source", str(source), "--out", str(log)]) == 0
    summary = check(log, tmp_path / "data", capsys, OPENB_AS_OF_MS)
    assert f"{float(str(summary['gpu_hours'])):.2f}" == "51470.67"
