"""Topics in memory, and the jobcomp sample in them, a record more in each state."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.collect.collector import Collector, SourceUnavailableError
from streams.collect.kafka.collector import KafkaRelay
from streams.collect.kafka.options import Options
from streams.collect.kafka.topics import Bounds, KafkaTopics, Place, SourceRecord
from streams.config.settings import KafkaSettings
from streams.transport.security import librdkafka_config

MAPS: Final = Path(__file__).parents[3] / "examples" / "maps"
TOPIC: Final = "slurm-jobcomp"
_FROM_MS: Final = 1_780_300_000_000
_STATE_MS: Final = 3_600_000


def options(name: str, **others: Any) -> Options:
    """Return the options of a map in examples/maps."""
    table = tomllib.loads((MAPS / f"{name}.toml").read_text(encoding="utf-8"))["kafka"]
    return Options.model_validate({**table, **others})


def of_rule(rule: Mapping[str, Any], **others: Any) -> Options:
    """Return options with one rule: for the topic `t`, called `r`, unless it says otherwise."""
    known = {"name": "r", "topic": "t", "target": "jobs", "id": ["id"], **rule}
    return Options.model_validate({"rules": [known], **others})


class MemoryTopics:
    """A log as Kafka's: each partition has a first offset and records."""

    def __init__(self) -> None:
        self.parts: dict[Place, list[bytes | None]] = {}
        self.begins: dict[Place, int] = {}
        self.is_away = False

    def append(self, topic: str, partition: int, *values: bytes | None) -> None:
        self.parts.setdefault((topic, partition), []).extend(values)

    def bounds(self, topics: Sequence[str]) -> Mapping[Place, Bounds]:
        if self.is_away:
            raise SourceUnavailableError("Kafka is away")
        return {
            place: Bounds(self.begins.get(place, 0), len(values))
            for place, values in self.parts.items()
            if place[0] in topics
        }

    def records(self, parts: Mapping[Place, Bounds]) -> Iterator[list[SourceRecord]]:
        for place, (begin, end) in parts.items():
            if begin < end:
                values = self.parts[place][begin:end]
                yield [SourceRecord(*place, begin + at, value) for at, value in enumerate(values)]


class RelayWorld:
    """Two partitions; between the records of jobs stand some that are none."""

    states = 6

    def __init__(self, _: Path) -> None:
        self._lines = (MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines()
        self._log = MemoryTopics()

    def collector(self) -> Collector:
        return KafkaRelay(options("jobcomp"), self._log, events_per_batch=2)

    def turn(self, state: int) -> int:
        """Show the log as it was then; the suite plays the states more than once."""
        self._log.parts = {(TOPIC, 0): [], (TOPIC, 1): []}
        for number, line in enumerate(self._lines[: state + 1]):
            self._log.append(TOPIC, number % 2, b"\xff", line, b'{"jobid": null}', None)
        return _FROM_MS + (state + 5) * _STATE_MS

    def entries(self, state: int) -> int:
        return 4 * len(self._lines[: state + 1])

    def go_away(self) -> None:
        self._log.is_away = True

    def come_back(self) -> None:
        self._log.is_away = False

    def close(self) -> None:
        pass


class BrokerRelayWorld:
    """The same records in topics of a real broker, all of them there from the beginning: `fill` once."""

    states = 2

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._topic = f"{kafka.topic_prefix}{TOPIC}"
        self._topics = KafkaTopics(lambda: kafka)
        self._is_away = False

    def fill(self) -> None:
        """Create the topic and write the records."""
        client = AdminClient(librdkafka_config(self._kafka))
        client.create_topics([NewTopic(self._topic, 2, 1)])[self._topic].result()
        producer = Producer(librdkafka_config(self._kafka))
        for number, line in enumerate((MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines()):
            for value in (b"\xff", line, None):
                producer.produce(self._topic, value, partition=number % 2)
        assert not producer.flush(30)

    def collector(self) -> Collector:
        given = options("jobcomp")
        rules = [rule.model_copy(update={"topic": self._topic}) for rule in given.rules]
        return KafkaRelay(given.model_copy(update={"rules": rules}), self, events_per_batch=2)

    def bounds(self, topics: Sequence[str]) -> Mapping[Place, Bounds]:
        if self._is_away:
            raise SourceUnavailableError("Kafka is away")
        return self._topics.bounds(topics)

    def records(self, parts: Mapping[Place, Bounds]) -> Iterator[list[SourceRecord]]:
        return self._topics.records(parts)

    def turn(self, state: int) -> int:
        return _FROM_MS + (state + 9) * _STATE_MS

    def entries(self, state: int) -> int:
        del state  # all are there from the beginning
        return 3 * len((MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines())

    def go_away(self) -> None:
        self._is_away = True

    def come_back(self) -> None:
        self._is_away = False

    def close(self) -> None:
        pass
