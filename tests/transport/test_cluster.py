"""A Kafka that may come is told apart from one that will never take us."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.transport.cluster import KafkaUnreachableError, _explained, cluster_of
from tests.cli.command import NOBODY

KAFKA = KafkaSettings(bootstrap_servers=NOBODY)


def test_nobody_there_may_be_asked_again() -> None:
    with pytest.raises(KafkaUnreachableError, match=f"no Kafka broker answers at {NOBODY} within 0.3 s"):
        cluster_of(KAFKA, 0.3)


@pytest.mark.parametrize(
    ("error", "said", "final"),
    [
        (KafkaError._TRANSPORT, [], False),
        (KafkaError._RESOLVE, [], False),
        (KafkaError._TIMED_OUT, [KafkaError._ALL_BROKERS_DOWN], False),
        (KafkaError._TRANSPORT, [KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION], True),
        (KafkaError.SASL_AUTHENTICATION_FAILED, [], True),
        (KafkaError._INVALID_ARG, [], True),
    ],
)
def test_which_faults_pass(error: int, said: list[int], final: bool) -> None:
    found = _explained(KAFKA, KafkaError(error), [KafkaError(each) for each in said], 1.0)
    assert isinstance(found, TrainfareError)
    assert isinstance(found, KafkaUnreachableError) is not final
    assert NOBODY in str(found)
