"""`trainfare publish DIR`: a log on disk moves to a cluster, whole, in order, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.broker.broker import LocalBroker
from streams.broker.move_to_kafka import MoveToKafka
from streams.broker.writers import LocalRecordLog
from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError, WrongUseError
from streams.keys import OutgoingRecord
from streams.segmented_log.log import LogOptions
from streams.topics import Topic
from streams.transport.partitions import partition_of
from streams.transport.producer import LogProducer
from tests.broker.test_local import send, values
from tests.cli.command import trainfare

FROM, TO = KafkaSettings(partitions=2), KafkaSettings(partitions=3)
COUNT = 40


def event(number: int, topic: Topic = Topic.JOBS) -> OutgoingRecord:
    return OutgoingRecord(topic, b"job-%d" % (number % 5), b"v%d" % number, [("ce-id", f"{number}")])


def add(data: Path, numbers: range, options: LogOptions | None = None) -> None:
    with LocalBroker(data, FROM, options or LogOptions(segment_bytes=2_000), SystemClock()) as broker:
        writer = LocalRecordLog(broker.log, FROM.partitions, "events")

        async def work() -> None:
            for number in numbers:
                await writer.append([event(number), event(number, Topic.GPU)])
            await writer.append([OutgoingRecord(Topic.CONTROLS, b"ack/a", b"%d" % numbers.start, [])])

        asyncio.run(work())
        if numbers.start == 0:
            send(broker, b"")  # a record without a key


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "target", TO, LogOptions(), SystemClock()) as broker:
        yield broker


def moved(data: Path, target: LocalBroker, cluster: str = "c") -> int:
    with LogProducer(target.settings()) as producer:
        return MoveToKafka(data, cluster).run(producer, lambda _by: None)


def expected(topic: Topic, numbers: range, partition: int) -> list[bytes]:
    records = [event(number, topic) for number in numbers]
    return [each.value for each in records if partition_of(each.key, TO.partitions) == partition]


def test_every_record_moves_to_the_partition_of_its_key_in_its_order(
    tmp_path: Path, target: LocalBroker
) -> None:
    data = tmp_path / "data"
    add(data, range(COUNT))
    assert len(list((data / "log" / "events").glob("*.log"))) > 3
    assert moved(data, target) == 2 * COUNT + 2
    for partition in range(TO.partitions):
        assert values(target, "gpu", partition) == expected(Topic.GPU, range(COUNT), partition)
        found = [value for value in values(target, "jobs", partition) if value]
        assert found == expected(Topic.JOBS, range(COUNT), partition)
    assert values(target, "controls") == [b"0"]


def test_a_second_run_moves_what_came_since(tmp_path: Path, target: LocalBroker) -> None:
    data = tmp_path / "data"
    add(data, range(10))
    assert moved(data, target) == 22
    assert moved(data, target) == 0
    assert MoveToKafka(data, "c").left_bytes == 0
    add(data, range(10, 15))
    assert moved(data, target) == 11
    assert moved(data, target, "another cluster") == 33
    assert values(target, "controls") == [b"0", b"10", b"0", b"10"]


def test_a_run_that_broke_off_goes_on_where_the_cluster_had_everything(
    tmp_path: Path, target: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.broker.move_to_kafka._FLUSH_EVERY", 6)
    data = tmp_path / "data"
    add(data, range(COUNT))

    class Breaks(LogProducer):
        sent = 0

        def send(self, *record: Any, **named: Any) -> None:
            self.sent += 1
            if self.sent == 50:
                raise TrainfareError("no more")
            super().send(*record, **named)

    with pytest.raises(TrainfareError, match="no more"), Breaks(target.settings()) as producer:
        MoveToKafka(data, "c").run(producer, lambda _by: None)
    moved(data, target)
    for partition in range(TO.partitions):
        found = values(target, "gpu", partition)
        assert list(dict.fromkeys(found)) == expected(Topic.GPU, range(COUNT), partition)
        assert len(found) - len(set(found)) <= 6


def test_what_retention_took_before_it_moved_is_an_error(tmp_path: Path, target: LocalBroker) -> None:
    data, options = tmp_path / "data", LogOptions(segment_bytes=1, retention_bytes=1)
    add(data, range(2), options)
    moved(data, target)
    add(data, range(2, 6), options)
    with LocalBroker(data, FROM, options, SystemClock()) as broker:
        assert broker.log.drop(lambda _place: 10**6) > 2
    with pytest.raises(TrainfareError, match="was dropped by the retention"):
        moved(data, target)


def test_a_directory_without_a_log_and_a_broken_file_are_errors_that_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="no log of `trainfare serve`"):
        MoveToKafka(tmp_path, "c")
    add(tmp_path, range(1))
    (tmp_path / "log" / "published.json").write_text("{")
    (tmp_path / "log" / "published.json").chmod(0o600)
    with pytest.raises(TrainfareError, match="remove it"):
        MoveToKafka(tmp_path, "c")


def test_the_command_tells_how_many(tmp_path: Path, target: LocalBroker) -> None:
    data = tmp_path / "data"
    add(data, range(3))
    lines = (tmp_path / "target" / "log" / "client.env").read_text().splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines)
    done = trainfare("publish", data, env={name: value.strip("'") for name, _, value in pairs})
    assert (done.code, done.out) == (
        0,
        f"8 events of {data} acknowledged by {target.settings().bootstrap_servers}\n",
    ), done.err
