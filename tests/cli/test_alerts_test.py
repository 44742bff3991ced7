"""`trainfare alerts test`: what it sends, what it says of each receiver, and what it never shows."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.cli.command import NOBODY, Done, trainfare
from tests.cli.test_through_worker import Worker, working
from tests.kafka.broker import shared_broker
from tests.notify.mail.servers import free_port, mail_server
from tests.schemas.messages.test_json_schema import check

SECRET = "whsec_" + "A" * 32
HUNTER = "hunter2"


class Receiving(ThreadingHTTPServer):
    """Takes messages; a path that begins with /bad is answered by 403."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def host_port(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Receiving)
        self.server.got.append((self.path, {name.lower(): each for name, each in self.headers.items()}, body))
        self.send_response(403 if self.path.startswith("/bad") else 204)
        self.end_headers()

    def log_request(self, *args: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiving]:
    server = Receiving()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def controls(folder: Path, name: str = "ada", kind: str = "owner", **addresses: str) -> Path:
    value = {
        "id": "1",
        "source": "t",
        "time_ms": 1_780_308_000_000,
        "kind": kind,
        "name": name,
        **addresses,
    }
    file = folder / "controls.jsonl"
    file.write_text(json.dumps({"topic": "controls", "value": value}) + "\n")
    return file


def test_every_receiver_gets_a_message_and_a_line(tmp_path: Path) -> None:
    with receiving() as server, mail_server(tmp_path) as (box, smtp):
        url = f"http://{server.host_port}"
        file = controls(
            tmp_path, webhook=f"{url}/{HUNTER}", slack=f"{url}/slack/{HUNTER}", email="ada@example.com"
        )
        env = {
            "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
            "TRAINFARE_ALERTS_ALLOW_HOSTS": server.host_port,
            "TRAINFARE_ALERTS_ALERTMANAGER_URLS": url,
            "TRAINFARE_ALERTS_SMTP_HOST": f"{smtp.host}:{smtp.port}",
            "TRAINFARE_ALERTS_SMTP_SECURITY": "none",
            "TRAINFARE_ALERTS_SMTP_FROM": smtp.sender,
        }
        done = trainfare("alerts", "test", "ada", "--controls", file, "--format", "json", env=env)
    assert (done.code, done.err) == (0, "")
    rows = {row["kind"]: row for row in json.loads(done.out)}
    assert set(rows) == {"webhook", "slack", "email", "alertmanager"}
    assert {row["settings_of"] for row in rows.values()} == {"this shell"}
    assert {row["outcome"] for row in rows.values()} == {"delivered"}
    assert rows["email"]["http_status"] == 250
    webhooks = [(headers, body) for path, headers, body in server.got if path == f"/{HUNTER}"]
    types = [Webhook(SECRET).verify(body, headers)["type"] for headers, body in webhooks]
    assert types == ["alert.firing", "alert.resolved"], "none stays open"
    assert all(check(body)["data"]["rule"] == "test" for _, body in webhooks)
    assert sum(path == "/api/v2/alerts" for path, _, _ in server.got) == 2
    assert "This is a test" in box.taken[0][2].as_string()
    shown = done.out + done.err
    assert HUNTER not in shown
    assert SECRET not in shown
    assert "ada@" not in shown


@pytest.mark.parametrize("name", ["vision", "team/vision"])
def test_the_addresses_of_a_team_are_tried_too(tmp_path: Path, name: str) -> None:
    with receiving() as server:
        file = controls(tmp_path, "vision", "team", webhook=f"http://{server.host_port}/{HUNTER}")
        env = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET, "TRAINFARE_ALERTS_ALLOW_HOSTS": server.host_port}
        done = trainfare("alerts", "test", name, "--controls", file, "--format", "json", env=env)
    assert (done.code, done.err) == (0, "")
    data = [check(body)["data"] for _, _, body in server.got]
    assert [(each["team"], each["recipient"]) for each in data] == [("vision", "team/vision")] * 2
    assert all("messages for team vision arrive here" in each["summary"] for each in data)


def test_a_directory_and_a_worker_are_not_named_together(tmp_path: Path) -> None:
    done = trainfare("alerts", "test", "ada", "--data", tmp_path, "--url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "--url asks a worker: leave out --data" in done.one_line()


def test_what_was_not_delivered_is_said_and_is_exit_code_1(tmp_path: Path) -> None:
    with receiving() as server:
        url = f"http://{server.host_port}"
        file = controls(
            tmp_path,
            webhook=f"{url}/bad/{HUNTER}",
            slack=f"http://127.0.0.1:{free_port()}/{HUNTER}",
            email="ada@example.com",
        )
        env = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET, "TRAINFARE_ALERTS_ALLOW_HOSTS": server.host_port}
        done = trainfare("alerts", "test", "ada", "--controls", file, env=env)
    assert done.code == 1
    lines = {
        line.split()[1] if "http" in line else line.split()[0]: line for line in done.out.splitlines()[1:]
    }
    assert "403" in lines["webhook"]
    assert "refused" in lines["slack"], "its port is not among the allowed hosts"
    assert "unsupported" in lines["email"]
    assert HUNTER not in done.out + done.err


def test_an_owner_without_an_address_or_no_secret_is_one_line(tmp_path: Path) -> None:
    file = controls(tmp_path, webhook="https://hooks.example.com/x")
    env = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET}
    done = trainfare("alerts", "test", "b\nob", "--controls", file, env=env)
    assert done.code == 1
    assert "owner b ob has no address" in done.one_line()
    done = trainfare("alerts", "test", "ada", "--controls", file)
    assert done.code == 1
    assert "alerts.webhook_secret is not set" in done.one_line()


def test_a_settings_file_may_be_named(tmp_path: Path) -> None:
    with receiving() as server:
        file = controls(tmp_path, webhook=f"http://{server.host_port}/")
        toml = tmp_path / "other.toml"
        toml.write_text(f'[alerts]\nwebhook_secret = "{SECRET}"\nallow_hosts = "{server.host_port}"\n')
        toml.chmod(0o600)
        done = trainfare("alerts", "test", "ada", "--controls", file, "--config", toml)
    assert done.code == 0, done.err
    assert f"tested with the settings of the file {toml}" in done.out
    assert "no running worker was asked" in done.out
    assert trainfare("alerts", "test", "ada", "--config", tmp_path / "none.toml").code == 2


def test_kafka_that_does_not_answer_is_named() -> None:
    env = {"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": NOBODY, "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET}
    done = trainfare("alerts", "test", "ada", env=env, function="tests.cli.variants:impatient")
    assert done.code == 1
    assert NOBODY in done.one_line()


@pytest.mark.kafka
def test_addresses_come_from_the_topic(tmp_path: Path) -> None:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
        "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
    }
    assert trainfare("topics", "create", env=env).code == 0
    done = trainfare("alerts", "test", "ada", env=env)
    assert "owner ada has no address" in done.one_line()
    with receiving() as server:
        file = controls(tmp_path, webhook=f"http://{server.host_port}/")
        assert trainfare("publish", file, env=env).code == 0
        done = trainfare(
            "alerts", "test", "ada", env={**env, "TRAINFARE_ALERTS_ALLOW_HOSTS": server.host_port}
        )
    assert done.code == 0, done.err
    assert len(server.got) == 2


@pytest.mark.kafka
def test_a_running_worker_is_asked_with_its_own_settings(tmp_path: Path) -> None:
    kafka = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    assert trainfare("topics", "create", env=kafka).code == 0
    with receiving() as server:
        file = controls(tmp_path, webhook=f"http://{server.host_port}/{HUNTER}")
        assert trainfare("publish", file, env=kafka).code == 0
        own = {"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET, "TRAINFARE_ALERTS_ALLOW_HOSTS": server.host_port}
        data = tmp_path / "meter"
        asking = {**kafka, "TRAINFARE_CLICKHOUSE_DATA_DIR": str(data)}
        with working(data, tmp_path / "worker.log", {**kafka, **own, "TRAINFARE_WEB_PORT": "0"}) as worker:
            done = _once_it_meters(worker, "--format", "json", env=asking)
            assert (done.code, done.err) == (0, "")
            (row,) = json.loads(done.out)
            assert (row["outcome"], row["settings_of"]) == ("delivered", f"the worker at {worker.url}")
            shown = trainfare("alerts", "test", "ada", env=asking)
            assert f"tested with the settings of the worker at {worker.url}" in shown.out
            told = len(server.got)
            assert told == 4
            # The shell itself has no secret, and nobody else is asked.
            here = trainfare("alerts", "test", "ada", "--here", env=asking)
            assert "alerts.webhook_secret is not set" in here.one_line()
            bob = trainfare("alerts", "test", "bob", env=asking)
            assert (bob.code, "owner bob has no address" in bob.one_line()) == (1, True)
            wrong = {**asking, "TRAINFARE_WEB_TOKEN": "not-the-token-of-this-worker"}
            refused = trainfare("alerts", "test", "ada", env=wrong)
            assert (refused.code, "token" in refused.one_line()) == (1, True)
            assert len(server.got) == told
        gone = trainfare("alerts", "test", "ada", "--url", worker.url, env=asking)
        assert (gone.code, worker.url in gone.one_line()) == (1, True)
        alone = trainfare("alerts", "test", "ada", env={**asking, **own})
        assert "no running worker was asked" in alone.out
        assert HUNTER not in "".join(each.out + each.err for each in (done, shown, here, bob, gone, alone))


def _once_it_meters(worker: Worker, *options: str, env: dict[str, str]) -> Done:
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        done = trainfare("alerts", "test", "ada", *options, env=env)
        if done.code == 0 or ("sends no alerts" not in done.err and "has no address" not in done.err):
            return done
        time.sleep(0.2)
    raise AssertionError(worker.said())


def test_a_worker_is_asked_or_not() -> None:
    done = trainfare("alerts", "test", "ada", "--url", "http://127.0.0.1:1", "--here")
    assert (done.code, "--url asks a worker" in done.one_line()) == (2, True)
