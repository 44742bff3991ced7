"""`trainfare serve --read-only` on what a replay has left: page, API, commands and SQL answer, nothing is taken, and nothing is left."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.workers import ROOT, Worker
from tests.cli.command import Done, trainfare
from tests.forked import FORKER, without_settings
from tests.kafka.broker import _free_ports
from tests.web import estimate_log


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("at-rest")
    done = trainfare("replay", estimate_log.write(root / "events.jsonl"), "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


def left(data: Path) -> set[str]:
    """What lies in the directory, but for the engine's own files and the token."""
    return {path.name for path in data.iterdir()} - {"token"}


def test_serve_refuses_a_store_of_files_and_leaves_nothing_there(data: Path) -> None:
    before = left(data)
    done = trainfare("serve", "--data", data)
    assert done.code == 2
    assert f"trainfare: {data} has a store of another log (replayed files)" in done.err
    assert "Traceback" not in done.err
    assert f"`trainfare serve --data {data} --read-only` shows this one on the page" in done.err
    assert left(data) == before


def test_a_directory_without_a_store_is_wrong_use_and_stays_empty(tmp_path: Path) -> None:
    done = trainfare("serve", "--data", tmp_path / "none", "--read-only")
    assert (done.code, "no meter's data there" in done.one_line()) == (2, True)
    assert not (tmp_path / "none").exists()


class Asker:
    """Asks the process over HTTP."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, self._headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_store_at_rest_is_served(data: Path, tmp_path: Path) -> None:
    before = left(data)
    (port,) = _free_ports(1)
    log = tmp_path / "serve.log"
    process = FORKER.start(
        "streams.cli.main:main",
        *("serve", "--data", str(data), "--read-only", "--port", str(port)),
        env=without_settings(),
        cwd=ROOT,
        out=log,
        err=log,
    )
    life = Worker("serve", process, log)
    life.wait_until("live page and API are served")
    life.wait_until("token of all scopes is kept in a file")
    meter = Asker(port, (data / "token").read_text().strip())
    assert meter.ask("GET", "/readyz")[1]["ready"] is True
    assert meter.ask("GET", "/api/v1/jobs?state=ended")[1]["total"] > 0
    status, report = meter.ask("GET", "/api/v1/meter")
    assert (status, report["speed"], report["topics"]) == (200, 0, [])
    # It audits the books as they stand, and says so to whoever asks the store by its directory.
    done = _until_audited(data)
    assert "balanced" in done.out
    assert "Worker, " in done.out
    for path, body in (
        ("/api/v1/controls", {"kind": "ack", "alert_id": "al_" + "0" * 24, "until_ms": 2**41}),
        ("/api/v1/events", [{"topic": "jobs", "value": {}}]),
    ):
        status, refused = meter.ask("POST", path, body)
        assert status == 403
        assert "--read-only" in refused["error"]["message"]
        assert "trainfare serve --data DIR" in refused["error"]["message"]
    # Commands find it by the directory, as they find a worker.
    jobs = json.loads(trainfare("jobs", "--data", data, "--format", "json").out)
    assert {"o6"} <= {job["job_id"] for job in jobs}
    shown = trainfare("receipts", "show", "o6", "--data", data)
    assert (shown.code, "not sent: made from the store now" in shown.out) == (0, True)
    beside = trainfare("serve", "--data", data, "--read-only", env={"TRAINFARE_WEB_PORT": "0"})
    assert (beside.code, "in use" in beside.err, "Traceback" in beside.err) == (1, True, False)
    assert life.terminate() == 0, life.text()[-3000:]
    assert left(data) == before
    assert trainfare("jobs", "--data", data).code == 0


def _until_audited(data: Path) -> Done:
    """`trainfare audit`, once the process has looked: before that it has nothing to say of itself."""
    done = trainfare("audit", "--data", data)
    while "Worker, " not in done.out and done.code == 0:
        done = trainfare("audit", "--data", data)
    assert done.code == 0, done.out + done.err
    return done
