"""A consumer that stands still on a real Kafka: not ready, then not alive, and both again once it moves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sinks.errors import StoreUnreachable
from streams.clock import SystemClock
from streams.worker.health import probe as outlooks
from streams.worker.health.probe import Probe
from streams.worker.health.stall import StallLimits
from streams.worker.health.status import StatusCollector
from streams.worker.log_time import LogTime
from streams.worker.meter import Meter
from tests.kafka.broker import shared_broker
from tests.web.serving import LOCAL, Client, serving
from tests.worker.fakes import file_store
from tests.worker.lab import Lab, folded, make_lab, run, until

pytestmark = pytest.mark.kafka

LIMITS = StallLimits(not_ready_ms=500, restart_ms=1_500)
PATIENCE_S = 30.0


async def answers(client: Client, path: str, status: int) -> Any:
    """Ask until it answers with the status, but not for ever."""
    for _ in range(int(PATIENCE_S / 0.1)):
        async with client.session.get(client.server.url + path, headers=LOCAL) as answer:
            if answer.status == status:
                return await answer.json()
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} has not answered {status} in {PATIENCE_S:g} s")


def watched(lab: Lab, meter: Meter) -> tuple[StatusCollector, Probe]:
    clock = SystemClock()
    probe = Probe(lab.kafka, lambda: None, clock)
    watch = StatusCollector(
        meter.shard_manager,
        lambda: meter.app.meter_consumer if meter.app.started else None,
        lab.kafka,
        LogTime(clock),
        reader=meter.reader,
        probed=lambda: probe.probed,
        limits=LIMITS,
    )
    return watch, probe


def test_a_consumer_that_stands_still_is_seen_and_so_is_its_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(shared_broker().bootstrap_servers, None)
    meter = lab.meter(file_store(tmp_path))
    watch, probe = watched(lab, meter)
    lab.produce("gpu", 0, [b"1"] * 10)

    stands = asyncio.Event()

    async def nothing(*_: Any, **__: Any) -> tuple[dict[Any, Any], set[Any]]:
        stands.set()
        await asyncio.sleep(0.05)
        return {}, set()

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 10)
        looking = asyncio.create_task(probe.run(lambda: meter.shard_manager.owned, every_s=0.2))
        async with serving(None, watch.collect) as client:
            assert (await answers(client, "/readyz", 200))["ready"] is True
            with monkeypatch.context() as patch:
                patch.setattr(meter.app.meter_consumer, "_wait_next_records", nothing)
                await stands.wait()
                lab.produce("gpu", 0, [b"1"] * 5)
                red = await answers(client, "/readyz", 503)
                wrong = {each["name"]: each["detail"] for each in red["checks"] if not each["ok"]}
                assert set(wrong) == {"progress"}, wrong
                assert wrong["progress"].startswith("shard 0 has folded nothing for ")
                assert wrong["progress"].endswith("while 5 records wait for it (gpu 5)")
                assert (await client.get("/healthz"))["status"] == "ok", "not yet"
                dead = await answers(client, "/healthz", 503)
                assert dead["detail"].endswith("(gpu 5) although Kafka and ClickHouse answer")
            assert (await answers(client, "/readyz", 200))["ready"] is True
            assert (await client.get("/healthz"))["status"] == "ok"
            assert watch.collect().lag_records["gpu"] == 0
        looking.cancel()
        await probe.close()

    run(meter, work)
    assert meter.shard_manager.fault is None
    assert folded(meter, "gpu", 0) == 15


def transaction(lab: Lab) -> None:
    """Three records in a transaction, whose marker is the last offset."""
    producer = Producer(
        {"bootstrap.servers": lab.kafka.bootstrap_servers, "transactional.id": lab.kafka.group_id}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(f"{lab.kafka.topic_prefix}gpu", value=b"1", partition=0)
    producer.commit_transaction(20)


def test_a_transaction_that_leaves_its_marker_at_the_end_is_no_lag(tmp_path: Path) -> None:
    """Our own client sees one more than there is to read; a consumer that lives knows better."""
    lab = make_lab(shared_broker().bootstrap_servers, None)
    meter = lab.meter(file_store(tmp_path))
    watch, probe = watched(lab, meter)
    transaction(lab)

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) >= 3)
        probed = await probe.collect([0])
        assert max(probed.ends.values()) == 4, "three records and a marker"
        await until(lambda: watch.collect().lag_records["gpu"] == 0)

    run(meter, work)


def test_what_waits_behind_an_open_transaction_is_lag_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(shared_broker().bootstrap_servers, None)
    meter = lab.meter(file_store(tmp_path))
    watch, probe = watched(lab, meter)
    hangs = Producer(
        {"bootstrap.servers": lab.kafka.bootstrap_servers, "transactional.id": f"{lab.kafka.group_id}x"}
    )
    hangs.init_transactions(20)

    async def work() -> None:
        lab.produce("gpu", 0, [b"1"])
        await until(lambda: folded(meter, "gpu", 0) == 1)
        hangs.begin_transaction()
        hangs.produce(f"{lab.kafka.topic_prefix}gpu", value=b"1", partition=0)
        hangs.flush(10)
        lab.produce("gpu", 0, [b"1"] * 4)  # these are committed, and wait
        await until(lambda: watch.collect().lag_records["gpu"] == 5)
        probed = await probe.collect([0])
        assert max(probed.ends.values()) == 6
        monkeypatch.setattr(watch._transactions, "_not_ready_ms", 100)

        def named() -> bool:
            failing = {check.name: check.detail for check in watch.collect().checks if not check.ok}
            return "5 records of" in failing.get("transactions", "")

        await until(named)
        assert watch.collect().transaction_records["gpu"] == 5
        hangs.commit_transaction(20)
        await until(lambda: folded(meter, "gpu", 0) >= 6)
        await until(lambda: watch.collect().lag_records["gpu"] == 0)
        assert not named()

    run(meter, work)


def test_a_kafka_and_a_store_that_are_away_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlooks, "_ANSWER_WITHIN_S", 1.0)
    lab = make_lab(shared_broker().bootstrap_servers, None)

    def gone() -> None:
        raise StoreUnreachable("gone")

    async def look() -> None:
        probe = Probe(lab.kafka, lambda: None, SystemClock())
        # A topic that was just made has no leader yet.
        while not (await probe.collect([0, 1])).kafka:  # noqa: ASYNC110 - nothing would set an event
            await asyncio.sleep(0.1)
        assert probe.probed.store
        assert len(probe.probed.ends) == 5 * 2 + 2
        assert probe.probed.begins == dict.fromkeys(probe.probed.ends, 0)
        assert probe.probed.shards == {0, 1}
        away = lab.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
        there = await Probe(away, gone, SystemClock()).collect([0])
        assert (there.kafka, there.store, there.ends) == (False, False, {})

    asyncio.run(asyncio.wait_for(look(), PATIENCE_S))
