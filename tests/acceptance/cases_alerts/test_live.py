"""Logs of faults through a real Kafka and a worker: the alerts of a replay, and one message each to a real receiver."""

from __future__ import annotations

import gzip
import json
import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.config.settings import KafkaSettings
from streams.replay.feeder import LogFeeder
from streams.replay.files import read_lines
from streams.replay.lines import LineReader, Sendable
from streams.transport.admin import connect
from tests.acceptance.cases_alerts.test_stalled import STORIES
from tests.chaos.across_jobs import OwnInbox
from tests.chaos.present import Present, create_topics_of_given_times
from tests.chaos.workers import OWN_PRESENT, Workers
from tests.cli.command import trainfare
from tests.kafka.broker import shared_broker
from tests.kafka.test_alerts_live import SECRET
from tests.store_process import StoreProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PARTITIONS = 4
PATIENCE_S = 480.0  # on a machine whose cores others keep busy
MINUTE_MS = 60_000
#: So far a log is read, where a worker that starts later would not look back to its fault.
UNTIL_MS: Final = {"lost_end_no_samples": 1_780_310_400_000}
#: Each log, and the rules that it tells.
TOLD: Final[dict[str, dict[str, int]]] = {
    "autoscaler_empty": {"empty_group": 1},
    "first_mistake_512": {"ceiling": 1},
    "licence_1_5x": {"price_basis": 1},
    "lost_end_no_samples": {"double_held": 1},
    "noheartbeat_hang_progress": {"stalled": 1},
    "planned_big": {},
    "spot_churn": {"retry_loop": 1},
    "suspended_holds": {"held": 1},
}


def story(name: str, directory: Path) -> tuple[Path, int]:
    """The log, and the instant up to which it is judged."""
    packed = STORIES / f"{name}.jsonl.gz"
    if not packed.exists():
        pytest.skip(f"no {packed}: the stories are not part of this repository")
    log = directory / "log.jsonl"
    until_ms = UNTIL_MS.get(name, 2**53)
    lines = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    times_ms = [json.loads(line)["value"]["time_ms"] for line in lines]
    kept = [line for line, ms in zip(lines, times_ms, strict=True) if ms <= until_ms]
    if len(kept) < len(lines):  # its last line shows only how far it has come
        last = json.loads(lines[-1])
        last["value"]["time_ms"] = until_ms
        kept.append(json.dumps(last).encode() + b"\n")
    log.write_bytes(b"".join(kept))
    return log, UNTIL_MS.get(name, max(times_ms))


def replayed(log: Path, data: Path, until_ms: int) -> list[dict[str, Any]]:
    done = trainfare("replay", log, "--data", data, "--partitions", PARTITIONS, "--as-of", until_ms)
    assert done.code == 0, done.err
    with closing(ClickHouseStore(Embedded(data_dir=data, database="trainfare"))) as store:
        return alerts(store)


def alerts(store: ClickHouseStore) -> list[dict[str, Any]]:
    """The alerts without what differs from worker to worker."""
    rows = store.select(ALERTS).to_pylist()
    kept = ({name: value for name, value in row.items() if name not in ("shard", "version")} for row in rows)
    return sorted(kept, key=str)


def sent(inbox: OwnInbox) -> Counter[str]:
    """How many messages said of a rule that it fires."""
    return Counter(rule for rule, _ in inbox.told("alert.firing"))


def feed(kafka: KafkaSettings, log: Path) -> None:
    """Publish a log whose records were appended when their events happened."""
    reader = LineReader(kafka.topic_prefix, kafka.partitions, 2**53)
    feeder = LogFeeder(
        kafka.bootstrap_servers, kafka.topic_prefix, {}, lambda _place: 2**53, threading.Event()
    )
    records = reader.records(read_lines([log]))
    feeder.feed(record for record in records if isinstance(record, Sendable))


def worker_env(kafka: KafkaSettings, store_url: str, inbox: OwnInbox) -> dict[str, str]:
    return {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
        "TRAINFARE_KAFKA_GROUP_ID": kafka.group_id,
        "TRAINFARE_CLICKHOUSE_URL": store_url,
        "TRAINFARE_WEB_PORT": "0",
        "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
        "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": inbox.receiver.url,
        "TRAINFARE_ALERTS_ALLOW_HOSTS": inbox.receiver.host_port,
    }


@pytest.mark.parametrize("name", TOLD)
def test_a_worker_tells_what_a_replay_tells(name: str, tmp_path: Path) -> None:
    log, last_ms = story(name, tmp_path)
    want = replayed(log, tmp_path / "embedded", last_ms)
    assert Counter(row["rule"] for row in want) == TOLD[name]
    kafka = KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers,
        topic_prefix=f"t{uuid.uuid4().hex[:8]}.",
        group_id=uuid.uuid4().hex,
        partitions=PARTITIONS,
    )
    create_topics_of_given_times(kafka, connect(kafka))
    feed(kafka, log)
    present = Present(0, last_ms + MINUTE_MS, last_ms)
    with OwnInbox(present) as inbox, StoreProcess(tmp_path / "shared") as front:
        workers = Workers(tmp_path, present.env | worker_env(kafka, front.url, inbox), OWN_PRESENT)
        worker = workers.start()
        store = ClickHouseStore(front.target())
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline_s and not (alerts(store) == want and sent(inbox) == TOLD[name]):
                assert worker.alive, worker.text()[-2000:]
                time.sleep(0.2)
            assert worker.terminate() == 0
            assert alerts(store) == want
            assert sent(inbox) == TOLD[name]
        finally:
            store.close()
            workers.end()
