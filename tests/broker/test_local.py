"""The broker on a log on disk: who may speak to it, restarts, full disks, slow syncs, and what it lets go."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from sinks.errors import LogFull, SinkBusy
from streams.broker.broker import LocalBroker
from streams.broker.group import ConsumerGroup, IllegalGenerationError, UnknownMemberError
from streams.broker.writers import LocalRecordLog, batches_of
from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.keys import OutgoingRecord
from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogError, LogInUseError
from streams.segmented_log.log import LogOptions
from streams.topics import Topic
from streams.transport.check import check_kafka
from streams.transport.cluster import find_log
from streams.transport.partitions import partition_of
from streams.transport.security import librdkafka_config
from tests.segmented_log.logs import FullDisk, Unsynced

KAFKA = KafkaSettings(partitions=2)
PATIENCE_S = 20.0


@contextmanager
def local(path: Path, options: LogOptions | None = None, disk: Disk | None = None) -> Iterator[LocalBroker]:
    with LocalBroker(path, KAFKA, options or LogOptions(), SystemClock()) as broker:
        if disk is not None:
            broker.log.events._disk = disk
        yield broker


def send(broker: LocalBroker, *values: bytes, timeout_ms: int = 10_000) -> list[KafkaError | None]:
    outcomes: list[KafkaError | None] = []
    ours = {"message.timeout.ms": timeout_ms, "enable.idempotence": True}
    producer = Producer({**librdkafka_config(broker.settings()), **ours})
    for value in values:
        producer.produce(
            "trainfare.jobs", value, partition=0, on_delivery=lambda error, _: outcomes.append(error)
        )
    producer.flush(PATIENCE_S)
    return outcomes


def values(broker: LocalBroker, topic: str = "jobs", partition: int = 0) -> list[bytes]:
    place = (topic, partition)
    log = broker.log.log_of(topic)
    found: list[bytes] = []
    for data in log.read(place, log.start(place), 2**30):
        found += [each.value or b"" for each in DefaultRecordBatch(data)]
    return found


def event(number: int, topic: Topic = Topic.JOBS) -> OutgoingRecord:
    return OutgoingRecord(topic, b"job-%d" % number, b"v%d" % number, [("ce-id", f"{number}")])


def append(broker: LocalBroker, records: Sequence[OutgoingRecord]) -> None:
    asyncio.run(LocalRecordLog(broker.log, KAFKA.partitions, "events").append(records))


# -- clients -------------------------------------------------------------------------------------------------


def test_the_worker_finds_all_topics_as_it_needs_them_and_one_cluster_for_ever(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        found = find_log(broker.settings(), PATIENCE_S)
        assert found.cluster_id == broker.log.id
    with local(tmp_path) as broker:
        assert find_log(broker.settings(), PATIENCE_S) == found


def test_a_client_without_the_password_is_refused(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        wrong = broker.settings().model_copy(update={"sasl_password": SecretStr("guess")})
        errors: list[KafkaError] = []
        client = AdminClient(librdkafka_config(wrong) | {"error_cb": errors.append})
        with pytest.raises(KafkaException):
            client.list_topics(timeout=2)
        client.poll(PATIENCE_S)  # until it has told of an error
        assert KafkaError._AUTHENTICATION in {each.code() for each in errors}
        plain = AdminClient({"bootstrap.servers": broker.settings().bootstrap_servers, "log_level": 0})
        with pytest.raises(KafkaException):
            plain.list_topics(timeout=2)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 2**30),
        struct.pack(">i", -1),
        struct.pack(">ihhi", 8, 3, 5, 1),  # metadata before the password
        struct.pack(">ihhi", 8, 99, 0, 1),
        struct.pack(">ihhih", 10, 36, 0, 1, 0) + b"",
    ],
)
def test_bytes_that_are_no_request_close_the_connection_alone(tmp_path: Path, sent: bytes) -> None:
    with local(tmp_path) as broker:
        host, _, port = broker.settings().bootstrap_servers.partition(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as client:
            client.sendall(sent)
            assert client.recv(1) == b""
        assert send(broker, b"a") == [None]


def test_the_file_of_access_is_for_this_user_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log" / "client.env"
    with local(tmp_path) as broker:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (
            f"TRAINFARE_KAFKA_BOOTSTRAP_SERVERS='{broker.settings().bootstrap_servers}'" in path.read_text()
        )
        assert f"TRAINFARE_CLICKHOUSE_DATA_DIR={tmp_path}" in path.read_text(), "commands find the store, too"
    assert not path.exists()


def test_config_check_finds_no_fault_with_it(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        found = list(check_kafka(broker.settings(), 5, writes_events=True))
    assert [(each.subject, each.mend) for each in found] == [("answer", ""), ("topics", ""), ("rights", "")]


# -- records -------------------------------------------------------------------------------------------------


def test_events_of_requests_go_to_the_partition_of_their_key_with_their_headers(tmp_path: Path) -> None:
    records = [event(number, topic) for number in range(20) for topic in (Topic.JOBS, Topic.GPU)]
    with local(tmp_path) as broker:
        append(broker, records)
        for partition in range(KAFKA.partitions):
            wanted = [
                each.value for each in records
                if each.topic is Topic.GPU and partition_of(each.key, KAFKA.partitions) == partition
            ]  # fmt: skip
            assert values(broker, "gpu", partition) == wanted
    ((_, batch),) = batches_of([event(3)], 1)
    (record,) = DefaultRecordBatch(batch)
    assert (record.key, record.headers) == (b"job-3", [("ce-id", b"3")])


def test_a_control_is_kept_for_ever(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        asyncio.run(
            LocalRecordLog(broker.log, 2, "controls").append(
                [OutgoingRecord(Topic.CONTROLS, b"ack/a", b"{}", [])]
            )
        )
        assert values(broker, "controls") == [b"{}"]
        assert broker.log.reference.end(("controls", 0)) == 1


def test_a_restart_continues_offsets_and_generations(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        assert send(broker, b"a", b"b") == [None, None]
        broker.group.join()
        broker.group.commit({("jobs", 0): 2}, 0)
    with local(tmp_path) as broker:
        assert send(broker, b"c") == [None]
        assert values(broker) == [b"a", b"b", b"c"]
        assert broker.group.committed(("jobs", 0)) == 2
        member = broker.group.join()
        assert broker.group.generation == 2
        broker.group.check(member, 2)


def test_a_second_broker_of_a_directory_is_refused(tmp_path: Path) -> None:
    with local(tmp_path), pytest.raises(LogInUseError, match="one at a time"), local(tmp_path):
        pass


def test_a_full_disk_refuses_events_and_goes_on_with_room(tmp_path: Path) -> None:
    disk = FullDisk(0)
    with local(tmp_path, disk=disk) as broker:
        with pytest.raises(LogFull, match="make room"):
            append(broker, [event(1)])
        (error,) = send(broker, b"a", timeout_ms=500)
        assert error is not None
        disk.room = None
        append(broker, [event(2)])
        assert send(broker, b"b") == [None]
        assert b"b" in values(broker)
        assert b"a" not in values(broker)


def test_a_client_that_leaves_while_it_waits_for_the_disk_harms_nobody(tmp_path: Path) -> None:
    disk = SlowDisk()
    with local(tmp_path, disk=disk) as broker:

        async def leaves() -> None:
            writer = LocalRecordLog(broker.log, KAFKA.partitions, "events")
            task = asyncio.create_task(writer.append([event(1)]))
            await asyncio.to_thread(disk.waits.wait, PATIENCE_S)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(leaves())
        disk.go.set()
        append(broker, [event(2)])
        assert sorted(values(broker) + values(broker, partition=1)) == [b"v1", b"v2"]


def test_a_disk_that_hangs_is_an_error_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.broker.writers._TIMEOUT_S", 0.1)
    disk = SlowDisk()
    with local(tmp_path, disk=disk) as broker:
        with pytest.raises(SinkBusy, match=r"in 0\.1 s"):
            append(broker, [event(1)])
        disk.go.set()


def test_no_fetch_says_that_the_log_has_ended_while_a_record_of_before_is_synced(tmp_path: Path) -> None:
    """A tick would be judged without it (docs/decisions/0015)."""
    disk = SlowDisk()
    with local(tmp_path, disk=disk) as broker:
        writing = threading.Thread(target=append, args=(broker, [event(1)]))
        writing.start()
        assert disk.waits.wait(PATIENCE_S)
        answered = threading.Event()

        def fetch() -> None:
            consumer = Consumer(
                {**librdkafka_config(broker.settings()), "group.id": "g", "fetch.wait.max.ms": 10}
            )
            consumer.assign([TopicPartition("trainfare.jobs", n, 0) for n in range(2)])
            assert consumer.poll(PATIENCE_S) is not None
            consumer.close()
            answered.set()

        reading = threading.Thread(target=fetch)
        reading.start()
        assert not answered.wait(0.5)
        disk.go.set()
        reading.join(PATIENCE_S)
        writing.join(PATIENCE_S)
        assert answered.is_set()


def test_a_fetch_that_waits_for_a_write_outlives_its_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingWrite()
    with local(tmp_path, disk=disk) as broker, caplog.at_level(logging.ERROR, "streams.broker"):

        async def work() -> None:
            handler = broker._handler
            writing = broker.log.append([(("jobs", 0), batches_of([event(1)], 1)[0][1])])
            await asyncio.to_thread(disk.waits.wait, PATIENCE_S)
            fetching = asyncio.run_coroutine_threadsafe(handler._settled(), broker._loop)
            await asyncio.sleep(0.1)
            assert not fetching.done()
            disk.go.set()
            await asyncio.wrap_future(fetching)
            with pytest.raises(LogError):
                writing[0].result(PATIENCE_S)

        asyncio.run(work())
        assert send(broker, b"b") == [None]
    assert caplog.records == []


def test_only_what_was_committed_is_dropped(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes=1, retention_bytes=1)
    with local(tmp_path, options) as broker:
        for _ in range(6):
            append(broker, [event(0)])
        partition = partition_of(b"job-0", KAFKA.partitions)
        place = ("jobs", partition)
        assert broker.log.drop(broker.needed) == 0
        broker.group.commit({place: 3}, 0)
        assert broker.log.drop(broker.needed) == 3
        assert broker.log.events.start(place) == 3


def test_dead_letters_which_nobody_commits_hold_nothing_back(tmp_path: Path) -> None:
    with local(tmp_path, LogOptions(segment_bytes=1, retention_bytes=1)) as broker:
        producer = Producer(librdkafka_config(broker.settings()))
        for _ in range(3):
            producer.produce("trainfare.deadletter", b"{}", partition=0)
            assert producer.flush(PATIENCE_S) == 0
        assert broker.log.drop(broker.needed) == 2


def test_damage_is_an_error_in_the_log_of_the_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = LogOptions(segment_bytes=1)
    with local(tmp_path, options) as broker:
        for _ in range(3):
            append(broker, [event(0)])
    first = min((tmp_path / "log" / "events").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[-3] ^= 1
    first.write_bytes(data)
    with local(tmp_path, options) as broker, caplog.at_level(logging.ERROR, "streams.broker.handler"):
        partition = partition_of(b"job-0", KAFKA.partitions)
        consumer = Consumer({**librdkafka_config(broker.settings()), "group.id": "g"})
        consumer.assign([TopicPartition("trainfare.jobs", partition, 0)])
        deadline_s = time.monotonic() + PATIENCE_S
        while not caplog.records and time.monotonic() < deadline_s:
            consumer.poll(0.1)
        consumer.close()
    assert "is damaged at byte" in str(vars(caplog.records[0])["reason"])


class SlowDisk(Unsynced):
    """Syncs once it is told to."""

    def __init__(self) -> None:
        self.waits, self.go = threading.Event(), threading.Event()

    def sync(self, descriptor: int) -> None:
        self.waits.set()
        assert self.go.wait(PATIENCE_S)


class FailingWrite(SlowDisk):
    """Its first write ends, once it is told to, without room."""

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        if not self.go.is_set():
            self.waits.set()
            assert self.go.wait(PATIENCE_S)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(descriptor, data, at)


# -- the group -----------------------------------------------------------------------------------------------


def test_the_newest_member_replaces_the_one_before(tmp_path: Path) -> None:
    group = ConsumerGroup(tmp_path)
    first = group.join()
    assert group.sync(first, 1, b"all") == b"all"
    second = group.join()
    with pytest.raises(UnknownMemberError):
        group.check(first, 1)
    with pytest.raises(IllegalGenerationError):
        group.check(second, 1)
    assert group.sync(second, 2, b"all") == b"all"
    group.leave(first)
    group.check(second, 2)
    group.leave(second)
    with pytest.raises(UnknownMemberError):
        group.check(second, 2)


def test_offsets_are_stored_every_ten_seconds(tmp_path: Path) -> None:
    def stored() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / "group.json").read_text())["offsets"]
        return found

    group = ConsumerGroup(tmp_path)
    for now_ms, offset, wanted in ((0, 1, 1), (9_999, 2, 1), (10_000, 3, 3)):
        group.commit({("jobs", 1): offset}, now_ms)
        assert stored() == {"jobs": {"1": wanted}}
    assert ConsumerGroup(tmp_path).committed(("jobs", 1)) == 3


def test_a_file_of_the_group_that_cannot_be_read_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "group.json").write_text("{")
    with pytest.raises(LogError, match="remove it"):
        ConsumerGroup(tmp_path)
