"""What stands against metering a broker's topics, in words."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name, partition_count
from streams.transport import admin
from streams.transport.admin import TopicState, faults

KAFKA = KafkaSettings(partitions=4, topic_prefix="t.")


def right() -> dict[str, TopicState]:
    good = {"message.timestamp.type": "LogAppendTime"}
    states = {full_name(topic, "t."): TopicState(partition_count(topic, 4), good) for topic in Topic}
    return states | {"t.deadletter": TopicState(1, {})}


def test_topics_as_they_must_be_have_no_fault() -> None:
    assert faults(KAFKA, right()) == []


@pytest.mark.parametrize("name", ["t.jobs", "t.prices", "t.deadletter"])
def test_a_missing_topic_is_named(name: str) -> None:
    states = right()
    del states[name]
    assert faults(KAFKA, states) == [f"topic {name} does not exist (run `trainfare topics create`)"]


def test_timestamps_of_the_producer_are_refused() -> None:
    states = right() | {"t.gpu": TopicState(4, {"message.timestamp.type": "CreateTime"})}
    assert faults(KAFKA, states) == [
        "topic t.gpu has message.timestamp.type=CreateTime, expected LogAppendTime"
    ]


def test_unequal_partition_counts_of_a_shards_topics_are_refused() -> None:
    states = right() | {"t.gpu": TopicState(8, {"message.timestamp.type": "LogAppendTime"})}
    (fault,) = faults(KAFKA, states)
    assert fault.startswith("these topics must have equal partition counts")
    assert "t.gpu 8" in fault


def test_more_partitions_than_configured_are_refused_because_keyed_events_would_move() -> None:
    assert faults(KAFKA.model_copy(update={"partitions": 5}), right()) == [
        "the topics of the shards have 4 partitions, but kafka.partitions is 5"
    ]


def test_prices_in_several_partitions_are_refused() -> None:
    states = right() | {"t.prices": TopicState(2, {"message.timestamp.type": "LogAppendTime"})}
    assert faults(KAFKA, states) == ["topic t.prices has 2 partitions, expected 1"]


def test_a_broker_that_does_not_answer_is_named_by_its_address() -> None:
    with pytest.raises(TrainfareError, match=r"no Kafka broker answers at 127\.0\.0\.1:9 within 1 s"):
        admin.connect(KafkaSettings(bootstrap_servers="127.0.0.1:9"), timeout_s=1)


class LeavingClient:
    """A client whose broker goes away after so many answers."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    def _answer(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Broker transport failure"))

    def list_topics(self, **_: Any) -> Any:
        self._answer()
        topics = {
            name: SimpleNamespace(partitions=range(state.partitions)) for name, state in right().items()
        }
        return SimpleNamespace(topics=topics)

    def describe_configs(self, resources: Any, **_: Any) -> dict[Any, Future[Any]]:
        found: dict[Any, Future[Any]] = {}
        for resource in resources:
            answer: Future[Any] = Future()
            try:
                self._answer()
                answer.set_result({})
            except KafkaException as fault:
                answer.set_exception(fault)
            found[resource] = answer
        return found


@pytest.mark.parametrize("answers", [0, 1, 3])
def test_a_broker_that_leaves_while_topics_are_checked_is_a_fault_in_words(answers: int) -> None:
    kafka = KAFKA.model_copy(update={"bootstrap_servers": "kafka:9092"})
    stopped = r"Kafka at kafka:9092 stopped answering \(.*Broker transport failure\); try again"
    with pytest.raises(TrainfareError, match=stopped):
        admin.check_topics(kafka, LeavingClient(answers))  # type: ignore[arg-type]  # all that is called
    with pytest.raises(TrainfareError, match=stopped):
        admin.create_topics(kafka, LeavingClient(answers))  # type: ignore[arg-type]  # all that is called


class LateClient(LeavingClient):
    """A client whose broker knows a topic, or all its partitions, only after so many answers."""

    def __init__(self, late: int, partitions: int) -> None:
        super().__init__(10**6)
        self._late, self._partitions = late, partitions

    def list_topics(self, **_: Any) -> Any:
        found = super().list_topics()
        self._late -= 1
        if self._late >= 0:
            found.topics["t.nodes"].partitions = range(self._partitions)
        return found

    def poll(self, _: float) -> None:
        """No time passes."""


@pytest.mark.parametrize("partitions", [0, 1])
def test_a_topic_that_is_not_known_for_a_moment_is_asked_for_again(partitions: int) -> None:
    client: Any = LateClient(3, partitions)
    admin.check_topics_once_known(KAFKA, client, patience_s=60)
    with pytest.raises(TrainfareError, match=r"t\.nodes"):
        admin.check_topics_once_known(KAFKA, LateClient(1, partitions), patience_s=0)  # type: ignore[arg-type]  # as above
