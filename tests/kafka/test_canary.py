"""The canary through the whole meter on a real Kafka: right within seconds, and a page when it is wrong or late."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.canary_proof import CanaryProof
from schemas.tables import BOOKS
from sinks.clickhouse import ClickHouseStore
from streams.config.settings import KafkaSettings
from streams.selfcheck.audit.live import asking
from streams.selfcheck.audit.tables import stored_findings
from streams.selfcheck.canary.plan import USD_PER_GPU_HOUR, price_at
from streams.transport.admin import connect, create_topics
from tests.forked import FORKER, ROOT, Forked
from tests.kafka.broker import shared_broker
from tests.kafka.test_alerts_live import SECRET, Inbox, Publisher
from tests.sinks.rows import rows
from tests.store_process import StoreProcess

PARTITIONS = 2
KEY = "the-key-of-all-workers-of-this-meter"
PROOF = CanaryProof(KEY.encode())
PATIENCE_S = 120.0
INTERVAL_MS = LATE_AFTER_MS = 3_000
PRICE_LEAD_MS = 20_000  # from so long before it is published a price of the canary's own holds

REFUSED = "(SELECT count() FROM dead_letters FINAL WHERE reason = 'reserved_name')"

pytestmark = pytest.mark.kafka


class Place:
    """One meter's corner: topics, a store as a process of its own, a receiver, and workers."""

    def __init__(self, root: Path, store: StoreProcess, inbox: Inbox) -> None:
        broker, prefix = shared_broker(), f"canary{time.time_ns()}."
        self.kafka = KafkaSettings(
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix=prefix,
            group_id=f"{prefix}g",
            partitions=PARTITIONS,
        )
        create_topics(self.kafka, connect(self.kafka))
        self.log, self.store, self.inbox = root / "worker.log", store, inbox
        self.log.touch()
        self.versions = 2**62  # of rows that no worker's own row replaces
        self.events = Publisher(self.kafka)
        self.reader = ClickHouseStore(store.target())

    @contextmanager
    def worker(self, **settings: object) -> Iterator[Forked]:
        given = {
            "kafka_bootstrap_servers": self.kafka.bootstrap_servers,
            "kafka_topic_prefix": self.kafka.topic_prefix,
            "kafka_group_id": self.kafka.group_id,
            "kafka_partitions": PARTITIONS,
            "kafka_session_timeout_ms": 2_000,
            "kafka_heartbeat_interval_ms": 200,
            "clickhouse_url": self.store.url,
            "alerts_webhook_secret": SECRET,
            "alerts_default_webhook": self.inbox.receiver.url,
            "alerts_allow_hosts": self.inbox.receiver.host_port,
            "web_enabled": "false",
            "canary_enabled": "true",
            "canary_key": KEY,
            "canary_interval_ms": INTERVAL_MS,
            "canary_late_after_ms": LATE_AFTER_MS,
            **settings,
        }
        variables = {f"TRAINFARE_{name.upper()}": str(value) for name, value in given.items()}
        environment = {**os.environ, **variables}
        words = ("tests.cli.variants:watchful", "worker")
        process = FORKER.start(*words, env=environment, cwd=ROOT, out=None, err=self.log)
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) in (0, -signal.SIGKILL), self.log.read_text()
        finally:
            process.kill()
            process.wait(10)

    def until(self, ready: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not ready():
            assert "internal fault" not in self.log.read_text(), self.log.read_text()[-5000:]
            assert time.monotonic() < deadline_s, self.log.read_text()[-5000:]
            time.sleep(0.1)

    def runs(self, outcome: str = "") -> list[dict[str, Any]]:
        sql = "SELECT toUnixTimestamp64Milli(time) AS at_ms, * FROM canary FINAL ORDER BY time"
        found: list[dict[str, Any]] = self.reader.query(sql).to_pylist()
        return [row for row in found if outcome in ("", row["outcome"])]

    def told(self) -> list[tuple[str, str]]:
        return [(each.data["rule"], each.data["status"]) for each in self.inbox.received]

    def publish_price(self, usd: str) -> None:
        topic, key, record = price_at(time.time_ns() // 1_000_000)
        effective_ms = record["effective_ms"]
        assert isinstance(effective_ms, int)
        changed = {**record, "usd": usd, "effective_ms": effective_ms + PRICE_LEAD_MS}
        self.events.send_value(topic, key.decode(), PROOF.signed(topic, changed))

    def attack(self, seen: str) -> int:
        """Send, as anybody may who writes to the topics, 100 GPUs under the canary's name and for a job of its own.

        Returns how many records that were.
        """
        records: list[tuple[str, str, dict[str, object]]] = []
        for job_id in ("trainfare-canary.x", seen):
            held = {
                "job_id": job_id,
                "gpu_count": 100,
                "source": "trainfare-canary",
                "cloud": "trainfare-canary",
            }
            records += [("jobs", job_id, {**held, "type": kind}) for kind in ("started", "scaled")]
            sample = {"interval_ms": 10_000, "gpus": ["0"], "util_ratio": [1.0]}
            records.append(("gpu", job_id, {"job_id": job_id, "node": "n1", **sample}))
        price = {
            "sku": "trainfare-canary",
            "component": "gpu",
            "usd": "0",
            "per": "gpu_hour",
            "effective_ms": 0,
        }
        records.append(("prices", "trainfare-canary@0", price))
        for topic, key, event in records:
            self.events.send(topic, key, 0, event)
        return len(records)

    def keep_books(self, applied: int) -> None:
        """Write into the books of jobs/0 what the worker did not: of 7 records so many were applied."""
        self.versions += 1
        row = {"topic": "jobs", "shard": 0, "next_offset": 7, "records_in": 7, "applied": applied}
        self.reader.insert(BOOKS, rows(BOOKS, row | {"version": self.versions}), f"books {self.versions}")

    def count(self, sql: str) -> int:
        (found,) = self.reader.query(f"SELECT toInt64({sql}) AS found")["found"].to_pylist()
        return int(found)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with StoreProcess(tmp_path / "engine") as store, Inbox() as inbox:
        place = Place(tmp_path, store, inbox)
        yield place
        place.reader.close()


def test_it_is_right_within_seconds_and_a_wrong_price_and_wrong_books_page(place: Place) -> None:
    place.events.send("jobs", "mine", 0, {"job_id": "mine", "type": "queued"})
    with place.worker():
        place.until(lambda: {row["shard"] for row in place.runs("right")} == set(range(PARTITIONS)))
        assert all(row["found_usd"] == row["expected_usd"] for row in place.runs("right"))
        assert place.count("(SELECT count() FROM prices FINAL)") == 1, "its price, published once"

        place.publish_price("0.00036072")  # off by two thousandths
        place.keep_books(applied=6)
        place.until(lambda: {("canary_wrong", "firing"), ("books_unbalanced", "firing")} <= set(place.told()))
        place.until(lambda: bool(place.runs("wrong")))
        wrong = place.runs("wrong")[0]
        assert wrong["found_usd"] == Decimal("0.000001002")
        place.publish_price(USD_PER_GPU_HOUR)
        place.keep_books(applied=7)
        place.until(
            lambda: {("canary_wrong", "resolved"), ("books_unbalanced", "resolved")} <= set(place.told())
        )

        wrong_jobs = {str(row["job_id"]) for row in place.runs("wrong")}

        # What users see has nothing of it, and no other rule was moved by it.
        assert place.count("(SELECT count() FROM jobs FINAL)") >= 4
        place.until(lambda: place.count("(SELECT count() FROM job_costs)") == 1)
        assert place.count("(SELECT count() FROM ledger) + (SELECT count() FROM usage)") == 0
        assert place.count("(SELECT count() FROM burn_now WHERE job_id != 'mine')") == 0
    pages = {each.data["rule"]: each.data for each in place.inbox.received if each.type == "alert.firing"}
    assert pages["canary_wrong"]["subject"] == {"kind": "meter", "name": "canary"}
    # The one that paged: runs of two shards may have been wrong at once.
    assert any(job_id in pages["canary_wrong"]["summary"] for job_id in wrong_jobs)
    assert pages["books_unbalanced"]["subject"] == {"kind": "meter", "name": "books of shard 0"}
    assert "jobs/0: 7 records came in" in pages["books_unbalanced"]["summary"]
    for page in pages.values():
        assert page["severity"] == "page"
        assert place.reader.ask(page["evidence_sql"]).columns
    assert set(pages) <= {"canary_wrong", "canary_late", "books_unbalanced"}
    assert place.inbox.receiver.repeated == 0


def test_nobody_else_hides_a_job_under_its_name_nor_adds_to_one_of_its_own(place: Place) -> None:
    with place.worker():
        place.until(lambda: bool(place.runs("right")))
        attacks = place.attack(str(place.runs("right")[0]["job_id"]))
        place.until(lambda: place.count(REFUSED) == attacks)
        seen = len(place.runs("right"))
        place.until(lambda: len(place.runs("right")) > seen)
        assert place.count("(SELECT count() FROM jobs FINAL WHERE gpu_count > 1)") == 0
        assert all(row["found_usd"] == row["expected_usd"] for row in place.runs("right"))
        assert place.count("(SELECT count() FROM prices FINAL)") == 1
        assert not place.runs("wrong")
    _, found = stored_findings(asking(place.reader))
    assert [each.detail for each in found if not each.ok] == []
    (totals,) = (each.detail for each in found if each.check == "totals")
    assert "jobs of the canary, which views leave out" in totals


@pytest.mark.long
def test_a_store_that_is_away_makes_it_late_not_wrong(place: Place) -> None:
    with place.worker():
        place.until(lambda: bool(place.runs("right")))
        place.store.kill()
        time.sleep(2 * LATE_AFTER_MS / 1_000)  # long enough for a run to fall due and be late
        place.store.start()
        place.until(lambda: ("canary_late", "resolved") in place.told())
    told = [each for each in place.told() if each[0] != "canary_late"]
    assert told == []
    assert place.told()[:2] == [("canary_late", "firing"), ("canary_late", "resolved")]
    late = place.runs("late")
    assert late
    assert all(row["found_usd"] in (None, Decimal("0.000001")) for row in place.runs())
    assert not place.runs("wrong")


@pytest.mark.long
def test_another_worker_goes_on_with_the_page_and_tells_nobody_again(place: Place) -> None:
    with place.worker() as first, place.worker() as second:
        place.until(lambda: bool(place.runs("right")))
        place.publish_price("0.1")
        place.until(lambda: ("canary_wrong", "firing") in place.told())
        # Whichever of them runs it: kill one, see the other go on; then kill that one too.
        first.send_signal(signal.SIGKILL)
        seen = len(place.runs("wrong"))
        place.until(lambda: len(place.runs("wrong")) >= seen + 3)
        with place.worker():
            second.send_signal(signal.SIGKILL)
            seen = len(place.runs("wrong"))
            place.until(lambda: len(place.runs("wrong")) >= seen + 3)
            assert place.told().count(("canary_wrong", "firing")) == 1
            place.publish_price(USD_PER_GPU_HOUR)
            place.until(lambda: ("canary_wrong", "resolved") in place.told())
        first.wait(10)
        second.wait(10)
    assert [each for each in place.told() if each[0] == "canary_wrong"] == [
        ("canary_wrong", "firing"),
        ("canary_wrong", "resolved"),
    ]
    assert place.inbox.receiver.repeated == 0
    ids = [row["job_id"] for row in place.runs()]
    assert len(ids) == len(set(ids))
