"""Asks Kafka whether a worker could start with it: brokers, topics, partitions, rights. It changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from schemas.counting import how_many
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name
from streams.transport.admin import DEAD_LETTER_TOPIC, connect, describe, faults
from streams.transport.log_reader import MOMENTARY

_PAUSE_S: Final = 0.3


class KafkaCheck(NamedTuple):
    """One thing that was asked; `mend` is empty unless it is wrong."""

    subject: str
    found: str
    mend: str = ""


def check_kafka(kafka: KafkaSettings, timeout_s: float, *, writes_events: bool) -> Iterator[KafkaCheck]:
    """Yield what Kafka answers; after it cannot be reached there is nothing more. Blocks.

    Args:
        kafka: Where it is, and what a worker asks of it.
        timeout_s: Of each request.
        writes_events: Whether the worker itself writes events, prices and controls (canary, HTTP).
    """
    where = f"Kafka at {kafka.bootstrap_servers}"
    try:
        client = connect(kafka, timeout_s)
    except TrainfareError as fault:
        mend = "start it, or set kafka.bootstrap_servers, kafka.security_protocol and kafka.sasl_..."
        yield KafkaCheck("answer", str(fault), mend)
        return
    try:
        brokers = len(client.list_topics(timeout=timeout_s).brokers)
        yield KafkaCheck("answer", f"{where} answers, {brokers} broker{'s' * (brokers != 1)}")
        yield from _topics(kafka, client)
        try:
            yield from _rights(kafka, client, timeout_s, writes_events=writes_events)
        except KafkaException as fault:
            if fault.args[0].code() != KafkaError._UNSUPPORTED_FEATURE:
                raise
            yield KafkaCheck(
                "rights", "this broker, as that of `trainfare serve`, tells nobody what is allowed"
            )
    except KafkaException as fault:
        yield KafkaCheck(
            "answer", f"{where}: {fault.args[0].str()}", "look at the brokers' logs, and at their ACLs"
        )


def _topics(kafka: KafkaSettings, client: AdminClient) -> Iterator[KafkaCheck]:
    names = [full_name(topic, kafka.topic_prefix) for topic in (*Topic, DEAD_LETTER_TOPIC)]
    found = faults(kafka, describe(client, names))
    for fault in found:
        yield KafkaCheck("topics", fault, _mend_of(fault, kafka))
    if not found:
        yield KafkaCheck(
            "topics", f"all {len(names)} are there, {kafka.partitions} partitions for the shards"
        )


def _mend_of(fault: str, kafka: KafkaSettings) -> str:
    if "does not exist" in fault:
        return "trainfare topics create"
    if "LogAppendTime" in fault:
        return (
            "kafka-configs.sh --alter --entity-type topics --add-config message.timestamp.type=LogAppendTime"
        )
    return (
        f"set kafka.partitions (now {kafka.partitions}) to what the topics have, or name others by kafka.topic_prefix; the count "
        "of a meter's partitions cannot be changed later"
    )


def _rights(
    kafka: KafkaSettings, client: AdminClient, timeout_s: float, *, writes_events: bool
) -> Iterator[KafkaCheck]:
    """Yield which operations on topics and group the brokers do not allow; they tell each client its own."""
    reading = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}
    writing = {AclOperation.WRITE, AclOperation.DESCRIBE}
    needed = {
        full_name(topic, kafka.topic_prefix): reading | (writing if writes_events else set())
        for topic in Topic
    }
    needed[full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix)] = writing
    known = client.list_topics(timeout=timeout_s).topics
    there = [name for name in needed if name in known]
    count = 0
    asked = client.describe_topics(
        TopicCollection(there), include_authorized_operations=True, request_timeout=timeout_s
    )
    for name, answer in asked.items() if there else ():
        for lacking in _lacking(needed[name], answer.result().authorized_operations):
            count += 1
            yield KafkaCheck(
                "rights", f"{lacking} on topic {name} is not allowed", _acl(lacking, f"--topic {name}")
            )
    for lacking in _lacking({AclOperation.READ}, _of_group(kafka, client, timeout_s)):
        count += 1
        mend = _acl(lacking, f"--group {kafka.group_id}")
        yield KafkaCheck("rights", f"{lacking} on group {kafka.group_id} is not allowed", mend)
    if not count:
        yield KafkaCheck(
            "rights",
            f"{how_many(len(there), 'topic')} and group {kafka.group_id} may be used as a worker does",
        )


def _lacking(needed: set[AclOperation], allowed: list[AclOperation] | None) -> list[str]:
    """What is not allowed; nothing where the broker does not tell."""
    return [] if allowed is None else sorted(each.name for each in needed - set(allowed))


def _of_group(kafka: KafkaSettings, client: AdminClient, timeout_s: float) -> list[AclOperation] | None:
    """What is allowed on the group; brokers that have just started may not know its coordinator for a moment."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        asked = client.describe_consumer_groups(
            [kafka.group_id], include_authorized_operations=True, request_timeout=timeout_s
        )
        try:
            allowed: list[AclOperation] | None = asked[kafka.group_id].result().authorized_operations
        except KafkaException as fault:
            if fault.args[0].code() not in MOMENTARY or time.monotonic() >= deadline_s:
                raise
            client.poll(_PAUSE_S)
        else:
            return allowed


def _acl(operation: str, resource: str) -> str:
    return f"kafka-acls.sh --add --allow-principal User:... --operation {operation} {resource}"
