"""A short probe of Kafka that distinguishes a cluster that is unreachable from one that refuses us."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.admin import check_topics_once_known
from streams.transport.security import librdkafka_config

logger = logging.getLogger(__name__)

#: Errors that the same settings will cause again.
_FINAL: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)


class KafkaUnreachableError(TrainfareError):
    """No broker answers now; it may later."""


class FoundLog(NamedTuple):
    """The identity of a log: the cluster, and the id of each topic that shards read, as topics may be recreated."""

    cluster_id: str
    topic_ids: Mapping[str, str]  # by full name; those that the broker reports


def cluster_of(kafka: KafkaSettings, timeout_s: float) -> str:
    """The id of the cluster alone; see `find_log`."""
    return find_log(kafka, timeout_s).cluster_id


def find_log(kafka: KafkaSettings, timeout_s: float) -> FoundLog:
    """Find the log and check the settings of its topics.

    Raises:
        KafkaUnreachableError: No broker answers now; try again.
        TrainfareError: Trying again would not help.
    """
    said: list[KafkaError] = []
    config = {
        **librdkafka_config(kafka),
        "socket.timeout.ms": int(timeout_s * 1000),
        "error_cb": said.append,
        "log_level": 0,  # errors arrive by `error_cb`
    }
    try:
        client = AdminClient(config)
        metadata = client.list_topics(timeout=timeout_s)
        check_topics_once_known(kafka, client)
    except KafkaException as fault:
        raise _explained(kafka, fault.args[0], said, timeout_s) from None
    return FoundLog(str(metadata.cluster_id), _topic_ids(kafka, client, timeout_s))


def _topic_ids(kafka: KafkaSettings, client: AdminClient, timeout_s: float) -> dict[str, str]:
    """The ids of the topics that shards read; a broker without topic ids, or without access to them, is no error."""
    names = [full_name(topic, kafka.topic_prefix) for topic in SHARD_TOPICS]
    found = {}
    try:
        answers = client.describe_topics(TopicCollection(names), request_timeout=timeout_s)
        for name, answer in answers.items():
            found[name] = str(answer.result().topic_id)
    except KafkaException as fault:
        logger.info("topic ids are not known", extra={"reason": fault.args[0].str()})
    return {name: topic_id for name, topic_id in found.items() if topic_id.strip("A")}  # all A: no id


def log_name(kafka: KafkaSettings, cluster_id: str) -> str:
    """The name by which a store identifies the log it was built from."""
    return f"topics {kafka.topic_prefix}* of Kafka cluster {cluster_id}"


def _explained(
    kafka: KafkaSettings, error: KafkaError, said: list[KafkaError], timeout_s: float
) -> TrainfareError:
    where = kafka.bootstrap_servers
    final = next((each for each in (error, *said) if each.code() in _FINAL), None)
    if final is not None:
        return TrainfareError(
            f"Kafka at {where} refuses this user: {final.str()}; check kafka.sasl_username and kafka.sasl_password"
        )
    if error.code() in (KafkaError._INVALID_ARG, KafkaError._CONFLICT):
        return TrainfareError(f"the settings of Kafka at {where} cannot be used: {error.str()}")
    return KafkaUnreachableError(
        f"no Kafka broker answers at {where} within {timeout_s:g} s ({error.str()}); "
        "start it or set kafka.bootstrap_servers"
    )
