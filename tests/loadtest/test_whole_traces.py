"""The whole public traces through `trainfare replay`: the totals that examples/README.md gives for them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from loadtest.trace_openb import AS_OF_MS
from loadtest.traces import main

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "helios": "jobs/helios_15000_jobs.csv",
    "openb": "jobs/alibaba2023_openb_pod_list_gpuspec33.csv",
    "gentd26": "gpu_usage/gentd26_pod_gpu_duty_cycle_anon_part1.csv.gz",
}
Real = Callable[[str], Path]


def _documented(trace: str) -> list[str]:
    page = (ROOT / "examples" / "README.md").read_text()
    row = re.search(rf"^\| {trace} \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d,]+) \|", page, re.MULTILINE)
    assert row is not None
    return [cell.replace(",", "") for cell in row.groups()]


def _trainfare(*words: str) -> str:
    command = [sys.executable, "-m", "streams.cli.main", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("trace", list(SOURCES))
def test_a_whole_trace_comes_to_its_documented_total(trace: str, real: Real, tmp_path: Path) -> None:
    log, data = tmp_path / "log.jsonl.gz", tmp_path / "data"
    words = [trace, "--source", str(real(SOURCES[trace])), "--out", str(log)]
    if trace == "gentd26":
        words += ["--helios", str(real(SOURCES["helios"]))]
    assert main(words) == 0
    as_of = ["--as-of", str(AS_OF_MS)] if trace == "openb" else []
    books = json.loads(_trainfare("replay", str(log), "--data", str(data), "--format", "json", *as_of))
    jobs, gpu_hours, usd, rows = _documented(trace)
    books = books[0] if isinstance(books, list) else books
    assert books["balanced"] is True
    assert (books["jobs"], Decimal(str(books["gpu_hours"]))) == (int(jobs), Decimal(gpu_hours))
    assert Decimal(str(books["usd"])) == Decimal(usd)
    counted = _trainfare("sql", "SELECT count() AS n FROM ledger", "--data", str(data), "--format", "csv")
    assert counted.split()[-1] == rows
