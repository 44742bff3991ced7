"""A worker has the directory open: commands ask it by themselves, and say the same as without it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.bills.bill import line, written
from tests.cli.command import NOBODY, ROOT, Done, trainfare
from tests.forked import FORKER, Forked
from tests.web import log
from tests.web.log import ODD_ID

TOKEN = "planted-token-1234567890"
PASSWORD = "planted-password"
SECRET = "whsec_cGxhbnRlZC1zZWNyZXQtb2YtMzItYnl0ZXMtaGVyZSE="
ENV = {
    "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY,
    "TRAINFARE_WEB_PORT": "0",
    "TRAINFARE_WEB_TOKEN": TOKEN,
    "TRAINFARE_CLICKHOUSE_PASSWORD": PASSWORD,
    "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
    "TRAINFARE_LOG_LEVEL": "debug",
}
ASKING = {"TRAINFARE_WEB_TOKEN": TOKEN}


@dataclass
class Worker:
    """A worker that waits for a Kafka that is not there."""

    process: Forked
    url: str
    output: Path

    def said(self) -> str:
        return self.output.read_text()


@contextmanager
def working(data: Path, output: Path, env: dict[str, str] = ENV) -> Iterator[Worker]:
    """Start one and wait until its store is open; it is killed at the end at the latest."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
    process = FORKER.start(
        "streams.cli.main:main",
        *("worker", "--data", str(data)),
        env={**inherited, "PYTHONPATH": str(ROOT), **env},
        cwd=output.parent,
        out=output,
        err=output,
    )
    try:
        deadline_s = time.monotonic() + 60
        while not (data / "api.json").exists():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline_s, output.read_text()
            time.sleep(0.05)
        yield Worker(process, json.loads((data / "api.json").read_text())["url"], output)
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("through")
    done = trainfare("replay", log.write(root / "log.jsonl"), "--data", root / "meter")
    assert done.code == 0, done.err
    bill = written(
        root / "bill.csv", line(), line(ResourceId="n2"), line(ResourceId="NULL", ChargeCategory="Tax")
    )
    assert trainfare("bills", "load", bill, "--data", root / "meter").code == 0
    return root / "meter"


QUESTIONS = [
    ("sql", "SELECT * FROM ledger ORDER BY ALL", "--format", "json"),
    ("sql", "SELECT * FROM jobs WHERE 0", "--format", "csv"),
    ("jobs", "--limit", "3"),
    ("job", "b", "--format", "json"),
    ("costs", "--metric", "m1", "--by", "team,label:tier,reason", "--per", "day", "--format", "json"),
    ("idle", "--by", "node", "--per", "day"),
    ("idle", "--findings", "--format", "csv"),
    ("bills", "reconcile", "--by", "day,resource", "--format", "json"),
    ("chargeback", "--month", "2026-03", "--by", "team,owner", "--cost", "billed", "--format", "json"),
    ("chargeback", "--month", "2026-03", "--share-unallocated", "even", "--where", "account=acct"),
    ("receipts", "show", "--owner", "ada"),
    ("budgets",),
    ("gate", "--team", "vision"),
    ("alerts", "why", "b"),
    ("explain", "b"),
    ("explain", ODD_ID, "--format", "csv"),
    ("explain", "a", "--minute", "--format", "json"),
    ("estimate", "--of", "a", "--speed-factor", "2", "--format", "json"),
    ("estimate", "--of", "a", "--everywhere", "--format", "json"),
    ("prices", "show", "--at", "2027-01-01", "--format", "json"),
    # and what goes wrong
    ("sql", "DROP TABLE jobs"),
    ("sql", "SELECT nothing FROM job_costs"),
    ("explain", "nobody"),
    ("receipts", "show", "nobody"),
    ("estimate", "--of", "nobody"),
]


@pytest.fixture(scope="module")
def alone(data: Path) -> list[Done]:
    """The answers without a worker."""
    return [trainfare(*words, "--data", data) for words in QUESTIONS]


@pytest.fixture(scope="module")
def worker(data: Path, alone: list[Done], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(data, tmp_path_factory.mktemp("log") / "worker.log") as started:
        yield started


@pytest.mark.parametrize("at", range(len(QUESTIONS)), ids=[" ".join(words[:2]) for words in QUESTIONS])
def test_the_same_answer_through_the_worker(at: int, data: Path, alone: list[Done], worker: Worker) -> None:
    assert trainfare(*QUESTIONS[at], "--data", data, env=ASKING) == alone[at]
    if alone[at].code == 0:
        assert alone[at].out


@pytest.mark.parametrize("env", [{}, {"TRAINFARE_WEB_TOKEN": "another-token-of-16"}])
def test_a_worker_with_a_token_must_be_shown_it(data: Path, worker: Worker, env: dict[str, str]) -> None:
    done = trainfare("jobs", "--data", data, env=env)
    assert (done.code, done.out) == (1, "")
    assert "TRAINFARE_WEB_TOKEN" in done.one_line()
    assert "another-token" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("costs", "--by", "job", "--per", "day"),
        ("costs", "--metric", "m3", "--by", "team"),
        ("idle", "--by", "team"),
        ("chargeback", "--month", "2026-03"),
        ("savings",),
        ("coverage", "--per", "day"),
        ("commitments", "show", "--per", "day"),
        ("carbon", "show"),
        ("jobs",),
        ("receipts", "show", "--owner", "ada"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_beside_a_worker_loads_no_arrow(words: tuple[str, ...], data: Path, worker: Worker) -> None:
    """Loading takes longer than most answers of the worker: of tables, and what only a terminal needs."""
    heavy = {"pyarrow", "numpy", "pandas", "clickhouse_connect", "rich", "asyncio"}
    probe = (
        f"import sys; sys.argv = {['trainfare', *words, '--data', str(data)]!r}\n"
        "from streams.cli.ahead import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        f"print('loaded', *sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), **ASKING}
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=env, cwd=data.parent
    )
    assert done.stderr.splitlines()[-1] == "loaded"


def test_readiness_names_the_kafka_that_is_away(worker: Worker) -> None:
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(f"{worker.url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}), timeout=10)
    assert caught.value.code == 503
    checks = {each["name"]: each for each in json.loads(caught.value.read())["checks"]}
    assert NOBODY in checks["kafka"]["detail"]
    assert (checks["kafka"]["ok"], checks["clickhouse"]["ok"]) == (False, True)
    deadline_s = time.monotonic() + 30  # from its first attempt on
    while NOBODY not in worker.said():
        assert time.monotonic() < deadline_s, "the log says it too"
        time.sleep(0.05)


def test_no_secret_is_in_any_output(data: Path, worker: Worker) -> None:
    for path in ("/readyz", "/metrics", "/api/v1/jobs", "/nowhere", f"/?token={TOKEN}", f"/?token={TOKEN}x"):
        request = Request(worker.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urlopen(request, timeout=10) as answer:
                shown = f"{answer.headers} {answer.read()!r}"
        except HTTPError as fault:
            shown = f"{fault.headers} {fault.read()!r}"
        for secret in (TOKEN, PASSWORD, SECRET):
            assert secret not in shown, path
    said = worker.said() + (data / "api.json").read_text()
    assert '"path": "/nowhere", "http_status": 404' in said, "requests are logged"
    for secret in (TOKEN, PASSWORD, SECRET):
        assert secret not in said


def test_a_bill_is_loaded_by_the_worker(data: Path, worker: Worker) -> None:
    bill = data.parent / "bill.csv"
    done = trainfare("bills", "load", bill, "--data", data, env=ASKING)
    assert (done.code, done.out) == (0, f"{bill}: loaded already, nothing changed\n"), done.err
    refused = trainfare("bills", "load", written(data.parent / "new.csv", line()), "--data", data, env=ASKING)
    assert refused.code == 2
    assert "is loaded already, by bill.csv" in refused.one_line()
    assert "--replace puts it in its place" in refused.one_line()


def test_an_upgrade_is_checked_through_the_worker(data: Path, worker: Worker) -> None:
    for where in (("--data", data), ("--url", worker.url)):
        done = trainfare("upgrade", "check", *where, "--format", "json", env=ASKING)
        assert (done.code, done.err) == (0, "")
        steps = {(each["part"], each["subject"]): each["at the first start"] for each in json.loads(done.out)}
        assert steps["tables", "tables"].startswith("stay: all")
        assert steps["tables", "views"].startswith("stay: all"), "the worker says what they were made of"
        (snapshots,) = (said for (part, _), said in steps.items() if part == "snapshots")
        assert snapshots.startswith("are read as they are: format ")
        assert steps["settings", "all"] == "are read as they are"
        assert any(worker.url in subject for part, subject in steps if part == "store")


def test_another_worker_on_the_same_port_says_so(data: Path, worker: Worker, tmp_path: Path) -> None:
    port = worker.url.rpartition(":")[2]
    # The command line comes before the environment, whose port is any that is free.
    done = trainfare("worker", "--data", tmp_path / "other", "--port", port, env=ENV, cwd=tmp_path)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"trainfare: web.port {port} on 127.0.0.1 is taken")
    assert "Traceback" not in done.err
    assert not (tmp_path / "other").exists(), "nothing was begun"


def test_another_worker_on_the_same_directory_says_so(data: Path, worker: Worker) -> None:
    done = trainfare("worker", "--data", data, env=ENV)
    assert done.code == 1
    assert f"in use by process {worker.process.pid}" in done.err.splitlines()[-1]
    assert (data / "api.json").exists(), "that of the first is left alone"


def test_a_bind_that_others_reach_without_a_token_is_wrong_use(tmp_path: Path) -> None:
    env = {"TRAINFARE_WEB_BIND": "0.0.0.0", "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY}
    done = trainfare("worker", "--data", tmp_path / "new", env=env)
    assert done.code == 2
    assert "web.token" in done.one_line()


# -- the end -------------------------------------------------------------------------------------------------


def copied(data: Path, to: Path) -> Path:
    return Path(shutil.copytree(data, to, symlinks=True, ignore=shutil.ignore_patterns("api.json", "lock")))


def test_sigterm_while_waiting_ends_it_cleanly(tmp_path: Path) -> None:
    data = tmp_path / "new"
    with working(data, tmp_path / "log") as worker:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(15) == 0, worker.said()
    assert not (data / "api.json").exists()
    done = trainfare("jobs", "--data", data, "--format", "json")
    assert (done.code, done.out) == (0, "[]\n"), "the directory is free again"


def test_an_api_json_that_a_killed_worker_left(tmp_path: Path) -> None:
    data = tmp_path / "new"
    with working(data, tmp_path / "log") as worker:
        worker.process.kill()
        worker.process.wait(10)
    assert (data / "api.json").exists()
    done = trainfare("jobs", "--data", data, "--format", "json")
    assert (done.code, done.out) == (0, "[]\n"), "nobody has the directory, so it is opened"
    code = (
        "import sys, pathlib; from sinks import directory_lock; "
        f"directory_lock.acquire(pathlib.Path({str(data)!r})); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    left = trainfare("jobs", "--data", data)
    # An address that is the holder's, but where nobody listens.
    (data / "api.json").write_text(json.dumps({"url": f"http://{NOBODY}", "pid": holder.pid}))
    dead = trainfare("jobs", "--data", data)
    holder.communicate("")
    assert (left.code, dead.code) == (1, 1)
    assert f"in use by process {holder.pid}" in left.one_line()
    assert f"is of process {worker.process.pid}, which left it behind" in left.one_line()
    assert f"does not answer at http://{NOBODY}" in dead.one_line()
