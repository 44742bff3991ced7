"""The past beside a worker on a real Kafka: on one server, while it meters; then audited, recounted and not sent again."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from streams.config.settings import ClickHouseSettings
from streams.transport.admin import connect, create_topics
from tests.backfill.logs import Line, event, write
from tests.cli.command import ROOT, trainfare
from tests.forked import FORKER, without_settings
from tests.kafka.broker import shared_broker
from tests.kafka.test_audit import MINUTE_MS, PARTITIONS, fleet, settings_for
from tests.store_process import StoreProcess

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
WAIT_S = 90


def past(now_ms: int) -> list[Line | str]:
    """Ten jobs of last month, one that the live meter has, and a line that is none."""
    begin_ms = now_ms - 30 * DAY_MS
    lines: list[Line | str] = ["{"]
    for number in range(10):
        job_id = "job-3" if number == 3 else f"past-{number}"
        start = {"job_id": job_id, "type": "started", "gpu_count": 2}
        lines.append(event("jobs", 2 * number, begin_ms + number * MINUTE_MS, **start))
        lines.append(event("jobs", 2 * number + 1, begin_ms + 3_600_000, job_id=job_id, type="completed"))
    return lines


def test_the_past_is_metered_beside_a_worker(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as server:
        settings = settings_for(tmp_path / "none", shared_broker().bootstrap_servers)
        settings = settings.model_copy(update={"clickhouse": ClickHouseSettings(url=server.url)})
        kafka = settings.kafka
        create_topics(kafka, connect(kafka))
        now_ms = time.time_ns() // 1_000_000
        fleet(kafka, now_ms)
        env = {
            "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
            "TRAINFARE_KAFKA_PARTITIONS": str(PARTITIONS),
            "TRAINFARE_CLICKHOUSE_URL": server.url,
        }
        log = write(tmp_path / "past.jsonl", past(now_ms))
        output = tmp_path / "worker.log"
        words = ("tests.kafka.test_audit:run", settings.model_dump_json())
        worker = FORKER.start(*words, env=without_settings(), cwd=ROOT, out=output, err=output)
        try:
            deadline_s = time.monotonic() + WAIT_S
            while len(json.loads(trainfare("jobs", "--format", "json", env=env).out or "[]")) < 20:
                assert time.monotonic() < deadline_s, output.read_text()[-3000:]
            done = trainfare("backfill", log, env=env)
            assert done.code == 0, done.err
            found = json.loads(done.out)
            assert (found["jobs"], found["dead_lettered"], found["balanced"]) == (9, 1, True)
            assert found["reasons"][0]["names"] == ["job-3"]
            assert found["reasons"][0]["reason"] == "metered by the live meter"
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
        audit = trainfare("audit", "--format", "json", env=env)
        assert audit.code == 0, audit.out
        assert {book["partition"] for book in json.loads(audit.out)["books"]} == {0, 1, 32_769}
        again = trainfare("audit", "--format", "json", "--recount", now_ms - 40 * DAY_MS, now_ms, env=env)
        assert again.code == 0, again.err or again.out
        assert json.loads(again.out)["rows_agree"] > 0
        # 9 jobs of 2 GPUs at $2.5, an hour less the minutes that they began later.
        paid_min = sum(60 - number for number in range(10) if number != 3)
        assert float(found["usd"]) == pytest.approx(paid_min / 60 * 5, abs=1e-6)
        dry = trainfare(
            "dead-letters", "replay", "--topic", "backfill", "--dry-run", "--format", "json", env=env
        )
        assert [row["outcome"] for row in json.loads(dry.out)] == ["of a backfill"]
