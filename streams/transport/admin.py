"""Creates the topics at the broker, and checks their settings before anything is read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from schemas.counting import how_many
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, Topic, full_name, partition_count, topic_config
from streams.transport.log_reader import MOMENTARY
from streams.transport.security import librdkafka_config

DEAD_LETTER_TOPIC: Final = "deadletter"
_TIMEOUT_S: Final = 10.0
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
#: A broker that has just started may not know all topics and partitions yet.
PATIENCE_S: Final = 10.0
_ASK_AGAIN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class TopicState:
    """The broker's description of an existing topic."""

    partitions: int
    config: Mapping[str, str]


def connect(kafka: KafkaSettings, timeout_s: float = _TIMEOUT_S) -> AdminClient:
    """A client once a broker has answered.

    Raises:
        TrainfareError: No broker answers at the address.
    """
    client = AdminClient({**librdkafka_config(kafka), "socket.timeout.ms": int(timeout_s * 1000)})
    try:
        client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise TrainfareError(
            f"no Kafka broker answers at {kafka.bootstrap_servers} within {timeout_s:g} s "
            f"({error.args[0].str()}); start it or set kafka.bootstrap_servers; "
            "for the log of `trainfare serve` in DIR: `. DIR/log/client.env`"
        ) from None
    return client


@contextmanager
def _answering(kafka: KafkaSettings) -> Iterator[None]:
    """Raise TrainfareError where a broker that answered does not any more."""
    try:
        yield
    except KafkaException as error:
        raise TrainfareError(
            f"Kafka at {kafka.bootstrap_servers} stopped answering ({error.args[0].str()}); try again"
        ) from None


def describe(client: AdminClient, names: Iterable[str]) -> dict[str, TopicState]:
    """The state of those of `names` that exist.

    Raises:
        KafkaException: The broker does not answer.
    """
    known = client.list_topics(timeout=_TIMEOUT_S).topics
    present = [name for name in names if name in known and known[name].partitions]
    if not present:
        return {}
    asked = client.describe_configs(
        [ConfigResource(ResourceType.TOPIC, name) for name in present], request_timeout=_TIMEOUT_S
    )
    states = {}
    for resource, answer in asked.items():
        config = {entry.name: str(entry.value) for entry in answer.result().values()}
        states[resource.name] = TopicState(len(known[resource.name].partitions), config)
    return states


def faults(kafka: KafkaSettings, states: Mapping[str, TopicState]) -> list[str]:
    """What prevents metering these topics; sends no request to the broker."""
    found = []
    for topic in Topic:
        name = full_name(topic, kafka.topic_prefix)
        state = states.get(name)
        if state is None:
            found.append(f"topic {name} does not exist (run `trainfare topics create`)")
            continue
        wanted = partition_count(topic, kafka.partitions)
        if topic not in SHARD_TOPICS and state.partitions != wanted:
            found.append(f"topic {name} has {how_many(state.partitions, 'partition')}, expected {wanted}")
        kind = state.config.get(_TIMESTAMP_TYPE, "LogAppendTime")
        if kind != "LogAppendTime":
            found.append(f"topic {name} has {_TIMESTAMP_TYPE}={kind}, expected LogAppendTime")
    dead_letters = full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix)
    if dead_letters not in states:
        found.append(f"topic {dead_letters} does not exist (run `trainfare topics create`)")
    counts = {
        full_name(topic, kafka.topic_prefix): states[full_name(topic, kafka.topic_prefix)].partitions
        for topic in SHARD_TOPICS
        if full_name(topic, kafka.topic_prefix) in states
    }
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        found.append(f"these topics must have equal partition counts, but have: {listed}")
    elif counts and set(counts.values()) != {kafka.partitions}:
        count = next(iter(counts.values()))
        found.append(
            f"the topics of the shards have {count} partitions, but kafka.partitions is {kafka.partitions}"
        )
    return found


def check_topics(kafka: KafkaSettings, client: AdminClient) -> None:
    """Check the settings of the topics.

    Raises:
        TrainfareError: With these topics the result would not be exact, or the broker does not answer any more.
    """
    with _answering(kafka):
        check_topics_once_known(kafka, client)


def check_topics_once_known(
    kafka: KafkaSettings, client: AdminClient, patience_s: float = PATIENCE_S
) -> None:
    """Check as `check_topics`; what is missing is asked for again for `patience_s`. Blocks.

    Raises:
        TrainfareError: With these topics the result would not be exact.
        KafkaException: The broker does not answer.
    """
    names = [full_name(topic, kafka.topic_prefix) for topic in (*Topic, DEAD_LETTER_TOPIC)]
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            states, away = describe(client, names), None
        except KafkaException as fault:
            # A topic may be known when topics are listed, and unknown when its settings are asked for.
            if fault.args[0].code() not in MOMENTARY:
                raise
            states, away = {}, fault
        found = faults(kafka, states)
        if not found:
            return
        if not _may_be_of_a_moment(kafka, states) or time.monotonic() >= deadline_s:
            if away is not None:
                raise away
            raise TrainfareError(f"Kafka at {kafka.bootstrap_servers} is not ready: " + "; ".join(found))
        client.poll(_ASK_AGAIN_S)


def _may_be_of_a_moment(kafka: KafkaSettings, states: Mapping[str, TopicState]) -> bool:
    """Whether a topic is missing, or partitions of one."""
    wanted = {
        full_name(topic, kafka.topic_prefix): partition_count(topic, kafka.partitions) for topic in Topic
    } | {full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix): 1}
    return any(name not in states or states[name].partitions < count for name, count in wanted.items())


def create_topics(kafka: KafkaSettings, client: AdminClient) -> list[str]:
    """Create missing topics and return their names.

    Raises:
        TrainfareError: A topic cannot be created, an existing one has wrong settings, or the broker does not answer any more.
    """
    wanted = {
        full_name(topic, kafka.topic_prefix): (partition_count(topic, kafka.partitions), topic_config(topic))
        for topic in Topic
    }
    wanted[full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix)] = (1, {})
    with _answering(kafka):
        existing = client.list_topics(timeout=_TIMEOUT_S).topics
    missing = [name for name in wanted if name not in existing]
    if missing:
        started = client.create_topics(
            [
                NewTopic(
                    name, wanted[name][0], replication_factor=kafka.replication_factor, config=wanted[name][1]
                )
                for name in missing
            ],
            request_timeout=_TIMEOUT_S,
        )
        for name, answer in started.items():
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TrainfareError(
                        f"topic {name} could not be created: {error.args[0].str()}"
                    ) from None
                missing.remove(name)  # created by another client meanwhile; it is checked below
    with _answering(kafka):
        _wait_until_known(client, wanted)
    check_topics(kafka, client)
    return missing


def _wait_until_known(client: AdminClient, names: Iterable[str]) -> None:
    """Wait until all brokers' metadata include the created topics."""
    for _ in range(100):
        known = client.list_topics(timeout=_TIMEOUT_S).topics
        if all(name in known and known[name].partitions for name in names):
            return
        client.poll(0.1)
