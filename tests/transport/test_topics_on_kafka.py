"""Topics on a real Kafka: created once, and what is wrong with existing ones is said."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.cimpl import NewTopic

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.transport.admin import check_topics, connect, create_topics, describe
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka


def fresh() -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers, topic_prefix=f"a{time.time_ns()}.", partitions=3
    )


def test_topics_are_created_once_with_append_time_and_compaction() -> None:
    kafka = fresh()
    client = connect(kafka)
    assert len(create_topics(kafka, client)) == 8
    assert create_topics(kafka, client) == []
    check_topics(kafka, client)
    jobs, prices = f"{kafka.topic_prefix}jobs", f"{kafka.topic_prefix}prices"
    found = describe(client, [jobs, prices])
    assert found[jobs].partitions == 3
    assert found[jobs].config["message.timestamp.type"] == "LogAppendTime"
    assert found[prices].partitions == 1
    assert found[prices].config["cleanup.policy"] == "compact"


def test_an_existing_topic_that_is_wrong_is_named_and_left_alone() -> None:
    kafka = fresh()
    client = connect(kafka)
    name = f"{kafka.topic_prefix}gpu"
    client.create_topics([NewTopic(name, 2, replication_factor=1)])[name].result()
    with pytest.raises(
        TrainfareError, match=rf"topic {name} has message.timestamp.type=CreateTime"
    ) as raised:
        create_topics(kafka, client)
    assert "equal partition counts" in str(raised.value)
    assert describe(client, [name])[name].partitions == 2
