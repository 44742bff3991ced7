"""Chaos on one `trainfare serve`: killed at random, its last write torn, its disk full, and the tables against the oracle's.

`python -m tests.serve.run --kills 100` prints what happened.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import islice
from pathlib import Path
from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import KafkaError, Message, Producer

from schemas.tables import JOB_HOURS, JOB_MINUTES, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.config.load import load_settings
from streams.config.settings import KafkaSettings
from streams.segmented_log.reader import read_log
from streams.selfcheck.recount.committed import committed
from streams.topics import REFERENCE_TOPICS, SHARD_TOPICS, Topic, full_name, partition_count
from streams.transport.security import librdkafka_config
from tests.chaos.fleet import PLANTED, Event, Fleet
from tests.chaos.judged import judge
from tests.chaos.log import Place
from tests.chaos.stored import stored_books, stored_counts, stored_dead, stored_tables
from tests.chaos.workers import ROOT, Worker, Workers
from tests.forked import FORKER, Forked
from tests.kafka.broker import _free_ports
from tests.oracle.model import Line
from tests.property.compare import differences
from tests.serve.full import MARK
from tests.store_process import StoreProcess

PARTITIONS: Final = 2
_BATCH: Final = 60
_PATIENCE_S: Final = 120.0
_FULL_S: Final = 10.0


class Serves(Workers):
    """The lives of `trainfare serve` on one directory."""

    def _process(self, env: dict[str, str], log: Path) -> Forked:
        command = ("serve", "--data", str(self.directory / "data"))
        return FORKER.start("tests.serve.full:main", *command, env=env, cwd=ROOT, out=log, err=log)


@dataclass
class Report:
    """What happened."""

    kills: int = 0
    torn: int = 0
    full: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    in_log: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)


class Feed(threading.Thread):
    """Posts events in batches, each again until it is acknowledged."""

    def __init__(self, port: int, data: Path, events: Iterator[Event], rest_s: float, report: Report) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._data = data
        self._events = events
        self._report = report
        self.rest_s = rest_s
        self.acknowledged: set[tuple[str, bytes]] = set()
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while batch := list(islice(self._events, _BATCH)):
                self._until_taken(batch)
                time.sleep(self.rest_s)
        except BaseException as fault:  # noqa: BLE001 - told at the end
            self.fault = fault

    def _until_taken(self, batch: Sequence[Event]) -> None:
        body = b"[%s]" % b",".join(b'{"topic":"%s","value":%s}' % (e.topic.encode(), e.value) for e in batch)
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            outcome = self._post(body)
            self._report.answers[outcome] += 1
            if outcome == "202":
                self.acknowledged.update((event.topic, event.value) for event in batch)
                return
            time.sleep(0.1)
        raise TimeoutError(f"no answer but {self._report.answers}")

    def _post(self, body: bytes) -> str:
        try:
            connection = HTTPConnection("127.0.0.1", self._port, timeout=20)
            headers = {
                "Authorization": f"Bearer {token_of(self._data)}",
                "Content-Type": "application/json",
            }
            connection.request("POST", "/api/v1/events", body, headers)
            answer = connection.getresponse()
            said = json.loads(answer.read())
        except (OSError, HTTPException, ValueError):
            return "none"
        if answer.status == 202:
            assert said == {"accepted": body.count(b'{"topic":"'), "refused": []}, said
            return "202"
        return f"{answer.status} {said['error']['code']}"


class Chaos:
    """One run; `go` once."""

    def __init__(
        self,
        directory: Path,
        kills: int,
        *,
        jobs: int = 8,
        seconds: int = 400,
        life_s: tuple[float, float] = (2.0, 7.0),
        rest_s: float = 0.3,
        seed: int = 1,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._data = directory / "data"
        self._kills = kills
        self._life_s = life_s
        self._rest_s = rest_s
        self._rng = random.Random(seed)
        self._say = say
        self._fleet = Fleet(seed, jobs, seconds)
        (self._port,) = _free_ports(1)
        self.report = Report()
        env = {
            "TRAINFARE_WEB_PORT": str(self._port),
            "TRAINFARE_KAFKA_PARTITIONS": str(PARTITIONS),
            "TRAINFARE_KAFKA_HEARTBEAT_INTERVAL_MS": "300",
            "TRAINFARE_METER_AS_OF_MS": str(self._fleet.as_of_ms),
        }
        self._serves = Serves(directory, env)

    def go(self) -> Report:
        """Feed, kill, drain, stop, compare."""
        with self._serves:
            life = self._serves.start()
            life.wait_ready()
            prices, events = self._parts()
            produce(client_of(self._data), prices)
            feed = Feed(self._port, self._data, iter(events), self._rest_s, self.report)
            feed.start()
            while self.report.kills < self._kills:
                time.sleep(self._rng.uniform(*self._life_s))
                life = self._disturbed(life)
            feed.rest_s = 0
            feed.join(_PATIENCE_S * 2)
            assert feed.fault is None, feed.fault
            assert not feed.is_alive()
            life.wait_ready()
            self._settled()
            assert life.terminate() == 0, life.text()[-3000:]
        self._compare(feed)
        return self.report

    def _parts(self) -> tuple[list[Event], list[Event]]:
        events = [each for each in self._fleet.events() if PLANTED not in each.value]
        return [e for e in events if e.topic in REFERENCE_TOPICS], [
            e for e in events if e.topic in SHARD_TOPICS
        ]

    def _disturbed(self, life: Worker) -> Worker:
        assert life.alive, life.text()[-3000:]
        if self.report.kills % 5 == 1:
            life.wait_ready()
            self._fill_up(life)
        life.kill()
        self.report.kills += 1
        if self.report.kills % 2 == 0:
            self._tear()
        self._say(
            f"killed {self.report.kills}, torn {self.report.torn}, full {self.report.full}: {self.report.answers}"
        )
        return self._serves.start()

    def _fill_up(self, life: Worker) -> None:
        """Leave no room for the log until a request was refused."""
        before = self.report.answers["503 log_full"]
        self.take_room(self._data / "log")
        deadline_s = time.monotonic() + _FULL_S
        while self.report.answers["503 log_full"] == before and time.monotonic() < deadline_s:
            assert life.alive, life.text()[-3000:]
            time.sleep(0.05)
        time.sleep(self._rng.uniform(0, 0.5))
        self.give_room(self._data / "log")
        self.report.full += self.report.answers["503 log_full"] > before
        time.sleep(self._rng.uniform(0, 1))

    def take_room(self, log: Path) -> None:
        """Leave no room on the disk of the log; see `tests.serve.full`."""
        (log / MARK).touch()

    def give_room(self, log: Path) -> None:
        """Let the log have room again."""
        (log / MARK).unlink()

    def _tear(self) -> None:
        """Leave a part of a write that nobody was told of, as a loss of power may."""
        last = max(self._log_files())
        data = last.read_bytes()
        begin = self._rng.randrange(16, len(data))
        # With what is left of it: the beginning of a frame, its middle, or nothing that was ever written.
        torn = self._rng.choice((data[16 : 16 + 30], data[begin : begin + 900], self._rng.randbytes(200)))
        with last.open("ab") as file:
            file.write(torn)
        self.report.torn += 1

    def _log_files(self) -> list[Path]:
        return list((self._data / "log" / "events").glob("*.log"))

    def _settled(self) -> None:
        """Wait until everything is committed, and what goes on is paid for, which needs no record."""
        log = logged(self._data)
        ends = {place: len(lines) for place, lines in log.items() if lines and place[0] in SHARD_TOPICS}
        tables = judge(log, self._fleet.as_of_ms).tables
        rows = len(tables.ledger), len(tables.nodes)
        # Hours of jobs that go on are written with what goes on, every ten seconds, also after a stop.
        sampled_ms = sum(row.sampled_gpu_ms for row in tables.hours.values())
        deadline_s = time.monotonic() + _PATIENCE_S
        while committed(client_of(self._data), ends) != ends or self._stored() != (*rows, sampled_ms):
            if time.monotonic() > deadline_s:
                self.report.differences.append(f"not all was metered in time: {self._stored()}")
                return
            time.sleep(0.5)

    def _stored(self) -> tuple[int, ...]:
        """Rows of both ledgers and sampled time of the hours, as the API tells."""
        sql = (
            f"SELECT (SELECT count() FROM {JOB_MINUTES} FINAL WHERE quantity != 0),"
            f" (SELECT count() FROM {NODE_MINUTES} FINAL WHERE quantity != 0),"
            f" (SELECT sum(sampled_gpu_ms) FROM {JOB_HOURS} FINAL)"
        )
        headers = {"Authorization": f"Bearer {token_of(self._data)}", "Content-Type": "application/json"}
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("POST", "/api/v1/query", json.dumps({"sql": sql}), headers)
        found = json.loads(connection.getresponse().read())
        return tuple(int(str(each)) for each in found["rows"][0])

    def _compare(self, feed: Feed) -> None:
        log = logged(self._data)
        self.report.acknowledged = len(feed.acknowledged)
        self.report.in_log = sum(len(lines) for lines in log.values())
        there = {(line.topic, line.value) for lines in log.values() for line in lines}
        if lost := feed.acknowledged - there:
            self.report.differences.append(
                f"{len(lost)} acknowledged events are not in the log: {list(lost)[:2]}"
            )
        judged = judge(log, self._fleet.as_of_ms)
        with StoreProcess(self._data, copied=False) as front:
            store = ClickHouseStore(front.target())
            found = stored_tables(store)
            self.report.rows = len(found.ledger)
            self.report.differences += differences(found, judged.tables, counts=False)
            for what, got, wanted in (
                ("dead letters", stored_dead(store), judged.dead),
                ("books", stored_counts(store, range(PARTITIONS)), judged.counts),
                (
                    "stored books",
                    stored_books(store),
                    {place: len(lines) for place, lines in log.items() if lines and place[0] in SHARD_TOPICS},
                ),
            ):
                if got != wanted:
                    self.report.differences.append(f"{what}: got {got}, want {wanted}")
            store.close()


def token_of(data: Path) -> str:
    """The token of the data directory."""
    return (data / "token").read_text().strip()


def client_of(data: Path) -> KafkaSettings:
    """The settings of a client of what runs on the directory."""
    lines = (data / "log" / "client.env").read_text().splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines)
    return load_settings({name: value.strip("'") for name, _, value in pairs}, overrides={}).kafka


def produce(kafka: KafkaSettings, events: Sequence[Event]) -> None:
    """Send events as a Kafka client."""
    faults: list[Any] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            faults.append(error)

    producer = Producer({**librdkafka_config(kafka), "partitioner": "murmur2_random"})
    for event in events:
        producer.produce(
            full_name(event.topic, kafka.topic_prefix), event.value, event.key, on_delivery=delivered
        )
    assert producer.flush(30) == 0
    assert faults == []


def logged(data: Path) -> dict[Place, list[Line]]:
    """Every record of the log in files, by place; its index in the list is its offset."""
    lines: dict[Place, list[Line]] = {
        (str(topic), number): [] for topic in Topic for number in range(partition_count(topic, PARTITIONS))
    }
    for name in ("reference", "events"):
        for batch in read_log(data / "log" / name):
            for record in DefaultRecordBatch(batch.data):
                if batch.place in lines:
                    assert record.offset == len(lines[batch.place])
                    lines[batch.place].append(
                        Line(batch.place[0], record.value or b"", partition=batch.place[1])
                    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--rest-s", type=float, default=2.0, help="between two batches of 60 events")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="trainfare-serve-"))
    print(f"logs in {directory}", flush=True)  # noqa: T201 - a command
    say: Callable[[str], None] = lambda text: print(text, flush=True)  # noqa: E731, T201 - a command
    chaos = Chaos(directory, given.kills, jobs=given.jobs, seconds=given.seconds, seed=given.seed, say=say)
    print(chaos.go())  # noqa: T201 - a command


if __name__ == "__main__":
    main()
