"""The command on a real ledger: replay once, then ask everything, each in a process of its own."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Done, trainfare

T0_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
COST_A = Decimal("0.833333333")  # 150 s x 8 GPUs at $2.50: rows of 0.166666667 and twice 0.333333333


def event(topic: str, at_s: int, **value: object) -> str:
    """Return a line of a file."""
    body = {
        "source": "t",
        "id": f"{topic}-{at_s}-{value.get('type', '')}",
        "time_ms": T0_MS + at_s * 1000,
        **value,
    }
    return json.dumps({"topic": topic, "value": body}) + "\n"


LINES = [
    event(
        "prices", 0, sku="h100", component="gpu", usd="2.50", per="gpu_hour", effective_ms=T0_MS - 1, gpu_type="H100"
    ),
    event(
        "jobs", 30, job_id="a", type="started", gpu_count=8, nodes={"n1": 8}, gpu_type="H100",
        owner="ada", team="vision",
    ),
    event("jobs", 180, job_id="a", type="completed"),
    event("jobs", 200, job_id="b", type="started", gpu_count=1, gpu_type="H100", owner="bob", team="[speech]"),
    event("jobs", 260, job_id="b", type="failed", reason="out_of_memory"),
    event("jobs", 300, job_id="b", attempt=2, type="started", gpu_count=1, gpu_type="H100"),
    event("jobs", 300, job_id="c", type="flies"),
    event("jobs", 360, job_id="d", type="started", gpu_count=2, gpu_type="A100"),
    event("jobs", 420, job_id="d", type="completed"),
    "this is no event\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_text("".join(LINES))
    return path


@pytest.fixture(scope="module")
def first_run(events: Path) -> Done:
    words = ("replay", events, "--data", events.parent / "meter", "--partitions", "2")
    return trainfare(*words, new_store="begun")


@pytest.fixture(scope="module")
def data(events: Path, first_run: Done) -> Path:
    assert first_run.code == 0, first_run.err
    return events.parent / "meter"


def answer(*words: object, code: int = 0) -> str:
    done = trainfare(*words)
    assert done.code == code, done.err
    assert done.err == ""
    return done.out


def test_summary_is_json_where_piped(first_run: Done, data: Path) -> None:
    summary = json.loads(first_run.out)
    assert summary["records_in"] == len(LINES)
    assert (summary["applied"], summary["duplicate"], summary["too_late"], summary["dead_lettered"]) == (
        8,
        0,
        0,
        2,
    )
    assert summary["jobs"] == 3
    assert summary["balanced"] is True
    assert Decimal(summary["usd"]) == Decimal(
        answer("sql", "SELECT sum(cost_usd) AS u FROM ledger", "--data", data, "-f", "csv").split()[1]
    )
    assert summary["seconds"] > 0


def test_same_files_again_change_nothing(events: Path, first_run: Done, data: Path) -> None:
    again = json.loads(answer("replay", events, "--data", data))
    first = json.loads(first_run.out)
    assert first["rows_written"] > 0
    assert again["rows_written"] == 0
    of_the_run = ("seconds", "rows_written", "rows_per_second")
    assert all(again[name] == first[name] for name in first.keys() - set(of_the_run))


def test_summary_as_table(events: Path, data: Path) -> None:
    text = answer("replay", events, "--data", data, "--format", "table")
    assert "dead lettered" in text
    assert "GPU hours" in text


def test_other_files_need_append(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(event("jobs", 500, job_id="e", type="queued"))
    done = trainfare("replay", other, "--data", data)
    assert done.code == 2
    assert "--append" in done.one_line()


def test_sql_in_every_format(data: Path) -> None:
    query = "SELECT job_id, cost_usd FROM job_costs WHERE job_id = 'a'"
    assert json.loads(answer("sql", query, "--data", data, "--format", "json")) == [
        {"job_id": "a", "cost_usd": str(COST_A)}
    ]
    assert answer("sql", query, "--data", data, "--format", "csv") == f"job_id,cost_usd\na,{COST_A}\n"
    assert answer("sql", query, "--data", data).split() == ["job_id", "cost_usd", "a", str(COST_A)]


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE jobs",
        "INSERT INTO jobs VALUES (1)",
        "SELECT 1; DROP TABLE jobs",
        "SELECT * FROM file('/etc/passwd')",
    ],
)
def test_sql_only_reads(query: str, data: Path) -> None:
    done = trainfare("sql", query, "--data", data)
    assert done.code == 2
    assert done.out == ""
    done.one_line()


def test_sql_that_cannot_run_is_said_in_one_line(data: Path) -> None:
    done = trainfare("sql", "SELECT nothing FROM job_costs", "--data", data)
    assert done.code == 1
    assert "nothing" in done.one_line()


def test_jobs_by_cost(data: Path) -> None:
    listed = json.loads(answer("jobs", "--data", data, "--format", "json"))
    assert [each["job_id"] for each in listed] == ["a", "b", "d"]
    assert (listed[0]["owner"], listed[0]["state"], listed[0]["cost_usd"]) == (
        "ada",
        "completed",
        str(COST_A),
    )
    assert Decimal(listed[0]["gpu_h"]) == Decimal("0.333")
    assert json.loads(answer("jobs", "--data", data, "--owner", "bob", "-f", "json"))[0]["state"] == "running"
    assert len(json.loads(answer("jobs", "--data", data, "--limit", "1", "-f", "json"))) == 1
    assert json.loads(answer("jobs", "--data", data, "--state", "queued", "-f", "json")) == []


def test_one_job(data: Path) -> None:
    job = json.loads(answer("job", "b", "--data", data, "--format", "json"))
    assert (job["job_id"], job["attempts"], job["state"]) == ("b", 2, "running")
    assert [(each["attempt"], each["state"], each["reason"]) for each in job["by_attempt"]] == [
        (1, "failed", "out_of_memory"),
        (2, "running", ""),
    ]
    assert Decimal(job["lost_cost_usd"]) > 0
    spent = sum(Decimal(each["cost_usd"]) for each in job["by_phase"])
    assert spent == Decimal(job["cost_usd"])
    page = answer("job", "b", "--data", data)
    for words in (
        "Cost by component",
        "of it lost",
        "Attempts",
        "Cost by phase",
        "out_of_memory",
        "[speech]",
    ):
        assert words in page


def test_explanation_ends_on_what_the_job_cost(data: Path) -> None:
    told = json.loads(answer("explain", "a", "--data", data, "--format", "json"))
    assert told["total_usd"] == str(COST_A)
    assert [(each["begin"], each["end"], each["quantity"]) for each in told["intervals"]] == [
        ("2026-03-01T12:00:30Z", "2026-03-01T12:03:00Z", 1_200_000_000),
    ]
    first = told["intervals"][0]
    assert (first["node"], first["phase"], first["sku"], first["per"]) == (
        "n1",
        "running",
        "h100",
        "gpu_hour",
    )
    assert first["rule"] == "GPUs held while running; price matches gpu_type=H100"
    page = answer("explain", "a", "--data", data).splitlines()
    assert page[-1] == f"total {COST_A} USD in 1 interval"


def test_explanation_by_minute_is_the_ledger(data: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(answer("explain", "a", "--minute", "--data", data, "--format", "csv")))
    )
    assert len(rows) == 3
    assert sum(Decimal(row["cost_usd"]) for row in rows) == COST_A


def test_explanation_names_what_has_no_price(data: Path) -> None:
    assert "unpriced: no price matches" in answer("explain", "d", "--data", data)


def test_a_job_without_a_price_is_marked_and_never_a_zero(data: Path) -> None:
    (row,) = [line for line in answer("jobs", "--data", data).splitlines() if line.startswith("d ")]
    assert "unpriced" in row
    assert "0.00" not in row.split("unpriced")[0].split()[-1]
    records = csv.DictReader(io.StringIO(answer("jobs", "--data", data, "--format", "csv")))
    unpriced = {record["job_id"]: Decimal(record["unpriced_gpu_h"]) for record in records}
    assert {job_id for job_id, hours in unpriced.items() if hours} == {"d"}


def test_top_marks_a_job_without_a_price_too(data: Path) -> None:
    shown = answer("top", "--once", "--data", data).splitlines()
    (row,) = [line for line in shown if line.startswith("d ")]
    assert "unpriced" in row
    records = csv.DictReader(io.StringIO(answer("top", "--data", data, "--format", "csv")))
    assert {record["job_id"] for record in records if Decimal(record["unpriced_gpu_h"])} == {"d"}


@pytest.mark.parametrize("verb", ["job", "explain"])
def test_unknown_job(verb: str, data: Path) -> None:
    done = trainfare(verb, "nobody's", "--data", data)
    assert done.code == 1
    assert "nobody's" in done.one_line()


@pytest.fixture
def held(data: Path) -> Iterator[int]:
    """Hold the directory as another process would; yield its id."""
    code = (
        "import sys, pathlib; from sinks import directory_lock; "
        f"directory_lock.acquire(pathlib.Path({str(data)!r})); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    yield holder.pid
    holder.communicate("")


@pytest.mark.parametrize("words", [("jobs",), ("replay", "EVENTS")])
def test_directory_in_use_names_the_process(
    words: tuple[str, ...], held: int, data: Path, events: Path
) -> None:
    named = [events if word == "EVENTS" else word for word in words]
    done = trainfare(*named, "--data", data)
    assert done.code == 1
    assert f"in use by process {held}" in done.one_line()


def test_sql_reads_beside_whoever_has_the_directory_open(held: int, data: Path) -> None:
    assert answer("sql", "SELECT count() FROM jobs", "--data", data).split()[0] == "count()"


def test_reader_that_leaves_early_is_no_fault(data: Path) -> None:
    program = f"{sys.executable} -c 'from tests.query.priority import command; command()'"
    command = f"{program} sql 'SELECT number FROM numbers(300000)' -f csv --data {data} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("number\n", "")
