"""Dead letters come back through a real broker and a real worker: each once, whatever is repeated or killed."""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.cli.faults import guarded
from streams.cli.main import build
from streams.config.settings import KafkaSettings
from streams.engine.shard.dead_letters import REPLAY_HEADER
from streams.transport.admin import connect, create_topics
from streams.transport.partitions import partition_of
from tests.cli.command import Done, trainfare
from tests.cli.test_through_worker import working
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka

GIB = 2**30
AHEAD_MS = 303_000  # 5 min are believed
WAIT_S = 120.0


@dataclass
class Place:
    """A log and a store of its own, and the command in this process."""

    env: dict[str, str]
    data: Path
    output: Path
    capture: pytest.CaptureFixture[str]
    set_env: Callable[[str, str], None]

    def run(self, *words: str) -> Done:
        """The command, through the worker that has the store open: no process of its own, so quick."""
        for name, value in self.env.items():
            self.set_env(name, value)
        self.capture.readouterr()
        arguments = [*words, "--data", str(self.data)]
        code = guarded(lambda: build()(arguments, prog_name="trainfare", standalone_mode=False))
        said = self.capture.readouterr()
        assert "Traceback" not in said.err
        return Done(code, said.out, said.err)

    def rows(self, *words: str) -> list[dict[str, object]]:
        done = self.run(*words, "--format", "json")
        assert done.code == 0, done.err
        return list(json.loads(done.out))

    def wait(self, ready: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not ready():
            assert time.monotonic() < deadline_s, self.output.read_text()[-3000:]
            time.sleep(0.1)

    def wait_until_believed(self, time_ms: int) -> None:
        """Until the time of an event is no future any more, for the brokers either."""
        self.wait(lambda: now_ms() >= time_ms - 299_500)

    def letters(self) -> dict[str, str]:
        return {
            str(row["place"]): str(row["replayed_to"]) for row in self.rows("dead-letters", "list", "--each")
        }

    def gibs(self, job: str) -> int:
        """What the ledger has of the job's traffic."""
        sql = f"SELECT toInt64(sum(quantity)) AS q FROM ledger WHERE job_id = '{job}' AND unit = 'bytes'"
        (row,) = self.rows("sql", sql)
        return int(str(row["q"])) // GIB

    def produce(
        self, topic: str, value: object, key: str = "", headers: dict[str, bytes] | None = None
    ) -> None:
        producer = Producer({"bootstrap.servers": self.env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"]})
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        name = self.env["TRAINFARE_KAFKA_TOPIC_PREFIX"] + topic
        producer.produce(name, value=raw, key=key, partition=0, headers=list((headers or {}).items()))
        assert producer.flush(10) == 0


def make_topics(env: dict[str, str]) -> None:
    kafka = KafkaSettings(
        bootstrap_servers=env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"],
        topic_prefix=env["TRAINFARE_KAFKA_TOPIC_PREFIX"],
        partitions=2,
    )
    create_topics(kafka, connect(kafka))


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_GROUP_ID": f"g{uuid.uuid4().hex[:8]}",
        "TRAINFARE_KAFKA_PARTITIONS": "2",
        "TRAINFARE_KAFKA_FETCH_MIN_BYTES": "1",
        "TRAINFARE_KAFKA_SESSION_TIMEOUT_MS": "2000",
        "TRAINFARE_KAFKA_HEARTBEAT_INTERVAL_MS": "200",
        "TRAINFARE_METER_CHECKPOINT_INTERVAL_MS": "200",
        "TRAINFARE_WEB_PORT": "0",
    }
    for name in [name for name in os.environ if name.startswith("TRAINFARE_")]:
        monkeypatch.delenv(name)
    make_topics(env)
    return Place(env, tmp_path / "meter", tmp_path / "worker.log", capsys, monkeypatch.setenv)


def amount(number: int, time_ms: int, job: str = "a", **more: object) -> dict[str, object]:
    """A GiB that left the region."""
    return {
        "id": f"n{number}",
        "source": "s",
        "time_ms": time_ms,
        "job_id": job,
        "interval_ms": 0,
        "bytes": GIB,
        "path": "internet",
        "direction": "egress",
        **more,
    }


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Person(io.StringIO):
    """Who answers at a terminal."""

    def isatty(self) -> bool:
        return True


def log_of(place: Place, topic: str, partition: int = 0) -> list[Message]:
    """The records of a topic's partition, as far as it still has them."""
    servers = place.env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "t", "enable.auto.commit": False})
    name = place.env["TRAINFARE_KAFKA_TOPIC_PREFIX"] + topic
    low, high = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=10)
    consumer.assign([TopicPartition(name, partition, low)])
    found = consumer.consume(high - low, timeout=10) if high > low else []
    consumer.close()
    assert len(found) == high - low
    return found


def sent_again(place: Place, topic: str) -> list[str]:
    """The letters that the topic has again, as their headers name them."""
    found: list[str] = []
    for message in log_of(place, topic):
        headers: Any = message.headers() or ()  # typed as a mapping too, which it is not
        found += [value.decode() for name, value in headers if name == REPLAY_HEADER]
    return found


def test_letters_come_back_once_through_repeats_and_kills(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(place.data, place.output, place.env):
        ahead_ms = now_ms() + AHEAD_MS
        place.produce("network", amount(1, now_ms()), "a")
        place.produce("network", amount(2, ahead_ms), "a", {"trace": b"\x01\xff"})
        place.produce("network", amount(3, ahead_ms), "a")
        place.produce("network", amount(4, now_ms(), bytes="many"), "a")
        place.wait(lambda: len(place.letters()) == 3 and place.gibs("a") == 1)
        (group, other) = place.rows("dead-letters", "list", "--topic", "network")
        assert (group["reason"], group["records"], group["stored"]) == ("future", 2, 2)
        assert (other["reason"], other["records"], other["stored"]) == ("wrong_type", 1, 1)

        early = place.run("dead-letters", "replay", "network/0/1", "--dry-run")
        assert early.code == 0
        if now_ms() < ahead_ms - 300_000:
            assert "refused again" in early.out
        place.wait_until_believed(ahead_ms)
        dry = place.run("dead-letters", "replay", "network/0/1", "--dry-run")
        assert (dry.code, dry.err) == (0, "")
        assert "would be sent again" in dry.out
        monkeypatch.setattr("sys.stdin", Person("n\n"))
        asked = place.run("dead-letters", "replay", "network/0/1")
        assert asked.code == 1
        assert "Send 1 record again to Kafka at 127.0.0.1:" in asked.err
        assert asked.err.endswith("trainfare: nothing was sent\n")
        assert sent_again(place, "network") == []
        monkeypatch.setattr("sys.stdin", io.StringIO())

        first = place.run("dead-letters", "replay", "network/0/1")
        second = place.run("dead-letters", "replay", "network/0/1")  # whether metered yet or not
        assert (first.code, second.code, first.err, second.err) == (0, 0, "", "")
        assert "already" not in first.out
        assert "already sent again" in second.out
        place.wait(lambda: place.letters()["network/0/1"] == "network/0/4" and place.gibs("a") == 2)
        third = place.run("dead-letters", "replay", "network/0/1")
        assert "already sent again" in third.out
        assert sent_again(place, "network") == ["network/0/1"]
        back = next(m for m in log_of(place, "network") if m.offset() == 4)
        assert (back.key(), back.value()) == (b"a", json.dumps(amount(2, ahead_ms)).encode())
        assert back.headers() == [("trace", b"\x01\xff"), (REPLAY_HEADER, b"network/0/1")]

        refused = place.run("dead-letters", "replay", "--reason", "wrong_type")
        assert refused.code == 1
        assert "1 of 1 dead letters were not sent" in refused.one_line()
        assert "field `bytes`" in refused.out

    # The worker is killed: what is sent now is in the log, and nowhere else.
    words = ("dead-letters", "replay", "network/0/2", "--data", str(place.data))
    assert trainfare(*words, env=place.env).code == 0
    again = trainfare(*words, env=place.env)
    assert again.code == 0
    assert "already sent again" in again.out
    assert sent_again(place, "network") == ["network/0/1", "network/0/2"]
    (place.data / "api.json").unlink()  # the first one's; `working` waits for the second's
    place.output = tmp_path / "second.log"
    with working(place.data, place.output, place.env):
        place.wait(lambda: place.letters()["network/0/2"] == "network/0/5" and place.gibs("a") == 3)
        forced = place.run("dead-letters", "replay", "network/0/3", "--force")
        assert (forced.code, forced.err) == (0, "")
        place.wait(lambda: place.letters().get("network/0/6") == "" and place.letters()["network/0/3"] != "")
        shown = place.run("dead-letters", "show", "network/0/3")
        assert "to network/0/6, and was refused again: wrong_type" in shown.out
        assert '"bytes": "many",   <-- bytes' in shown.out
        assert place.gibs("a") == 3
        last = place.run("dead-letters", "replay", "--topic", "network", "--since", "1h")
        assert last.code == 1, "one is refused again"
        assert sent_again(place, "network") == ["network/0/1", "network/0/2", "network/0/3"]


def test_records_in_the_wrong_partition_come_back_in_the_right_one(place: Place) -> None:
    jobs = [name for name in map(str, range(100)) if partition_of(name.encode(), 2) == 1][:2]
    words = ("dead-letters", "replay", "--reason", "wrong_partition")
    with working(place.data, place.output, place.env):
        for number, job in enumerate(jobs):
            place.produce("network", amount(number, now_ms(), job), "another key")
        place.wait(lambda: len(place.letters()) == 2)
    # No worker runs: what is sent now is in the log, and nowhere else.
    assert trainfare(*words, "--data", str(place.data), env=place.env).code == 0
    again = trainfare(*words, "--data", str(place.data), env=place.env)
    assert again.code == 0
    assert "already sent again" in again.out
    assert "│ sent again" not in again.out
    (place.data / "api.json").unlink()
    with working(place.data, place.output, place.env):
        place.wait(lambda: [place.gibs(job) for job in jobs] == [1, 1])
        place.wait(lambda: place.letters() == {"network/0/0": "network/1/0", "network/0/1": "network/1/1"})
        third = place.run(*words)
        assert third.code == 0
        assert "already sent again" in third.out
    assert sent_again(place, "network") == [], "not into the wrong partition"
    assert [m.key() for m in log_of(place, "network", 1)] == [job.encode() for job in jobs]


def test_letters_that_the_log_no_longer_has_and_letters_of_another_log(place: Place) -> None:
    with working(place.data, place.output, place.env):
        ahead_ms = now_ms() + AHEAD_MS
        place.produce("network", amount(1, ahead_ms, "b"), "b")
        place.produce("network", amount(2, ahead_ms, "b", pad="x" * 100_000), "b")
        place.produce("network", amount(3, ahead_ms, "b", pad="y" * 100_000), "b")
        place.produce(
            "controls",
            {"id": "c", "source": "s", "time_ms": ahead_ms, "kind": "owner", "name": "o"},
            "owner/o",
        )
        place.wait(lambda: len(place.letters()) == 4)
        admin = AdminClient({"bootstrap.servers": place.env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"]})
        name = place.env["TRAINFARE_KAFKA_TOPIC_PREFIX"] + "network"
        for answer in admin.delete_records([TopicPartition(name, 0, 2)]).values():
            answer.result()
        place.wait_until_believed(ahead_ms)
        done = place.run("dead-letters", "replay", "--reason", "future", "--format", "json")
        assert done.code == 1
        assert "2 of 4 dead letters were not sent" in done.one_line()
        outcomes = {(row["topic"], row["outcome"]): row["records"] for row in json.loads(done.out)}
        assert outcomes == {
            ("network", "sent again"): 2,  # one from the table, one that the log still has
            ("network", "no longer whole"): 1,
            ("controls", "control"): 1,
        }
        place.wait(lambda: place.gibs("b") == 2)
        assert sorted(sent_again(place, "network")) == ["network/0/0", "network/0/2"]

        place.env["TRAINFARE_KAFKA_TOPIC_PREFIX"] = f"t{uuid.uuid4().hex[:8]}."
        make_topics(place.env)
        other = place.run("dead-letters", "replay", "network/0/0", "--again")
        assert (other.code, other.out) == (2, "")
        assert "set kafka.bootstrap_servers and kafka.topic_prefix" in other.one_line()
