"""A worker that comes before its Kafka and its ClickHouse: it waits, says for what, and meters once both are there."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from streams.config.settings import KafkaSettings
from streams.transport.admin import connect, create_topics
from tests.forked import FORKER, ROOT
from tests.kafka.broker import shared_broker
from tests.store_process import StoreProcess

pytestmark = pytest.mark.kafka

PATIENCE_S = 60.0
TOKEN = "shown-for-the-details-16"


class Door:
    """A port in front of the broker: shut until it is opened, then a client's first step to it."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def open(self) -> None:
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                inside, _ = self._listener.accept()
            except OSError:
                return
            outside = socket.create_connection(self._broker)
            for one, other in ((inside, outside), (outside, inside)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65_536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def readiness(url: str) -> tuple[int, dict[str, dict[str, object]]]:
    try:
        asked = Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(asked, timeout=10) as answer:
            status, body = answer.status, json.loads(answer.read())
    except HTTPError as fault:
        status, body = fault.code, json.loads(fault.read())
    return status, {each["name"]: each for each in body["checks"]}


def test_both_come_late(tmp_path: Path) -> None:
    broker = shared_broker().bootstrap_servers
    door = Door(broker)
    prefix = f"late{time.time_ns()}."
    kafka = KafkaSettings(bootstrap_servers=broker, topic_prefix=prefix, partitions=2)
    create_topics(kafka, connect(kafka))
    web_port = free_port()
    front = StoreProcess(tmp_path / "store", copied=False)
    front.port = free_port()
    given = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": door.address,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": prefix,
        "TRAINFARE_KAFKA_GROUP_ID": f"{prefix}group",
        "TRAINFARE_KAFKA_PARTITIONS": "2",
        "TRAINFARE_CLICKHOUSE_URL": front.url,
        "TRAINFARE_WEB_PORT": str(web_port),
        "TRAINFARE_WEB_TOKEN": TOKEN,
    }
    output = tmp_path / "worker.log"
    environment = {**os.environ, **given}
    worker = FORKER.start("streams.cli.main:main", "worker", env=environment, cwd=ROOT, out=None, err=output)
    url = f"http://127.0.0.1:{web_port}"

    def wait_for(ready: dict[str, bool]) -> dict[str, dict[str, object]]:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            assert worker.poll() is None, output.read_text()[-3000:]
            assert time.monotonic() < deadline_s, output.read_text()[-3000:]
            try:
                _, checks = readiness(url)
            except OSError:
                checks = {}
            if {name: checks[name]["ok"] for name in ready if name in checks} == ready:
                return checks
            time.sleep(0.1)

    try:
        checks = wait_for({"kafka": False, "clickhouse": False, "group": False})
        deadline_s = time.monotonic() + PATIENCE_S
        while "does not answer" not in str(checks["clickhouse"]["detail"]):
            assert time.monotonic() < deadline_s, checks
            checks = readiness(url)[1]
        assert front.url in str(checks["clickhouse"]["detail"])
        assert door.address in str(checks["kafka"]["detail"])
        assert readiness(url)[0] == 503
        with front:
            wait_for({"clickhouse": True, "kafka": False})
            door.open()
            wait_for({"clickhouse": True, "kafka": True, "group": True, "shards": True})
            assert readiness(url)[0] == 200
            said = output.read_text()
            assert f"Kafka at {door.address}" in said
            assert f"ClickHouse at {front.url}" in said
            front.kill()
            away = wait_for({"clickhouse": False})
            assert front.url in str(away["clickhouse"]["detail"])
            front.start()
            wait_for({"clickhouse": True})
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0, output.read_text()[-3000:]
    finally:
        worker.kill()
        worker.wait(10)
        door.close()
        front.kill()
    assert "Traceback" not in output.read_text()
