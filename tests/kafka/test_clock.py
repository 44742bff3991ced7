"""A real worker on a real Kafka whose wall clock jumps, and is right again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.config.settings import KafkaSettings
from streams.transport.admin import connect, create_topics
from tests.forked import ROOT
from tests.kafka.broker import shared_broker
from tests.kafka.test_alerts_live import SECRET, Inbox, Publisher, until

pytestmark = pytest.mark.kafka

HOURS_MS = 2 * 3_600_000


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as inbox:
        yield inbox


def shifted_worker(kafka: KafkaSettings, tmp_path: Path, inbox: Inbox) -> subprocess.Popen[bytes]:
    given = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "TRAINFARE_KAFKA_GROUP_ID": kafka.group_id,
        "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
        "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
        "TRAINFARE_ALERTS_ALLOW_HOSTS": inbox.receiver.host_port,
        "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": inbox.receiver.url,
        "TRAINFARE_WEB_ENABLED": "false",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kafka.shifted_worker", str(tmp_path / "data"), str(tmp_path / "shift")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "worker.log").open("ab"),
        env={**os.environ, **given},
    )


@pytest.mark.timeout(280)
def test_a_clock_that_jumps_for_a_while_leaves_nothing_behind_and_alerts_go_on(
    tmp_path: Path, inbox: Inbox
) -> None:
    broker = shared_broker()
    prefix = f"clock{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic_prefix=prefix, group_id=f"{prefix}g", partitions=1
    )
    create_topics(kafka, connect(kafka))
    events, log, shift = Publisher(kafka), tmp_path / "worker.log", tmp_path / "shift"
    price = {"sku": "h100", "component": "gpu", "usd": "2.50", "per": "gpu_hour", "effective_ms": 0}
    events.send("prices", "h100@0", 0, price)
    events.send("controls", "owner/ada", 0, {"kind": "owner", "name": "ada", "webhook": inbox.receiver.url})
    events.send("jobs", "calm", 0, {"job_id": "calm", "type": "started", "gpu_count": 1, "owner": "ada"})

    def beat(seconds: int) -> None:
        """The log goes on."""
        for _ in range(seconds):
            minute = (time.time_ns() // 1_000_000 - events.begin_ms) / 60_000
            events.send("jobs", "calm", minute, {"job_id": "calm", "type": "heartbeat"})
            time.sleep(1)

    def alerts() -> list[tuple[str, str]]:
        return inbox.told("alert.firing")

    shift.write_text("0")
    process = shifted_worker(kafka, tmp_path, inbox)
    until(lambda: "shard begins" in log.read_text(), process, log)
    beat(5)
    shift.write_text(str(HOURS_MS))

    def paged(rule: str, owner: str) -> bool:
        beat(1)
        return (rule, owner) in alerts()

    until(lambda: paged("clock_wrong", ""), process, log)
    shift.write_text("0")
    # A job that turned into a runaway ten minutes ago, in event time: its page comes at the next tick of now.
    events.send("jobs", "run", 0, {"job_id": "run", "type": "started", "gpu_count": 8, "owner": "ada"})
    events.send("jobs", "run", 22, {"job_id": "run", "type": "scaled", "gpu_count": 80})
    until(lambda: paged("burn_fast", "ada"), process, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log.read_text()
    assert [rule for rule, _ in alerts()] == ["clock_wrong", "burn_fast"]
    asked = "SELECT max(time) < now64(3) + INTERVAL 1 MINUTE AS right FROM burn_rates"
    command = [sys.executable, "-m", "streams.cli.main", "sql", asked, "--data", str(tmp_path / "data")]
    found = subprocess.run(
        [*command, "--format", "csv"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split()[-1] in ("1", "true"), found.stdout
