"""A rolling upgrade from 0.1.0 on a real Kafka, under load: both versions meter side by side in one group.

Nothing is lost, nobody is paged a second time, and the tables are the oracle's. A worker of 0.1.0 that comes back is refused.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS
from tests.chaos.judged import judge
from tests.chaos.log import Feed, Offsets, read_back
from tests.chaos.run import worker_env
from tests.chaos.stored import stored_books, stored_counts, stored_dead, stored_tables
from tests.chaos.workers import Worker
from tests.kafka.broker import shared_broker
from tests.kafka.test_alerts_live import SECRET, Inbox
from tests.property.compare import assert_same, differences
from tests.store_process import StoreProcess
from tests.upgrade.former import THIS, Release, WorkersOf, built, missing
from tests.upgrade.load import RUNAWAY, SteadyLoad

OLD = "0.1.0"
PARTITIONS = 6
#: A worker of the former release compiles its kernels first.
PATIENCE_S = 900.0

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(bool(missing(OLD)), reason=missing(OLD)),
]


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return built(OLD, tmp_path_factory.mktemp("former"))


def until_all_move(offsets: Offsets, workers: list[Worker]) -> None:
    """Return once more of each shard is committed than now."""
    before, deadline_s = offsets.committed(), time.monotonic() + PATIENCE_S
    while True:
        now = offsets.committed()
        still = {
            number for (topic, number), at in now.items() if topic == "gpu" and at <= before[topic, number]
        }
        if not still:
            return
        assert time.monotonic() < deadline_s, [still, *(each.text()[-2_000:] for each in workers)]
        assert all(each.alive or each.expected_end for each in workers), [w.text()[-2_000:] for w in workers]
        time.sleep(0.5)


def test_workers_are_replaced_one_by_one_under_load(tmp_path: Path, former: Release) -> None:
    prefix = f"u{uuid.uuid4().hex[:8]}."
    kafka = KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}g",
        partitions=PARTITIONS,
    )
    load = SteadyLoad()
    with StoreProcess(tmp_path / "store", copied=False) as front, Inbox() as inbox:
        env = worker_env(kafka, front.url, 6_000) | {
            "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
            "TRAINFARE_ALERTS_ALLOW_HOSTS": inbox.receiver.host_port,
            "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": inbox.receiver.url,
            # By the name that it has in both versions: 0.2 reads it with a warning.
            "TRAINFARE_QUERY_CONCURRENT": "3",
        }
        assert "created" in former.run("topics", "create", env=env)
        feed = Feed(kafka, load.events(), 0)
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        with (
            WorkersOf(tmp_path / "old", env, release=former) as old,
            WorkersOf(tmp_path / "new", env) as new,
        ):
            offsets = Offsets(kafka)
            # The first one compiles the kernels, for all of them.
            old.start().wait_ready(PATIENCE_S)
            for each in (old.start(), old.start()):
                each.wait_ready(PATIENCE_S)
            feed.start()
            until_all_move(offsets, old.lives)
            deadline_s = time.monotonic() + PATIENCE_S
            while ("burn_fast", "rob") not in inbox.told("alert.firing"):
                assert time.monotonic() < deadline_s, old.lives[0].text()[-2_000:]
                time.sleep(0.5)

            checked = THIS.run("upgrade", "check", env=env)
            print(checked)  # noqa: T201 - what a user sees
            assert re.search(r"0003_hours.sql +is run once: What each attempt paid for in each hour", checked)
            assert re.search(r"snapshots +6 shards +are read as they are", checked)
            assert re.search(r"query.concurrent +is read as query.max_concurrent", checked)
            for going in old.lives:
                # It joins the group, and has no shard yet: each of the others keeps its own while they are shared out evenly.
                coming = new.start()
                coming.wait_until("shards assigned", PATIENCE_S)
                assert going.terminate() == 0, going.text()[-2_000:]
                coming.wait_ready(PATIENCE_S)
                until_all_move(offsets, [*old.lives, *new.lives])
            assert "TRAINFARE_QUERY_CONCURRENT" in new.lives[0].text()

            refused = former.run("worker", env=env, code=2)
            assert "was made by a later version (it has" in refused, refused
            until_all_move(offsets, new.lives)
            load.end()
            feed.join(120)
            assert feed.fault is None, feed.fault
            deadline_s = time.monotonic() + PATIENCE_S
            while offsets.behind():
                assert time.monotonic() < deadline_s, new.lives[0].text()[-2_000:]
                time.sleep(0.5)
            log = read_back(kafka)
            judged = judge(log, time.time_ns() // 1_000_000)
            store = ClickHouseStore(front.target())
            try:
                # A sweep puts rows right up to 90 s after a takeover.
                deadline_s = time.monotonic() + 180
                while differences(stored_tables(store), judged.tables, counts=False):
                    if time.monotonic() > deadline_s:
                        break
                    time.sleep(1)
                assert_same(stored_tables(store), judged.tables, counts=False)
                assert stored_dead(store) == judged.dead
                for worker in new.alive:
                    assert worker.terminate() == 0, worker.text()[-2_000:]
                assert not old.ended_by_themselves() + new.ended_by_themselves()
                assert stored_counts(store, range(PARTITIONS)) == judged.counts
                in_log = {at: len(lines) for at, lines in log.items() if lines and at[0] in SHARD_TOPICS}
                assert stored_books(store) == in_log
                alerts = store.select(ALERTS).to_pylist()
            finally:
                store.close()
            offsets.close()
        sent = Counter(inbox.told("alert.firing"))
        print(sent, [(row["rule"], row["subject_name"], row["status"]) for row in alerts])  # noqa: T201 - the figures
        assert sent == {("burn_fast", "rob"): 1}
        assert {row["subject_name"] for row in alerts} == {RUNAWAY}
