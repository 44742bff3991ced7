"""A worker with a data directory and no web.token makes a token of its own, which commands on the machine find."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.command import trainfare
from tests.cli.test_through_worker import ENV, Worker, working
from tests.web import log

WITHOUT = {name: value for name, value in ENV.items() if name != "TRAINFARE_WEB_TOKEN"}
ONE = {"sql": "SELECT 1 AS one"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("local")
    done = trainfare("replay", log.write(root / "log.jsonl"), "--data", root / "meter")
    assert done.code == 0, done.err
    assert not (root / "meter" / "token").exists(), "nobody serves it yet"
    return root / "meter"


@pytest.fixture(scope="module")
def worker(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(data, tmp_path_factory.mktemp("log") / "worker.log", WITHOUT) as started:
        yield started


def asked(worker: Worker, path: str, token: str | None, body: object = None) -> int:
    """Return the status of an answer."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(worker.url + path, data=data, headers=headers), timeout=20) as answer:
            return int(answer.status)
    except HTTPError as fault:
        return fault.code


def test_the_token_is_the_owners_alone_and_in_no_log(data: Path, worker: Worker) -> None:
    path = data / "token"
    token = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 43, "32 random bytes"
    assert token not in worker.said()
    assert token not in (data / "api.json").read_text()
    assert str(path) in worker.said()


def test_sql_over_http_needs_it_on_loopback_too(data: Path, worker: Worker) -> None:
    token = (data / "token").read_text().strip()
    assert asked(worker, "/api/v1/query", None, ONE) == 401
    assert asked(worker, "/api/v1/query", token[:-1] + "x", ONE) == 401
    assert asked(worker, "/api/v1/query", token, ONE) == 200
    assert asked(worker, "/api/v1/jobs", None) == 200, "figures stay open on loopback"
    assert asked(worker, "/metrics", None) == 200


@pytest.mark.parametrize(
    "words",
    [("sql", "SELECT job_id FROM job_costs ORDER BY job_id"), ("jobs",), ("explain", "a"), ("top", "--once")],
    ids=lambda words: words[0],
)
def test_commands_find_it_by_themselves(data: Path, worker: Worker, words: tuple[str, ...]) -> None:
    done = trainfare(*words, "--data", data)
    assert (done.code, done.err) == (0, "")
    assert done.out


def test_a_command_does_not_show_a_token_that_others_may_have_written(data: Path, worker: Worker) -> None:
    path = data / "token"
    path.chmod(0o622)
    try:
        done = trainfare("jobs", "--data", data)
    finally:
        path.chmod(0o600)
    assert done.code == 1
    assert "may be written by other users" in done.one_line()


def test_it_outlives_the_worker(data: Path, tmp_path: Path, worker: Worker) -> None:
    token = (data / "token").read_text()
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(20) == 0, worker.said()
    with working(data, tmp_path / "log", WITHOUT) as again:
        assert asked(again, "/api/v1/query", token.strip(), ONE) == 200
    assert (data / "token").read_text() == token


def test_where_a_token_is_configured_none_is_made(tmp_path: Path) -> None:
    with working(tmp_path / "new", tmp_path / "log", ENV):
        assert not (tmp_path / "new" / "token").exists()
